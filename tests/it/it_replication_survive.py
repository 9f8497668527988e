#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Replication under failures other than broken links: servers killed in each state and at each place of a chain,
limits and threads that change, exhausted descriptors."""
import contextlib
import os
import resource
import socket
import time

import mayfly
import replicas
from mayfly import wait_for
from proxy import Plan, Proxy
from replicas import Node, Writer, assert_equal, assert_has, level, number

READ_ONLY = b"SERVER_ERROR read-only replica"


def fill(c, n=20, size=20):
    for at in range(0, n, 100):
        c.send(b"".join(b"ms k%d %d F%d T10000 q\r\n%s\r\n" % (i, size, i, mayfly.pattern(b"%d" % i, size))
                        for i in range(at, min(at + 100, n))) + b"mn\r\n")
        assert c.line() == b"MN"


def keeps_up(primary, *nodes):
    """They are online and have all earlier changes; further changes are made meanwhile."""
    for n in nodes:
        n.online()
    assert primary.c.ask(b"wait 1 100000") == b"WAIT 1"


# ---- killed in each state --------------------------------------------------------------------

@contextlib.contextmanager
def catching_up(a, p):
    """A replica that was sent everything, and then nothing of what it needs to be of one moment."""
    while True:
        p.plans = [Plan(stall_after=b"END ")]
        with Node() as b:
            before = len(p.links)
            b.follow(p.port)
            wait_for(lambda: b.state() in ("catching_up", "online"), "it has everything")
            wait_for(lambda: len(p.links) > before, "the link is known")
            # It has nothing to catch up with, if nothing was changed at that moment.
            if b.state() == "catching_up" and p.links[before].was_spoilt:
                yield b
                return


def test_either_side_killed_while_it_catches_up():
    with Node() as a, Proxy(a.port) as p:
        fill(a.c, 200, 1000)
        with Writer(a) as w:
            with catching_up(a, p) as b:
                assert b.c.get(b"k1") is None and b.c.get(b"n1") is None and b.c.set(b"k1", b"x") == READ_ONLY
                b.crash()
            w.wait_for_more(10)
            with Node(of=p.port) as b:
                keeps_up(a, b)
                w.end()
                level(a, b)
                assert_equal(a, b)
        with Writer(a) as w, catching_up(a, p) as b:
            a.crash()
            p.cut()
            b.wait_for_state("connecting")
            # What it has is of several moments: it never shows that, also as a primary.
            assert b.c.get(b"k1") is None and b.c.get(b"n1") is None
            b.stand_alone()
            assert b.c.get(b"k1") is None and b.c.get(b"n1") is None and b.c.stat("curr_items") == 0
            assert b.c.set(b"k1", b"x") == b"STORED"


def test_the_primary_killed_under_load():
    """All changes that a replica has acknowledged are present when it is promoted, and nothing older."""
    with Node() as a, Node(of=a.port) as b, Node(of=b.online().port) as c:
        fill(a.c, 500)
        level(a, b, c)
        assert a.c.ask(b"delete k7") == b"DELETED"
        with Writer(a) as w:
            w.wait_for_more(300)
            known = dict(w.confirmed)
            assert a.c.ask(b"wait 1 100000") == b"WAIT 1"
            w.wait_for_more(100)
            a.crash()
            b.wait_for_state("cut")
            written = w.end()
        b.stand_alone()
        level(b, c)
        assert_has(b.c, known)
        for key in range(16):
            assert number(b.c.get(b"n%d" % key)) <= written[key] + 16
        assert b.c.get(b"k7") is None and b.c.get(b"k8") is not None
        assert_equal(b, c)
        assert c.log().count("-> syncing") == 1, c.log()


def test_a_replica_killed_under_load():
    with Node() as a, Proxy(a.port) as p:
        fill(a.c, 500)
        with Writer(a) as w:
            for state in ("online", "cut", "stale"):
                with Node("-o", "replica_max_stale=1", of=p.port) as b:
                    b.online()
                    w.wait_for_more(50)
                    if state != "online":
                        p.is_refusing = True
                        p.cut()
                        b.wait_for_state(state)
                    b.crash()
                    p.is_refusing = False
                    w.wait_for_more(50)
            with Node(of=p.port) as b:
                b.online()
                w.wait_for_more(50)
                w.end()
                level(a, b)
                assert_equal(a, b)


def test_a_handover_that_is_lost():
    """The handover does not arrive: there is no primary until the operator names one. Nothing is lost."""
    with Node("--failover-timeout", "60000") as a, Proxy(a.port) as p:
        p.plans = [Plan(cut_before=b"HANDOVER")]
        with Node(of=p.port) as b:
            fill(a.c)
            level(a, b)
            with Writer(a) as w:
                w.wait_for_more(50)
                p.is_refusing = True
                said = a.c.ask(b"failover")
                assert said == b"OK", said
                wait_for(lambda: p.links[0].was_spoilt, "the word is lost")
                confirmed = w.end()
            assert a.role()[0] == "replica" and b.role()[0] == "replica"
            assert a.c.set(b"k", b"x") == READ_ONLY and b.c.set(b"k", b"x") == READ_ONLY
            wait_for(lambda: "not in sync" in a.log(), "it cannot follow who is no primary")
            b.stand_alone()
            level(b, a)
            assert_has(b.c, confirmed)
            assert_equal(b, a)
            assert "-> syncing" not in a.log()


def test_a_handover_waits_for_a_replica_that_lags():
    with Node("--failover-timeout", "60000") as a, Proxy(a.port) as p, Node(of=p.port) as b:
        fill(a.c)
        level(a, b)
        for by_replica in (True, False):
            p.plans, links = [Plan(rate=4000000)], len(p.links)
            p.cut()
            wait_for(lambda: len(p.links) > links, "it connects again")
            level(a, b)
            p.stall(True)
            for n in range(200):
                assert a.c.set(b"n%d" % n, os.urandom(10000)) == b"STORED"
            was = a.c.get(*[b"n%d" % n for n in range(200)])
            p.stall(False)
            if not by_replica:
                assert a.c.ask(b"failover") == b"OK"
            else:
                assert b.c.ask(b"promote 60000") == b"OK"
            wait_for(lambda: b.state() == "primary" and a.role()[0] == "replica", "the roles have changed")
            assert b.c.get(*[b"n%d" % n for n in range(200)]) == was
            level(b, a)
            # And back.
            assert b.c.ask(b"failover") == b"OK"
            wait_for(lambda: b.role()[0] == "replica", "the roles have changed")
            b.follow(p.port)
            level(a, b)


def test_either_side_killed_once_it_was_handed_over():
    for first in (True, False):
        with Node("--failover-timeout", "60000") as a, Node(of=a.port) as b:
            fill(a.c)
            level(a, b)
            with Writer(a) as w:
                w.wait_for_more(50)
                assert a.c.ask(b"failover") == b"OK"
                (a if first else b).crash()
                confirmed = w.end()
            if first:
                wait_for(lambda: b.state() == "primary", "it has taken over")
                assert_has(b.c, confirmed)
                assert b.c.set(b"k", b"x") == b"STORED"
            else:
                # It follows a server that is gone, and never takes over by itself.
                wait_for(lambda: "refused" in a.c.stats(b"replication")["repl_state_reason"], "it looks for the primary")
                assert a.role()[0] == "replica" and a.c.set(b"k", b"x") == READ_ONLY
                a.stand_alone()
                assert_has(a.c, confirmed)
                assert a.c.get(b"k1") is not None
                assert a.c.set(b"k", b"x") == b"STORED"


# ---- chains ----------------------------------------------------------------------------------

def test_the_middle_of_a_chain_killed_under_load():
    with Node() as a, Proxy(a.port) as up, Node(of=up.port) as b, Proxy(b.online().port) as p, Node(of=p.port) as c:
        fill(a.c, 300)
        level(a, b, c)
        with Writer(a) as w:
            w.wait_for_more(100)
            b.crash()
            c.wait_for_state("cut")
            assert c.c.get(b"k1") is not None
            w.wait_for_more(100)
            # Started again: a full sync is running, and then the last one is level again.
            with Node(of=a.port) as new:
                p.target = new.port
                keeps_up(a, new, c)
                w.wait_for_more(100)
                keeps_up(a, new, c)
                new.crash()
            c.wait_for_state("cut", "stale")
            # Removed: the last one goes on with the first, where it was.
            syncs = c.log().count("-> syncing")
            c.follow(up.port)
            w.wait_for_more(100)
            w.end()
            level(a, c)
            assert_equal(a, c)
            assert c.log().count("-> syncing") == syncs, c.log()


def test_each_of_a_chain_promoted_in_turn():
    """By a handover, so that nothing is lost and nobody is sent everything; each follows the one that it is given."""
    more = ("--failover-timeout", "60000")
    with Node(*more) as a, Node(*more, of=a.port) as b, Node(*more, of=b.online().port) as c:
        fill(a.c, 300)
        level(a, b, c)
        syncs = [n.log().count("-> syncing") for n in (a, b, c)]
        chain = [a, b, c]
        for turn in range(6):
            first, second, last = chain
            with Writer(first) as w:
                w.wait_for_more(30)
                assert second.c.ask(b"promote 60000") == b"OK", second.log()
                confirmed = w.end()
            wait_for(lambda: second.state() == "primary" and first.role()[0] == "replica", "the roles have changed")
            # The first goes to the end.
            first.follow(last.port)
            assert second.c.set(b"turn", b"%d" % turn) == b"STORED"
            level(second, last, first)
            assert_has(second.c, confirmed)
            assert_equal(second, last, first)
            chain = [second, last, first]
        assert [n.log().count("-> syncing") for n in (a, b, c)] == syncs, [n.log()[-1000:] for n in (a, b, c)]


# ---- deadlines -------------------------------------------------------------------------------

def test_changes_that_arrive_after_the_deadline():
    """They were made before the promotion: items with a prolonged deadline exist, the others have expired."""
    with Node() as a, Proxy(a.port) as p, Node(of=p.port) as b:
        words = {b"incr": b"incr %s 1", b"decr": b"decr %s 1", b"append": b"append %s 0 0 1\r\n7",
                 b"prepend": b"prepend %s 0 0 1\r\n7", b"touch": b"touch %s 5000", b"gat": b"gat 5000 %s",
                 b"mg": b"mg %s T5000", b"md": b"md %s I T5000", b"ma": b"ma %s T5000", b"ms": b"ms %s 1 MA\r\n7",
                 b"persist": b"persist %s", b"pexpire": b"pexpire %s 5000000", b"touched": b"touch %s 5000"}
        stays = {b"touch", b"gat", b"mg", b"md", b"ma", b"persist", b"pexpire", b"touched"}

        def all_in_time():
            """Let all changes be made before the deadline and arrive after it; false: the machine was too slow."""
            assert all(a.c.ask(b"ms %s 1 p1000\r\n5" % key) == b"HD" for key in words)
            level(a, b)
            p.stall(True)
            for key, line in words.items():
                a.c.send(line % key + b"\r\nmn\r\n")
                said = []
                while (word := a.c.line()) != b"MN":
                    said.append(word)
                if said in ([b"NOT_FOUND"], [b"NF"], [b"EN"], [b"NS"], [b"END"], [b"0"], [b"NOT_STORED"]):
                    p.stall(False)
                    return False
            a.c.ask(b"append touched 0 0 1\r\n7")
            for key in words:
                wait_for(lambda: b.c.ask(b"mg %s" % key) == b"EN", "%s is due at the replica" % key)
            p.stall(False)
            return True
        wait_for(all_in_time, "a try in time")
        level(a, b)
        wait_for(lambda: a.c.get(*words).keys() == stays, "the others are gone: %s" % a.c.get(*words).keys())
        wait_for(lambda: b.c.get(*words).keys() == stays, "and at the replica: %s" % b.c.get(*words).keys())
        found = assert_equal(a, b)
        assert found[b"touched"][0] == b"57"
        wait_for(lambda: a.c.stat("curr_items") == b.c.stat("curr_items") == len(stays), "and collected")


def touch_in_time(a, keys, before, ms=700):
    """Give the keys a deadline, do something, and prolong them before it comes; false: the machine was too slow."""
    assert all(a.c.ask(b"ms %s 1 p%d\r\n5" % (key, ms)) == b"HD" for key in keys)
    assert a.c.ask(b"ms canary 1 p%d\r\nx" % (ms + 200)) == b"HD"
    before()
    return all([a.c.ask(b"touch %s 5000" % key) == b"TOUCHED" for key in keys])


def test_deadlines_that_come_before_what_prolongs_them():
    """In a later part of the stream, or of a full sync: the replica removes no item before that."""
    keys = [b"t%d" % n for n in range(50)]
    with Node() as a, Proxy(a.port) as p, Node(of=p.port) as b:
        def a_later_part():
            def cut_off():
                level(a, b)
                p.is_refusing = True
                p.cut()
                b.wait_for_state("cut")
                assert a.c.set(b"large", os.urandom(900000)) == b"STORED"
            if not touch_in_time(a, keys, cut_off):
                p.is_refusing = False
                return False
            wait_for(lambda: a.c.get(b"canary") is None, "the deadline has passed")
            before = len(p.links)
            p.plans = [Plan(stall=600000)]
            p.is_refusing = False
            wait_for(lambda: len(p.links) > before and p.links[before].down >= 600000, "a part of it comes")
            # At the replica it may come later, by what the best message took.
            wait_for(lambda: not b.c.get(*keys), "they are due at the replica")
            # It would not take long, if it did so.
            until = time.monotonic() + 0.3
            while b.c.stat("curr_items") > len(keys) and time.monotonic() < until:
                time.sleep(0.01)
            assert b.c.stat("curr_items") > len(keys), b.c.stat("curr_items")
            p.cut()
            return True
        wait_for(a_later_part, "a try in time")
        level(a, b)
        assert len(b.c.get(*keys)) == len(keys), sorted(b.c.get(*keys))
        assert_equal(a, b)
        # The same while it catches up.
        b.crash()

        def a_full_sync():
            with Writer(a) as w:
                new = []

                def sync():
                    c = stack.enter_context(catching_up(a, p))
                    w.end()
                    new.append(c)
                with contextlib.ExitStack() as stack:
                    if not touch_in_time(a, keys, sync, 2000):
                        return False
                    c = new[0]
                    wait_for(lambda: a.c.get(b"canary") is None, "the deadline has passed")
                    assert c.state() == "catching_up" and c.c.stat("curr_items") >= len(keys)
                    p.cut()
                    level(a, c)
                    assert len(c.c.get(*keys)) == len(keys), sorted(c.c.get(*keys))
                    assert_equal(a, c)
                    return True
        wait_for(a_full_sync, "a try in time")


PAST = [b"-1", b"1000000000"]   # relative, and a date


def past_words():
    """A time in the past, by each command that sets one. The key has a value before, unless it must be new."""
    for t in PAST:
        yield from (b"set %%s 0 %s 1\r\nx" % t, b"replace %%s 0 %s 1\r\nx" % t, b"touch %%s %s" % t, b"gat %s %%s" % t,
                    b"gats %s %%s" % t, b"ms %%s 1 T%s\r\nx" % t, b"ms %%s 1 MR T%s\r\nx" % t, b"ms %%s 1 MA T%s\r\nx" % t,
                    b"ms %%s 1 I T%s C1\r\nx" % t, b"mg %%s T%s" % t, b"mg %%s v T%s" % t, b"ma %%s T%s" % t,
                    b"md %%s I T%s" % t, b"md %%s x T%s" % t)
    yield from (b"expire %s 0", b"expire %s -1", b"pexpire %s 0", b"pexpire %s -5", b"expireat %s 1", b"pexpireat %s 1000",
                b"mg %s p0", b"mg %s p1", b"ms %s 1 p1\r\nx", b"ms %s 1 p0\r\nx")


def new_words():
    for t in PAST:
        yield from (b"add %%s 0 %s 1\r\nx" % t, b"set %%s 0 %s 1\r\nx" % t, b"ms %%s 1 ME T%s\r\nx" % t,
                    b"mg %%s N%s v" % t, b"ma %%s N%s J5" % t, b"ms %%s 1 MA N%s\r\nx" % t, b"ma %%s N%s J5 T%s" % (t, t))


def test_times_that_have_passed():
    with Node("-o", "active_expire=no") as a, Node(of=a.port) as b:
        keys = []

        def name(kind):
            keys.append(b"%s%d" % (kind, len(keys)))
            return keys[-1]
        with a.client() as c:
            for line in list(past_words()):
                key = name(b"p")
                assert a.c.set(key, b"5", 5000) == b"STORED"
                c.send(line % key + b"\r\nmn\r\n")
                while (said := c.line()) != b"MN":
                    assert said is not None and b"ERROR" not in said, (line, said)
            for line in new_words():
                c.send(line % name(b"n") + b"\r\nmn\r\n")
                while (said := c.line()) != b"MN":
                    assert said is not None and b"ERROR" not in said, (line, said)
            got = a.c.ask(b"mg cased c")
            assert a.c.set(b"cased", b"5") == b"STORED"
            got = a.c.ask(b"mg cased c").split(b" c")[1]
            assert a.c.ask(b"cas cased 0 -1 1 %s\r\nx" % got) == b"STORED"
            keys.append(b"cased")
        level(a, b)
        # Of those that do not exist there may be something at neither side, now or once all is collected.
        for last in (False, True):
            def shown(n):
                return {key for key in keys if n.c.ask(b"mg %s" % key) != b"EN"}
            wait_for(lambda: shown(a) == shown(b), "%s is shown, not %s" % (shown(a), shown(b)))
            if last:
                wait_for(lambda: not replicas.differences(replicas.dump(a.c), replicas.dump(b.c)), "they are the same")
            else:
                assert a.c.ask(b"config set active_expire yes") == b"OK"
                wait_for(lambda: a.c.stat("curr_items") == b.c.stat("curr_items"), "the same are collected")
        # Nor a flush that has passed.
        for line in (b"flush_all -1", b"flush_all 1000000000", b"flush_all 0"):
            assert a.c.set(b"k", b"x") == b"STORED"
            level(a, b)
            assert a.c.ask(line) == b"OK"
            level(a, b)
            assert a.c.get(b"k") == b.c.get(b"k"), line
            assert_equal(a, b)


def test_a_replica_that_collects_nothing():
    """active_expire no, and a hold, at the replica: it shows nothing that is due, and lets it go at last."""
    with Node() as a, Node("-o", "active_expire=no", of=a.port) as b:
        assert b.c.ask(b"expire_hold 600") == b"OK"

        def are_there():
            """All of them, before the deadline; false: the machine was too slow."""
            for n in range(100):
                assert a.c.ask(b"ms e%d 1 p500\r\nx" % n) == b"HD"
            level(a, b)
            return b.c.stat("curr_items") == 100
        wait_for(are_there, "a try in time")
        wait_for(lambda: a.c.stat("curr_items") == 0, "the primary lets them go")
        # The replica's clock is slower by the time of a message: it may show them for as long.
        wait_for(lambda: not b.c.get(*[b"e%d" % n for n in range(100)]), "the replica hides them")
        assert b.c.stat("curr_items") == 100, b.c.stat("curr_items")
        # Written again meanwhile, some of them.
        for n in range(0, 100, 2):
            assert a.c.ask(b"add e%d 0 0 1\r\ny" % n) == b"STORED"
        level(a, b)
        assert len(b.c.get(*[b"e%d" % n for n in range(100)])) == 50
        assert b.c.ask(b"expire_hold 0") == b"OK" and b.c.ask(b"config set active_expire yes") == b"OK"
        wait_for(lambda: b.c.stat("curr_items") == 50, "the replica lets them go")
        assert len(assert_equal(a, b)) == 50
        # Promoted with due items that it held, it lets them go by its own clock.
        for n in range(50):
            assert a.c.ask(b"ms f%d 1 p300\r\nx" % n) == b"HD"
        level(a, b)
        a.crash()
        wait_for(lambda: not b.c.get(*[b"f%d" % n for n in range(50)]), "they are due")
        b.stand_alone()
        wait_for(lambda: b.c.stat("curr_items") == 50, "it lets them go as a primary")


def test_many_keys_due_while_the_primary_restarts():
    with mayfly.folder(in_memory=True) as folder:
        kept = os.path.join(folder, "items")
        count = 5000
        lines = b"".join(b"ms e%d 1 p4000 q\r\nx\r\n" % n for n in range(count)) + b"mn\r\n"
        with Node("-e", kept) as a, Proxy(a.port) as p, Node(of=p.port) as b:
            fill(a.c)
            a.c.send(lines)
            assert a.c.line() == b"MN"
            level(a, b)
            assert a.stop() == 0
            p.is_refusing = True
            wait_for(lambda: b.c.ask(b"mg e%d" % (count - 1)) == b"EN", "they are due")
            # Nobody has said that they are gone.
            assert b.c.stat("curr_items") > 20
            assert not b.c.get(*[b"e%d" % n for n in range(100)])
            with Node("-e", kept) as again:
                p.target = again.port
                # Before the replica hears of it.
                assert again.c.ask(b"add e0 0 0 1\r\ny") == b"STORED"
                p.is_refusing = False
                level(again, b)
                wait_for(lambda: again.c.stat("curr_items") == b.c.stat("curr_items") == 21, "both let them go")
                assert len(assert_equal(again, b)) == 21 and "-> syncing" not in b.log().split("-> online", 1)[1]
                # Cold: the replica is not emptied, shows nothing that is due, and takes over.
                again.c.send(lines)
                assert again.c.line() == b"MN"
                level(again, b)
                again.crash()
                os.unlink(kept)
            with Node("-e", kept) as empty:
                p.target = empty.port
                wait_for(lambda: "another history" in b.log() or "epoch is lower" in b.log(), "it is refused")
                wait_for(lambda: b.c.ask(b"mg e%d" % (count - 1)) == b"EN", "they are due")
                assert b.c.get(b"k1") is not None and not b.c.get(*[b"e%d" % n for n in range(1, 100)])
                b.stand_alone()
                wait_for(lambda: b.c.stat("curr_items") == 20, "it lets them go as a primary")


# ---- limits ----------------------------------------------------------------------------------

def test_limits_that_change_on_both_sides():
    with Node("-m", "128") as a, Node("-m", "128", of=a.port) as b:
        fill(a.c, 6000, 10000)
        level(a, b)
        assert b.c.stat("curr_items") == a.c.stat("curr_items") == 6000
        with Writer(a, 64, 5000) as w:
            w.wait_for_more(50)
            for n, mib in ((b, 70), (a, 70), (b, 128), (a, 128)):
                assert n.c.ask(b"cache_memlimit %d" % mib) == b"OK"
                wait_for(lambda: n.c.stat("bytes") <= mib << 20 and n.c.stat("limit_maxbytes") == mib << 20,
                         "it has come down to its limit")
                w.wait_for_more(50)
                keeps_up(a, b)
            confirmed = w.end()
        level(a, b)
        assert_has(b.c, confirmed)
        # Nothing that one of them dropped has come back with another value, and nothing is there that the primary lacks.
        for at in range(0, 6000, 100):
            keys = [b"k%d" % n for n in range(at, at + 100)]
            at_a, at_b = a.c.get(*keys), b.c.get(*keys)
            assert at_b.items() <= at_a.items(), at
        assert b.log().count("-> syncing") == 1


def test_links_evict_nothing_at_the_primary():
    """Its ring and the copies of what is sent are counted, and there is room for them."""
    with Node("-m", "100") as a:
        fill(a.c, 7000, 10000)
        assert a.c.stat("evictions") == 0 and a.c.stat("curr_items") == 7000
        with Proxy(a.port) as p, Node("-m", "200", of=a.port) as b:
            level(a, b)
            # More of them, of which some never read.
            stalled = [a.client(rcvbuf=4096) for _ in range(4)]
            for n, c in enumerate(stalled):
                c.send(b"psync 1 0 - 0 %032x 1\r\n" % (n + 1))
                assert c.line().startswith(b"FULLSYNC")
                c.send(b"sync\r\n")
            with Writer(a, 64, 5000) as w:
                w.wait_for_more(2000)
                w.end()
            assert a.c.stat("evictions") == 0 and a.c.stat("curr_items") == 7064
            for c in stalled:
                c.close()
            with Node("-m", "200", of=p.port) as other:
                level(a, b, other, count=2)
                assert b.c.stat("curr_items") == other.c.stat("curr_items") == 7064
            assert a.c.stat("evictions") == 0 and a.c.stat("curr_items") == 7064


# ---- threads, and slots that move ------------------------------------------------------------

def test_other_threads_after_a_restart_of_either_side():
    """With -e the items stay and slots move to other shards, while it is followed and follows."""
    with mayfly.folder(in_memory=True) as folder:
        first, second = os.path.join(folder, "a"), os.path.join(folder, "b")

        def changes(n):
            with Writer(n) as w:
                w.wait_for_more(200)
                w.end()
        a = Node("-e", first)
        with contextlib.ExitStack() as stack:
            p = stack.enter_context(Proxy(a.port))
            b = Node("-e", second, of=p.port)
            try:
                fill(a.c, 2000, 100)
                level(a, b)
                syncs = 1
                for threads in ("4", "1", "3"):
                    changes(a)
                    p.is_refusing = True
                    assert a.stop() == 0
                    a.kill()
                    a = Node("-e", first, "-t", threads)
                    p.target = a.port
                    changes(a)
                    p.is_refusing = False
                    level(a, b)
                    assert b.stop() == 0 and b.log().count("-> syncing") == syncs, b.log()
                    syncs = 0
                    changes(a)
                    b.kill()
                    b = Node("-e", second, "-t", threads, of=p.port)
                    changes(a)
                    level(a, b)
                    assert len(assert_equal(a, b)) == 2016
                    assert "-> syncing" not in b.log(), b.log()
            finally:
                a.kill()
                b.kill()


# ---- descriptors -----------------------------------------------------------------------------

def descriptors(n):
    return len(os.listdir("/proc/%d/fd" % n.pid))


@contextlib.contextmanager
def no_descriptors(n):
    """It cannot open another one."""
    was = resource.prlimit(n.pid, resource.RLIMIT_NOFILE)
    held = max(int(fd) for fd in os.listdir("/proc/%d/fd" % n.pid)) + 1
    resource.prlimit(n.pid, resource.RLIMIT_NOFILE, (0, was[1]))
    try:
        yield held
    finally:
        resource.prlimit(n.pid, resource.RLIMIT_NOFILE, was)


def test_descriptors_run_out_at_the_replica():
    with Node() as a, Proxy(a.port) as p, Node(of=p.port) as b:
        fill(a.c)
        level(a, b)
        with no_descriptors(b):
            p.cut()
            b.wait_for_state("cut")
            wait_for(lambda: "Too many open files" in b.log(), "it says so")
            assert b.c.get(b"k1") is not None
            a.c.set(b"k1", b"new")
        level(a, b)
        assert b.c.get(b"k1") == b"new" and b.log().count("-> syncing") == 1
        # From the start of a full sync on.
        b.stand_alone()
        with no_descriptors(b):
            b.follow(p.port)
            wait_for(lambda: b.log().count("Too many open files") >= 2, "it says so")
        level(a, b)
        assert_equal(a, b)


def test_descriptors_run_out_at_the_primary():
    with Node() as a, Proxy(a.port) as p, Node("-o", "repl_timeout=3", of=p.port) as b:
        fill(a.c)
        level(a, b)
        with no_descriptors(a):
            p.cut()
            b.wait_for_state("cut")
            a.c.set(b"k1", b"new")
            links = len(p.links)
            wait_for(lambda: len(p.links) > links, "the replica tries again")
            wait_for(lambda: "descriptor" in a.log() or "Too many open files" in a.log(), "it says so")
            assert b.c.get(b"k1") is not None and b.state() == "cut"
        level(a, b)
        assert b.c.get(b"k1") == b"new" and b.log().count("-> syncing") == 1
        with no_descriptors(a), Node(of=p.port) as c:
            wait_for(lambda: c.state() == "connecting", "it is not served")
        with Node(of=p.port) as c:
            level(a, c)
            assert_equal(a, c)


# ---- clients that wait -----------------------------------------------------------------------

def test_who_waits_and_goes_leaves_nothing():
    with Node() as a:
        before = a.c.stat("curr_connections")
        for go in (mayfly.Client.close, mayfly.Client.reset):
            for make in (a.client, a.operator):
                c = make()
                c.send(b"wait 9 86400000\r\n")
                assert a.c.ask(b"mn") == b"MN"
                go(c)
        wait_for(lambda: a.c.stat("curr_connections") == before, "they are noticed")
        # A client that only closes its side is answered, if not for as long.
        with a.client() as c:
            c.send(b"wait 9 86400000\r\n")
            c.sock.shutdown(socket.SHUT_WR)
            assert c.line() == b"WAIT 0" and c.rest() == b""
        with Node(of=a.port) as b, a.client() as c:
            level(a, b)
            c.send(b"wait 1 86400000\r\n")
            c.sock.shutdown(socket.SHUT_WR)
            assert c.line() == b"WAIT 1" and c.rest() == b""


mayfly.main(globals(), beside=(
    "test_either_side_killed_once_it_was_handed_over", "test_changes_that_arrive_after_the_deadline",
    "test_a_replica_that_collects_nothing", "test_many_keys_due_while_the_primary_restarts",
    "test_descriptors_run_out_at_the_replica", "test_descriptors_run_out_at_the_primary",
    "test_a_handover_that_is_lost", "test_deadlines_that_come_before_what_prolongs_them",
    "test_a_handover_waits_for_a_replica_that_lags"))
