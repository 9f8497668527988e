#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""slowlog: requests that took long are kept, bounded, with what an operator wants to know of them.
A microsecond is slow here, which every request takes, so no test depends on how quick the machine is."""
import socket
import struct
import time

import mayfly
from mayfly import Daemon, wait_for

ALL = ("-t", "1", "-o", "slowlog_us=1")
MIB = 1 << 20


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


def test_answers_that_come_later():
    with Daemon("-t", "2", "-o", "slowlog_us=1") as d, d.client() as c:
        assert c.ask(b"slowlog reset") == b"OK"
        c.stats(b"conns")
        wait_for(lambda: "stats" in [e["command"] for e in entries(c)], "it is kept")


def test_binary_and_udp():
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
