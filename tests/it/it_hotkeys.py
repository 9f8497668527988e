#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""stats hotkeys, stats bigkeys: which keys are asked for most, and which items are largest."""
import random

import mayfly
from binary import BinaryClient, STAT, pack
from mayfly import Daemon


def rows(c, what):
    """The lines by their number, and the others."""
    found, rest = {}, {}
    for name, value in c.stats(what).items():
        number, colon, field = name.partition(":")
        if colon:
            found.setdefault(int(number), {})[field] = value
        else:
            rest[name] = value
    assert sorted(found) == list(range(1, len(found) + 1)), found
    return [found[n] for n in sorted(found)], rest


def hot(c):
    return rows(c, b"hotkeys")


def big(c):
    return rows(c, b"bigkeys")[0]


def test_the_hottest_keys_are_found():
    """Zipf's law over 5000 keys, by four clients on two workers; one of four accesses is looked at."""
    rng = random.Random(7)
    keys = rng.choices(range(5000), weights=[1 / (n + 1) for n in range(5000)], k=60000)
    with Daemon("-t", "2", "-o", "hotkeys=4") as d:
        clients = [d.client() for _ in range(4)]
        for at in range(0, len(keys), 250):
            c = clients[at // 250 % 4]
            some = keys[at:at + 250]
            if at % 500:
                c.send(b"".join(b"mg key-%d\r\n" % k for k in some) + b"mn\r\n")
                while c.line() != b"MN":
                    pass
            else:
                c.get(*[b"key-%d" % k for k in some])
        found, rest = hot(clients[0])
        names = [row["key"] for row in found]
        assert len(names) == 20 and rest["sampling"] == "4", (names, rest)
        assert {"key-%d" % n for n in range(10)} <= set(names), names
        share = 100 * keys.count(0) / len(keys)
        error = float(found[0]["error_pct"])
        assert names[0] == "key-0" and abs(float(found[0]["share_pct"]) - share) <= 2 * error < share, found[0]


def test_each_command_counts():
    with Daemon("-t", "1", "-o", "hotkeys=1") as d, d.client() as c:
        for line in (b"get k", b"gat 0 k", b"mg k", b"delete k", b"incr k 1", b"touch k 0", b"ttl k", b"get a k"):
            c.send(line + b"\r\nmn\r\n")
            while c.line() != b"MN":
                pass
        assert c.set(b"k", b"1") == b"STORED"
        assert c.set(b"large", b"v" * 500000) == b"STORED"
        found, _ = hot(c)
        total = sum(float(row["share_pct"]) for row in found)
        assert [row["key"] for row in found][:1] == ["k"] and len(found) == 3, found
        assert 99 < total < 101, total
        assert abs(float(found[0]["share_pct"]) - 100 * 9 / 11) < 0.1, found[0]


def test_a_line_of_keys_comes_first():
    """The first that a worker is asked for is more than one key: there is no distance to be drawn yet."""
    for options in ("latency_stats", "hotkeys=1", "no_latency_stats"):
        with Daemon("-t", "1", "-o", options) as d, d.client() as c:
            assert c.get(*[b"k%d" % i for i in range(1000)]) == {}
            assert c.ask(b"mn") == b"MN"


def test_a_refused_request_carries_no_key():
    """Neither one that the parser refuses, however long the word that is no key, nor one that the client has no
    right to, nor a word of a command that is not about items."""
    long = b"k" * 1000
    bad = b"CLIENT_ERROR bad command line format"
    requests = [(b"get " + b"k" * 200000, bad), (b"get short " + long, bad), (b"gat 0 " + long, bad), (b"gat many short", None),
                (b"mg " + long, bad), (b"me " + long, bad), (b"set " + long + b" 0 0 1\r\nx", bad), (b"delete " + long, bad),
                (b"incr " + long + b" 1", bad), (b"incr short many", None), (b"touch " + long + b" 0", bad),
                (b"ttl " + long, bad), (b"expire short", None), (b"unlink short " + long, bad),
                (b"set short 0 0 1\r\nxx", b"CLIENT_ERROR bad data chunk")]
    with Daemon("-t", "1", "-o", "hotkeys=1", tcp=True) as d, d.client() as c:
        for _ in range(300):                # more than there are rows
            for request, answer in requests:
                got = c.ask(request)
                assert got == answer or answer is None, (request[:40], got)
                if request.startswith(b"set short"):
                    assert c.line() == bad              # what followed the value
        with BinaryClient(d.address) as b:
            assert b.call(pack(STAT, b"settings")) is not None
        assert hot(c)[0] == []
        assert c.get(b"k") is None
        assert [r["key"] for r in hot(c)[0]] == ["k"]
    with mayfly.place("rules", "default read prefix=open-\n") as rules:
        with Daemon("-t", "1", "-o", "hotkeys=1", "--access", rules, control=True) as d, \
                d.client() as c, d.operator() as operator:
            assert c.get(b"open-k") is None
            assert c.ask(b"get shut-k").startswith(b"CLIENT_ERROR ")
            assert c.ask(b"delete open-j").startswith(b"CLIENT_ERROR ")
            assert [r["key"] for r in hot(operator)[0]] == ["open-k"]


def test_the_largest_items():
    with Daemon("-t", "2", "-m", "64") as d, d.client() as c:
        assert big(c) == []
        for i in range(5000):
            c.send(b"set small-%d 0 0 10 noreply\r\n0123456789\r\n" % i)
        sizes = {b"large-%d" % i: 1000 * (i + 1) for i in range(40)}
        assert all(c.set(key, b"v" * n) == b"STORED" for key, n in sizes.items())
        found = big(c)
        want = sorted(sizes, key=sizes.get, reverse=True)[:20]
        assert [r["key"].encode() for r in found] == want, found
        for r in found:
            assert int(r["value_bytes"]) == sizes[r["key"].encode()] < int(r["item_bytes"]), r
        assert c.ask(b"delete large-39") == b"DELETED"
        c.send(b"append small-1 0 0 100000\r\n" + b"v" * 100000 + b"\r\n")
        assert c.line() == b"STORED"
        found = big(c)
        assert found[0] == {"key": "small-1", "value_bytes": "100010", "item_bytes": found[0]["item_bytes"]}
        assert found[1]["key"] == "large-38"
        assert c.shard_sum("mayfly_size_walks") == 3
        assert c.ask(b"flush_all") == b"OK"
        assert big(c) == []


mayfly.main(globals())
