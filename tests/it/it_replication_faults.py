#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Replication with failing links and servers: a replica has the items of its primary, or its reads miss."""
import itertools
import os
import random
import threading

import mayfly
import replicas
from mayfly import wait_for
from proxy import Plan, Proxy, Scripted
from replicas import Node, assert_equal, level, sealed

SEED = int(os.environ.get("MAYFLY_TEST_SEED", "26"))
READ_ONLY = b"SERVER_ERROR read-only replica"
ID = b"0123456789abcdef" * 2


def noise(n, rng=random.Random(SEED)):
    """Bytes that do not compress."""
    return rng.randbytes(n)


def fill(c, n=20, size=20):
    for at in range(0, n, 100):
        c.send(b"".join(b"ms k%d %d F%d T10000 q\r\n%s\r\n" % (i, size, i, noise(size))
                        for i in range(at, min(at + 100, n))) + b"mn\r\n")
        assert c.line() == b"MN"


def session(b, proxy, plan, change=lambda: None):
    """Make the replica start a session that behaves like this, after a change at the primary; returns the link after
    it has ended."""
    while True:
        change()
        before = len(proxy.links)
        proxy.plans = [plan]
        b.follow(proxy.port)
        wait_for(lambda: len(proxy.links) > before, "it connects")
        link = proxy.links[before]
        wait_for(link.over.is_set, "the session ends, with %d bytes down of %r" % (link.down, vars(plan)))
        # One that the replica had begun by itself is given up, and one may find the last sync at its end.
        if link.was_spoilt:
            return link


def shows_nothing(b):
    return b.state() != "online" and b.c.get(b"k1") is None


# ---- links -----------------------------------------------------------------------------------

def sent_to_a_new_one(a):
    """The bytes of a full sync."""
    with Proxy(a.port, records=True) as p, Node(of=p.port) as b:
        level(a, b)
        data = bytes(p.links[0].recorded)
    return data[:parts(data)[-1][1]]


def parts(data):
    """The first and last byte of each portion in the answers to psync and sync."""
    at, found = data.index(b"\r\n") + 2, []
    while data[at:at + 5] == b"PART ":
        head = data.index(b"\r\n", at) + 2
        n = int(data[at:head].split()[1])
        assert n > 0 and head + n <= len(data)
        found.append((head, head + n))
        at = head + n
    return found


def test_a_full_sync_that_is_cut_at_each_byte():
    with Node() as a:
        fill(a.c, 5, 30)
        whole = sent_to_a_new_one(a)
        assert 200 < len(whole) < 2000, len(whole)
        rng = random.Random(SEED)
        at = list(range(0, 40)) + rng.sample(range(40, len(whole)), 120) + [len(whole) - 1, len(whole) - 2]
        with Proxy(a.port) as p, Node() as b:
            p.only_planned = True
            for n in at:
                session(b, p, Plan(cut=n))
                assert shows_nothing(b), (n, b.role())
            for n in (0, 1, 10, 30, 53, 57):
                session(b, p, Plan(cut_up=n))
                assert shows_nothing(b), (n, b.role())
            p.only_planned = False
            b.follow(p.port)
            level(a, b)
            assert len(assert_equal(a, b)) == 5


def change(c, rng):
    """Something, to one of 60 keys."""
    key = b"k%d" % rng.randrange(60)
    n = rng.choice((0, 1, 20, 500, 3000)) if rng.randrange(40) else 600000
    value = noise(n)
    words = (b"set %s 7 0 %d\r\n%s" % (key, n, value), b"set %s 8 9999 %d\r\n%s" % (key, n, value),
             b"ms %s %d T5000\r\n%s" % (key, n, value), b"add %s 0 0 1\r\n5" % key, b"append %s 0 0 1\r\n6" % key,
             b"incr %s 3" % key, b"touch %s 7000" % key, b"md %s" % key, b"md %s I T8000" % key, b"ms %s 1 C3 I\r\nx" % key,
             b"mg %s N6000" % key, b"persist %s" % key, b"mg %s T7000" % key, b"md %s x" % key,
             b"ms p%s 1 p%d\r\nx" % (key, rng.randrange(1, 300)))
    line = words[rng.randrange(len(words))] if rng.randrange(300) else b"flush_all"
    assert c.ask(line) is not None


