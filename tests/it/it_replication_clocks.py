#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Replication between hosts whose clocks differ and are set: deadlines stay where they are, and a skew is logged."""
import os

import mayfly
import clocks
from clocks import Clocks
from mayfly import wait_for
from proxy import Proxy
from replicas import TRANSIT_MS, Node, level

clocks.skip_without()
HOUR = 3600
COUNT = 100
# The wall clock has no millisecond in common with deadlines once it was set (lib/base/clock.h); and it is read twice.
ROUNDING_MS = 2
# A skew as it is measured: the best message may have been late, if the machine is busy.
SKEW_MS = 2000


def put(c, letter):
    """Items that would be gone, if a step of an hour had anything to do with them."""
    c.send(b"".join(b"ms %s%d 1 p%d q\r\nx\r\n" % (letter, n, 1800000 + 7 * n) for n in range(COUNT)) + b"mn\r\n")
    assert c.line() == b"MN"


def deadlines(c, letter):
    """As unix times of that host, in milliseconds."""
    c.send(b"".join(b"pexpiretime %s%d\r\n" % (letter, n) for n in range(COUNT)))
    found = [int(c.line()) for n in range(COUNT)]
    assert min(found) > 0, (letter, found[:5])
    return found


def assert_moved(was, now, seconds):
    """By the host's wall clock, which was set ahead; so they have not moved."""
    shifts = [b - a - 1000 * seconds for a, b in zip(was, now)]
    assert max(map(abs, shifts)) <= ROUNDING_MS, (min(shifts), max(shifts))


def assert_same(a, b, ahead, letter):
    """Deadlines at the primary and at a replica whose wall clock is some seconds ahead of the primary's. All of one
    full sync are late by the same, which is what its best message took."""
    shifts = [t - s - 1000 * ahead for s, t in zip(deadlines(a.c, letter), deadlines(b.c, letter))]
    assert max(shifts) - min(shifts) <= ROUNDING_MS, (min(shifts), max(shifts))
    assert -ROUNDING_MS <= min(shifts) and max(shifts) <= TRANSIT_MS, (min(shifts), max(shifts))


def step_wall_clocks(at_primary, seconds):
    """The wall clock of one of the two is set; the other host runs for longer, and is five seconds ahead."""
    with Clocks() as ca, Clocks(wall=5, boot=12345.678) as cb, Node(env=ca.env) as a, Proxy(a.port) as p, \
            Node(env=cb.env, of=p.port) as b:
        put(a.c, b"o")
        level(a, b)
        assert_same(a, b, 5, b"o")
        was = [deadlines(n.c, b"o") for n in (a, b)]
        ahead = [0, 5]
        if at_primary:
            ahead[0] = seconds
            ca.set_wall(ahead[0])
        else:
            ahead[1] += seconds
            cb.set_wall(ahead[1])
        skew = ahead[1] - ahead[0]
        # Now, after changes, after a partial sync, and after a full sync.
        for how in ("now", "changes", "partial", "full", "promoted"):
            if how == "changes":
                put(a.c, b"n")
            elif how == "partial":
                p.cut()
                put(a.c, b"p")
            elif how == "full":
                p.cut()
                b.stand_alone()
                b.follow(p.port)        # it has another history now
            level(a, b)
            if how == "promoted":
                b.stand_alone()
            if how in ("now", "changes", "partial"):
                assert_moved(was[1], deadlines(b.c, b"o"), ahead[1] - 5)
            assert_moved(was[0], deadlines(a.c, b"o"), ahead[0])
            assert_same(a, b, skew, b"o")
            if how != "now":
                shifts = [t - s - 1000 * skew for s, t in zip(deadlines(a.c, b"n"), deadlines(b.c, b"n"))]
                assert min(shifts) >= -ROUNDING_MS and max(shifts) <= TRANSIT_MS, (how, min(shifts), max(shifts))
        # What is due goes, on both sides.
        b.follow(p.port)
        assert a.c.ask(b"ms short 1 p300\r\nx") == b"HD"
        level(a, b)
        wait_for(lambda: a.c.get(b"short") is None and b.c.get(b"short") is None, "it expires")
        wait_for(lambda: a.c.stat("curr_items") == b.c.stat("curr_items") == 3 * COUNT, "it is gone on both sides")


