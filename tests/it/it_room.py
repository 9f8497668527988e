#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whatever -m, -t and -I are, the server starts, stores items as large as -I allows, and evicts."""
import os
import resource
import time

import mayfly
from mayfly import Daemon, pattern, wait_for

KIB = 1 << 10
MIB = 1 << 20
ITEM_EXTRA = 200    # more than what counts against -I in addition to the value


def check_room(d, megabytes, largest):
    """Items of the largest size, then more small ones than fit, then both again: all are stored."""
    big = pattern(b"big", largest - ITEM_EXTRA)
    small = b"s" * 4000
    with d.client() as c:
        for turn in range(2):
            for i in range(3):
                key = b"big%d" % i
                assert c.set(key, big) == b"STORED", (d.command, key, turn)
                assert c.get(key) == big, (d.command, key, turn)
            for i in range(0, megabytes * 260, 20):
                c.send(b"".join(b"set %d.%d 0 0 %d\r\n%s\r\n" % (turn, i + n, len(small), small) for n in range(20)))
                for _ in range(20):
                    assert c.line() == b"STORED"
            assert c.get(b"%d.%d" % (turn, i + 19)) == small
        assert c.stat("evictions") > 0
        assert c.stat("store_no_memory") == 0


def test_every_limit_serves_with_every_number_of_threads():
    rows = ((1, 4, 512 * KIB), (2, 4, MIB), (3, 4, 1536 * KIB), (8, 64, 4 * MIB), (16, 64, 8 * MIB))
    for megabytes, threads, largest in rows:
        with Daemon("-m", str(megabytes), "-t", str(threads), "-I", str(largest)) as d:
            check_room(d, megabytes, largest)


def test_many_threads_with_the_default_limit():
    with Daemon("-t", "65") as d, d.client() as c:
        assert c.stats(b"settings")["num_threads"] == "65"
        assert c.set(b"k", b"v" * (MIB - ITEM_EXTRA)) == b"STORED"
        # Workers beyond the shards have lines of their own, without a shard.
        shards = c.stats(b"shards")
        assert int(shards["shards"]) < 65
        assert "64:curr_connections" in shards and "64:segments_used" not in shards


def test_many_workers_with_a_shard_each():
    """On whatever number of cores. A limit of less than 1 MiB for each shard is refused."""
    for threads, megabytes in ((64, 256), (128, 512))[:1 if mayfly.is_sanitized() else 2]:
        with Daemon("-t", str(threads), "-m", str(megabytes)) as d:
            clients = [d.client() for _ in range(2 * threads)]
            c = clients[0]
            assert c.stats(b"shards")["shards"] == str(threads)
            assert c.ask(b"cache_memlimit %d" % (threads - 1)).startswith(b"MEMLIMIT_ADJUST_FAILED out of bounds")
            assert c.ask(b"cache_memlimit %d" % threads) == b"OK"
            for turn in range(3):
                for i, client in enumerate(clients):
                    client.send(b"".join(b"set %d.%d 0 0 %d\r\n%s\r\n" % (i, n, 9000, b"v" * 9000) for n in range(50)))
                for client in clients:
                    for _ in range(50):
                        assert client.line() == b"STORED"
            big = pattern(b"big", MIB - ITEM_EXTRA)
            seen = []
            for i, client in enumerate(clients[:40]):
                assert client.set(b"big%d" % i, big) == b"STORED", i
                seen.append(clients[-1 - i].get(b"big%d" % i))
            # One that fills its shard may be evicted again at once, if upkeep comes before the get.
            assert set(seen) <= {None, big} and seen.count(big) > 30, seen.count(big)
            stats = c.stats()
            assert stats["threads"] == str(threads) and stats["store_no_memory"] == "0"
            assert int(stats["evictions"]) > 0 and int(stats["total_items"]) == 300 * threads + 40
            assert c.ask(b"flush_all") == b"OK"
            assert [client.get(b"big0") for client in clients] == [None] * len(clients)


def limited(what, value):
    return lambda: resource.setrlimit(what, (value, value))


def test_limited_address_space():
    mayfly.skip_if(mayfly.is_sanitized(), "sanitizers take address space")
    with Daemon("-m", "1024", before=limited(resource.RLIMIT_AS, 16000000 * KIB)) as d, d.client() as c:
        assert c.set(b"k", b"v" * (MIB - ITEM_EXTRA)) == b"STORED"
        assert "address space" not in d.log()
    with Daemon("-m", "4096", before=limited(resource.RLIMIT_AS, 3000000 * KIB)) as d, d.client() as c:
        assert c.set(b"k", b"v" * (MIB - ITEM_EXTRA)) == b"STORED"
        wait_for(lambda: "the address space is limited" in d.log(), "a warning")


def test_memory_that_the_system_does_not_promise():
    """As without overcommit: writable data is limited. The existing memory is used."""
    mayfly.skip_if(mayfly.is_sanitized(), "sanitizers take memory of their own")
    with Daemon("-m", "1024", "-t", "1", before=limited(resource.RLIMIT_DATA, 200 * MIB)) as d, d.client() as c:
        big = b"v" * (MIB - ITEM_EXTRA)
        for i in range(300):
            assert c.set(b"k%d" % i, big) == b"STORED", i
        assert c.get(b"k299") == big
        assert c.stat("evictions") > 0
        assert c.shard_sum("range_refused") > 0


def test_what_cannot_be_held_is_refused():
    with Daemon("-m", "1048576", "-o", "shards=31", wait=False) as d:
        assert d.process.wait(mayfly.PATIENCE) == os.EX_USAGE
        assert d.says("-o shards: -m 1048576 needs 32 to ")
    if not mayfly.is_sanitized():       # a range of addresses has 32 GiB
        with Daemon("-m", "262144", "-t", "4") as d, d.client() as c:
            assert c.ask(b"mn") == b"MN" and c.stat("shards", b"shards") == 8
    with Daemon("-m", "64", "-t", "2") as d, d.client() as c:
        assert c.ask(b"cache_memlimit 8192") == b"OK"
        assert c.ask(b"cache_memlimit 8193").startswith(b"MEMLIMIT_ADJUST_FAILED")