def test_random_changes_through_links_that_are_cut():
    rng = random.Random(SEED)
    with Node("-o", "repl_backlog_size=2m") as a, Proxy(a.port) as p, \
            Node("-t", "1", "-o", "repl_backlog_size=2m", of=p.port) as b, \
            Proxy(b.online().port) as q, Node("-t", "3", "-o", "repl_backlog_size=2m", of=q.port) as c:
        for proxy in (p, q):
            proxy.plans = [Plan(cut=rng.randrange(1, 1 << 18)) for _ in range(30)]
        for _ in range(6000):
            change(a.c, rng)
            if rng.randrange(400) == 0:
                rng.choice((p, q)).cut()
            if rng.randrange(1500) == 0:
                p.stall(True)
            elif rng.randrange(200) == 0:
                p.stall(False)
        p.stall(False)
        p.plans, q.plans = [], []
        level(a, b, c)
        wait_for(lambda: all(a.c.ask(b"mg pk%d" % n) == b"EN" for n in range(60)), "what has a deadline is gone")
        assert_equal(a, b, c)


def test_a_block_that_is_damaged_again():
    """It may be so where it comes from, and then only a full sync helps."""
    with Node() as a, Proxy(a.port) as p, Node(of=p.port) as b:
        fill(a.c)
        level(a, b)
        syncs = b.log().count("-> syncing")
        p.only_planned = True
        p.links[-1].close()
        b.wait_for_state("cut")
        a.c.set(b"k1", noise(900))
        for _ in range(2):
            assert b.log().count("-> syncing") == syncs
            session(b, p, Plan(flip=600))
        p.only_planned = False
        b.follow(p.port)
        level(a, b)
        assert b.log().count("-> syncing") == syncs + 1
        # And what comes after it goes on as always.
        a.c.set(b"k2", noise(900))
        level(a, b)
        assert_equal(a, b)
        assert b.log().count("-> syncing") == syncs + 1


def test_stalled_and_half_closed_links():
    with Node("-o", "repl_timeout=1") as a, Proxy(a.port) as p, Node("-o", "repl_timeout=1", of=p.port) as b:
        fill(a.c)
        level(a, b)
        # Nothing happens, but for pings.
        first = p.links[-1]
        seen = first.down
        wait_for(lambda: first.down > seen + 150 or first.over.is_set(), "pings")
        assert not first.over.is_set() and b.state() == "online", b.log()[-600:]
        p.stall(True)
        b.wait_for_state("cut")
        assert b.c.get(b"k1") is not None
        wait_for(lambda: "repl_timeout" in b.log(), "it says why")
        a.c.set(b"k1", b"new")
        p.stall(False)
        level(a, b)
        assert_equal(a, b)
        session(b, p, Plan(half=300))
        level(a, b)
        session(b, p, Plan(stall=300))
        level(a, b)
        # Both ends are there, and nothing is: the primary gives up a replica that is hung.
        with b.paused():
            link = p.links[-1]
            wait_for(link.over.is_set, "the primary gives it up")
        level(a, b)
        assert b.log().count("-> syncing") == 1


def test_data_that_is_too_old():
    with Node() as a, Proxy(a.port) as p, Node("-o", "replica_max_stale=1", of=p.port) as b:
        fill(a.c)
        level(a, b)
        p.is_refusing = True
        p.cut()
        b.wait_for_state("stale")
        assert b.c.get(b"k1") is None and b.c.ask(b"mg k1 v") == b"EN" and b.c.set(b"k1", b"x") == READ_ONLY
        p.is_refusing = False
        level(a, b)
        assert b.c.get(b"k1") is not None and b.log().count("-> syncing") == 1
        p.stall(True)
        wait_for(lambda: b.c.get(b"k1") is None, "it shows nothing without a word")
        p.stall(False)
        level(a, b)


