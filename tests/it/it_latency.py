#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Latency of requests: stats latency, latency reset, and slowlog. Each request is counted once, when its reply was
written to the socket. Only delays that a test causes itself are judged. For slowlog a microsecond is slow, which
every request takes, so no test depends on the speed of the machine."""
import socket
import struct
import time

import mayfly
from mayfly import Daemon, wait_for

KINDS = ("get", "set", "delete", "arith", "touch", "flush", "admin", "other")
MIB = 1 << 20


def measuring(*args, **more):
    return Daemon("-o", "latency_stats", *args, **more)


def counts(c, what=b"latency", before=""):
    found = c.stats(what)
    return {k: int(found[before + k + ":count"]) for k in KINDS if int(found[before + k + ":count"])}


def without_admin(found):
    return {k: n for k, n in found.items() if k != "admin"}


def sockets(c):
    """The lines of stats conns by socket."""
    found = {}
    for name, value in c.stats(b"conns").items():
        found.setdefault(name.split(":")[0], {})[name.split(":")[1]] = value
    return found.values()


def fresh(c):
    assert c.ask(b"latency reset") == b"RESET"
    return c


def test_every_kind_is_counted():
    with measuring("-t", "1") as d, d.client() as c:
        fresh(c)
        assert c.set(b"a", b"1") == b"STORED"
        for line, reply in ((b"get a b", None), (b"mg a v", b"VA 1"), (b"incr a 1", b"2"), (b"ma a", b"HD"),
                            (b"touch a 0", b"TOUCHED"), (b"expire a 100", b"1"), (b"ttl a", b"100"),
                            (b"mn", b"MN"), (b"md absent", b"NF"), (b"delete a", b"DELETED"),
                            (b"unlink b c", b"0"), (b"nonsense", b"ERROR"), (b"flush_prefix b", b"OK"),
                            (b"flush_all", b"OK")):
            if line.startswith(b"get"):
                assert c.get(b"a", b"b") is not None
                continue
            assert c.ask(line) == reply, line
            if reply.startswith(b"VA"):
                assert c.line() == b"1"
        found = c.stats(b"latency")
        assert without_admin(counts(c)) == {"get": 2, "set": 1, "delete": 3, "arith": 2, "touch": 2,
                                            "flush": 2, "other": 3}, counts(c)
        for k in KINDS:
            names = ["p50_us", "p90_us", "p99_us", "p999_us", "max_us"]
            values = [float(found["%s:%s" % (k, n)]) for n in names]
            assert values == sorted(values) and values[-1] > 0, (k, values)
            assert 0 < float(found[k + ":mean_us"]) <= values[-1], (k, values)


def test_pipelines():
    with measuring("-t", "1") as d, d.client() as c:
        n = 1000
        fresh(c)
        c.send(b"".join(b"set k%d 0 0 3 noreply\r\nabc\r\nget k%d\r\n" % (i, i) for i in range(n)) + b"mn\r\n")
        for i in range(n):
            assert c.get_reply() == {b"k%d" % i: b"abc"}
        assert c.line() == b"MN"
        assert without_admin(counts(c)) == {"get": n, "set": n, "other": 1}


def test_reset():
    with measuring("-t", "2") as d, d.client() as a, d.client() as b:
        fresh(a)
        assert all(c.ask(b"incr absent 1") == b"NOT_FOUND" for c in (a, b))
        wait_for(lambda: counts(a).get("arith") == 2, "both are counted")
        fresh(a)
        assert without_admin(counts(a)) == {} and float(a.stats(b"latency")["arith:max_us"]) == 0
        assert all(c.ask(b"incr absent 1") == b"NOT_FOUND" for c in (a, b, b))
        # Another worker counts after its reply is sent.
        wait_for(lambda: counts(a).get("arith") == 3, "all are counted")
        assert a.ask(b"stats reset") == b"RESET"    # metrics go on, and so do these
        assert counts(b)["arith"] == 3
        for line in (b"latency", b"latency reset now", b"latency rest"):
            assert a.ask(line) == b"CLIENT_ERROR usage: latency reset", line
        a.send(b"latency reset noreply\r\nmn\r\n")
        assert a.line() == b"MN"
        assert a.ask(b"stats latency all") == b"ERROR"


def test_workers():
    with measuring("-t", "2") as d, d.client() as a, d.client() as b:
        fresh(a)
        assert all(c.ask(b"incr absent 1") == b"NOT_FOUND" for c in (a, a, b))

        def each():
            return sorted(counts(a, b"latency workers", "%d:" % i).get("arith", 0) for i in range(2))
        wait_for(lambda: each() == [1, 2], "each has counted its own")


def test_it_is_an_option():
    with Daemon("-t", "1", control=True) as d, d.client() as c, d.operator() as operator:
        assert c.ask(b"mn") == b"MN"
        assert counts(c) == {}
        assert operator.ask(b"config set latency_stats yes") == b"OK"
        assert c.ask(b"mn") == b"MN"
        assert counts(c)["other"] == 1
        assert operator.ask(b"config set latency_stats no") == b"OK"
        assert c.ask(b"mn") == b"MN"
        assert counts(c)["other"] == 1
        assert c.stats(b"settings")["latency_stats"] == "no"


def test_a_reply_that_is_not_taken():
    """The request ends when the client has taken its reply."""
    with measuring("-t", "1", "-m", "256", "-I", "32m") as d, d.client() as c:
        assert c.set(b"large", mayfly.pattern(b"large", 6 * MIB)) == b"STORED"
        with d.client(rcvbuf=4096) as slow:
            fresh(c)
            began = time.monotonic()
            slow.send(b"get large\r\nmn\r\n")
            wait_for(lambda: int(c.stat("get_hits")) > 0, "it begins to answer")
            time.sleep(0.3)
            waited = time.monotonic() - began
            assert "get" not in counts(c) and "other" not in counts(c), counts(c)
            assert len(slow.get_reply()[b"large"]) == 6 * MIB and slow.line() == b"MN"
            wait_for(lambda: counts(c).get("get") == 1 and counts(c).get("other") == 1, "both are counted")
            found = c.stats(b"latency")
            # The socket holds some of it, so the last byte is given to it before the client has read it.
            assert float(found["get:max_us"]) >= waited * 1e6 * 0.9, (found, waited)
            # The second was there all the time, and waited for the first.
            assert float(found["other:max_us"]) >= waited * 1e6 * 0.9, (found, waited)


def test_a_value_on_its_way_in():
    """An upload is one set, and counts from its last bytes: the client's pauses are its own."""
    value = b"v" * (4 * MIB)
    with measuring("-t", "1", "-m", "256", "-I", "8m") as d, d.client() as c:
        fresh(c)
        head = b"set large 0 0 %d\r\n" % len(value)
        c.send(head + value[:MIB])
        time.sleep(0.5)
        c.send(value[MIB:] + b"\r\nmn\r\n")
        assert c.line() == b"STORED" and c.line() == b"MN"
        assert without_admin(counts(c)) == {"set": 1, "other": 1}
        # A value that does not fit, and one whose end is wrong, are stores too.
        c.send(b"set larger 0 0 %d\r\n" % (9 * MIB) + b"v" * (9 * MIB) + b"\r\n")
        assert c.line() == b"SERVER_ERROR object too large for cache"
        c.send(head + value + b"xx")
        assert c.line() == b"CLIENT_ERROR bad data chunk"
        assert counts(c)["set"] == 3, counts(c)


