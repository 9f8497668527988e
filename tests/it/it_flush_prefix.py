#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""flush_prefix: from its answer on nobody finds what was stored before, in any protocol, and everybody finds what is
stored afterwards, also while others store, load or watch. What is kept on disk or by replicas is in
it_flush_prefix_kept.py; the forms of the command are in tests/dialogues/flush-prefix.txt."""
import http.client
import re

import binary as b
import mayfly
from binary import BinaryClient
from mayfly import Daemon, wait_for
from replicas import keys

ALL = ("-t", "2", "-m", "256", "-I", "8m")
FULL = b"SERVER_ERROR too many prefixes are being flushed"


def expiry(c, name):
    return int(c.stats(b"expire")[name])


def wait_until_over(c):
    wait_for(lambda: expiry(c, "flush_prefixes_active") == 0, "the flushes are over")


def test_it_is_seen_by_all_protocols_and_commands():
    with Daemon(*ALL) as d, d.client() as c, d.client() as other, BinaryClient(d.address) as bin_client:
        assert other.set(b"p:large", b"x" * 3000000) == b"STORED" and other.set(b"q:large", b"y" * 3000000) == b"STORED"
        cas = other.ask(b"ms p:cas 1 c\r\nx").split()[1][1:]
        other.ask(b"ms p:own 1 E999999999\r\nx")
        c.fill(b"p:", 100000, b"old")
        c.fill(b"q:", 1000, b"old")
        before = c.stats()
        assert c.ask(b"flush_prefix p:") == b"OK"
        # Each line meets a key that no other has met.
        for line, answer in ((b"get p:10", b"END"), (b"gets p:11", b"END"), (b"gat 0 p:12", b"END"), (b"mg p:13 v", b"EN"),
                             (b"mg p:14", b"EN"), (b"touch p:15 0", b"NOT_FOUND"), (b"incr p:16 1", b"NOT_FOUND"),
                             (b"delete p:17", b"NOT_FOUND"), (b"md p:18", b"NF"), (b"ma p:19", b"NF"), (b"ttl p:20", b"-2"),
                             (b"persist p:21", b"0"), (b"expire p:22 10", b"0"), (b"me p:23", b"EN"),
                             (b"replace p:24 0 0 1\r\nx", b"NOT_STORED"), (b"append p:25 0 0 1\r\nx", b"NOT_STORED"),
                             (b"prepend p:26 0 0 1\r\nx", b"NOT_STORED"), (b"ms p:27 1 MR\r\nx", b"NS"),
                             (b"cas p:cas 0 0 1 " + cas + b"\r\nx", b"NOT_FOUND"), (b"mg p:own v", b"EN"),
                             (b"add p:28 0 0 1\r\nx", b"STORED"), (b"ms p:29 1 ME\r\nx", b"HD"),
                             (b"set p:30 0 0 1\r\nx", b"STORED"), (b"mg p:31 N10 t v", b"VA 0 t10 W"), (b"get p:large", b"END")):
            got = other.ask(line)
            assert got == answer, (line, got)
            if got.startswith(b"VA"):
                other.line()
        for opcode, extras in ((b.GET, b""), (b.GETK, b""), (b.DELETE, b""), (b.GAT, bytes(4)), (b.TOUCH, bytes(4))):
            got = bin_client.call(b.pack(opcode, b"p:%d" % (100 + opcode), extras))
            assert got.status == b.NOT_FOUND, (opcode, got)
        assert bin_client.call(b.store(b.REPLACE, b"p:150", b"x")).status == b.NOT_FOUND
        assert bin_client.call(b.store(b.ADD, b"p:151", b"x")).status == b.OK
        for key in (b"p:28", b"p:29", b"p:30", b"p:151"):
            assert c.get(key) == b"x", key
        assert len(c.get(b"q:large")) == 3000000
        # Nor do lists of keys have them.
        there = set(keys(c))    # a dump has some twice if an index is resized meanwhile
        assert sorted(k for k in there if k.startswith(b"p:")) == [b"p:151", b"p:28", b"p:29", b"p:30", b"p:31"], len(there)
        assert len(there) == 5 + 1001, len(there)
        c.send(b"lru_crawler metadump all\r\n")
        while not c.buf.endswith(b"END\r\n"):
            assert c.more()
        dumped = {line.split()[0] for line in c.buf.splitlines() if line.startswith(b"key=")}
        assert len(dumped) == 5 + 1001 and sum(key.startswith(b"key=p%3A") for key in dumped) == 5, c.buf[:1000]
        c.buf = b""
        after = c.stats()

        def grown(name):
            return int(after[name]) - int(before[name])
        assert grown("mayfly_cmd_flush_prefix") == 1 and grown("cmd_flush") == 0
        assert grown("get_misses") >= grown("get_flushed"), (before, after)
        # The walk unlinks what nobody meets, and then the prefix is not compared any more.
        wait_for(lambda: c.stat("curr_items") == 5 + 1001, "it is unlinked")
        wait_until_over(c)
        flushed = 100000 + 3
        assert expiry(c, "flush_prefix_items") == expiry(c, "flushed_items") == flushed, c.stats(b"expire")
        assert expiry(c, "flushed_bytes") > 3000000 + 100000 * 3
        assert expiry(c, "deleted_items") == 0


def test_pipelined_beside_others():
    """Each client flushes what is its own, amid requests; nobody takes anything from another one."""
    rounds, clients = 500, 6

    def run(name):
        with d.client() as c:
            c.fill(b"%s:other:" % name, 300, b"old")
            for n in range(rounds):
                c.send(b"set %s:a 0 0 3\r\nold\r\nset %s:b 0 0 3\r\nold\r\nflush_prefix %s:a\r\nget %s:a %s:b\r\n"
                       b"add %s:a 0 0 3\r\nnew\r\nflush_prefix %s:b noreply\r\nget %s:a %s:b\r\nget other\r\n"
                       % ((name,) * 9))
                assert [c.line() for _ in range(3)] == [b"STORED", b"STORED", b"OK"], n
                assert c.get_reply() == {name + b":b": b"old"}, n
                assert c.line() == b"STORED", n
                assert c.get_reply() == {name + b":a": b"new"}, n
                assert c.get_reply() == {b"other": b"x"}, n
            assert c.get(*[b"%s:other:%d" % (name, n) for n in range(300)]).values().__len__() == 300
    with Daemon(*ALL, "-o", "flush_prefix_max=256") as d, d.client() as c:
        c.set(b"other", b"x")
        mayfly.in_parallel(run, [b"t%d" % n for n in range(clients)])
        assert c.stat("mayfly_cmd_flush_prefix") == 2 * rounds * clients
        wait_until_over(c)
        assert c.stat("curr_items") == 1 + clients * (300 + 1)


def test_what_others_store_meanwhile():
    """No value that was answered before the command was sent is seen after its answer; of each key its writer finds
    what it has stored, unless a flush came in between."""
    done = [0] * 4      # what each writer has stored, and was answered
    flushes = [0]       # begun, ended: odd while one is under way

    def write(i, is_over):
        with d.client() as c:
            n = 0
            while not is_over.is_set():
                n += 1
                flushed = flushes[0]
                assert c.set(b"p:w%d" % i, b"%d" % n) == b"STORED"
                done[i] = n
                got = c.get(b"p:w%d" % i)
                if flushed % 2 == 0 and flushes[0] == flushed:
                    assert got == b"%d" % n, (i, n, got)
                else:
                    assert got in (None, b"%d" % n), (i, n, got)
    with Daemon(*ALL, "-o", "flush_prefix_max=256") as d, d.client() as c, d.client() as reader:
        c.fill(b"p:", 20000, b"old")
        with mayfly.beside(write, range(len(done))):
            for n in range(1500):
                before = list(done)
                flushes[0] += 1
                assert c.ask(b"flush_prefix p:") == b"OK"
                got = reader.get(*[b"p:w%d" % i for i in range(len(done))], b"p:%d" % n)
                flushes[0] += 1
                assert b"p:%d" % n not in got, got
                for i, last in enumerate(before):
                    assert int(got.get(b"p:w%d" % i, b"%d" % (last + 1))) > last, (got, before)


def test_large_values_on_their_way():
    """Whether a value that was on its way when the command came is stored before or after it is open; a later one is
    there."""
    with Daemon(*ALL) as d, d.client() as c, d.client() as slow:
        slow.send(b"set p:large 0 0 2000000\r\n" + b"x" * 1000000)
        wait_for(lambda: c.stat("bytes_read") > 1000000, "half of it is there")
        assert c.ask(b"flush_prefix p:") == b"OK"
        assert c.get(b"p:large") is None
        slow.send(b"x" * 1000000 + b"\r\n")
        assert slow.line() == b"STORED"
        assert len(c.get(b"p:large")) == 2000000


def test_so_many_at_a_time():
    """A load beside requests holds flushes in force. When all places are taken a command waits a second at most."""
    with Daemon(*ALL, "-o", "flush_prefix_max=2", control=True) as d, d.client() as c, d.operator() as o, \
            d.client() as loader, d.client() as other:
        assert c.stats(b"settings")["flush_prefix_max"] == "2"
        c.fill(b"a:", 1000, b"old")
        assert loader.ask(b"restore begin 1000") == b"OK"
        assert all(c.ask(b"flush_prefix " + prefix) == b"OK" for prefix in (b"a:", b"b:"))
        wait_for(lambda: c.stat("curr_items") == 0, "they are unlinked")
        assert expiry(c, "flush_prefixes_active") == 2
        assert c.set(b"c:1", b"x") == b"STORED"
        # A refused command has flushed nothing, and no other client waits for it.
        other.send(b"flush_prefix c:\r\nmn\r\n")
        assert c.get(b"c:1") == b"x"
        assert other.line() == FULL and other.line() == b"MN"
        assert c.get(b"c:1") == b"x"
        other.send(b"flush_prefix c: noreply\r\nmn\r\n")
        assert other.line() == b"MN" and c.get(b"c:1") == b"x"
        # flush_all has a place of its own.
        assert c.ask(b"flush_all") == b"OK"
        assert c.set(b"c:1", b"x") == b"STORED"
        # It can be changed meanwhile.
        assert o.ask(b"config set flush_prefix_max 3") == b"OK"
        assert c.ask(b"flush_prefix c:") == b"OK" and c.get(b"c:1") is None
        assert c.ask(b"flush_prefix d:") == FULL
        assert o.ask(b"config set flush_prefix_max 1") == b"OK"
        assert c.ask(b"flush_prefix a:") == FULL
        assert expiry(c, "flush_prefixes_active") == 3
        # It goes on as soon as there is a place.
        assert c.set(b"d:1", b"x") == b"STORED"
        other.send(b"flush_prefix d:\r\n")
        assert loader.ask(b"restore end") is not None
        if other.line() == FULL:        # this machine was slow
            assert other.ask(b"flush_prefix d:") == b"OK"
        assert c.get(b"d:1") is None
        wait_until_over(c)
        for bad in (b"0", b"257", b"x"):
            assert o.ask(b"config set flush_prefix_max " + bad).startswith(b"CLIENT_ERROR"), bad


def test_64_at_a_time():
    """The default. While a load goes on none of them ends, and the next one is refused; all are in force."""
    with Daemon(*ALL) as d, d.client() as c, d.client() as loader:
        for n in range(65):
            assert c.set(b"p%d:" % n, b"x") == b"STORED"
        assert loader.ask(b"restore begin 1000") == b"OK"
        for n in range(64):
            assert c.ask(b"flush_prefix p%d:" % n) == b"OK"
        assert c.ask(b"flush_prefix p64:") == FULL
        assert expiry(c, "flush_prefixes_active") == 64
        loader.send(b"".join(b"ms p%d:a 3 ME q\r\nold\r\n" % n for n in range(65)) + b"mn\r\n")
        while loader.line() != b"MN":
            pass
        assert c.get(*[b"p%d:%s" % (n, end) for n in range(65) for end in (b"", b"a")]) == {b"p64:": b"x", b"p64:a": b"old"}
        assert loader.ask(b"restore end") is not None
        assert c.ask(b"flush_prefix p64:") == b"OK" and c.get(b"p64:", b"p64:a", b"p5:", b"p5:a") == {}
        wait_until_over(c)


def test_a_load_beside_requests():
    """What is loaded is older than the flush, however late it comes."""
    with Daemon(*ALL) as d, d.client() as c, d.client() as loader:
        assert loader.ask(b"restore begin 10000") == b"OK"
        loader.send(b"".join(b"ms p:%d 3 ME q\r\nold\r\nms q:%d 3 ME q\r\nold\r\n" % (n, n) for n in range(1000)) + b"mn\r\n")
        assert loader.line() == b"MN"
        assert c.ask(b"flush_prefix p:") == b"OK"
        assert c.set(b"p:new", b"new") == b"STORED"
        loader.send(b"".join(b"ms p:%d 3 ME q\r\nold\r\nms q:%d 3 ME q\r\nold\r\n" % (n, n) for n in range(1000, 2000)) +
                    b"ms p:new 3 ME q\r\nold\r\nmn\r\n")
        while loader.line() != b"MN":
            pass
        assert c.get(*[b"p:%d" % n for n in range(2000)]) == {}
        assert len(c.get(*[b"q:%d" % n for n in range(2000)])) >= 1900
        assert c.get(b"p:new") == b"new"
        assert c.set(b"p:5", b"new") == b"STORED"
        assert loader.ask(b"restore end") is not None
        assert c.get(b"p:5") == b"new" and c.get(b"p:6") is None
        wait_until_over(c)
        assert c.get(b"p:5") == b"new" and c.get(b"p:1500") is None


def test_watchers_are_told_of_each_key():
    with Daemon(*ALL) as d, d.client() as c, d.client() as w:
        c.fill(b"p:", 50, b"old")
        c.fill(b"q:", 50, b"old")
        assert w.ask(b"watch deletions") == b"OK"
        assert c.ask(b"flush_prefix p:") == b"OK"
        seen = set()
        while len(seen) < 50:
            while b"\n" not in w.buf:
                assert w.more()
            line, w.buf = w.buf.split(b"\n", 1)
            match = re.search(rb"type=deleted key=(\S+) cmd=flush_prefix ", line)
            assert match, line
            seen.add(match.group(1))
        assert seen == {b"p%%3A%d" % n for n in range(50)} or seen == {b"p:%d" % n for n in range(50)}, seen


def test_what_operators_see():
    """Figures for monitoring, the latency of the command, the log of slow requests, and mayflyctl's prefix."""
    with Daemon(*ALL, "-o", "slowlog_us=1", "--metrics", "127.0.0.1:0", control=True) as d, d.operator() as o:
        o.fill(b"p:", 1000, b"old")
        assert o.ask(b"slowlog reset") == b"OK"
        assert o.ask(b"flush_prefix p:") == b"OK"
        wait_until_over(o)
        o.send(b"slowlog get 128\r\n")
        lines = list(iter(o.line, b"END"))
        assert any(b"flush_prefix" in line for line in lines), lines
        found = re.search(r"metrics, listens on tcp:127\.0\.0\.1:(\d+)", d.log())
        if found is None:
            return      # built without
        web = http.client.HTTPConnection("127.0.0.1", int(found.group(1)), timeout=mayfly.PATIENCE)
        web.request("GET", "/metrics")
        text = web.getresponse().read().decode()
        web.close()
        assert re.findall(r"^mayfly_flush_prefixes_active (\d+)$", text, re.M) == ["0"], text
        for name, value in (("cmd_flush_prefix", 1), ("flush_prefix_items", 1000)):
            told = re.findall(r"^mayfly_%s_total(?:\{.*\})? (\d+)$" % name, text, re.M)
            assert sum(int(n) for n in told) == value, (name, told)


mayfly.main(globals())