def test_a_chain_gets_too_old():
    with Node() as a, Proxy(a.port) as p, Node("-o", "replica_max_stale=1", of=p.port) as b, \
            Node("-o", "replica_max_stale=1", of=b.online().port) as c:
        fill(a.c)
        level(a, b, c)
        p.is_refusing = True
        p.cut()
        for n in (b, c):
            n.wait_for_state("stale")
            assert n.c.get(b"k1") is None
        wait_for(lambda: "not in sync" in c.c.stats(b"replication")["repl_state_reason"], "it says why it stays stale")
        p.is_refusing = False
        level(a, b, c)
        assert_equal(a, b, c)
        assert [n.log().count("-> syncing") for n in (b, c)] == [1, 1]


def drips(end):
    """A server that says a byte now and then, and never ends its line."""
    while not threading.Event().wait(0.05):
        end.sendall(b"x")


def test_data_gets_too_old_within_an_answer():
    with Node() as a, Proxy(a.port) as p, Node("-o", "replica_max_stale=1,repl_timeout=3600") as b:
        fill(a.c)
        p.plans = [Plan()]
        b.follow(p.port)
        level(a, b)
        # The line of a part comes, and its bytes do not.
        p.links[0].plan.stall_after = b"PART 2"
        assert a.c.set(b"k", noise(2000)) == b"STORED"
        b.wait_for_state("stale")
        assert b.c.get(b"k1") is None and b.c.stats(b"replication")["repl_lag_bytes"] != "0"
        assert not p.links[0].over.is_set() and len(p.links) == 1
        p.cut()
        level(a, b)
        with Scripted(drips) as s:
            p.target = s.port
            p.cut()
            wait_for(lambda: s.count > 0, "it connects")
            b.wait_for_state("stale")


# ---- servers ---------------------------------------------------------------------------------

def test_a_primary_that_is_started_again_empty():
    with Node() as a, Proxy(a.port) as p, Node(of=p.port) as b:
        fill(a.c)
        level(a, b)
        was = replicas.dump(b.c)
        a.crash()
        with Node() as new:
            p.target = new.port
            wait_for(lambda: "another history of the same epoch" in b.log(), "it refuses")
            assert b.state() in ("cut", "stale") and not replicas.differences(was, replicas.dump(b.c))
            assert new.c.set(b"new", b"x") == b"STORED"
            # Given again, in the same words.
            b.follow(p.port)
            level(new, b)
            assert list(assert_equal(new, b)) == [b"new"]
        with Node() as third:
            p.target = third.port
            wait_for(lambda: b.log().count("another history of the same epoch") >= 2, "it refuses again")
            assert b.c.get(b"new") == b"x"
            assert b.c.ask(b"config set replica_follow_cold yes") == b"OK"
            level(third, b)
            assert b.c.get(b"new") is None


def test_an_old_primary_does_not_win():
    """A is cut off, B is promoted; the replica of B does not follow A, whose epoch is lower."""
    with Node() as a, Node(of=a.port) as b:
        fill(a.c)
        level(a, b)
        b.stand_alone()
        with Proxy(b.port) as p, Node(of=p.port) as c:
            level(b, c)
            b.c.set(b"k1", b"b")
            level(b, c)
            p.target = a.port
            p.cut()
            wait_for(lambda: "epoch" in c.log(), "it refuses")
            a.c.set(b"k1", b"a")
            assert c.c.get(b"k1") == b"b" and c.state() in ("cut", "stale")
            p.target = b.port
            c.follow(p.port)
            level(b, c)


