#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Replication where allocations fail, at either side and at each call: both sides go on, a replica shows nothing that
its primary has not, and all is well once there is memory. With MAYFLY_NOMEM_ALL=1 each call is tried, otherwise some
of those that are many."""
import os

import mayfly
import replicas
from mayfly import wait_for
from nomem import EVER, NoMem
from replicas import Node, assert_equal, level

ALL = os.environ.get("MAYFLY_NOMEM_ALL") == "1"
LARGE = 200000


def some(count, n=24):
    """Numbers of calls that fail."""
    if ALL or count <= n:
        return range(1, count + 1)
    return sorted(set(range(1, n // 2 + 1)) | {1 + (count - 1) * i // (n // 2) for i in range(n // 2 + 1)})


def fill(c, n=100):
    c.send(b"".join(b"ms k%d 100 F%d T10000 q\r\n%s\r\n" % (i, i, mayfly.pattern(b"%d" % i, 100)) for i in range(n)))
    assert c.ask(b"mn") == b"MN"


def change(c, turn):
    """Some of each kind; what is stored may be refused for want of memory."""
    c.send(b"".join(b"ms k%d 2000 q T5000\r\n%s\r\n" % (i, mayfly.pattern(b"%d-%d" % (turn, i), 2000))
                    for i in range(0, 60, 3)))
    c.send(b"md k1 q\r\nmg k2 T%d q\r\nma k%d q\r\n" % (6000 + turn, turn % 60))
    value = mayfly.pattern(b"large%d" % turn, LARGE)
    c.send(b"ms large %d q\r\n%s\r\nmn\r\n" % (len(value), value))
    while (line := c.line()) != b"MN":
        assert line is not None


def failures(b):
    return int(b.c.stats(b"replication")["primary_link_failures"])


def settles(b, before):
    """It is online, or a session has failed since."""
    return b.state() == "online" or failures(b) > before


def assert_no_lies(a, b):
    """The replica shows the items of the primary."""
    was, now = replicas.dump(a.c), replicas.dump(b.c)
    lies = replicas.differences({k: v for k, v in was.items() if k in now}, now)
    assert not lies, lies


def begin_anew(a, b):
    """Start a full sync, which may fail."""
    before = failures(b)
    b.stand_alone()
    b.follow(a.port)
    wait_for(lambda: settles(b, before), "it is online, or not")


def recover(a, b, m):
    """There is memory again."""
    fired = m.get("fired")
    m.disarm()
    if b.state() != "online":
        b.follow(a.port)        # at once, without a pause
    level(a, b)
    assert_no_lies(a, b)
    return fired


def fail_each(a, b, m, thread):
    """In a full sync and in the stream: each allocation of these threads, and it and the next ones."""
    def act(turn):
        begin_anew(a, b)
        change(a.c, turn)
        a.c.ask(b"wait 1 50")
    m.arm(0, thread)
    act(0)
    count, fired = m.get("seen"), 0
    recover(a, b, m)
    cases = [(nth, times) for times in (1, 3) for nth in some(count)] + [(1, EVER)] * (count > 0)
    for turn, (nth, times) in enumerate(cases, 1):
        m.arm(nth, thread, times)
        act(turn)
        fired += recover(a, b, m)
    assert fired >= count, (thread, count, fired)
    begin_anew(a, b)
    level(a, b)
    assert_equal(a, b)
    return count


def test_allocations_fail_at_the_replica():
    with NoMem() as m, Node() as a, Node(of=a.port, **m.how) as b:
        fill(a.c)
        level(a, b)
        assert fail_each(a, b, m, "replication") >= 5
        # Where it is flushed it tries for long.
        m.arm(6, "replication", EVER)
        begin_anew(a, b)
        recover(a, b, m)


def test_allocations_fail_at_the_primary():
    with NoMem() as m, Node(**m.how) as a, Node(of=a.port) as b:
        fill(a.c)
        level(a, b)
        counts = [fail_each(a, b, m, thread) for thread in ("export", "feed", "shipper")]
        assert counts[0] > 0 and counts[1] > 0, counts


def test_allocations_fail_at_the_first_replica_of_a_primary():
    """When it begins to record, and on the connection."""
    with Node() as b, NoMem() as m:
        count = nth = 0
        while nth <= count:
            b.stand_alone()
            with Node(**m.how) as a:
                fill(a.c)
                before = failures(b)
                m.arm(nth)
                b.follow(a.port)
                wait_for(lambda: settles(b, before), "it is online, or not")
                count = count or m.get("seen")
                fired = recover(a, b, m)
                assert fired == (nth > 0) or nth > count - 5, (nth, count)
                assert_equal(a, b)
            nth += 1 if ALL or nth < 12 else 1 + count // 12
        assert count > 10, count


def test_a_stop_ends_a_promotion_that_cannot_flush():
    with Node("-o", "save_rate=1") as a, NoMem() as m, Node(**m.how) as b:
        fill(a.c, 20000)
        fill(b.c)
        b.follow(a.port)
        b.wait_for_state("syncing")
        wait_for(lambda: int(b.c.stats()["curr_items"]) > 100, "its items are gone, and others come")
        m.arm(1, "replication", EVER)
        b.c.send(b"replicaof no one\r\n")
        wait_for(lambda: m.get("fired") > 2, "it tries to flush")
        b.process.terminate()
        assert b.process.wait(mayfly.PATIENCE) == 0
        assert "-> primary" not in b.log(), b.log()


def test_allocations_fail_for_commands():
    """Each is answered, or its client is closed, and the server goes on."""
    lines = (b"wait 1 10", b"role", b"replicaof no one", b"replicaof 127.0.0.1 1", b"replicaof no one", b"promote 10",
             b"failover 127.0.0.1 1", b"failover", b"psync 1 0 - 0 %s 1" % (b"ab" * 16), b"replconf ack 0", b"sync",
             b"stats replication")
    with NoMem() as m, Node(**m.how) as a:
        fill(a.c)
        for line in lines:
            for nth in range(1, 5):
                with a.operator() as c:
                    assert c.ask(b"mn") == b"MN"
                    m.arm(nth, "mayfly-w", 1 if nth < 4 else EVER)
                    c.send(line + b"\r\n")
                    try:
                        said = c.line()
                    except ConnectionError:
                        said = None
                    fired = m.get("fired")
                    m.disarm()
                    assert fired > 0 or said is not None, (line, nth)
                wait_for(lambda: a.c.ask(b"mn") == b"MN", "others are served")
        a.stand_alone()
        assert a.c.set(b"k", b"x") == b"STORED" and a.c.ask(b"wait 0 1000") == b"WAIT 0"
        with Node(of=a.port) as b:
            level(a, b)
            assert_equal(a, b)


def test_without_memory_to_wait_for_a_role_it_stays():
    with NoMem() as m, Node(**m.how) as a, a.operator() as c:
        assert c.ask(b"mn") == b"MN"
        m.arm(1, "mayfly-w", EVER)
        assert c.ask(b"replicaof 127.0.0.1 1") == b"SERVER_ERROR out of memory"
        m.disarm()
        assert c.ask(b"config get replicaof") == b"CONFIG replicaof" and c.line() == b"END"
        assert m.get("fired") >= 1


mayfly.main(globals(), beside=("test_allocations_fail_at_the_replica", "test_allocations_fail_at_the_primary",
                               "test_allocations_fail_for_commands"))
