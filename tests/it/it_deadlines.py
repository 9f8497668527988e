#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Absolute deadlines and the wall clock. A key is never served at or after the millisecond of its deadline, and is
always served before it. pttl never exceeds the requested time. All
verdicts compare the deadline with the wall clock as read before a request or after its answer, so a process that
loses the CPU only makes a try inconclusive. The phase of the clock at the start of the daemon matters, so each test
starts several."""
import contextlib
import time

import mayfly
from mayfly import Daemon

MS = 1000000            # ns
STARTS = 4              # daemons
TRIES = 100             # keys of each
SET_NS = 100 * 1000     # the wall clock was set if it moved by more, in comparison with the other clock


def wall_ns():
    return time.clock_gettime_ns(time.CLOCK_REALTIME)


def wall_ahead_ns():
    """How far the wall clock is ahead of the other: the best of some looks at both."""
    best = None
    for _ in range(20):
        before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        wall = wall_ns()
        taken = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - before
        if best is None or taken < best[0]:
            best = taken, wall - before
    return best[1]


@contextlib.contextmanager
def wall_clock_that_is_not_set():
    """What happens when the wall clock is set is another matter (tests/lib/base/test_clock.c)."""
    ahead = wall_ahead_ns()
    try:
        yield
    finally:
        mayfly.skip_if(abs(wall_ahead_ns() - ahead) > SET_NS, "somebody set the wall clock meanwhile")


def spin_until(ns):
    """Wait for a moment of the wall clock; the last milliseconds without a wake-up that may be late."""
    time.sleep(max(0, (ns - wall_ns() - 5 * MS) / 1e9))
    while wall_ns() < ns:
        pass


def in_phase(i, n):
    """Wait for a part of a millisecond: the i-th of n."""
    spin_until((wall_ns() // MS + 1) * MS + i * MS // n)


def test_pttl_answers_no_more_than_was_asked():
    for _ in range(STARTS):
        with wall_clock_that_is_not_set(), Daemon("-t", "1") as d, d.client() as c:
            assert c.set(b"k", b"v") == b"STORED"
            for i in range(TRIES):
                in_phase(i, TRIES)
                before_ms = wall_ns() // MS
                until_ms = before_ms + 1000
                answer = c.ask(b"pexpireat k %d" % until_ms)
                left = int(c.ask(b"pttl k"))
                until = int(c.ask(b"pexpiretime k"))
                after_ms = wall_ns() // MS
                if after_ms >= until_ms:    # a second was lost
                    c.set(b"k", b"v")
                    continue
                assert answer == b"1", answer
                assert until == until_ms, (until, until_ms)
                # The rest of a millisecond that has begun is not counted.
                assert until_ms - after_ms - 1 <= left <= until_ms - before_ms - 1, (left, until_ms, before_ms, after_ms)


def check_get(c, key, until_ns):
    """Ask, and compare what came with the clock."""
    before_ns = wall_ns()
    value = c.get(key)
    after_ns = wall_ns()
    if value is not None:
        assert before_ns < until_ns, "served %d us after its deadline" % ((before_ns - until_ns) // 1000)
    else:
        assert after_ns >= until_ns, "gone %d us before its deadline" % ((until_ns - after_ns) // 1000)


def check_end(c, key, until_ms):
    """Ask just before the deadline, and at it."""
    for lead_us in (1200, 700, 200, 0):
        spin_until(until_ms * MS - lead_us * 1000)
        check_get(c, key, until_ms * MS)


def test_a_key_goes_with_the_millisecond_of_pexpireat():
    for _ in range(STARTS):
        with wall_clock_that_is_not_set(), Daemon("-t", "1") as d, d.client() as c:
            for i in range(TRIES):
                in_phase(i, TRIES)
                until_ms = wall_ns() // MS + 2
                assert c.set(b"k", b"v") == b"STORED"
                assert c.ask(b"pexpireat k %d" % until_ms) == b"1"
                check_end(c, b"k", until_ms)


def test_a_key_goes_with_the_second_of_an_exptime():
    keys = b"a", b"b", b"c"
    with wall_clock_that_is_not_set(), contextlib.ExitStack() as stack:
        daemons = [stack.enter_context(Daemon("-t", "1")) for _ in range(STARTS)]
        clients = [stack.enter_context(d.client()) for d in daemons]
        until_s = wall_ns() // (1000 * MS) + 2
        for c in clients:
            assert c.set(b"a", b"v", exptime=until_s) == b"STORED"
            assert c.ask(b"ms b 1 T%d\r\nv" % until_s) == b"HD"
            assert c.set(b"c", b"v") == b"STORED"
            assert c.ask(b"expireat c %d" % until_s) == b"1"
            for key in keys:
                check_get(c, key, until_s * 1000 * MS)
                shown = c.ask(b"pexpiretime " + key)
                assert shown in (b"%d" % (until_s * 1000), b"-2"), (key, shown, until_s)
        for lead_us in range(3000, -1, -100):
            spin_until(until_s * 1000 * MS - lead_us * 1000)
            for c in clients:
                for key in keys:
                    check_get(c, key, until_s * 1000 * MS)


mayfly.main(globals())