def test_a_primary_that_keeps_its_items():
    """By -e it goes on with its history, so that nothing is sent twice."""
    with mayfly.folder(in_memory=True) as folder:
        kept = os.path.join(folder, "items")
        with Node("-e", kept) as a, Proxy(a.port) as p, Node(of=p.port) as b:
            fill(a.c)
            level(a, b)
            was = a.role()
            a.c.set(b"k1", b"last")     # the stop waits until the replica has it
            assert a.stop() == 0
            p.is_refusing = True
            with Node("-e", kept) as again:
                p.target = again.port
                assert again.role()[2:4] == was[2:4]
                again.c.set(b"k2", b"more")
                p.is_refusing = False
                level(again, b)
                assert_equal(again, b)
                assert b.c.get(b"k1") == b"last" and b.log().count("-> syncing") == 1
                assert again.stop() == 0
        # It is not emptied by a server that has nothing, in whose place it is a replica now.
        with Node() as empty, Node("-e", kept, of=empty.port) as again:
            wait_for(lambda: "another history of the same epoch" in again.c.stats(b"replication")["repl_state_reason"],
                     "it does not follow: %s" % again.role())
            assert again.c.stats()["curr_items"] == "20"
        # A replica goes on likewise.
        kept = os.path.join(folder, "replica")
        with Node() as a:
            fill(a.c)
            with Node("-e", kept, of=a.port) as b:
                level(a, b)
                assert b.stop() == 0
            a.c.set(b"k1", b"meanwhile")
            with Node("-e", kept, of=a.port) as b:
                level(a, b)
                assert_equal(a, b)
                assert "-> syncing" not in b.log()
                b.crash()
            with Node("-e", kept, of=a.port) as b:
                level(a, b)
                assert_equal(a, b)


def test_either_side_killed_while_everything_is_sent():
    with Node() as a, Proxy(a.port) as p:
        fill(a.c, 400, 4000)
        with Node() as b:
            p.plans = [Plan(rate=400000)]
            b.follow(p.port)
            wait_for(lambda: p.links and p.links[-1].down > 200000, "it is sent something")
            assert b.state() == "syncing" and b.c.get(b"k1") is None
            b.crash()
        with Node(of=p.port) as b:
            level(a, b)
            assert_equal(a, b)
        with Node() as b:
            p.plans = [Plan(rate=400000)]
            b.follow(p.port)
            before = len(p.links)
            wait_for(lambda: p.links[before - 1].down > 200000, "it is sent something")
            a.crash()
            b.wait_for_state("connecting")
            assert b.c.get(b"k1") is None
            # It has nothing to lose.
            with Node() as new:
                fill(new.c, 3)
                p.target = new.port
                level(new, b)
                assert_equal(new, b)


def test_either_side_killed_in_a_failover():
    with Node("--failover-timeout", "60000") as a, Node(of=a.port) as b:
        fill(a.c)
        level(a, b)
        with a.operator() as c, a.client() as w, b.paused():
            c.send(b"failover\r\n")
            wait_for(lambda: writes_wait(a), "writes are held")
            w.send(b"set held 0 0 1\r\nx\r\n")
            assert a.c.get(b"k1") is not None
            b.crash()
            assert c.line().startswith(b"SERVER_ERROR the link to the replica was cut")
            assert w.line() == b"STORED" and a.state() == "primary"
    with Node() as a, Node(of=a.port) as b:
        fill(a.c)
        level(a, b)
        was = replicas.dump(a.c)
        with b.operator() as c:
            with a.paused():
                c.send(b"promote 60000\r\n")
                b.c.ask(b"role")
                a.crash()
            assert c.line().startswith(b"SERVER_ERROR"), b.log()
        b.stand_alone()
        assert not replicas.differences(was, replicas.dump(b.c))
        assert b.c.set(b"k1", b"x") == b"STORED"


def writes_wait(a):
    """Does a write get no answer at once?"""
    with a.client() as c:
        c.sock.settimeout(0.05)
        try:
            return c.set(b"probe", b"x") != b"STORED"
        except TimeoutError:
            return True


def test_loops():
    with Node() as a, Node(of=a.port) as b:
        fill(a.c)
        level(a, b)
        was = replicas.dump(b.c)
        a.follow(b.port)
        wait_for(lambda: a.log().count("retry in") >= 2 and "retry in" in b.log(), "both refuse")
        assert a.state() != "online" and b.state() == "cut"
        b.stand_alone()
        level(b, a)
        assert_equal(b, a)
        assert not replicas.differences(was, replicas.dump(b.c))
        # Three in a ring.
        with Node(of=a.port) as c:
            level(b, a, c)
            b.follow(c.port)
            wait_for(lambda: "retry in" in b.log().split("primary -> connecting")[-1], "it refuses")
            c.stand_alone()
            level(c, b, a)
            assert_equal(c, b, a)
        with Node() as alone:
            alone.c.set(b"k", b"x")
            alone.follow(alone.port)
            wait_for(lambda: "a server cannot replicate itself" in alone.log(), "it refuses itself")
            alone.stand_alone()
            assert alone.c.set(b"k", b"y") == b"STORED"


