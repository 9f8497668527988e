#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What stays resident after a mass death, while nobody asks for anything.

Fills the server, lets all or nine tenths of the items die (deleted, expired or flushed), and then
looks from outside: the resident size after 1, 2, 5, 10 and 20 seconds without a request, and the
CPU time that was spent meanwhile. The goal is 1.1 times what lives + 16 MiB after 10 seconds.

    MAYFLY_BUILDDIR=build tests/bench/limits/deaths.py [-t THREADS] [-n MIB] [CASE ...]
"""
import argparse
import os
import random
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
from mayfly import Daemon, wait_for                                     # noqa: E402

MIB = 1 << 20
LOOKS = (1, 2, 5, 10, 20)
SIZES = {"10B": 10, "1K": 1000, "100K": 100000, "1M": 900000}


def send_all(c, lines):
    batch, size = [], 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if size > 1 << 18:
            c.send(b"".join(batch))
            assert c.ask(b"version").startswith(b"VERSION")
            batch, size = [], 0
    c.send(b"".join(batch))
    assert c.ask(b"version").startswith(b"VERSION")


def fill(c, count, size, exptime):
    value = b"v" * size
    send_all(c, (b"set k%d 0 %d %d noreply\r\n%s\r\n" % (i, exptime, size, value) for i in range(count)))


def die_deleted(c, count, size):
    fill(c, count, size, 0)
    yield
    send_all(c, (b"delete k%d noreply\r\n" % i for i in range(count)))


def die_most(c, count, size):
    """Nine tenths at random are deleted."""
    fill(c, count, size, 0)
    yield
    rng = random.Random(1)
    send_all(c, (b"delete k%d noreply\r\n" % i for i in range(count) if rng.random() < 0.9))


def die_half(c, count, size):
    """Half of the items at random are deleted."""
    fill(c, count, size, 0)
    yield
    rng = random.Random(1)
    send_all(c, (b"delete k%d noreply\r\n" % i for i in range(count) if rng.random() < 0.5))


def die_expired(c, count, size):
    fill(c, count, size, 3600)
    yield
    send_all(c, (b"touch k%d 1 noreply\r\n" % i for i in range(count)))
    wait_for(lambda: c.stat("curr_items") == 0, "all have expired")


def die_flushed(c, count, size):
    fill(c, count, size, 0)
    yield
    assert c.ask(b"flush_all") == b"OK"


CASES = {name[4:]: die for name, die in list(globals().items()) if name.startswith("die_")}


def look(name, die, threads, what, mib):
    count = mib * MIB // (SIZES[what] + 60)
    with Daemon("-m", "1024", "-t", str(threads)) as d, d.client() as c:
        empty = d.rss()
        steps = die(c, count, SIZES[what])
        next(steps)
        full = d.rss()
        next(steps, None)
        began, cpu = time.monotonic(), d.cpu()
        seen = []
        for second in LOOKS:
            time.sleep(max(0, began + second - time.monotonic()))
            seen.append(d.rss())
        cpu = d.cpu() - cpu
        live = c.stat("bytes")
        goal = 1.1 * live + 16 * MIB
        print("%-8s %5s -t %d  live %6.1f  empty %5.1f  full %6.1f  after %s s: %s  cpu %.2f s  %s" % (
            name, what, threads, live / MIB, empty / MIB, full / MIB, "/".join(map(str, LOOKS)),
            " ".join("%6.1f" % (n / MIB) for n in seen), cpu,
            "ok" if seen[LOOKS.index(10)] <= goal else "above %.1f" % (goal / MIB)), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-t", type=int, action="append")
    parser.add_argument("-n", type=int, default=300, help="MiB of items")
    parser.add_argument("-s", action="append", choices=SIZES)
    parser.add_argument("cases", nargs="*", default=[])
    args = parser.parse_args()
    for name in args.cases or CASES:
        for what in args.s or SIZES:
            for threads in args.t or (1, 4):
                look(name, CASES[name], threads, what, args.n)


if __name__ == "__main__":
    main()