def test_answers_that_come_later():
    """Statistics of connections, and dumps, are one request each, when they are complete."""
    with measuring("-t", "2") as d, d.client() as c:
        for i in range(2000):
            c.send(b"set key-%d 0 0 1 noreply\r\nx\r\n" % i)
        assert c.ask(b"mn") == b"MN"
        fresh(c)
        c.stats(b"conns")
        # The reset itself was answered after it; the answers to stats latency come after they count.
        wait_for(lambda: counts(c)["admin"] >= 2, "it is counted")
        with d.client() as other:
            before = counts(c)["admin"]
            other.send(b"lru_crawler mgdump all\r\n")
            lines = 0
            while other.line() != b"EN":
                lines += 1
            assert lines >= 2000, lines      # some twice, if the index grows
            wait_for(lambda: counts(c)["admin"] > before + 1, "the dump is counted")


def test_binary_and_udp():
    with measuring("-t", "1", tcp=True) as d, d.client() as c:
        fresh(c)
        with socket.create_connection(("127.0.0.1", d.port)) as s:
            # set k, getq k, getq absent, noop
            s.sendall(struct.pack(">BBHBBHIIQ", 0x80, 1, 1, 8, 0, 0, 10, 0, 0) + b"\0" * 8 + b"kv" +
                      struct.pack(">BBHBBHIIQ", 0x80, 9, 1, 0, 0, 0, 1, 0, 0) + b"k" +
                      struct.pack(">BBHBBHIIQ", 0x80, 9, 1, 0, 0, 0, 1, 0, 0) + b"z" +
                      struct.pack(">BBHBBHIIQ", 0x80, 10, 0, 0, 0, 0, 0, 0, 0))
            want, got = 24 + 24 + 4 + 1 + 24, b""
            while len(got) < want:
                got += s.recv(100)
        assert without_admin(counts(c)) == {"set": 1, "get": 2, "other": 1}, counts(c)
    with measuring("-t", "1", "-U", "-1", tcp=True) as d, d.client() as c:
        fresh(c)
        port = next(v["addr"] for v in sockets(c) if "UDP" in v).rsplit(":", 1)[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect(("127.0.0.1", int(port)))
            s.settimeout(mayfly.PATIENCE)
            s.send(struct.pack(">HHHH", 1, 0, 1, 0) + b"get a\r\n")
            assert s.recv(100)[8:] == b"END\r\n"
        assert without_admin(counts(c)) == {"get": 1}


# ---- slowlog ----

ALL = ("-t", "1", "-o", "slowlog_us=1")


def entries(c, n=b"-1"):
    """The entries as dictionaries, the latest first."""
    c.send(b"slowlog get " + n + b"\r\n")
    found = []
    while True:
        line = c.line().decode("latin-1")
        if line == "END":
            return found
        words = line.split(" ")
        assert words[0] == "SLOWLOG", line
        found.append(dict(w.split("=", 1) for w in words[1:]))


def length(c):
    words = c.ask(b"slowlog len").split()
    assert len(words) == 2 and words[0] == b"SLOWLOG", words
    return int(words[1])


def test_an_entry():
    with Daemon(*ALL, tcp=True) as d, d.client() as c:
        before = time.time()
        assert c.ask(b"slowlog reset") == b"OK"
        assert c.set(b"a%b", b"v" * 1000) == b"STORED"
        assert c.get(b"a%b") == b"v" * 1000
        get, store = entries(c)[:2]
        assert (get["command"], get["key"], get["key_bytes"], get["requests"]) == ("get", "a%25b", "3", "1"), get
        assert int(get["reply_bytes"]) > 1000 and get["value_bytes"] == "0" and get["worker"] == "0", get
        assert (store["command"], store["value_bytes"], store["reply_bytes"]) == ("set", "1000", "8"), store
        host, port = c.sock.getsockname()
        assert get["peer"] == "%s:%d" % (host, port), get
        assert int(get["id"]) == int(store["id"]) + 1 and int(get["us"]) >= 1
        assert before - 2 < float(get["time"]) < time.time() + 2, get
        assert c.stat("mayfly_slow_requests") >= 2


def test_what_is_quick_is_not_kept():
    with Daemon("-t", "1", "-o", "slowlog_us=2000000000") as d, d.client() as c:
        assert c.ask(b"mn") == b"MN"
        assert length(c) == 0 and entries(c) == [] and c.stat("mayfly_slow_requests") == 0


def test_off_and_on_while_it_runs():
    for off in (b"0", b"-1"):
        with Daemon(*ALL, control=True) as d, d.client() as c, d.operator() as operator:
            assert operator.ask(b"config set slowlog_us " + off) == b"OK"
            assert c.ask(b"slowlog reset") == b"OK"
            assert operator.ask(b"config set latency_stats no") == b"OK"
            assert c.ask(b"mn") == b"MN"
            assert length(c) == 0
            assert operator.ask(b"config set slowlog_us 1") == b"OK"
            assert c.ask(b"mn") == b"MN"
            assert [e["command"] for e in entries(c)] == ["mn"]


def test_it_is_bounded():
    with Daemon(*ALL, "-o", "slowlog_max=8", control=True) as d, d.client() as c, d.operator() as operator:
        for i in range(50):
            assert c.ask(b"mg key-%d" % i) == b"EN"
        assert length(c) == 8
        found = entries(c)
        ids = [int(e["id"]) for e in found]
        assert ids == list(range(ids[0], ids[0] - 8, -1)), ids
        assert len(entries(c, b"3")) == 3 and entries(c, b"0") == []
        assert operator.ask(b"config set slowlog_max 2") == b"OK"
        assert length(c) == 2
        assert operator.ask(b"config set slowlog_max 1024") == b"OK"
        for i in range(2000):
            assert c.ask(b"mg %s%d" % (b"k" * 240, i)) == b"EN"
        found = entries(c)
        assert len(found) == 1024
        mg = [e for e in found if e["command"] == "mg"]
        assert mg[0]["key"] == "k" * 64 and mg[0]["key_bytes"] == "244", mg[0]
        c.send(b"slowlog get\r\n")                  # as many as in Redis
        assert sum(1 for _ in iter(c.line, b"END")) == 10


def test_a_batch_is_one_entry():
    with Daemon(*ALL) as d, d.client() as c:
        c.send(b"".join(b"mg k%d\r\n" % i for i in range(50)))
        for i in range(50):
            assert c.line() == b"EN"
        batches = [e for e in entries(c) if e["command"] == "mg"]
        assert sum(int(e["requests"]) for e in batches) == 50, batches
        assert batches[-1]["key"] == "k0"
        assert c.ask(b"slowlog reset") == b"OK"
        c.send(b"".join(b"touch k%d 1\r\nmd k%d\r\n" % (i, i) for i in range(50)))     # of two kinds
        for i in range(50):
            assert (c.line(), c.line()) == (b"NOT_FOUND", b"NF")
        batches = [e for e in entries(c) if e["command"] in ("touch", "md")]
        assert sum(int(e["requests"]) for e in batches) == 100, batches


def test_a_slow_reader():
    """It took as long as its client let it wait, and had this number of bytes."""
    with Daemon("-t", "1", "-m", "64", "-I", "16m", "-o", "slowlog_us=100000") as d, d.client() as c:
        assert c.set(b"large", mayfly.pattern(b"large", 6 * MIB)) == b"STORED"
        assert c.ask(b"slowlog reset") == b"OK"
        with d.client(rcvbuf=4096) as slow:
            slow.send(b"gets large\r\n")
            wait_for(lambda: int(c.stat("get_hits")) > 0, "it begins to answer")
            time.sleep(0.2)
            assert len(slow.get_reply()[b"large"]) == 6 * MIB
            wait_for(lambda: "gets" in [e["command"] for e in entries(c)], "it is kept")
            e = [e for e in entries(c) if e["command"] == "gets"][0]
            assert e["key"] == "large" and int(e["us"]) >= 200000 and int(e["reply_bytes"]) > 6 * MIB, e
            assert e["peer"] == "unix", e


def test_requests_from_before_the_log():
    """They came while only latencies, or only hot keys, were measured: which they were nobody knows."""
    for option in ("latency_stats", "hotkeys=1"):
        with Daemon("-t", "1", "-m", "64", "-I", "16m", "-o", option, control=True) as d, d.client() as c, \
                d.operator() as operator:
            assert c.set(b"large", mayfly.pattern(b"large", 6 * MIB)) == b"STORED"
            with d.client(rcvbuf=4096) as slow:
                slow.send(b"gets large\r\n")
                wait_for(lambda: int(c.stat("get_hits")) > 0, "it begins to answer")
                assert operator.ask(b"config set slowlog_us 1") == b"OK"
                assert c.ask(b"mn") == b"MN"
                assert len(slow.get_reply()[b"large"]) == 6 * MIB
                wait_for(lambda: [e for e in entries(c) if int(e["reply_bytes"]) > 6 * MIB], "it is kept")
            e = [e for e in entries(c) if int(e["reply_bytes"]) > 6 * MIB][0]
            assert (e["command"], e["key"], e["key_bytes"], e["value_bytes"]) == ("-", "-", "0", "0"), e
            assert e["requests"] == "1" and e["peer"] == "unix", e


def test_slow_binary_and_udp():
    with Daemon(*ALL, "-U", "-1", tcp=True) as d, d.client() as c:
        with socket.create_connection(("127.0.0.1", d.port)) as s:
            s.sendall(struct.pack(">BBHBBHIIQ", 0x80, 10, 0, 0, 0, 0, 0, 0, 0))
            assert len(s.recv(24, socket.MSG_WAITALL)) == 24
        e = next(e for e in entries(c) if e["command"] == "-")
        assert e["key"] == "-" and e["key_bytes"] == "0", e
        port = [int(v.rsplit(":", 1)[1]) for k, v in c.stats(b"conns").items()
                if k.endswith(":addr") and k.split(":")[0] + ":UDP" in c.stats(b"conns")][0]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect(("127.0.0.1", port))
            s.settimeout(mayfly.PATIENCE)
            s.send(struct.pack(">HHHH", 1, 0, 1, 0) + b"get from-udp\r\n")
            assert s.recv(100)[8:] == b"END\r\n"
        e = next(e for e in entries(c) if e["key"] == "from-udp")
        assert e["peer"] == "udp" and e["command"] == "get", e


mayfly.main(globals())