# ---- amounts ---------------------------------------------------------------------------------

def test_a_replica_that_is_dropped_is_told_why():
    with Node("-o", "repl_backlog_size=2m") as a, Node(of=a.port) as b:
        level(a, b)
        value = noise(1000)

        def is_dropped():
            a.c.send(b"".join(b"ms n%d 1000 q\r\n%s\r\n" % (i, value) for i in range(5000)) + b"mn\r\n")
            assert a.c.line() == b"MN"
            return a.c.stats(b"replication")["replicas_dropped"] != "0"
        with b.paused():
            wait_for(is_dropped, "it is dropped")
            wait_for(lambda: "bytes: this replica was slower than the changes (it read " in a.log(), "it is logged")
        wait_for(lambda: "the primary says: SERVER_ERROR this replica was slower" in b.log(), "the replica says it, too")
        level(a, b)


# ---- what is no primary ----------------------------------------------------------------------

def say(*pieces, waits=True):
    """A server that sends these pieces, one for each piece of input that it receives."""
    def serve(end):
        for piece in pieces:
            if waits and not end.recv(1 << 16):
                return
            end.sendall(piece)
        while end.recv(1 << 16):
            pass
    return serve


def never_ends(end):
    while True:
        end.sendall(b"x" * 65536)


def never_ends_lines(end):
    end.recv(4096)
    while True:
        end.sendall(sealed(b"PART 0 0 0 0 0 0") * 4000)


def greeting(word=b"FULLSYNC", version=b"1", name=ID, epoch=b"9", offset=b"0", end=b"0", now=b"1800000000000",
             path=b"f" * 32):
    return sealed(b" ".join((word, version, name, epoch, offset, end, now, path)))


ODD_NUMBERS = (b"-1", b"18446744073709551615", b"9223372036854775807", b"99999999999999999999", b"x", b"")


def liars():
    """Servers that speak the language, and say what is not so."""
    yield say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    yield say(b"VALUE a 0 1\r\nx\r\nEND\r\n")
    yield say(b"\r\n" * 1000)
    yield say(b"\0" * 1000 + b"\r\n")
    yield say(b"x" * 200000)
    yield never_ends
    yield never_ends_lines
    yield say(b"HANDOVER\r\n" * 3)
    yield say(greeting(b"CONTINUE"), sealed(b"PART 24 0 0 0 0 0") + b"x" * 24)
    yield say(greeting(b"CONTINUE"), sealed(b"PART 0 0 0 0 0 0"), b"HANDOVER\r\n")
    yield say(greeting(name=b"0" * 32))
    yield say(greeting(path=b"f" * 400))
    for word, n in itertools.product((b"FULLSYNC", b"CONTINUE"), ODD_NUMBERS):
        for which in ("version", "epoch", "offset", "end", "now"):
            yield say(greeting(word, **{which: n}), sealed(b"PART %s 1 2 3 4 5" % n), sealed(b"END %s" % n))
    for n in ODD_NUMBERS:
        yield say(greeting(), b"PART %s\r\n" % n + b"x" * 1000)
        yield say(greeting(), sealed(b"END 0 %s %s %s %s 0" % (ID, n, n, n)), sealed(b"PART 0 %s %s %s %s %s" % (n, n, n, n, n)))
        yield say(greeting(), b"PART 24\r\n" + b"x" * 24)
    yield say(greeting(), sealed(b"END 0 %s 9 0 0 0" % (b"0" * 32)))
    # Numbers that are right, with a sum that is not.
    yield say(greeting().replace(b" 9 ", b" 8 "))
    yield say(greeting(), b"END 0 %s 9 0 0 0 01234567\r\n" % ID)


