#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""flush_prefix and what keeps or copies items: files and logs after a crash, -e, upgrades, and replicas. What was
flushed never comes back; what was stored afterwards stays."""
import os
import select
import signal

import mayfly
from kept import figure, figures, kept
from mayfly import Daemon, in_parallel, wait_for
from proxy import Proxy
from replicas import Node, assert_equal, keys, level

COUNT = 20000


def is_answered(c):
    return bool(select.select([c.sock], [], [], 0)[0])


def begins(c, prefix):
    """The keys that do, once each: a dump has some twice if an index is resized meanwhile."""
    return sorted({k for k in keys(c) if k.startswith(prefix)})


# ---- files and logs ---------------------------------------------------------------------------------

def test_a_crash_right_after_the_answer():
    """With a log of states what was stored before and after is there as well, if that was promised."""
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


def test_more_of_them_than_places():
    """A log may have more of them than may be under way at a time; so may a stream."""
    with kept() as k:
        options = ("-o", "appendonly=full,flush_prefix_max=1")
        with k.daemon(*options) as d, d.operator() as o:
            for n in range(200):
                o.fill(b"p:%d:" % n, 20, b"old")
                assert o.set(b"q:%d" % n, b"%d" % n) == b"STORED"
                got = o.ask(b"flush_prefix p:%d:" % n)
                assert got == b"OK", got
                assert o.set(b"p:%d:new" % n, b"x") == b"STORED"
            wait_for(lambda: figure(o, "aof_pending_bytes") == 0, "the log has everything")
            before = keys(o)
            d.crash()
        with k.daemon(*options) as d, d.operator() as o:
            assert keys(o) == before and len(before) == 400, len(before)


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
    """Saves that began before it give up or begin again: no file has what was flushed."""
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


def test_an_upgrade():
    mayfly.skip_if("drop_privileges" in " ".join(mayfly.MORE_ARGS), "with drop_privileges no program can be started")
    with mayfly.folder(in_memory=True) as folder:
        with Daemon("-t", "2", "-m", "256", "-e", os.path.join(folder, "memory"), control=True) as d:
            with d.operator() as o:
                wait_for(lambda: "is ready" in d.log(), "that it serves is in the log")
                flush_amid_many(o)
                d.process.send_signal(signal.SIGUSR2)
            wait_for(lambda: d.log().count("is ready") == 2, "another serves: " + d.log()[-500:])
            with d.operator() as o:
                check_taken_over(o)


# ---- replicas ---------------------------------------------------------------------------------------

def waited(primary):
    """How many replicas have all that was changed."""
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
    """Some come before, some amid what is sent."""
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


def test_during_a_break_of_the_link():
    """The replica catches up from the backlog."""
    with Node() as a, Proxy(a.port) as proxy, Node(of=proxy.port) as b:
        a.c.fill(b"p:", 2000, b"old")
        a.c.fill(b"q:", 1000, b"old")
        level(a, b)
        syncs = a.c.stats(b"replication")["sync_full"]
        proxy.cut()
        assert a.c.ask(b"flush_prefix p:") == b"OK"
        a.c.set(b"p:1", b"new")
        level(a, b)
        assert len(assert_equal(a, b)) == 1001
        assert a.c.stats(b"replication")["sync_full"] == syncs


def test_a_replica_that_is_made_primary():
    """It has what was flushed, and flushes itself."""
    with Node() as a, Node(of=a.port) as b:
        a.c.fill(b"p:", COUNT, b"old")
        level(a, b)
        assert a.c.ask(b"flush_prefix p:") == b"OK" and waited(a) == 1
        assert b.c.ask(b"flush_prefix p:") == b"SERVER_ERROR read-only replica"
        a.crash()
        assert b.c.ask(b"replicaof no one") == b"OK"
        assert begins(b.c, b"p:") == []
        b.c.set(b"p:1", b"new")
        assert b.c.ask(b"flush_prefix p:1") == b"OK" and b.c.get(b"p:1") is None


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


mayfly.main(globals(), beside=("test_replicas_and_theirs", "test_during_a_break_of_the_link",
                               "test_a_replica_that_is_made_primary"))
