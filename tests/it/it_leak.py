#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The whole cycle of start, load and stop under the leak checker: a stopped process has freed
everything. It can only fail when the daemon is built with the address sanitizer."""
import os
import random

import mayfly
from mayfly import Daemon

ENV = {"ASAN_OPTIONS": "detect_leaks=1:exitcode=23:" + os.environ.get("ASAN_OPTIONS", "")}


def load(d, rng):
    clients = [d.client() for _ in range(8)]
    for i in range(400):
        c = clients[i % 8]
        key = b"k%d" % rng.randrange(200)
        size = rng.choice((10, 100, 3000, 70000, 400000))
        assert c.set(key, mayfly.pattern(key, size), exptime=rng.choice((0, 0, 1, 100))) == b"STORED"
        got = c.get(b"k%d" % rng.randrange(200))
        assert got is None or got.startswith(b"<k")
        c.send(b"append %s 0 0 1\r\nx\r\n" % key)
        assert c.line() in (b"STORED", b"NOT_STORED")
        c.ask(b"delete k%d" % rng.randrange(200))
        if i % 150 == 149:
            assert c.ask(b"flush_all") == b"OK"
        c.stats((b"", b"items", b"slabs", b"conns", b"settings", b"sizes")[i % 6])
    clients[0].send(b"set half 0 0 900000\r\nbegun")
    clients[1].send(b"get k1 k2 k3 k4 k5\r\n" * 20)
    clients[2].reset()
    return clients


def cycle(*args):
    mayfly.skip_if(not mayfly.has_address_sanitizer(), "not built with the address sanitizer")
    with Daemon(*args, env=ENV) as d:
        clients = load(d, random.Random(1))
        status = d.stop()
        assert status == 0 and "LeakSanitizer" not in d.log(), "status %d\n%s" % (status, d.log())


mayfly.cases(globals(), cycle, one_worker=("-m", "64", "-t", "1"), four_workers_in_little_room=("-m", "8", "-t", "4"),
             without_evictions=("-m", "64", "-t", "2", "-M"))
mayfly.main(globals())