def test_what_is_no_primary():
    with Node("-o", "repl_timeout=1") as a, Node("-o", "repl_timeout=1") as b:
        fill(a.c)
        for bad in (b"127.0.0.1", b"127.0.0.1 0", b"127.0.0.1 99999", b"a b c", b"no two", b":1", b"[::1 2",
                    b"x" * 300 + b" 1", b"127.0.0.1 1 2", b"\"", b"host,port 1"):
            said = b.c.ask(b"replicaof " + bad)
            assert said is not None and said != b"OK", (bad, said)
        assert b.c.ask(b"replicaof") != b"OK" and b.state() == "primary"
        for serve in liars():
            with Scripted(serve) as liar:
                b.follow(liar.port)
                wait_for(lambda: liar.count > 0, "it connects")
                # It is given up, and looked for again or refused.
                wait_for(lambda: liar.count > 1 or "retry in" in b.log().rsplit("127.0.0.1 %d" % liar.port, 1)[-1],
                         "it is given up")
                assert b.c.ask(b"version") is not None
                if b.state() == "primary":
                    assert "HANDOVER" not in b.log()
        with Scripted(lambda end: None) as closed:
            port = closed.port
        b.follow(port)
        wait_for(lambda: "refused" in b.log(), "nobody is there")
        b.follow(a.port)
        level(a, b)
        assert_equal(a, b)


def test_a_primary_that_sends_nothing():
    """A replica keeps its items until it receives a full sync, and reports the error."""
    with Node() as a, Node(of=a.port) as b:
        fill(a.c)
        level(a, b)
        sync = sent_to_a_new_one(a)
        begins, _ = parts(sync)[0]
        end = sealed(b"END 0 %s 9 0 0 0" % ID)
        for serve, why, keeps in (
                (say(greeting(), b"SERVER_ERROR \x1b[31mbusy\xff\r\n"),
                 "it was not sent everything: SERVER_ERROR ?[31mbusy?", True),
                (say(greeting(), end), "it was sent nothing", True),
                (say(greeting(), b"PART 100\r\n" + sync[begins:begins + 100] + end),
                 "the full sync ended too early", False)):
            with Scripted(serve) as liar:
                b.follow(liar.port)
                wait_for(lambda: b.c.stats(b"replication")["repl_state_reason"].startswith(why),
                         "not %s" % b.c.stats(b"replication")["repl_state_reason"])
                assert b.state() == ("cut" if keeps else "connecting")
                assert (b.c.get(b"k1") is not None) == keeps and (b.c.stats()["curr_items"] == "20") == keeps
        b.follow(a.port)
        level(a, b)
        assert_equal(a, b)


def test_times_of_a_primary_that_sends_nothing():
    """A replica that was sent nothing keeps what it had, and the scale of its deadlines: others continue from it."""
    with Node() as a, Node(of=a.port) as b, Node(of=a.port) as c:
        fill(a.c)
        level(a, b, c, count=2)
        with Scripted(say(greeting(now=b"1000000000000"), b"SERVER_ERROR busy\r\n")) as other:
            b.follow(other.port)
            wait_for(lambda: b.c.stats(b"replication")["repl_state_reason"].endswith("busy"), "it is sent nothing")
            b.stand_alone()
        c.follow(b.port)
        assert b.c.set(b"k", b"v", exptime=1000) == b"STORED"
        level(b, c)
        assert_equal(b, c)
        assert c.log().count("-> syncing") == 1, c.log()


# ---- what is no replica ----------------------------------------------------------------------

def lines_of_nonsense():
    numbers = (b"0", b"1", b"-1", b"18446744073709551615", b"18446744073709551616", b"x", b"")
    ids = (b"-", ID, b"0" * 32, b"f" * 31, b"g" * 32)
    for n in numbers:
        yield b"replconf ack " + n
        yield b"replconf failover %s %s" % (n, n)
        yield b"replconf failover 0 " + n
        yield b"wait %s %s" % (n, b"1")
        yield b"sync " + n
        yield b"psync " + n
        for name, m in itertools.product(ids, numbers):
            yield b"psync 1 %s %s %s %s %s" % (n, name, m, ID, b"1")
    for m in numbers:
        yield b"psync 1 0 - 0 %s %s" % (ID, m)
        yield b"psync %s 0 - 0 %s 1" % (m, ID)
    yield from (b"replconf", b"replconf ack", b"replconf ack 0 0", b"replconf x 0", b"replconf failover", b"role x", b"role",
                b"psync", b"sync", b"psync " + b"x " * 200, b"psync " + b"x" * 1500, b"sync noreply", b"psync noreply")