def test_steps_of_either_wall_clock_move_no_deadline():
    mayfly.in_parallel(lambda case: step_wall_clocks(*case), [(w, s) for w in (True, False) for s in (HOUR, -HOUR)])


def test_a_step_while_the_primary_is_started_again():
    """Warm, by -e: the history goes on, and so do deadlines."""
    with mayfly.folder(in_memory=True) as folder:
        kept = os.path.join(folder, "items")
        with Clocks() as ca, Node("-e", kept, env=ca.env) as a, Proxy(a.port) as p, Node(of=p.port) as b:
            put(a.c, b"o")
            level(a, b)
            was = deadlines(b.c, b"o")
            assert a.stop() == 0
            ca.set_wall(-HOUR)
            with Node("-e", kept, env=ca.env) as again:
                p.target = again.port
                put(again.c, b"n")
                level(again, b)
                assert "-> syncing" not in b.log().split("-> online", 1)[1]
                assert_moved(was, deadlines(b.c, b"o"), 0)
                for letter in (b"o", b"n"):
                    shifts = [t - s - 1000 * HOUR for s, t in zip(deadlines(again.c, letter), deadlines(b.c, letter))]
                    assert min(shifts) >= -ROUNDING_MS and max(shifts) <= TRANSIT_MS, (min(shifts), max(shifts))


def skew(b):
    return int(b.c.stats(b"replication")["repl_clock_skew_ms"]) / 1000


def wait_for_skew(a, b, seconds):
    def is_shown():
        a.c.set(b"k", b"x")     # so that something is sent at once
        return abs(skew(b) - seconds) < SKEW_MS / 1000
    wait_for(is_shown, "the skew is %d s, not %f" % (seconds, skew(b)))


AHEAD, BEHIND, OVER = "ahead of this one", "behind this one", "agrees with this one again"


def test_a_skew_is_told_once_and_when_it_is_over():
    """The present wall clocks of both servers count, whatever happened before."""
    with Clocks() as ca, Clocks(boot=777) as cb, Node(env=ca.env) as a, Node(env=cb.env, of=a.port) as b:
        def told(*counts):
            wait_for(lambda: tuple(b.log().count(text) for text in (AHEAD, BEHIND, OVER)) == counts,
                     "it was told %s: %s" % (counts, b.log()[-500:]))
        level(a, b)
        wait_for_skew(a, b, 0)
        ca.set_wall(5)
        wait_for_skew(a, b, 5)
        told(1, 0, 0)
        for n in range(20):     # is not logged again with each message
            a.c.set(b"k", b"%d" % n)
            level(a, b)
        told(1, 0, 0)
        cb.set_wall(5)
        wait_for_skew(a, b, 0)
        told(1, 0, 1)
        cb.set_wall(HOUR)
        wait_for_skew(a, b, 5 - HOUR)
        told(1, 1, 1)
        ca.set_wall(HOUR)
        wait_for_skew(a, b, 0)
        told(1, 1, 2)
        assert a.c.stats(b"replication")["repl_clock_skew_ms"] == "0"
        # A primary that was ahead from the start.
        with Clocks(wall=-HOUR, boot=-500) as cc, Node(env=cc.env, of=a.port) as c:
            level(a, c)
            wait_for_skew(a, c, 2 * HOUR)
            wait_for(lambda: c.log().count(AHEAD) == 1, "it is logged")


mayfly.main(globals(), beside=(
    "test_steps_of_either_wall_clock_move_no_deadline", "test_a_step_while_the_primary_is_started_again",
    "test_a_skew_is_told_once_and_when_it_is_over"))
