#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The monitoring contract: the statistics that the Prometheus exporter for memcached, Telegraf, Datadog and
memcached-tool read, by their rules. The rules model the exporters: required lines, accepted numbers, and conditions
under which the server is reported as down."""
import re

import mayfly
from mayfly import Daemon

# Without these the exporter reports the server as down.
NEEDED = ("cmd_set", "cas_misses", "cas_hits", "cas_badval")
NEEDED_OF_A_CLASS = ("cmd_set", "cas_hits", "cas_badval")

# Read by the exporter; a missing one is a gap in a graph.
EXPORTED = """uptime time bytes_read bytes_written curr_connections total_connections
    rejected_connections conn_yields listen_disabled_num accepting_conns curr_items total_items bytes
    limit_maxbytes evictions reclaimed threads cmd_get cmd_set cmd_flush cmd_touch get_hits get_misses
    get_expired get_flushed delete_hits delete_misses incr_hits incr_misses decr_hits decr_misses
    cas_hits cas_misses cas_badval touch_hits touch_misses store_too_large store_no_memory
    lru_crawler_starts direct_reclaims crawler_items_checked crawler_reclaimed moves_to_cold
    moves_to_warm moves_within_lru max_connections""".split()

# What Telegraf, Datadog, OpenTelemetry and others read in addition.
READ_BY_OTHERS = """pid version pointer_size rusage_user rusage_system connection_structures
    auth_cmds auth_errors hash_bytes hash_is_expanding hash_power_level evicted_unfetched
    expired_unfetched malloc_fails log_worker_dropped log_watcher_skipped""".split()

# They would switch on whole blocks of the exporter that this server has no figures for.
FOREIGN = ("extstore_limit_maxbytes", "proxy_backend_total")

# With `lru_crawler yes` these must be numbers in the settings.
CRAWLER_NUMBERS = ("lru_crawler_sleep", "lru_crawler_tocrawl", "hot_lru_pct", "warm_lru_pct",
                   "hot_max_factor", "warm_max_factor")

SECONDS = re.compile(r"^\d+\.\d{6}$")       # the exporter adds the fraction as whole microseconds
NUMBER = re.compile(r"^-?\d+(\.\d+)?$")


def lines(c, what):
    """A command of the stats family as its client library reads it: lines, then END."""
    c.send(("stats " + what).strip().encode() + b"\r\n")
    found = []
    while True:
        line = c.line().decode("latin-1")
        if line == "END":
            return found
        assert line.startswith("STAT "), "stats %s: %r" % (what, line)
        words = line.split(" ")
        assert len(words) >= 3, "stats %s: a line without a value: %r" % (what, line)
        found.append((words[1], " ".join(words[2:])))


def check_general(stats):
    for key in NEEDED + tuple(EXPORTED):
        assert key in stats, "missing: " + key
        assert NUMBER.match(stats[key]), "%s is no number: %r" % (key, stats[key])
    for key in READ_BY_OTHERS:
        assert key in stats, "missing: " + key
    for key in ("rusage_user", "rusage_system"):
        assert SECONDS.match(stats[key]), "%s: %r" % (key, stats[key])
    for key in FOREIGN:
        assert key not in stats, key
    for key, value in stats.items():
        # A colon would be read as "class:key".
        assert ":" not in key, key
        assert value != "", key
    assert re.match(r"^\d+\.\d+\.\d+$", stats["version"]), stats["version"]


def check_classes(items, slabs):
    classes = set()
    for key, value in slabs:
        if ":" in key:
            number, name = key.split(":", 1)
            assert number.isdigit() and ":" not in name, key
            assert NUMBER.match(value), (key, value)
            classes.add(number)
        else:
            assert key in ("active_slabs", "total_malloced"), key
    have = dict(slabs)
    for number in classes:
        for name in NEEDED_OF_A_CLASS:
            assert "%s:%s" % (number, name) in have, "%s:%s" % (number, name)
    for key, value in items:
        words = key.split(":")
        assert len(words) == 3 and words[0] == "items" and words[1].isdigit(), key
        assert NUMBER.match(value), (key, value)
        assert words[1] in classes, "items of class %s, which stats slabs has not" % words[1]
    return classes


def check_settings(settings):
    have = dict(settings)
    assert len(have) == len(settings), "a setting is shown twice"
    assert NUMBER.match(have["maxconns"]), have["maxconns"]
    assert have["lru_crawler"] in ("yes", "no"), have["lru_crawler"]
    if have["lru_crawler"] == "yes":
        for key in CRAWLER_NUMBERS:
            assert NUMBER.match(have[key]), (key, have[key])
        assert have["lru_maintainer_thread"] in ("yes", "no")


def scrape(c):
    """Everything the exporter asks for in one round, on one connection."""
    stats = lines(c, "")
    assert len(dict(stats)) == len(stats), "a key is shown twice"
    check_general(dict(stats))
    check_settings(lines(c, "settings"))
    return check_classes(lines(c, "items"), lines(c, "slabs"))


def use(c):
    for i in range(200):
        assert c.set(b"k%d" % i, b"v" * (i * 50)) == b"STORED"
    c.get(*[b"k%d" % i for i in range(300)])
    c.ask(b"delete k1")
    c.ask(b"touch k2 100")
    c.set(b"n", b"1")
    c.ask(b"incr n 1")
    c.send(b"gets n\r\n")
    cas = c.line().split()[4]
    c.line()
    c.line()
    c.send(b"cas n 0 0 1 %s\r\n2\r\n" % cas)
    assert c.line() == b"STORED"


def test_scrape_of_an_empty_cache():
    with Daemon() as d, d.client() as c:
        scrape(c)


def test_scrape_of_a_used_cache():
    with Daemon() as d, d.client() as c:
        use(c)
        assert scrape(c), "no class is shown, so memcached-tool display would be empty"
        c.set(b"large", b"l" * 900000)
        scrape(c)
        c.ask(b"flush_all")
        scrape(c)


def test_scrape_with_everything_on():
    with Daemon("-D", ":", "-o", "idle_timeout=3600,track_sizes") as d, d.client() as c:
        use(c)
        scrape(c)
        assert "idle_kicks" in dict(lines(c, ""))


def test_stats_conns_has_lines_of_descriptor_and_key():
    with Daemon(tcp=True) as d, d.client() as c:
        found = lines(c, "conns")
        assert found
        for key, value in found:
            number, name = key.split(":")
            assert number.isdigit(), key
            assert name in ("addr", "listen_addr", "state", "resps_waiting", "secs_since_last_cmd",
                            "last_cmd", "UDP"), key
            assert value
        assert any(key.endswith(":addr") and value.startswith("tcp:") for key, value in found)


mayfly.main(globals())
