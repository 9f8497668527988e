#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Stores at the limit while very many keys fall due in the same second.

Fills the server up to its limit with small items that all fall due at one second, and has 20
clients store 2 KB (half of them) or 300 KB (the others) from that second on. Prints
how many stores were refused, how long they waited, and what the engine did meanwhile. The goal:
none is refused, none waits longer than 50 ms. With --null the items fall due an hour later: what is
left of the waits is what evicting, the clients and the machine cost.

    MAYFLY_BUILDDIR=build tests/bench/limits/storm.py [-m MIB] [-t THREADS] [--seconds N] [--null] [--args ...]
"""
import argparse
import multiprocessing
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
from mayfly import Client, Daemon                                       # noqa: E402

CLIENTS = 20
KEYS_A_MIB = 7800       # of 64 bytes: with index and wheel they fill the limit


def fill(c, count, due):
    value = b"v" * 64
    tail = b" 0 %d 64 noreply\r\n%s\r\n" % (due, value)
    for i in range(0, count, 4000):
        c.send(b"".join(b"set k%d%s" % (n, tail) for n in range(i, min(i + 4000, count))))
        assert c.ask(b"version").startswith(b"VERSION")


def store(path, number, size, begin, until, out):
    """One client. Tells how many stores it made, how many were refused, and all waits in seconds."""
    waits, refused, answers = [], 0, {}
    value = b"s" * size
    with Client(path) as c:
        i = 0
        time.sleep(max(0, begin - time.time()))
        while time.time() < until:
            began = time.monotonic()
            answer = c.set(b"c%d.%d" % (number, i % 1000), value)
            waits.append(time.monotonic() - began)
            if answer != b"STORED":
                refused += 1
                answers[answer] = answers.get(answer, 0) + 1
            i += 1
    out.put((size, refused, answers, waits))


def at(waits, share):
    return sorted(waits)[min(len(waits) - 1, int(len(waits) * share))] * 1000 if waits else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", type=int, default=1400)
    parser.add_argument("-t", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--sizes", default="2000,300000")
    parser.add_argument("--null", action="store_true", help="the same, but nothing falls due")
    parser.add_argument("--args", default="")
    args = parser.parse_args()
    count = args.m * KEYS_A_MIB
    sizes = [int(n) for n in args.sizes.split(",")]
    with Daemon("-m", str(args.m), "-t", str(args.t), *args.args.split()) as d, d.client() as c:
        began = time.monotonic()
        fill(c, count // 20, int(time.time()) + 3600)
        due = int(time.time() + 6 + 45 * (time.monotonic() - began))
        began = time.monotonic()
        fill(c, count, due + 3600 * args.null)
        print("-m %d -t %d: %d items in %.1f s, %d evicted; resident %d MiB" % (
            args.m, args.t, count, time.monotonic() - began, c.stat("evictions"), d.rss() >> 20), flush=True)
        time.sleep(max(0, due - 1 - time.time()))
        before, shards = c.stats(), {n: c.shard_sum(n) for n in ("mayfly_room_waits", "cursor_cleaned", "cursor_evicted")}
        out = multiprocessing.Queue()
        until = due + args.seconds
        clients = [multiprocessing.Process(target=store, args=(d.path, n, sizes[n % len(sizes)], due, until, out))
                   for n in range(CLIENTS)]
        for p in clients:
            p.start()
        found = [out.get() for _ in clients]
        for p in clients:
            p.join()
        after = c.stats()
        for size in sizes:
            waits = [w for s, _, _, ws in found if s == size for w in ws]
            refused = sum(r for s, r, _, _ in found if s == size)
            answers = {a for s, _, kinds, _ in found if s == size for a in kinds}
            print("  %6d bytes: %7d stores, %d refused %s; ms p50 %.2f p99 %.2f p99.9 %.2f worst %.1f" % (
                size, len(waits), refused, answers or "", at(waits, .5), at(waits, .99), at(waits, .999),
                max(waits, default=0) * 1000))
        for name in ("evictions", "expired_unfetched", "reclaimed", "direct_reclaims", "store_no_memory", "curr_items"):
            print("  %s %d" % (name, int(after[name]) - (0 if name == "curr_items" else int(before[name]))), end=";")
        for name, was in shards.items():
            print("  %s %d" % (name, c.shard_sum(name) - was), end=";")
        print("  resident %d MiB" % (d.rss() >> 20), flush=True)


if __name__ == "__main__":
    main()
