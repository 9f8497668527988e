#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What as many threads as CPUs (threads = auto) cost beside four.

Pins servers, and the load, to the first CPU and then to the first two. In each case a server with as many
threads as CPUs and one with four take turns. Prints CPU time for a request and requests a second, medians over
--rounds. The load shares the CPUs with the server, so requests a second are those of both.

    make -C build tests/bench/bench_load
    MAYFLY_BUILDDIR=build tests/bench/limits/cpus.py [--rounds N]

More than two CPUs are left out: with four, `auto` is four threads, the same as the default.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
from mayfly import BUILD, Daemon                                        # noqa: E402

CASES = (("get", 1, 60000), ("set", 1, 60000), ("get", 16, 600000), ("set", 16, 450000))


def load(d, op, pipeline, ops):
    done = subprocess.run([os.path.join(BUILD, "tests", "bench", "bench_load"), "--port", str(d.port), "--pid",
                           str(d.process.pid), "--conns", "25", "--op", op, "--pipeline", str(pipeline), "--fill",
                           "--warmup", str(ops // 5), "--ops", str(ops)], stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def compare(cpus, rounds):
    counts = (cpus, 4)
    with Daemon("-t", str(counts[0]), "-m", "256", tcp=True) as few, Daemon("-t", "4", "-m", "256", tcp=True) as four:
        for op, pipeline, ops in CASES:
            found = {n: [] for n in counts}
            for turn in range(rounds):
                servers = list(zip(counts, (few, four)))
                for n, d in servers if turn % 2 else reversed(servers):
                    found[n].append(load(d, op, pipeline, ops))
            print("%d CPUs, %s, %2d pipelined: " % (cpus, op, pipeline) + "; ".join(
                "%d threads %.3f us, %.0f/s" % (n, statistics.median(r["server_us_per_op"] for r in runs),
                                                statistics.median(r["ops_per_s"] for r in runs))
                for n, runs in found.items()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    allowed = sorted(os.sched_getaffinity(0))
    for cpus in (1, 2):
        if cpus <= len(allowed):
            os.sched_setaffinity(0, allowed[:cpus])
            compare(cpus, args.rounds)


if __name__ == "__main__":
    main()
