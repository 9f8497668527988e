#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Connections go from a worker that is hot to one that is not (balance), and none is closed. On a
machine that does not give a thread 80 percent of a CPU for some seconds that cannot be seen."""
import threading
import time

import mayfly
from mayfly import Daemon
from workers import LUMP, worker_of

SURE = 8        # seconds of a hot worker in a row, after which something must have happened


def moved(c):
    return int(c.stats()["mayfly_conns_balanced"])


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
            assert all(one.line() == b"MN" for one in self.clients)
        except Exception as error:
            self.errors.append(repr(error))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()
        assert not self.errors, self.errors


def wait_while_hot(d, load, worker, condition, patience=20):
    """Wait until condition() is true, and return True. Return False if the worker was hot for SURE seconds
    in a row without that. The test reads the CPU time of the thread, as the server does."""
    end = time.monotonic() + patience
    hot = 0
    while time.monotonic() < end and hot < SURE:
        cpu, began = d.cpu_of_thread("mayfly-w%d" % worker), time.monotonic()
        time.sleep(1)
        if condition():
            return True
        assert not load.errors, load.errors
        hot = hot + 1 if d.cpu_of_thread("mayfly-w%d" % worker) - cpu > 0.9 * (time.monotonic() - began) else 0
    mayfly.skip_if(hot < SURE, "the machine is too busy for a hot worker")
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
