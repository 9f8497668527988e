#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Connections go from a worker that is hot to one that is not (balance), and none is closed. On a
machine that does not give a thread 80 percent of a CPU for some seconds that cannot be seen."""
import os
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import mayfly                                                           # noqa: E402
from mayfly import Daemon, wait_for                                     # noqa: E402

LUMP = b"mg none k q\r\n" * 4000 + b"mn\r\n"    # much to do for the server, little for who asks
SURE = 8        # seconds of a hot worker in a row, after which something must have happened


def counter(c, worker, name="cmd_get"):
    return int(c.stats(b"shards")["%d:%s" % (worker, name)])


def moved(c):
    return int(c.stats()["mayfly_conns_balanced"])


def worker_of(c, one):
    """The worker that serves this client: its requests are counted there."""
    before = [counter(c, i) for i in range(2)]
    one.send(b"mg none k q\r\n" * 50 + b"mn\r\n")
    assert one.line() == b"MN"
    return max(range(2), key=lambda i: counter(c, i) - before[i])


def clients_of_two(d, c):
    """Ten clients of each of two workers."""
    clients = [d.client() for _ in range(22)]
    found = [[one for one in clients if worker_of(c, one) == i][:10] for i in range(2)]
    assert all(len(some) == 10 for some in found), found
    return clients, found


class Loaded:
    """These clients ask without a pause, a few of them in one thread; each reply is checked."""

    def __init__(self, clients):
        self.clients, self.is_over, self.errors, self.lumps = clients, False, [], 0
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            for one in self.clients:
                one.send(LUMP)
            while not self.is_over:
                for one in self.clients:
                    assert one.line() == b"MN"
                    one.send(LUMP)
                    self.lumps += 1
            for one in self.clients:
                assert one.line() == b"MN"
        except Exception as error:
            self.errors.append(repr(error))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()
        assert not self.errors, self.errors


def cpu_of_worker(d, number):
    """Seconds of CPU that it has used."""
    for task in os.listdir("/proc/%d/task" % d.pid):
        where = "/proc/%d/task/%s/" % (d.pid, task)
        with open(where + "comm") as f:
            if f.read().strip() != "mayfly-w%d" % number:
                continue
        with open(where + "schedstat") as f:
            return int(f.read().split()[0]) / 1e9
    raise AssertionError("there is no worker %d" % number)


def wait_while_hot(d, load, worker, condition, patience=20):
    """Until condition() is true, or the worker was hot for so long that it is not going to be. True:
    it was. What the test sees of the CPU is what the server sees."""
    end = time.monotonic() + patience
    hot = 0
    while time.monotonic() < end and hot < SURE:
        cpu, began = cpu_of_worker(d, worker), time.monotonic()
        time.sleep(1)
        if condition():
            return True
        assert not load.errors, load.errors
        hot = hot + 1 if cpu_of_worker(d, worker) - cpu > 0.9 * (time.monotonic() - began) else 0
    if hot < SURE:
        raise mayfly.Inapplicable("the machine is too busy for a hot worker")
    return False


# ---- tests ---------------------------------------------------------------------------------------

def test_the_load_of_one_worker_is_spread():
    with Daemon("-t", "2", "-o", "balance=no", control=True) as d, d.operator() as c:
        clients, (_, ones) = clients_of_two(d, c)
        with Loaded(ones) as load:
            assert moved(c) == 0
            assert c.ask(b"config set balance yes") == b"OK"
            assert wait_while_hot(d, load, 1, lambda: moved(c) > 0), "the hot worker gave none away"
        got = c.stats()
        assert int(got["mayfly_conns_moved"]) == int(got["mayfly_conns_balanced"]) > 0
        assert len({worker_of(c, one) for one in ones}) == 2
        assert all(one.ask(b"mn") == b"MN" for one in clients)


mayfly.main(globals())
