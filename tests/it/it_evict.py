#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Eviction by the policies of Redis, changed on a running server: what each keeps when memory is full."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import mayfly                                                           # noqa: E402
from mayfly import Daemon                                               # noqa: E402

VALUE = b"v" * 500
PERSISTENT = 3000


def store(c, prefix, count, ttl=0):
    """How many of so many items are stored."""
    stored = 0
    for i in range(0, count, 50):
        c.send(b"".join(b"set %s%d 0 %d %d\r\n%s\r\n" % (prefix, i + n, ttl, len(VALUE), VALUE) for n in range(50)))
        stored += sum(c.line() == b"STORED" for _ in range(50))
    return stored


def present(c, prefix, count):
    return sum(c.get(b"%s%d" % (prefix, i)) is not None for i in range(count))


def choose(c, policy):
    assert c.ask(b"config set maxmemory_policy " + policy) == b"OK"
    assert c.stats(b"settings")["maxmemory_policy"] == policy.decode()


def test_volatile_policies_spare_what_has_no_deadline():
    with Daemon("-m", "8", "-t", "1", "-o", "maxmemory_policy=volatile-lru") as d, d.client() as c:
        assert store(c, b"stays", PERSISTENT) == PERSISTENT
        for policy in (b"volatile-ttl", b"volatile-random", b"volatile-lru"):
            choose(c, policy)
            before = c.stat("evictions")
            assert store(c, policy, 15000, 1000) == 15000
            assert c.stat("evictions") > before + 1000
            assert present(c, b"stays", PERSISTENT) == PERSISTENT
        assert store(c, b"more", 20000) < 20000, "out of memory, once all is without a deadline"
        assert present(c, b"stays", PERSISTENT) == PERSISTENT


def test_allkeys_policies_evict_all():
    with Daemon("-m", "8", "-t", "1", "-o", "maxmemory_policy=allkeys-random") as d, d.client() as c:
        for policy in (b"allkeys-random", b"allkeys-lru", b"density"):
            choose(c, policy)
            assert store(c, b"stays" + policy, PERSISTENT) == PERSISTENT
            assert store(c, policy, 30000) == 30000
            assert present(c, b"stays" + policy, PERSISTENT) < PERSISTENT


def test_noeviction_is_what_M_says():
    with Daemon("-m", "8", "-t", "1", "-M") as d, d.client() as c:
        assert c.stats(b"settings")["maxmemory_policy"] == "noeviction"
        assert store(c, b"k", 20000) < 20000
        assert c.stat("evictions") == 0
        choose(c, b"allkeys-lru")
        assert store(c, b"l", 5000) == 5000
        assert c.stat("evictions") > 0


if __name__ == "__main__":
    mayfly.main(globals())
