#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pymemcache, the most popular client for Python: everything that it offers."""
import mayfly
from foreign import need_module
from mayfly import Daemon

base = need_module("pymemcache.client.base", "pymemcache")


def check(client):
    assert client.set("k", b"v")
    assert client.get("k") == b"v"
    assert client.add("k", b"w", noreply=False) is False
    assert client.replace("k", b"w", noreply=False) is True
    assert client.append("k", b"x", noreply=False) and client.prepend("k", b"a", noreply=False)
    assert client.get("k") == b"awx"
    value, cas = client.gets("k")
    assert client.cas("k", b"new", cas) is True
    assert client.cas("k", b"newer", cas) is False
    assert client.set("n", b"10", noreply=False)
    assert client.incr("n", 5) == 15
    assert client.decr("n", 20) == 0
    assert client.touch("n", 100, noreply=False)
    assert client.set_many({"m%d" % i: b"%d" % i for i in range(100)}, noreply=False) == []
    assert client.get_many(["m%d" % i for i in range(0, 200, 2)]) == {"m%d" % i: b"%d" % i for i in range(0, 100, 2)}
    assert client.delete("k", noreply=False) is True
    assert client.delete("k", noreply=False) is False
    assert client.set("large", b"x" * 900000, noreply=False)
    assert client.get("large") == b"x" * 900000
    assert int(client.stats()[b"curr_items"]) > 100
    assert client.version()
    assert client.flush_all(noreply=False)
    assert client.get("n") is None


def test_client():
    with Daemon(tcp=True) as d:
        client = base.Client(d.address)
        check(client)
        client.close()


def test_pooled_client_on_a_unix_socket():
    with Daemon() as d:
        client = base.PooledClient(d.path, max_pool_size=4)
        check(client)
        client.close()


mayfly.main(globals())
