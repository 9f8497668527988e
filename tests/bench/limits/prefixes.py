#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What gets see of flush_prefix, and how long memory takes to come back.

Fills the server with --keys small items in --prefixes groups, and sends gets of other keys at a steady rate
(bench_pace), in turns without and with the flush of one group every second. Prints percentiles of both, how long
the flushes took to be answered and to unlink all, and then flushes a fifth of all items by one prefix and tells
when their memory was given back. A get counts from when it was due. The goal: p99.9 with flushes as without.

    make -C build tests/bench/bench_pace
    MAYFLY_BUILDDIR=build tests/bench/limits/prefixes.py [--keys N] [--prefixes N] [-t THREADS] [--rate R] [--rounds N]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
from mayfly import BUILD, Daemon                                        # noqa: E402

VALUE = b"v" * 64


def fill(c, begin, end, prefixes):
    tail = b" 0 0 %d noreply\r\n%s\r\n" % (len(VALUE), VALUE)
    for at in range(begin, end, 4000):
        c.send(b"".join(b"set g%03d:%d%s" % (n % prefixes, n, tail) for n in range(at, min(at + 4000, end))))
        assert c.ask(b"version").startswith(b"VERSION")


class Flusher(threading.Thread):
    """Flushes the next group each second; tells how long the answer and the unlinking took, in milliseconds."""

    def __init__(self, d, groups):
        super().__init__()
        self.d, self.groups, self.answered, self.unlinked, self.over = d, groups, [], [], threading.Event()

    def run(self):
        with self.d.client() as c:
            while not self.over.wait(1):
                began = time.monotonic()
                assert c.ask(b"flush_prefix g%03d:" % next(self.groups)) == b"OK"
                self.answered.append((time.monotonic() - began) * 1000)
                while c.stats(b"expire")["flush_prefixes_active"] != "0":
                    time.sleep(0.05)
                self.unlinked.append((time.monotonic() - began) * 1000)


def gets(d, args, flusher):
    if flusher:
        flusher.start()
    done = subprocess.run([os.path.join(BUILD, "tests", "bench", "bench_pace"), "--port", str(d.port), "--live", "100000",
                           "--get-rate", str(args.rate), "--event", "none", "--before", "1", "--after",
                           "%d-%d" % (args.seconds, args.seconds)], stdout=subprocess.PIPE, check=True, text=True)
    if flusher:
        flusher.over.set()
        flusher.join()
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=5000000)
    parser.add_argument("--prefixes", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=20000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-t", type=int, default=2)
    args = parser.parse_args()
    groups = iter(range(args.prefixes))
    with Daemon("-m", str(args.keys * 250 >> 20), "-t", str(args.t), tcp=True) as d, d.client() as c:
        fill(c, 0, args.keys, args.prefixes)
        print("%d items in %d groups, resident %d MiB, -t %d" % (c.stat("curr_items"), args.prefixes, d.rss() >> 20, args.t))
        answered, unlinked, found = [], [], {"without": [], "with": []}
        for _ in range(args.rounds):
            for kind in ("without", "with"):
                flusher = Flusher(d, groups) if kind == "with" else None
                got = gets(d, args, flusher)
                found[kind].append(got)
                if flusher:
                    answered += flusher.answered
                    unlinked += flusher.unlinked
        for kind, runs in found.items():
            print("%-8s" % kind, "  ".join("%s %s" % (name, " ".join("%.2f" % (r["get"]["after"][name] / 1000) for r in runs))
                                           for name in ("p50", "p99", "p999", "max")), "ms; load late by p99",
                  " ".join("%.2f" % (r["get"]["late"]["p99"] / 1000) for r in runs))
        print("%d flushes: answered after %.2f ms (median; at most %.2f), unlinked after %.0f ms (at most %.0f)" % (
            len(answered), statistics.median(answered), max(answered), statistics.median(unlinked), max(unlinked)))
        tenth, before = args.keys // 10, d.rss()
        began = time.monotonic()
        assert c.ask(b"flush_prefix g5") == c.ask(b"flush_prefix g6") == b"OK"
        answer = time.monotonic() - began
        while c.stats(b"expire")["flush_prefixes_active"] != "0":
            time.sleep(0.005)
        gone = time.monotonic() - began
        low = d.rss()
        while time.monotonic() < began + 30:
            time.sleep(0.1)
            rss = d.rss()
            if rss < low:
                low, back = rss, time.monotonic() - began
        print("two prefixes of %d items: answered after %.1f ms, unlinked after %.2f s; resident %d MiB, then %d after %.1f s" % (
            2 * tenth, answer * 1000, gone, before >> 20, low >> 20, back))


if __name__ == "__main__":
    main()
