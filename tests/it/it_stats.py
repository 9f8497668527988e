#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`stats` and its sub-commands: all of memcached's keys, the events that change them, and ten thousand prefixes.
it_monitoring.py tests how monitoring tools read them."""
import os
import re
import sys
import time

import mayfly
from mayfly import Daemon

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "guides"))
import tables                                                           # noqa: E402

# Those of stats that only options show.
BY_OPTIONS = "idle_kicks ssl_new_sessions ssl_handshake_errors ssl_proto_errors time_since_server_cert_refresh".split()

SETTINGS = """maxbytes maxconns tcpport udpport inter verbosity oldest evictions domain_socket umask
shutdown_command growth_factor chunk_size num_threads num_threads_per_udp stat_key_prefix
detail_enabled reqs_per_event cas_enabled tcp_backlog binding_protocol auth_enabled_sasl
auth_enabled_ascii item_size_max maxconns_fast hashpower_init slab_reassign slab_automove
slab_automove_ratio slab_automove_window slab_chunk_max lru_crawler lru_crawler_sleep
lru_crawler_tocrawl tail_repair_time flush_enabled dump_enabled hash_algorithm
lru_maintainer_thread lru_segmented hot_lru_pct warm_lru_pct hot_max_factor warm_max_factor
temp_lru temporary_ttl idle_timeout watcher_logbuf_size worker_logbuf_size read_buf_mem_limit
track_sizes inline_ascii_response num_napi_ids memory_file client_flags_size""".split()


def fill(c):
    for i in range(100):
        assert c.set(b"k%d" % i, b"v" * (i * 10), exptime=i % 3 * 1000) == b"STORED"
    assert c.get(b"k1") is not None
    assert c.get(b"absent") is None
    assert c.ask(b"delete k2") == b"DELETED"
    assert c.ask(b"incr absent 1") == b"NOT_FOUND"
    assert c.ask(b"touch k3 0") == b"TOUCHED"


def test_all_keys_are_there():
    with Daemon("-t", "2") as d, d.client() as c:
        fill(c)
        general = c.stats()
        missing = [k for k in tables.STATS if k not in general and k not in BY_OPTIONS]
        assert not missing, "stats lacks " + " ".join(missing)
        settings = c.stats(b"settings")
        missing = [k for k in SETTINGS if k not in settings]
        assert not missing, "stats settings lacks " + " ".join(missing)
        assert general["curr_items"] == "99"
        assert general["cmd_set"] == "100"
        assert int(general["total_items"]) >= 100
        assert (general["cmd_get"], general["get_hits"], general["get_misses"]) == ("2", "1", "1")
        assert (general["delete_hits"], general["incr_misses"], general["touch_hits"]) == ("1", "1", "1")
        assert general["threads"] == settings["num_threads"] == "2"
        assert general["limit_maxbytes"] == settings["maxbytes"] == str(64 << 20)


def test_numbers_of_classes_have_32_bits_as_in_memcached():
    with Daemon() as d, d.client() as c:
        c.send(b"".join(b"slabs reassign %s\r\n" % classes for classes in (
            b"2147483647 1", b"1 -2147483648", b"2147483648 1", b"1 -2147483649", b"4294967297 1")))
        assert [c.line() for _ in range(5)] == [b"BADCLASS invalid src or dst class id"] * 2 + \
            [b"CLIENT_ERROR bad command line format"] * 3


def test_slabs_and_items_for_memcached_tool():
    with Daemon("-t", "1") as d, d.client() as c:
        fill(c)
        slabs, items = c.stats(b"slabs"), c.stats(b"items")
        for name in ("chunk_size", "total_pages", "total_chunks", "used_chunks"):
            assert int(slabs["1:" + name]) > 0, name
        assert "active_slabs" in slabs and int(slabs["total_malloced"]) > 0
        assert sum(int(v) for k, v in items.items() if k.endswith(":number")) == 99
        assert sum(int(v) for k, v in slabs.items() if k.endswith(":used_chunks")) == 99
        assert 0 <= int(items["items:1:age"]) < 10000
        for name in ("evicted", "evicted_time", "outofmemory"):
            assert items["items:1:" + name] == "0", name


def test_conns_and_sizes():
    with Daemon("-t", "2", "-o", "track_sizes") as d, d.client() as c, d.client() as other:
        other.ask(b"version")
        fill(c)
        mayfly.wait_for(lambda: c.stat("curr_connections") == 2, "these two are alone")
        conns = c.stats(b"conns")
        states = {}
        for number in {k.split(":")[0] for k in conns}:
            assert number.isdigit()
            assert "unix:" + d.path in (conns[number + ":addr"], conns.get(number + ":listen_addr")), conns
            states[number] = conns[number + ":state"]
        # This connection is in the middle of a command, the other waits for one.
        assert sorted(states.values()) == ["conn_listening", "conn_parse_cmd", "conn_read"], conns
        sizes = c.stats(b"sizes")
        assert all(key.isdigit() and int(value) > 0 for key, value in sizes.items()), sizes
        assert sum(int(value) for value in sizes.values()) == 99, sizes


def test_very_many_sizes():
    """One item of each of a thousand sizes, and two of some, in several shards."""
    steps = 1000
    with Daemon("-t", "3", "-o", "track_sizes") as d, d.client() as c:
        c.send(b"".join(b"set k%04d 0 0 %d noreply\r\n%s\r\n" % (i, 32 * i, b"v" * (32 * i)) for i in range(steps)))
        c.send(b"".join(b"set l%04d 0 0 %d noreply\r\n%s\r\n" % (i, 32 * i, b"v" * (32 * i))
                        for i in range(0, steps, 10)))
        assert c.stat("curr_items") == steps + steps // 10
        sizes = [(int(k), int(v)) for k, v in c.stats(b"sizes").items()]
        assert len(sizes) == steps, len(sizes)
        assert [k for k, _ in sizes] == list(range(sizes[0][0], sizes[0][0] + 32 * steps, 32)), sizes
        assert [v for _, v in sizes] == [2 if i % 10 == 0 else 1 for i in range(steps)], sizes
        # Counted from scratch each time.
        assert c.ask(b"delete k0001") == b"DELETED"
        assert len(c.stats(b"sizes")) == steps - 1


def test_every_connection_is_shown_once():
    """More connections than are described in one turn."""
    with Daemon("-t", "2") as d, d.client() as c:
        others = [d.client() for _ in range(400)]
        assert all(other.ask(b"version") is not None for other in others)
        c.send(b"stats conns\r\n")
        shown = []
        while True:
            line = c.line()
            if line == b"END":
                break
            if b":state " in line and b"conn_listening" not in line:
                shown.append(line.split()[1].split(b":")[0])
        assert len(shown) == len(set(shown)) == 401, (len(shown), len(set(shown)))


def test_states_of_connections():
    def states():
        conns = c.stats(b"conns")
        return sorted(conns[k] for k in conns if k.endswith(":state")), conns

    with Daemon("-t", "1", "-m", "64", "-I", "16m") as d, d.client() as c, d.client() as swallows, \
            d.client() as reads, d.client() as watches, d.client(rcvbuf=4096) as writes:
        assert c.set(b"large", b"v" * (8 << 20)) == b"STORED"
        swallows.send(b"set k 0 0 20000000\r\n")
        assert swallows.line() == b"SERVER_ERROR object too large for cache"
        reads.send(b"mn\r\nset k 0 0 10\r\nabc")
        assert reads.line() == b"MN"
        assert watches.ask(b"watch fetchers") == b"OK"
        writes.send(b"gets large\r\n")
        mayfly.wait_for(lambda: "conn_mwrite" in states()[0] and "conn_nread" in states()[0], "all are in the middle")
        found, conns = states()
        assert found == ["conn_listening", "conn_mwrite", "conn_nread", "conn_parse_cmd", "conn_swallow",
                         "conn_watch"], conns
        assert [(k, v) for k, v in conns.items() if k.endswith(":resps_waiting")] == [
            (k.replace(":state", ":resps_waiting"), "1") for k, v in conns.items() if v == "conn_mwrite"], conns


def test_figures_that_follow_from_others():
    with Daemon("-t", "1", "-m", "64") as d, d.client() as c:
        fill(c)
        shard, expire, general = c.stats(b"shards"), c.stats(b"expire"), c.stats()
        assert int(shard["0:hash_buckets"]) == 2 ** int(general["hash_power_level"])
        assert shard["0:hash_bytes"] == general["hash_bytes"]
        assert shard["0:segments_free"] == general["slab_global_page_pool"]
        for i in range(0, 100, 2):
            c.ask(b"delete k%d" % i)
        shard = c.stats(b"shards")
        assert int(shard["0:hole_bytes"]) <= int(shard["0:dead_bytes"]), "holes are dead bytes that may be used"
        later = c.stats(b"expire")
        cycles = [int(s["expire_cycles_slow"]) + int(s["expire_cycles_fast"]) for s in (expire, later)]
        assert cycles[0] <= int(general["lru_crawler_starts"]) <= cycles[1], (cycles, general)


def test_expiry_that_was_off_at_the_start_can_be_turned_on():
    """The setting reaches the engine, not only its line in the statistics."""
    with Daemon("-o", "no_lru_crawler") as d, d.client() as c:
        for i in range(100):
            assert c.set(b"k%d" % i, b"v", exptime=1) == b"STORED"
        mayfly.wait_for(lambda: c.get(b"k99") is None, "the keys are due")
        time.sleep(0.3)
        assert c.stat("curr_items") > 0, "something collects while expiry is off"
        assert c.ask(b"lru_crawler enable") == b"OK"
        mayfly.wait_for(lambda: c.stat("curr_items") == 0, "what is due is collected")


def test_prefixes_without_end():
    """`stats detail` counts this number of prefixes separately, and all others together."""
    apart, rounds = 10000, 100
    with Daemon("-t", "2") as d, d.client() as c:
        assert c.ask(b"stats detail on") == b"OK"
        assert c.get(b"first:1") is None
        before = d.rss()
        for start in range(0, rounds * 2000, 2000):
            c.send(b"".join(b"get prefix%d:k\r\n" % i for i in range(start, start + 2000)))
            for _ in range(2000):
                assert c.get_reply() == {}
        assert mayfly.is_sanitized() or d.rss() - before < 16 << 20
        c.send(b"stats detail dump\r\n")
        gets = {}
        while True:
            line = c.line()
            if line == b"END":
                break
            row = re.fullmatch(rb"PREFIX (\S+) get (\d+) hit 0 set 0 del 0", line)
            assert row, line
            gets[row.group(1)] = int(row.group(2))
        assert gets.pop(b"(more)") == rounds * 2000 + 1 - apart
        assert gets[b"first"] == 1 and len(gets) == apart and set(gets.values()) == {1}


mayfly.main(globals())
