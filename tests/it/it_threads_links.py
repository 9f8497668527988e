#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Long operations of clients while the number of worker threads changes: replicas' connections, full syncs and
exports move to another worker, so that inactive workers are parked; waiting clients stay until their wait ends. No
connection is closed, and no replica repeats a full sync."""
import signal

import mayfly
import replicas
from checked import Load, binary, many_keys, meta, text
from mayfly import Daemon, wait_for
from replicas import Node, level

# The loads change keys at a rate that the stream keeps up with on a machine that is busy: large values come faster, and a
# replica then needs a full sync, whatever becomes of connections.
SANITIZED = mayfly.is_sanitized()
TURNS = 4 if SANITIZED else 6       # times that the number goes down and up again
KEYS = 20000


def threads(c, n):
    assert c.ask(b"config set threads %d" % n) == b"OK"


def wait_until_parked(c):
    wait_for(lambda: c.stat("mayfly_threads_leaving") == 0, "inactive workers are parked")


def assert_same(*nodes):
    """The first one has the items of the others. Its keys are dumped, which misses keys that move to another shard
    meanwhile."""
    for one in nodes:
        wait_for(lambda o=one.c: o.stats(b"moves")["move_state"] == "idle", "all items are in their shards")
    return replicas.assert_equal(*nodes)


def up_and_down(c, load=None):
    """All connections go to one worker, and from there to others again."""
    for n in (1, 4) * TURNS + (1,):
        threads(c, n)
        if load is not None:
            load.goes_on()
        wait_until_parked(c)


def fill(c, size=400):
    c.fill(b"key", KEYS, mayfly.pattern(b"v", size))


def syncs(primary, *others):
    """How replicas were attached (full and partial syncs), and errors of their links."""
    got = primary.c.stats(b"replication")
    return ([int(got[name]) for name in ("sync_full", "sync_partial_ok", "sync_refused", "repl_gaps")] +
            [[one.c.stat(name, b"replication") for name in
              ("primary_sync_full", "primary_sync_partial", "primary_link_failures")] for one in others])


# ---- replicas --------------------------------------------------------------------------------

def test_replicas_follow_under_load():
    """Their links at the primary, while it changes its threads; then while a replica does, and the primary of another."""
    # A replica in the middle waits for none of its replicas, so it keeps everything that arrives meanwhile.
    with Node("-m", "256", "-t", "4") as a, \
            Node("-m", "256", "-t", "4", "-o", "repl_backlog_size=128m", of=a.port) as b, \
            Node("-m", "256", of=b.port) as last:
        level(a, b, last)
        before = syncs(a, b), syncs(b, last)
        assert before[0][:2] == [1, 0] and before[1][:2] == [1, 0], before
        with Load(a, 8, text, meta, binary, many_keys) as load:
            for node in (a, b):
                up_and_down(node.c, load)
        level(a, b, last)
        assert_same(a, b, last)
        assert (syncs(a, b), syncs(b, last)) == before, (before, syncs(a, b), syncs(b, last))
        assert "disconnected" not in a.log() + b.log()


def test_a_replica_that_has_nothing_to_do():
    """It gets the answer in time, by the timer of its present worker."""
    with Node("-t", "4", "-o", "repl_timeout=2") as a, Node("-o", "repl_timeout=2", of=a.port) as b:
        level(a, b)
        before = syncs(a, b)
        for n in (1, 4, 1):
            threads(a.c, n)
            wait_until_parked(a.c)
            heard = b.c.stat("repl_offset", b"replication")
            # Pings are sent by the timer only; each one restarts the age of the link.
            wait_for(lambda: b.c.stat("repl_silent_ms", b"replication") > 300, "nothing comes for a moment")
            wait_for(lambda: b.c.stat("repl_silent_ms", b"replication") < 300, "and then a ping")
            assert b.c.stat("repl_offset", b"replication") == heard
        assert syncs(a, b) == before and b.state() == "online"


def test_a_full_sync_goes_along():
    with Node("-m", "256", "-t", "4", "-o", "save_rate=1") as a:
        fill(a.c, 2000)    # takes 40 s, unless the rate is raised
        with Node("-m", "256", of=a.port) as b:
            wait_for(lambda: a.c.stat("sync_keys_processed", b"replication") > 0, "it is being sent everything")
            up_and_down(a.c)
            a.c.fill(b"meanwhile", 100, b"x")
            assert a.c.stat("sync_in_progress", b"replication") == 1 and b.state() == "syncing"
            assert a.c.ask(b"config set save_rate 0") == b"OK"
            b.online()
            before = syncs(a, b)
            assert before[0] == 1 and before[-1] == [1, 0, 0], before
            with Load(a, 4, text, meta) as load:
                up_and_down(a.c, load)
            level(a, b)
            assert len(assert_same(a, b)) >= KEYS + 100
            assert syncs(a, b) == before


def test_a_failover_meanwhile():
    """A replica is handed over to while its link goes from worker to worker."""
    with Node("-t", "4") as a, Node("-t", "4", of=a.port) as b:
        for turn in range(TURNS):
            one, other = (a, b) if turn % 2 == 0 else (b, a)
            level(one, other)
            assert one.c.set(b"k%d" % turn, b"x") == b"STORED"
            with one.operator() as o:
                o.send(b"config set threads %d\r\nconfig set threads %d\r\n" % ((1, 4) if turn % 4 < 2 else (4, 2)))
                assert one.c.ask(b"failover") == b"OK"
                assert o.line() == b"OK" and o.line() == b"OK"
            wait_until_parked(one.c)
            other.wait_for_state("primary")
            one.online()
        assert sum(n.c.stat("primary_sync_full", b"replication") for n in (a, b)) == 1


# ---- exports ---------------------------------------------------------------------------------

def portions(c, had=b""):
    """The bytes of an answer to `save -`, and its last line."""
    data = [had]
    while True:
        line = c.line()
        if not line.startswith(b"PART "):
            return b"".join(data), line
        data.append(c.exactly(int(line.split()[1])))


def assert_whole(data, last):
    """A key may be sent twice where the index was resized, or its slot moved, under the walk."""
    assert last[:4] == b"END " and KEYS <= int(last[4:]) < KEYS * 2 and len(data) > KEYS * 400, (last, len(data))


def test_exports_go_along():
    with Daemon("-t", "4", "-m", "256", control=True) as d, d.operator() as o, d.client(rcvbuf=4096) as slow:
        fill(o)
        o.send(b"save -\r\n")
        data, last = portions(o)
        assert_whole(data, last)
        for size in (0, 1 << 20, 3 << 20):      # how much the client has taken before it stalls
            slow.send(b"save -\r\nmn\r\n")
            while len(slow.buf) <= size:
                assert slow.more()
            up_and_down(o)
            assert o.stat("export_in_progress", b"persistence") == 1
            data, last = portions(slow)
            assert_whole(data, last)
            assert slow.line() == b"MN"
        assert o.stat("export_failures", b"persistence") == 0
        # A client that reads all the time, at a rate that leaves time for the changes.
        assert o.ask(b"config set save_rate 4") == b"OK"
        slow.send(b"save -\r\n")
        assert slow.more()
        is_over = []

        def change():
            n = 0
            while not is_over:
                threads(o, (1, 4, 2)[n % 3])
                n += 1
            return n

        def read():
            got = portions(slow)
            is_over.append(True)
            return got
        results = {}
        mayfly.in_parallel(lambda f: results.__setitem__(f, f()), (change, read))
        data, last = results[read]
        assert_whole(data, last)
        assert results[change] > 3, results[change]
        assert o.stat("export_failures", b"persistence") == 0
        threads(o, 1)
        wait_until_parked(o)


def test_a_client_that_goes_in_the_middle():
    """Of an export, and of a full sync: what it had is released, wherever it is by then."""
    with Node("-t", "4", "-m", "256", "-o", "save_rate=1") as a:
        fill(a.c)
        for turn in range(TURNS):
            with a.client(rcvbuf=4096) as c:
                c.send(b"save -\r\n")
                assert c.more()
                a.c.send(b"config set threads %d\r\n" % (1, 4)[turn % 2])
                if turn % 3 == 0:
                    c.reset()
            assert a.c.line() == b"OK"
            wait_for(lambda: a.c.stat("export_in_progress", b"persistence") == 0, "it is given up")
            with Node(of=a.port) as b:
                wait_for(lambda: a.c.stat("sync_in_progress", b"replication") == 1, "a replica comes")
                a.c.send(b"config set threads %d\r\n" % (4, 1)[turn % 2])
                b.crash()
            assert a.c.line() == b"OK"
            wait_for(lambda: a.c.stat("sync_in_progress", b"replication") == 0, "it is gone")
        wait_until_parked(a.c)
        wait_for(lambda: a.c.stat("curr_connections") == 1, "nobody is left")


# ---- those that wait -------------------------------------------------------------------------

def test_who_waits_stays_until_that_is_over():
    with Node("-t", "4") as a, Node(of=a.port) as b:
        level(a, b)
        waiting = [a.client() for _ in range(12)]
        for one in waiting:
            one.send(b"mn\r\nwait 2 %d\r\nmn\r\n" % (mayfly.PATIENCE * 1000))
            assert one.line() == b"MN"
        threads(a.c, 1)
        wait_for(lambda: a.c.stat("mayfly_threads_leaving") == 3, "they wait where they are")
        with Node(of=a.port) as late:
            late.online()
            assert all(one.line() == b"WAIT 2" and one.line() == b"MN" for one in waiting)
            wait_until_parked(a.c)
        # One whose time is over.
        threads(a.c, 4)
        more = [a.client() for _ in range(4)]
        for one in more:
            one.send(b"wait 9 1000\r\nmn\r\n")
        threads(a.c, 1)
        assert all(one.line().startswith(b"WAIT ") and one.line() == b"MN" for one in more)
        wait_until_parked(a.c)
        assert all(one.ask(b"mn") == b"MN" for one in waiting + more)


def test_logins_without_a_limit_hold_no_worker():
    with mayfly.place("users", "a:secret\n") as path:
        with Daemon("-t", "4", "-Y", path, "-o", "auth_timeout=0", control=True) as d:
            d.wait_for_operator()
            with d.operator() as o:
                clients = [d.client() for _ in range(12)]
                for one in clients:
                    one.send(b"set auth 0 0 8\r\na sec")
                wait_for(lambda: o.stat("curr_connections") == 13, "all have come")
                for n in (1, 4, 2):
                    threads(o, n)
                    wait_until_parked(o)
                # The time that they are given now begins for all of them, wherever they are.
                for one in clients[:6]:
                    one.send(b"ret\r\n")
                    assert one.line() == b"STORED" and one.ask(b"mn") == b"MN"
                assert o.ask(b"config set auth_timeout 1") == b"OK"
                for one in clients[6:]:
                    one.rest()
                wait_for(lambda: o.stat("curr_connections") == 7, "they are closed")
                assert all(one.ask(b"mn") == b"MN" for one in clients[:6])


# ---- the end ---------------------------------------------------------------------------------

def test_a_stop_while_they_are_on_their_way():
    for turn in range(4):
        with Node("-t", "4", "-m", "256", "-o", "save_rate=1") as a:
            fill(a.c)
            with Node(of=a.port), a.client(rcvbuf=4096) as c:
                wait_for(lambda: a.c.stat("sync_in_progress", b"replication") == 1, "a replica is sent everything")
                if turn % 2 == 1:
                    assert a.c.ask(b"config set save_rate 0") == b"OK"
                    wait_for(lambda: a.c.stat("sync_in_progress", b"replication") == 0, "it has everything")
                    c.send(b"save -\r\n")
                    assert c.more()
                a.c.send(b"config set threads 1\r\nconfig set threads 3\r\nconfig set threads 2\r\n")
                a.process.send_signal(signal.SIGTERM if turn % 4 < 2 else signal.SIGUSR1)
                a.c.close()
                c.close()
                assert a.process.wait(mayfly.PATIENCE) == 0, a.log()


mayfly.main(globals())
