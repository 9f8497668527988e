#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What clients see of another number of threads, and of the balance between workers.

    deal     --conns connections, of which 1000 a second ask, each for a value of its own with a number in
             every request; the number of threads changes 4 -> 8 -> 2, --rounds times. Shown for each change:
             how long the operator waited, how long until no connection is on its way and each worker has its
             share (medians, and the longest), and what a client that pipelines 16 requests waited (p50,
             p99.9, longest, over all rounds), in the second before and in the second after. Every reply is
             checked: the right value, and the numbers in order.
    crowd    the same while all connections ask as fast as they are answered, 128 at a time.
    balance  100 connections of one of two workers ask without a pause, 100 of the other are silent: the
             part of the requests that each worker executes, second by second, and connections given away.
    one      the same with a single busy connection, of which none must move.
    tls      one TLS client under load, whose connection goes from one worker to the other and back as often
             as `config set threads` can make it, for --seconds (5); then the same while it reads replies of
             5 MB. Shown: moves a second (the worker of the other connection, the operator's, waits for an
             answer most of the time, and then it stays), how the client's requests were dealt, and what its
             batches waited. Every reply is checked. Works with a build of the sanitizers as well.

    MAYFLY_BUILDDIR=build tests/bench/limits/threads.py [--conns N] [--rounds N] [--seconds N] [CASE ...]

