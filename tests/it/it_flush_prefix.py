#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""flush_prefix: after its answer no client finds items stored before, in any protocol, and every client finds items
stored afterwards, also while others store, load or watch. Flushed items do not reappear from files and logs after a
crash, with -e, after upgrades, or on replicas. The forms of the command are in tests/dialogues/flush-prefix.txt."""
import http.client
import os
import re
import select
import signal

import binary as b
from binary import BinaryClient
from kept import figure, figures, kept
import mayfly
from mayfly import Daemon, in_parallel, wait_for
from replicas import assert_equal, keys, level, Node

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
    """Each client flushes its own prefix, amid requests, and does not affect the items of others."""
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
    """No value that was stored before the command was sent is seen after its answer. A writer finds the values that
    it has stored, unless a flush came in between."""
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


# ---- what keeps or copies items ----

COUNT = 20000


def is_answered(c):
    return bool(select.select([c.sock], [], [], 0)[0])


def begins(c, prefix):
    """The keys that do, once each: a dump has some twice if an index is resized meanwhile."""
    return sorted({k for k in keys(c) if k.startswith(prefix)})


# ---- files and logs ---------------------------------------------------------------------------------

def test_a_crash_right_after_the_answer():
    """With a full log, other items stored before and after it are restored too, as far as that was promised."""
    def run(case):
        appendonly, fsync, saves = case
        with kept() as k:
            options = ("-o", "appendonly=%s,appendfsync=%s,auto_aof_rewrite_percentage=0" % (appendonly, fsync))
            with k.daemon(*options) as d, d.operator() as o:
                o.fill(b"p:", COUNT, b"old")
                o.fill(b"q:", 1000, b"old")
                if saves:
                    assert o.ask(b"save") == b"OK"
                assert o.set(b"p:log", b"old") == b"STORED"
                assert o.ask(b"flush_prefix p:") == b"OK"
                # That was answered once it was on the disk, or no file has any of them.
                if appendonly == "full":
                    assert not saves or k.has_file()
                elif appendonly == "no":    # with a log a new snapshot is made at once
                    assert not k.has_file()
                assert o.set(b"p:1", b"new") == b"STORED" and o.set(b"p:new", b"new") == b"STORED"
                if fsync != "always":
                    wait_for(lambda: appendonly == "no" or figure(o, "aof_pending_bytes") == 0, "the log has everything")
                d.crash()
            with k.daemon(*options) as d, d.operator() as o:
                found = begins(o, b"p:")
                assert set(found) <= {b"p:1", b"p:new"}, (case, len(found), found[:5])
                assert all(o.get(key) == b"new" for key in found)
                if appendonly != "keys":
                    assert len(found) == (2 if appendonly == "full" else 0), (case, found)
                    assert len(begins(o, b"q:")) == (1000 if appendonly == "full" else 0), case
                assert o.set(b"p:2", b"new") == b"STORED" and o.get(b"p:2") == b"new"
                d.crash()
    in_parallel(run, [(mode, fsync, saves) for mode in ("full", "keys", "no") for fsync in ("always", "everysec")
                      for saves in (False, True)])


def test_a_crash_at_the_answer_itself():
    """Nothing follows the command: no other request brings the log to the disk."""
    def run(fsync):
        with kept() as k:
            options = ("-o", "appendonly=full,appendfsync=%s" % fsync)
            for n in range(5):
                with k.daemon(*options) as d, d.operator() as o:
                    assert begins(o, b"p:") == [], n
                    o.fill(b"p:", 2000, b"old")
                    if n % 2:
                        assert o.ask(b"save") == b"OK"
                    assert o.ask(b"flush_prefix p:") == b"OK"
                    d.crash()
    in_parallel(run, ("always", "everysec", "no"))


def test_a_log_with_thousands_of_them():
    """More than there are places by far: a start takes a walk over the items each time that all are taken."""
    count = 3000
    with kept() as k:
        options = ("-o", "appendonly=full,auto_aof_rewrite_percentage=0")
        with k.daemon(*options, "-o", "flush_prefix_max=256") as d, d.operator() as o:
            o.fill(b"p:", count, b"old")
            for at in range(0, count, 500):
                o.send(b"".join(b"flush_prefix p:%d\r\n" % n for n in range(at, at + 500)))
                assert [o.line() for _ in range(500)] == [b"OK"] * 500
                assert o.set(b"p:%d" % at, b"new") == b"STORED"
            wait_for(lambda: figure(o, "aof_pending_bytes") == 0, "the log has everything")
            before = begins(o, b"p:")
            # A later number does not begin one of these.
            assert before == sorted(b"p:%d" % at for at in range(0, count, 500)), before
            d.crash()
        with k.daemon(*options, "-o", "flush_prefix_max=4") as d, d.operator() as o:
            assert keys(o) == before and all(o.get(key) == b"new" for key in before)
            wait_for(lambda: o.stats(b"expire")["flush_prefixes_active"] == "0", "the flushes are over")
            assert int(o.stats()["curr_items"]) == len(before)


def test_while_a_save_is_under_way():
    """Saves that started before the flush are aborted or restarted: no file contains flushed items."""
    def run(mode):
        with kept() as k:
            options = ("-o", "appendonly=" + mode)
            for n in range(4):
                with k.daemon(*options) as d, d.operator() as o, d.operator() as saver:
                    assert begins(o, b"p:") == [], (mode, n)
                    o.fill(b"p:", 60000, b"old")
                    o.fill(b"q:", 20000, b"old")
                    saver.send(b"save\r\n")
                    if n % 2:
                        wait_for(lambda: figures(o)["rdb_bgsave_in_progress"] == "1" or is_answered(saver),
                                 "it saves, or is done")
                    assert o.ask(b"flush_prefix p:") == b"OK"
                    assert o.set(b"p:new", b"new") == b"STORED"
                    said = saver.line()
                    assert said == b"OK" or said.startswith(b"SERVER_ERROR"), said
                    if n % 2:
                        assert o.ask(b"save") == b"OK"
                        d.crash()
                        with k.daemon(*options) as e, e.operator() as o2:
                            assert begins(o2, b"p:") == [b"p:new"] and len(begins(o2, b"q:")) == 20000
                            assert o2.ask(b"flush_all") == b"OK"
                            e.crash()
                    else:
                        assert o.ask(b"flush_prefix p:n") == b"OK"
                        d.crash()
    in_parallel(run, ("no", "keys", "full"))


# ---- items in memory --------------------------------------------------------------------------------

def check_taken_over(o):
    assert o.stats(b"persistence")["restart_state"] == "warm", o.stats(b"persistence")
    assert begins(o, b"p:") == [b"p:1", b"p:new"], begins(o, b"p:")[:5]
    assert o.get(b"p:1") == b"new" and o.get(b"p:new") == b"new" and o.get(b"p:7") is None
    assert o.stat("curr_items") == 1002 and len(begins(o, b"q:")) == 1000
    assert o.stats(b"expire")["flush_prefixes_active"] == "0"
    assert o.ask(b"flush_prefix p:") == b"OK" and o.get(b"p:1") is None
    assert o.set(b"p:1", b"new") == b"STORED" and o.get(b"p:1") == b"new"


def flush_amid_many(o):
    o.fill(b"q:", 1000, b"old")
    o.fill(b"p:", 400000, b"old")
    o.send(b"flush_prefix p:\r\nms p:1 3 q\r\nnew\r\nms p:new 3 q\r\nnew\r\nmn\r\n")
    assert o.line() == b"OK" and o.line() == b"MN"


def test_a_restart_with_items_in_memory():
    """At once after the answer, when the walk has hardly begun."""
    with mayfly.folder(in_memory=True) as folder:
        args = ("-t", "2", "-m", "256", "-e", os.path.join(folder, "memory"))
        with Daemon(*args, control=True) as d:
            with d.operator() as o:
                flush_amid_many(o)
                d.process.send_signal(signal.SIGTERM)
            assert d.process.wait(mayfly.PATIENCE) == 0
        with Daemon(*args, control=True) as d, d.operator() as o:
            check_taken_over(o)


# ---- replicas ---------------------------------------------------------------------------------------

def waited(primary):
    """Number of replicas that have all changes."""
    return int(primary.c.ask(b"wait 1 100000").split()[1])


def test_replicas_and_theirs():
    with Node() as a, Node(of=a.port) as b, Node(of=b.port) as c:
        a.c.fill(b"p:", COUNT, b"old")
        a.c.fill(b"q:", 1000, b"old")
        level(a, b, c)
        assert a.c.ask(b"flush_prefix p:") == b"OK"
        a.c.set(b"p:1", b"new")
        assert waited(a) == 1
        # The client that the primary made wait sees at once what it waited for.
        assert b.c.get(b"p:2") is None and b.c.get(b"p:1") == b"new"
        level(a, b, c)
        assert len(assert_equal(a, b, c)) == 1001
        assert c.c.get(b"p:2") is None
        assert int(b.c.stats(b"expire")["flush_prefix_items"]) == COUNT
        # More than a replica has places for.
        assert b.c.ask(b"config set flush_prefix_max 1") == b"OK"
        for n in range(100):
            a.c.set(b"r:%d" % n, b"x")
            assert a.c.ask(b"flush_prefix r:%d" % n) == b"OK"
            a.c.set(b"r:%d:new" % n, b"x")
        level(a, b, c)
        assert len(begins(c.c, b"r:")) == len(begins(a.c, b"r:"))
        assert_equal(a, b, c)


def test_during_a_full_sync():
    """Flushes before and during a full sync."""
    with Node("-m", "256") as a:
        a.c.fill(b"q:", 5000, b"old")
        for n in range(3):
            a.c.fill(b"p:", 20000, b"old")
            with Node("-m", "256", of=a.port) as b:
                if n % 2:
                    wait_for(lambda: b.c.stat("curr_items") > 100 or b.state() == "online", "items come")
                for i in range(10):
                    assert a.c.ask(b"flush_prefix p:%d" % i) == b"OK"
                    a.c.set(b"p:%d:new" % i, b"new")
                level(a, b)
                found = assert_equal(a, b)
                assert len([k for k in found if k.startswith(b"p:")]) == 10, n
        assert a.c.ask(b"flush_prefix p:") == b"OK"


def test_under_load_with_a_log_and_replicas():
    """Writers store all the while; at the end all have the same, also after a crash."""
    def write(i, is_over):
        with a.client() as c:
            n = 0
            while not is_over.is_set():
                n += 1
                c.send(b"".join(b"ms %s:%d %d q\r\n%d\r\n" % (p, k % 200, len(b"%d" % n), n)
                                for k in range(50) for p in (b"p%d" % i, b"q%d" % i)) + b"mn\r\n")
                assert c.line() == b"MN"
    with kept() as k:
        log = ("-o", "dir=%s,appendonly=full" % k.folder)
        with Node(*log) as a, Node(of=a.port) as b:
            with mayfly.beside(write, range(3)):
                for n in range(150):
                    got = a.c.ask(b"flush_prefix p%d" % (n % 3))
                    assert got == b"OK", got
            level(a, b)
            found = assert_equal(a, b)
            # Changes may have come faster than the log was written: then file and log are made again.
            wait_for(lambda: figure(a.c, "aof_whole") == 1 and figure(a.c, "aof_pending_bytes") == 0,
                     "the log has everything")
            a.crash()
            with Node(*log) as again:
                there = {key: item[0] for key, item in assert_equal(again).items()}
                assert there == {key: item[0] for key, item in found.items()}


mayfly.main(globals(), beside=("test_replicas_and_theirs",))
