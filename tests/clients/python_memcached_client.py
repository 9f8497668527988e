#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""python-memcached, the oldest client for Python."""
import mayfly
from foreign import addresses, daemons, need_module

memcache = need_module("memcache", "python-memcached")


def exercise(servers):
    checks = 0

    def check(good, what):
        nonlocal checks
        checks += 1
        assert good, what

    # By default it takes a server for dead after three seconds.
    c = memcache.Client(servers, cache_cas=True, socket_timeout=60)
    c.flush_all()
    check(c.set("k", "v") and c.get("k") == "v", "set, get")
    check(not c.add("k", "w") and c.add("new", "w"), "add")
    check(c.replace("k", "w") and not c.replace("absent", "w"), "replace")
    check(c.append("k", "x") and c.prepend("k", "a") and c.get("k") == "awx", "append, prepend")
    check(c.gets("k") == "awx" and c.cas("k", "swapped"), "cas")
    other = memcache.Client(servers, socket_timeout=60)
    check(c.gets("k") == "swapped" and other.set("k", "by another"), "a change between gets and cas")
    check(not c.cas("k", "lost") and c.get("k") == "by another", "cas that lost")
    check(c.set("object", {"a": [1, 2]}) and c.get("object") == {"a": [1, 2]}, "an object")
    check(c.set("n", 10) and c.incr("n", 5) == 15 and c.decr("n", 20) == 0, "incr, decr")
    check(c.touch("n", 1000), "touch")
    many = {"m%d" % i: "value %d" % i for i in range(300)}
    check(c.set_multi(many, time=1000) == [], "set_multi")
    check(c.get_multi(["m%d" % i for i in range(600)]) == many, "get_multi")
    check(c.delete_multi(list(many)), "delete_multi")
    check(c.set("zip", "z" * 900000, min_compress_len=1000) and c.get("zip") == "z" * 900000, "compressed")
    check(c.set("large", b"l" * 900000) and c.get("large") == b"l" * 900000, "a large value")
    check(c.delete("k") and c.get("k") is None, "delete")
    check(len(c.get_stats()) == len(servers), "stats of every server")
    c.flush_all()
    check(c.get("large") is None, "flush_all empties")
    c.disconnect_all()
    other.disconnect_all()
    return checks


def test_python_memcached():
    for count in (1, 3):
        with daemons(count) as group:
            print("        python-memcached: %d checks" % exercise(addresses(group)))


mayfly.main(globals())