Needs 2 descriptors for each of --conns (10000).
"""
import argparse
import collections
import concurrent.futures
import multiprocessing
import os
import resource
import selectors
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
import mayfly                                                           # noqa: E402
from mayfly import Daemon                                               # noqa: E402
from workers import LUMP, executed, worker_of                           # noqa: E402

PIPELINED = 16
REST_S = 0.0005     # of the client that pipelines, between two batches


# ---- deal ------------------------------------------------------------------------------------

class Asker:
    """A connection that has one numbered request under way."""

    def __init__(self, port, number):
        self.name, self.asked, self.read = b"c%d" % number, 0, b""
        self.sock = socket.create_connection(("127.0.0.1", port))

    def ask(self):
        self.asked += 1
        self.sock.sendall(b"mg %s v O%d\r\n" % (self.name, self.asked))

    def take(self):
        """True: the reply is whole."""
        some = self.sock.recv(4096)
        assert some, "%r was closed" % self.name
        self.read += some
        expected = b"VA %d O%d\r\n%s\r\n" % (len(self.name), self.asked, self.name)
        assert expected.startswith(self.read), (self.read, expected)
        if self.read != expected:
            return False
        self.read = b""
        return True


def run_askers(port, first, count, at_a_time, rest_s, is_over, ready, result):
    """A process: its connections ask in turn, some of them at a time, with a rest after each reply."""
    askers = [Asker(port, first + i) for i in range(count)]
    looks = selectors.DefaultSelector()
    ready.wait()
    resting, replies = collections.deque(askers), 0
    while len(resting) < count or not is_over.is_set():
        while count - len(resting) < at_a_time and not is_over.is_set():
            one = resting.popleft()
            one.ask()
            looks.register(one.sock, selectors.EVENT_READ, one)
        for key, _ in looks.select(1):
            if key.data.take():
                looks.unregister(key.fileobj)
                resting.append(key.data)
                replies += 1
                if rest_s != 0:
                    time.sleep(rest_s)
    result.put(replies)


def run_pipeliner(port, is_over, ready, result):
    """A process: how long batches took, and when."""
    batch = b"".join(b"mg c0 v O%d\r\n" % i for i in range(PIPELINED))
    expected = b"".join(b"VA 2 O%d\r\nc0\r\n" % i for i in range(PIPELINED))
    took = []
    with socket.create_connection(("127.0.0.1", port)) as sock:
        ready.wait()
        while not is_over.is_set():
            began, read = time.monotonic(), b""
            sock.sendall(batch)
            while len(read) < len(expected):
                some = sock.recv(65536)
                assert some, "the pipelining client was closed"
                read += some
            assert read == expected, read
            took.append((began, time.monotonic() - began))
            time.sleep(REST_S)
    result.put(took)


def spread(o, threads):
    """Connections of each worker that serves, and those that are on their way."""
    got = o.stats(b"shards")
    return ([int(got["%d:curr_connections" % i]) for i in range(threads)], int(o.stats()["mayfly_conns_moving"]))


def is_dealt(o, threads, conns):
    shares, moving = spread(o, threads)
    return moving == 0 and sum(shares) >= conns and max(shares) - min(shares) <= conns / threads / 10


def waited(took, marks):
    """What batches waited that began in one of the seconds from these moments on."""
    some = sorted(s * 1e3 for began, s in took if any(mark <= began < mark + 1 for mark in marks)) or [0]
    return "p50 %6.2f  p99.9 %6.2f  longest %6.2f ms" % (some[len(some) // 2], some[int(len(some) * .999)], some[-1])


def change_threads(o, threads, conns):
    """Until all are dealt: when it began, and how long answer and dealing took."""
    began = time.monotonic()
    assert o.ask(b"config set threads %d" % threads) == b"OK"
    answered = time.monotonic()
    while not is_dealt(o, threads, conns):
        assert time.monotonic() < answered + 60, spread(o, threads)
        time.sleep(0.01)
    return began, (answered - began) * 1e3, (time.monotonic() - began) * 1e3


def deal(args, at_a_time, rest_s):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * args.conns + 1000)), hard))
    with Daemon("-t", "4", "-m", "256", "-c", str(args.conns + 100), "-b", "4096", "-o", "balance=no",
                tcp=True, control=True) as d, d.operator() as o:
        o.send(b"".join(b"set c%d 0 0 %d noreply\r\nc%d\r\n" % (i, len("c%d" % i), i) for i in range(args.conns)))
        assert o.ask(b"mn") == b"MN"
        is_over, ready, result, times = (multiprocessing.Event(), multiprocessing.Event(),
                                         multiprocessing.Queue(), multiprocessing.Queue())
        processes = [multiprocessing.Process(target=run_askers,
                                             args=(d.port, i * args.conns // 2, args.conns // 2, at_a_time, rest_s,
                                                   is_over, ready, result))
                     for i in range(2)]
        processes.append(multiprocessing.Process(target=run_pipeliner, args=(d.port, is_over, ready, times)))
        for process in processes:
            process.start()
        while int(o.stats()["curr_connections"]) < args.conns + 1:
            time.sleep(0.1)
        ready.set()
        time.sleep(1)
        changes = {8: [], 2: [], 4: []}
        for _ in range(args.rounds):
            for threads, found in changes.items():
                time.sleep(2)
                found.append(change_threads(o, threads, args.conns))
        time.sleep(2)
        is_over.set()
        took = times.get(timeout=60)
        replies = sum(result.get(timeout=60) for _ in range(2))
        for process in processes:
            process.join()
            assert process.exitcode == 0
        print("%d connections, %d replies in order" % (args.conns, replies))
        for threads, found in changes.items():
            began, answered, dealt = zip(*found)
            print("  to %d: answered in %.0f ms (at most %.0f), dealt in %.0f ms (at most %.0f)\n"
                  "    before:    %s\n    meanwhile: %s" % (
                      threads, statistics.median(answered), max(answered), statistics.median(dealt), max(dealt),
                      waited(took, [at - 1 for at in began]), waited(took, began)))


# ---- balance ---------------------------------------------------------------------------------

def ask_all(clients, is_over):
    while not is_over.is_set():
        for one in clients:
            one.send(LUMP)
        for one in clients:
            assert one.line() == b"MN"


def balance(busy):
    with Daemon("-t", "2", "-o", "balance=no", tcp=True, control=True) as d, d.operator() as o:
        clients = [d.client() for _ in range(220)]
        ones = [one for one in clients if worker_of(o, one) == 1][:busy]
        assert len(ones) == busy
        is_over = threading.Event()
        thread = threading.Thread(target=ask_all, args=(ones, is_over))
        thread.start()
        time.sleep(2)
        assert o.ask(b"config set balance yes") == b"OK"
        for second in range(1, 16):
            before = executed(o)
            time.sleep(1)
            now = executed(o)
            done = [b - a for a, b in zip(before, now)]
            print("  %2d s: %3.0f and %3.0f %% of %d requests, %s given away" % (
                second, 100 * done[0] / sum(done), 100 * done[1] / sum(done), sum(done),
                o.stats()["mayfly_conns_balanced"]))
        is_over.set()
        thread.join()


# ---- tls -------------------------------------------------------------------------------------

def certificate(folder):
    files = [os.path.join(folder, name) for name in ("chain.pem", "key.pem")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-subj", "/CN=localhost", "-days", "2", "-out", files[0], "-keyout", files[1]],
                   check=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return files


class TlsClient(mayfly.Client):
    def __init__(self, address, **kw):
        super().__init__(address, **kw)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.sock = context.wrap_socket(self.sock)


def ask_small(c, n):
    """A batch: each value is new, and so is each number."""
    numbers = range(n, n + PIPELINED)
    c.send(b"".join(b"ms k 8 q\r\n%08d\r\nmg k v O%d\r\n" % (i, i) for i in numbers))
    for i in numbers:
        assert c.line() == b"VA 8 O%d" % i and c.line() == b"%08d" % i, i
    return n + PIPELINED


def ask_large(c, n):
    value = mayfly.pattern(b"large", 1000000)
    if n == 0:
        assert c.set(b"large", value) == b"STORED"
    c.send(b"get" + b" large" * 5 + b"\r\nmn\r\n")
    for _ in range(5):
        assert c.line() == b"VALUE large 0 1000000" and c.exactly(len(value) + 2) == value + b"\r\n"
    assert c.line() == b"END" and c.line() == b"MN"
    return n + 5


def ask_on(c, ask, is_over, took):
    n = 0
    while not is_over.is_set():
        began = time.monotonic()
        n = ask(c, n)
        took.append(time.monotonic() - began)


def tls(args):
    with tempfile.TemporaryDirectory() as folder:
        names = "ssl_chain_cert=%s,ssl_key=%s" % tuple(certificate(folder))
        with Daemon("-t", "2", "-Z", "-l", "notls:127.0.0.1:0", "-o", names + ",balance=no", tcp=True, control=True,
                    wait=False) as d:
            d.wait_for_operator()
            with open(d.port_file) as f:
                port = int(next(line for line in f if line.startswith("TCP INET: ")).split()[2])
            for ask, rcvbuf in ((ask_small, None), (ask_large, None), (ask_large, 4096)):
                run_moves(args, d, TlsClient(("127.0.0.1", port), rcvbuf=rcvbuf), ask,
                          "%s%s" % (ask.__name__[4:], ", slow reader" if rcvbuf else ""))


def run_moves(args, d, c, ask, name):
    is_over, took = threading.Event(), []
    with d.operator() as o, c, concurrent.futures.ThreadPoolExecutor() as pool:
        asking = pool.submit(ask_on, c, ask, is_over, took)
        try:
            before, first = executed(o), int(o.stats()["mayfly_conns_moved"])
            began = time.monotonic()
            while time.monotonic() < began + args.seconds:
                o.send(b"config set threads 2\r\nconfig set threads 1\r\n" * 8)
                assert all(o.line() == b"OK" for _ in range(16))
            passed = time.monotonic() - began
            moved, now = int(o.stats()["mayfly_conns_moved"]) - first, executed(o)
        finally:
            is_over.set()
        asking.result()
        done = [b - a for a, b in zip(before, now)]
        some = sorted(took)
        print("tls, %-18s %5.0f moves/s, %6.0f gets/s in order (%2.0f and %2.0f %% by each worker), batches p50 %.2f "
              "p99.9 %.2f ms" % (name + ":", moved / passed, sum(done) / passed, 100 * done[0] / sum(done),
                                 100 * done[1] / sum(done), some[len(some) // 2] * 1e3, some[int(len(some) * .999)] * 1e3))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conns", type=int, default=10000)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="deal, crowd, balance, one, tls")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    for case in args.cases or ["deal", "crowd", "balance", "one", "tls"]:
        if case == "deal":
            deal(args, 1, 0.002)
        elif case == "crowd":
            deal(args, 64, 0)
        elif case == "tls":
            tls(args)
        else:
            print("%s:" % case)
            balance(100 if case == "balance" else 1)


main()
