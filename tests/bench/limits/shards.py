#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What clients see of another number of shards, in a cache that is full.

--items keys of 50 bytes each are stored, more than -m holds. Then the number of shards changes, as
--shards says (2,4,2), at move_cpu_pct 100. Meanwhile one client gets keys at random, one at a time, and
others store new versions of keys of their own and read them: a value that is older than the last one
that was acknowledged, an error or a connection that is closed ends the run. Shown for each change: how
long it took, items lost and evicted (without those that the stores of the other clients replace, which
are the same keys all the time), by how much the resident set grew and exceeded -m, in percent of -m,
and what gets took before and meanwhile (p50, p99, p99.9, longest).

    MAYFLY_BUILDDIR=build tests/bench/limits/shards.py [-m MEGABYTES] [--items N] [--shards N,N,...]
"""
import argparse
import multiprocessing
import os
import random
import socket
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
import mayfly                                                           # noqa: E402
from mayfly import Daemon                                               # noqa: E402

VALUE = mayfly.pattern(b"v", 50)
WRITERS = 2
REST_S = 0.0005     # of a client between two requests
IDLE = 100          # connections that say nothing until the end


def fill(c, items):
    tail = b" 0 0 %d noreply\r\n%s\r\n" % (len(VALUE), VALUE)
    for at in range(0, items, 10000):
        c.send(b"".join([b"set k%d%b" % (i, tail) for i in range(at, min(items, at + 10000))]))
    assert c.ask(b"mn") == b"MN"


def run_getter(port, items, is_over, result):
    """A process: when gets were sent, and how long each took."""
    took, rng = [], random.Random(1)
    with socket.create_connection(("127.0.0.1", port)) as sock:
        while not is_over.is_set():
            key = b"k%d" % rng.randrange(items)
            began, read = time.monotonic(), b""
            sock.sendall(b"get %s\r\n" % key)
            while not read.endswith(b"END\r\n"):
                some = sock.recv(4096)
                assert some, "the client that gets was closed"
                read += some
            took.append((began, time.monotonic() - began))
            assert read in (b"END\r\n", b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(VALUE), VALUE)), read
            time.sleep(REST_S)
    result.put(took)


def run_writer(port, number, is_over, result):
    """A process: stores versions of keys of its own, and never finds one that is older."""
    versions, checked, rng = [0] * 1000, 0, random.Random(number)
    with mayfly.Client(("127.0.0.1", port)) as c:
        while not is_over.is_set():
            keys = rng.sample(range(len(versions)), 20)
            for i in keys:
                versions[i] += 1
            c.send(b"".join(b"set w%d.%d 0 0 8\r\n%08d\r\n" % (number, i, versions[i]) for i in keys))
            assert all(c.line() == b"STORED" for _ in keys)
            for i in rng.sample(range(len(versions)), 20):
                got = c.get(b"w%d.%d" % (number, i))
                assert got is None or int(got) == versions[i], (i, got, versions[i])
                checked += got is not None
            time.sleep(REST_S)
    result.put(checked)


def waited(took, since, until):
    some = sorted(s * 1e3 for began, s in took if since <= began < until) or [0]
    return "%6d gets: p50 %5.2f  p99 %5.2f  p99.9 %6.2f  longest %6.2f ms" % (
        (len(some),) + tuple(some[min(len(some) - 1, int(len(some) * part))] for part in (.5, .99, .999, 1)))


def status(d, name):
    with open("/proc/%d/status" % d.pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith(name + ":")) << 10


def forget_peak(d):
    with open("/proc/%d/clear_refs" % d.pid, "w") as f:
        f.write("5")


def change(o, d, limit, shards):
    """The times between which items moved, and what became of them."""
    before, peak = o.stats(), status(d, "VmRSS")
    forget_peak(d)
    began = time.monotonic()
    assert o.ask(b"config set shards %d" % shards) == b"OK"
    answered = time.monotonic()
    while True:
        got = o.stats(b"moves")
        if got["move_state"] == "idle" and got["shards_active"] == str(shards):
            break
        time.sleep(0.01)
    ended, after = time.monotonic(), o.stats()
    items = [int(one["curr_items"]) for one in (before, after)]
    evicted = int(after["evictions"]) - int(before["evictions"])
    return began, ended, ("to %d: answered in %.1f ms, %.2f s, %s items moved; of %d items %.2f %% are gone, %.2f %% "
                          "evicted; resident + %.2f %% of -m, %.2f %% above -m" % (
                              shards, (answered - began) * 1e3, ended - began, got["move_items_done"], items[0],
                              max(0, items[0] - items[1]) * 100 / items[0], evicted * 100 / items[0],
                              (status(d, "VmHWM") - peak) * 100 / limit,
                              max(0, status(d, "VmHWM") - limit) * 100 / limit))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", type=int, default=1024, metavar="MEGABYTES")
    parser.add_argument("--items", type=int, default=13000000, help="default 13000000, of which 10 million stay with -m 1024")
    parser.add_argument("--shards", default="2,4,2", metavar="N,N,...")
    args = parser.parse_args()
    first, *others = (int(n) for n in args.shards.split(","))
    with Daemon("-t", "2", "-m", str(args.m), "-o", "shards=%d,move_cpu_pct=100" % first, tcp=True, is_visible=True,
                control=True) as d, d.operator() as o:
        idle = [d.client() for _ in range(IDLE)]
        fill(o, args.items)
        is_over, times, checks = multiprocessing.Event(), multiprocessing.Queue(), multiprocessing.Queue()
        processes = [multiprocessing.Process(target=run_getter, args=(d.port, args.items, is_over, times))]
        processes += [multiprocessing.Process(target=run_writer, args=(d.port, i, is_over, checks)) for i in range(WRITERS)]
        for process in processes:
            process.start()
        time.sleep(5)
        changes, start = [], time.monotonic()
        for n in others:
            changes.append(change(o, d, args.m << 20, n))
            time.sleep(3)
        is_over.set()
        took = times.get(timeout=60)
        checked = sum(checks.get(timeout=60) for _ in range(WRITERS))
        for process in processes:
            process.join()
            assert process.exitcode == 0
        assert all(one.ask(b"mn") == b"MN" for one in idle), "one was closed"
        print("before: %s" % waited(took, start - 4, start))
        for began, ended, line in changes:
            print("%s\n    meanwhile: %s" % (line, waited(took, began, ended)))
        print("%d values read were the newest; no connection was closed, no request failed" % checked)


main()