def fill(c, count, value):
    for i in range(0, count, 1000):
        c.send(b"".join(b"set %d 0 0 %d noreply\r\n%s\r\n" % (i + n, len(value), value) for n in range(1000)))
        assert c.ask(b"version").startswith(b"VERSION")


def test_a_lower_limit_is_taken_up_without_requests():
    mayfly.skip_if(mayfly.is_sanitized(), "a sanitizer build")
    with Daemon("-m", "96", "-t", "4") as d, d.client() as c:
        empty = d.rss()
        fill(c, 90000, b"v" * 1000)
        assert d.rss() > empty + 80 * MIB
        assert c.ask(b"cache_memlimit 32") == b"OK"
        wait_for(lambda: d.rss() < empty + 40 * MIB, "what the limit no longer allows is given back")


def test_overhead_shrinks_with_the_limit():
    """After many small items the index, the ghost and the rings fit the new limit as well."""
    with Daemon("-m", "24", "-t", "4") as d, d.client() as c:
        fill(c, 800000, b"v" * 10)
        assert c.stat("evictions") > 0
        before = c.stat("hash_bytes")
        assert c.ask(b"cache_memlimit 8") == b"OK"
        for i in range(100):
            assert c.set(b"k%d" % i, b"v" * 20000) == b"STORED", i
        wait_for(lambda: c.stat("hash_bytes") <= before * 3 / 4, "the index shrinks")
        wait_for(lambda: c.shard_sum("resident_bytes") <= 8 * MIB, "all of it fits the limit")
        # Until then any item may have had to go, also one that was just stored.
        assert c.set(b"k99", b"v" * 20000) == b"STORED"
        assert c.get(b"k99") == b"v" * 20000


def test_what_was_just_stored_is_there():
    """However few segments a shard has, and wherever the pieces of a value went: overwrites leave holes."""
    for megabytes, size in ((8, 9000), (8, 20000), (16, 20000)):
        with Daemon("-m", str(megabytes), "-t", "4") as d, d.client() as c:
            value = pattern(b"k", size)
            for i in range(6000):
                key = b"k%d" % (i * 7919 % 3000)
                assert c.set(key, value) == b"STORED", (d.command, i)
                assert c.get(key) == value, (d.command, i)
            assert c.stat("evictions") > 0


def test_a_hint_is_cut_to_what_the_limit_bears():
    with Daemon("-m", "64", "-t", "1", "-o", "hashpower=24") as d, d.client() as c:
        wait_for(lambda: "sizes the index for" in d.log(), "a notice")
        assert c.stat("hash_bytes") <= 8 * MIB
        fill(c, 10000, b"v" * 1000)
        assert c.stat("evictions") == 0 and c.stat("curr_items") == 10000
        assert c.ask(b"cache_memlimit 16") == b"OK"
        wait_for(lambda: c.stat("hash_bytes") <= 2 * MIB, "the index fits the new limit")
    with Daemon("-m", "64", "-t", "3", "-o", "hashpower=19") as d, d.client() as c:
        assert "sizes the index for" not in d.log()


def test_stores_go_on_while_all_else_falls_due():
    """At the limit, in the second in which all items become due: room must come from due items, from the shrinking
    index, and from other shards. Nothing is refused, however long that takes."""
    large, small, clients = 300 * KIB, 2000, 12
    for megabytes, threads in ((48, 1), (48, 3)):
        with Daemon("-m", str(megabytes), "-t", str(threads)) as d, d.client() as c:
            count = megabytes * 7000
            due = int(time.time()) + 4
            tail = b" 0 %d 64 noreply\r\n%s\r\n" % (due, b"v" * 64)
            for i in range(0, count, 1000):
                c.send(b"".join(b"set k%d%s" % (i + n, tail) for n in range(1000)))
            assert c.ask(b"version").startswith(b"VERSION")

            def store(number):
                with d.client() as client:
                    for i in range(60):
                        key = b"%d.%d" % (number, i % 4)
                        value = mayfly.pattern(key + b".%d" % i, large if number % 2 else small)
                        answer = client.set(key, value)
                        assert answer == b"STORED", (d.command, key, answer)
                        assert i % 20 != 19 or client.get(key) in (value, None), (d.command, key)

            wait_for(lambda: time.time() >= due, "they fall due")
            mayfly.in_parallel(store, range(clients))
            assert c.stat("store_no_memory") == 0 and c.shard_sum("mayfly_bodies_shed") == 0
            wait_for(lambda: c.stat("curr_items") <= 4 * clients, "what was due is gone")


def test_no_thread_is_behind_the_others():
    """Each thread that enters shards has the priority of the workers: one with a lower priority could lose the CPU
    within a shard, and the workers would wait for it. The export thread reads without a lock."""
    with Daemon("-t", "2", is_visible=True) as d:
        nice = {}

        def look():
            nice.clear()
            for task in os.listdir("/proc/%d/task" % d.pid):
                with open("/proc/%d/task/%s/stat" % (d.pid, task)) as f:
                    name, fields = f.read().rsplit(")", 1)
                    nice[name.split("(", 1)[1]] = int(fields.split()[16])
            return {"export", "reclaimer"} <= nice.keys()
        wait_for(look, "each thread has begun, and has its name")
        assert nice.pop("export") >= nice["mayfly-w0"], nice
        assert len(set(nice.values())) == 1, nice


mayfly.main(globals())