def last_line(c):
    """Take the answer to sync, and return the line after its portions."""
    while True:
        line = c.line()
        if not line.startswith(b"PART "):
            return line
        c.exactly(int(line.split()[1]))


def test_what_is_no_replica():
    with Node() as a, Node(of=a.port) as b:
        fill(a.c)
        level(a, b)
        count = 0
        for line in lines_of_nonsense():
            with a.client() as c:
                c.send(line + b"\r\nmn\r\n")
                said = c.line()
                assert said is not None, line
                if said.startswith((b"PART", b"FULLSYNC", b"CONTINUE")):
                    count += 1
        assert count > 10
        # A server whose epoch is higher is not sent anything, and ordinary commands go on beside.
        with a.client() as c:
            assert c.ask(b"psync 1 99 - 0 %s 1" % ID) == b"SERVER_ERROR the epoch of this server is lower"
            assert c.ask(b"replconf ack 0").startswith(b"SERVER_ERROR not in sync")
            assert c.ask(b"sync").startswith(b"CLIENT_ERROR usage")
            assert c.ask(b"psync 1 0 - 0 %s 1" % ID).startswith(b"FULLSYNC 1 ")
            assert c.ask(b"get k1") is not None and c.exactly(20 + 2) and c.line() == b"END"
            assert c.ask(b"replconf ack 0").startswith(b"SERVER_ERROR not in sync")
            assert c.ask(b"psync 1 0 - 0 %s 1" % ID).startswith(b"FULLSYNC 1 ")
            c.send(b"sync\r\n")
            assert last_line(c).startswith(b"END ")
        # It goes in each state; each time there is room for another.
        for turn in range(40):
            c = a.client()
            c.send(b"psync 1 0 - 0 %s 1\r\n" % ID)
            assert c.line().startswith(b"FULLSYNC 1 ")
            if turn % 4 > 0:
                c.send(b"sync\r\n")
            if turn % 4 > 1:
                last_line(c)
            if turn % 4 > 2:
                c.send(b"replconf ack 0\r\nreplconf ack 1\r\n")
            (c.reset if turn % 3 else c.close)()
        level(a, b)
        with Node(of=a.port) as other:
            a.c.set(b"k1", b"x")
            level(a, b, other, count=2)
            assert_equal(a, b, other)
        with b.client() as c:       # nor is it at a replica
            assert c.ask(b"psync 1 0 - 0 %s 1" % ID).startswith(b"FULLSYNC 1 ")
            c.send(b"sync\r\n")
            assert last_line(c).startswith(b"END ")
            assert c.ask(b"replconf failover 0 1000").startswith((b"SERVER_ERROR", b"PART"))
            assert b.state() == "online" and a.state() == "primary"


def test_more_replicas_than_there_is_room_for():
    with Node("-o", "repl_timeout=3600") as a:
        fill(a.c)
        held = []
        said = b""
        for n in range(20):
            c = a.client()
            held.append(c)
            c.send(b"psync 1 0 - 0 %032x 1\r\n" % (n + 1))
            said = c.line()
            if not said.startswith(b"FULLSYNC"):
                break
        assert said.startswith(b"SERVER_ERROR") and len(held) == 17, (len(held), said)

        def comes_again():
            with a.client() as c:
                return c.ask(b"psync 1 0 - 0 %032x 1" % 1).startswith(b"FULLSYNC")

        wait_for(comes_again, "one whose link is dead has the place of that link")
        for c in held:
            c.close()
        with Node(of=a.port) as b:
            level(a, b)
            assert_equal(a, b)


mayfly.main(globals(), beside=(
    "test_stalled_and_half_closed_links", "test_data_that_is_too_old", "test_a_primary_that_is_started_again_empty",
    "test_an_old_primary_does_not_win", "test_either_side_killed_while_everything_is_sent", "test_loops",
    "test_what_is_no_primary"))
