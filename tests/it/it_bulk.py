#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Values of 20 to 300 KiB, whole, in pieces and between other commands: every reply and every byte
is compared with a model, and values that can be read straight into their place are."""
import os
import random
import threading

import binary
import mayfly
from binary import BinaryClient, pack, store
from mayfly import Daemon, wait_for

SEED = int(os.environ.get("MAYFLY_SEED", "1"), 0)
KIB = 1024
MIB = 1024 * KIB
BLOB = random.Random(SEED).randbytes(400 * KIB)


def value(rng, low=20 * KIB, high=300 * KIB):
    at = rng.randrange(50 * KIB)
    return BLOB[at:at + rng.randint(low, high)]


class Model:
    """What is stored, and how a command is answered."""

    def __init__(self):
        self.items = {}

    def store(self, mode, key, data):
        has = key in self.items
        if mode == b"add" and has or mode in (b"replace", b"append") and not has:
            return b"NOT_STORED\r\n"
        self.items[key] = self.items[key] + data if mode == b"append" else data
        return b"STORED\r\n"

    def get(self, key):
        if key not in self.items:
            return b"END\r\n"
        data = self.items[key]
        return b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(data), data)


def one(rng, model):
    """A command and its answer."""
    key = b"k%d" % rng.randrange(8)
    kind = rng.randrange(10)
    if kind == 0:
        return b"get %s\r\n" % key, model.get(key)
    if kind == 1:
        had = model.items.pop(key, None)
        return b"delete %s\r\n" % key, b"NOT_FOUND\r\n" if had is None else b"DELETED\r\n"
    if kind == 2:
        data = value(rng, 0, 300)
        return b"set %s 0 0 %d\r\n%s\r\n" % (key, len(data), data), model.store(b"set", key, data)
    if kind == 3:
        # The bytes after the value are not a line end; the next command begins after them.
        data = value(rng)
        return b"set %s 0 0 %d\r\n%sxx" % (key, len(data), data), b"CLIENT_ERROR bad data chunk\r\n"
    mode = rng.choice([b"set"] * 6 + [b"add", b"replace", b"append"])
    data = value(rng)
    if mode == b"append":
        data = data[:30 * KIB]
        if len(model.items.get(key, b"")) > 500 * KIB:
            mode = b"set"
    quiet = rng.randrange(6) == 0
    reply = model.store(mode, key, data)
    if mode == b"set" and rng.randrange(3) == 0:
        return (b"ms %s %d%s\r\n%s\r\n" % (key, len(data), b" q" if quiet else b"", data), b"" if quiet else b"HD\r\n")
    return (b"%s %s 0 0 %d%s\r\n%s\r\n" % (mode, key, len(data), b" noreply" if quiet else b"", data),
            b"" if quiet else reply)


def portions(rng, data):
    """How the bytes are cut for the socket."""
    kind = rng.randrange(4)
    if kind < 2:
        return [data]
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(1 if kind == 2 else 6))
    return [data[a:b] for a, b in zip([0] + cuts, cuts + [len(data)])]


def run(options, seed):
    rng = random.Random(seed)
    model = Model()
    with Daemon(*options) as d, d.client() as c:
        for step in range(400):
            pairs = [one(rng, model) for _ in range(rng.choice((1, 1, 1, 2, 5)))]
            parts = portions(rng, b"".join(p[0] for p in pairs))
            answer = b"".join(p[1] for p in pairs)
            # The daemon reads no more while its replies are not taken.
            sender = threading.Thread(target=lambda: [c.send(part) for part in parts])
            sender.start()
            got = c.exactly(len(answer))
            sender.join()
            assert got == answer, "seed %d, step %d: %r..., not %r..." % (seed, step, got[:60], answer[:60])
        assert c.ask(b"mn_is_no_command") == b"ERROR"
        placed = c.shard_sum("mayfly_bodies_placed")
        assert c.shard_sum("mayfly_body_pending_bytes") == 0
        return placed


def test_random_dialogues_in_large_segments():
    placed = [run(("-m", "1024", "-t", "1"), seed) for seed in range(SEED, SEED + 4)]
    assert all(placed), "values read into their place: %s" % placed


def test_random_dialogues_in_small_segments():
    # Nearly all of these values have a whole segment.
    placed = [run(("-m", "64", "-t", threads), seed) for seed, threads in ((SEED, "2"), (SEED + 1, "4"))]
    assert all(placed), "values read into their place: %s" % placed


def one_after_the_other(options, size):
    """Returns how many were read into their place: those whose bytes are there in time, so it is tried again."""
    with Daemon(*options) as d, d.client() as c:
        data = BLOB[:size]
        for _ in range(30):
            for i in range(100):
                assert c.set(b"k%d" % (i % 5), data[i:]) == b"STORED"
            for i in range(95, 100):
                assert c.get(b"k%d" % (i % 5)) == data[i:]
            c.send(b"".join(b"set p 0 0 %d noreply\r\n%s\r\n" % (len(data) - i, data[i:])
                            for i in range(100)) + b"get p\r\n")
            want = b"VALUE p 0 %d\r\n%s\r\nEND\r\n" % (len(data) - 99, data[99:])
            assert c.exactly(len(want)) == want
            assert c.shard_sum("mayfly_body_pending_bytes") == 0
            placed = c.shard_sum("mayfly_bodies_placed")
            if placed > 0:
                break
        return placed


def test_values_one_after_the_other_are_placed():
    assert one_after_the_other(("-m", "1024", "-t", "1"), 100 * KIB) > 0


def test_values_with_segments_are_placed():
    # One segment of 64 KiB and pieces, segments of 32 KiB and pieces, segments alone.
    assert one_after_the_other(("-m", "64", "-t", "4"), 100000) > 0
    assert one_after_the_other(("-m", "32", "-t", "4"), 150000) > 0
    assert one_after_the_other(("-m", "64", "-t", "4"), 128 * KIB) > 0


def test_what_long_values_have_in_pieces_is_placed():
    # A segment of 256 KiB, and pieces.
    assert one_after_the_other(("-m", "1024", "-t", "1"), 390 * KIB) > 0


def test_a_full_cache_places_values_with_segments():
    """Several clients store four times the capacity, and read the remaining items."""
    size = 100000

    def work(number):
        rng = random.Random(SEED * 100 + number)
        with d.client() as c:
            for _ in range(40):
                keys = [rng.randrange(2500) for _ in range(8)]
                c.send(b"".join(b"set k%d 0 0 %d\r\n%s\r\n" % (k, size - k, BLOB[k:size]) for k in keys))
                answers = [c.line() for _ in keys]
                assert answers == [b"STORED"] * len(keys), answers
                for key, data in c.get(*(b"k%d" % k for k in keys[:2])).items():
                    assert data == BLOB[int(key[1:]):size], key

    for options in (("-m", "64", "-t", "4"), ("-m", "32", "-t", "4")):
        with Daemon(*options) as d, d.client() as c:
            mayfly.in_parallel(work, range(6))
            assert c.stat("evictions") > 0
            assert c.shard_sum("mayfly_bodies_placed") > 0
            wait_for(lambda: c.shard_sum("mayfly_body_pending_bytes") == 0, "nothing is on its way")


def protocols_are_placed(options):
    data = BLOB[:100 * KIB]
    with Daemon(*options) as d, d.client() as c, BinaryClient(d.address) as b:
        for i in range(20):
            c.send(b"ms p %d T%d F7\r\n%s\r\n" % (len(data) - i, 1000 + i, data[i:]))
            assert c.line() == b"HD"
        by_meta = c.shard_sum("mayfly_bodies_placed")
        assert by_meta > 0
        c.send(b"mg p v f\r\n")
        assert c.line() == b"VA %d f7" % (len(data) - 19)
        assert c.exactly(len(data) - 19 + 2) == data[19:] + b"\r\n"
        for i in range(20):
            assert b.call(store(binary.SET, b"q", data[i:], flags=9)).status == binary.OK
        assert c.shard_sum("mayfly_bodies_placed") > by_meta
        got = b.call(pack(binary.GET, b"q"))
        assert got.value == data[19:] and got.extras == b"\0\0\0\x09"


def test_values_of_all_protocols_are_placed():
    protocols_are_placed(("-m", "1024", "-t", "1"))
    protocols_are_placed(("-m", "64", "-t", "4"))


def test_a_deadline_that_fits_no_block():
    """The longest values of one block become large ones when they get a deadline. Only append creates such values,
    because a value that is sent with its command leaves room for both. Some of these lengths are on either side of
    the limit for any key."""
    with Daemon("-m", "256", "-t", "1") as d, d.client() as c:
        for how, answer in ((b"touch %s 1000", [b"TOUCHED"]), (b"gat 1000 %s", None),
                            (b"gats 1000 %s", None), (b"mg %s v T1000", b"VA %d"),
                            (b"mg %s T1000", [b"HD"]), (b"md %s I T1000", [b"HD"])):
            for n in range(16 * KIB - 80, 16 * KIB - 20, 3):
                key, data = b"key%d" % n, BLOB[n:2 * n]
                assert c.set(key, data[:-500], flags=5) == b"STORED"
                c.send(b"append %s 0 0 500\r\n%s\r\n" % (key, data[-500:]))
                assert c.line() == b"STORED"
                cas, before = c.ask(b"mg %s c" % key), c.stat("total_items")
                c.send(how % key + b"\r\n")
                if isinstance(answer, list):
                    assert c.line() == answer[0], (how, n)
                elif answer is not None:
                    assert c.line() == answer % n and c.exactly(n + 2) == data + b"\r\n", (how, n)
                else:
                    assert c.get_reply() == {key: data}, (how, n)
                assert c.stat("total_items") == before, (how, n)
                # Stale ones get another cas and say so; for the others only time has passed.
                after = c.ask(b"mg %s c t f" % key).split()
                assert after[0] == b"HD" and 0 < int(after[2][1:]) <= 1000 and after[3] == b"f5", after
                assert (after[1] == cas.split()[1]) == (b" I " not in how), (how, n, cas, after)
                assert c.get(key) == data, (how, n)
                c.send(b"delete %s\r\n" % key)
                assert c.line() == b"DELETED"


def stalls(options):
    with Daemon(*options) as d, d.client() as slow, d.client() as c:
        data = BLOB[:100 * KIB]
        for _ in range(3):
            assert slow.set(b"s", data) == b"STORED"
        slow.send(b"set s 0 0 %d\r\n%s" % (len(data), data[:60 * KIB]))
        for i in range(200):
            assert c.set(b"k%d" % (i % 7), data[i:]) == b"STORED"
        c.ask(b"flush_all")
        assert c.set(b"k", data) == b"STORED"
        slow.send(data[60 * KIB:] + b"\r\n")
        assert slow.line() == b"STORED"
        got = c.get(b"s", b"k")
        assert got[b"s"] == data and got[b"k"] == data
        # One that ends in the middle leaves the old value, and nothing of itself.
        with d.client() as gone:
            for _ in range(20):
                assert gone.set(b"k", data) == b"STORED"
            gone.send(b"set k 0 0 %d\r\n%s" % (len(data), data[1:60 * KIB]))
        wait_for(lambda: c.stat("curr_connections") == 2, "it is gone")
        assert c.shard_sum("mayfly_body_pending_bytes") == 0
        assert c.get(b"k") == data


def test_a_value_that_stalls_holds_nobody_up():
    stalls(("-m", "1024", "-t", "1"))
    stalls(("-m", "64", "-t", "4"))


def test_many_long_values_at_once_do_not_wait_for_one_another():
    """Together they need four times the memory limit of uploads, and each soon holds a part of its value."""
    size, clients, sets = 4 * MIB, 16, 3

    def run(number):
        data = bytes([number]) * size
        with d.client() as c:
            for i in range(sets):
                assert c.set(b"k%d" % number, data) == b"STORED"

    with Daemon("-m", "64", "-t", "2", "-I", "5m") as d, d.client() as c:
        mayfly.in_parallel(run, range(clients))
        wait_for(lambda: c.shard_sum("mayfly_body_pending_bytes") == 0, "nothing is on its way")
        assert c.shard_sum("mayfly_room_waits") > 0


mayfly.main(globals())
