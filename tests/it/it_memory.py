#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Memory: random sizes under -m 64 stay within the promised bound with recent items live; a flush
gives memory back; idle connections cost little. Skipped in sanitizer builds."""
import os
import random

import binary
import mayfly
from mayfly import Daemon, wait_for

MIB = 1 << 20
SEED = int(os.environ.get("MAYFLY_SEED", "1"), 0)


def need_real_memory():
    mayfly.skip_if(mayfly.is_sanitized(), "a sanitizer build")


def test_sizes_that_wander():
    need_real_memory()
    rng = random.Random(SEED)
    bound = 64 * MIB * 1.05 + 16 * MIB
    blob = bytes(rng.getrandbits(8) for _ in range(4096)) * 300
    with Daemon("-m", "64", "-t", "2") as d, d.client() as c:
        worst, written, i = 0, 0, 0
        for top, mib in ((200, 15), (5000, 90), (1000000, 200), (60000, 120), (500, 20), (1000000, 200)):
            until = written + mib * MIB
            while written < until:
                batch = []
                for _ in range(50 if top > 50000 else 500):
                    size = min(int(top * rng.random()) + 10, 1000000)
                    batch.append(b"set k%d 0 0 %d noreply\r\n%s\r\n" % (i, size, blob[:size]))
                    if rng.random() < 0.2:
                        batch.append(b"delete k%d noreply\r\n" % rng.randrange(max(1, i - 2000), i + 1))
                    written += size
                    i += 1
                    if len(batch) > 20 and top > 50000:
                        break
                c.send(b"".join(batch))
                worst = max(worst, d.rss())
            assert c.set(b"recent", b"r" * 100) == b"STORED"
            assert c.get(b"recent") == b"r" * 100
        assert worst < bound, "%.1f MiB resident, bound %.1f" % (worst / MIB, bound / MIB)
        assert c.stat("evictions") > 0


def test_flush_gives_memory_back():
    need_real_memory()
    with Daemon("-m", "128", "-t", "2") as d, d.client() as c:
        c.set(b"k", b"v")
        before = d.rss()
        for i in range(100):
            c.send(b"set k%d 0 0 1000000 noreply\r\n%s\r\n" % (i, b"x" * 1000000))
        assert c.get(b"k99") is not None
        full = d.rss()
        assert full - before > 60 * MIB
        assert c.ask(b"flush_all") == b"OK"
        wait_for(lambda: d.rss() < before + (full - before) / 3, "memory is given back after a flush")


def resident_after(d, c, name):
    """Upper bound that memory must reach without a request: live items, and the needs of the server."""
    live = c.stat("bytes")
    wait_for(lambda: d.rss() < 1.1 * live + 16 * MIB, "memory follows the data: " + name)


def test_memory_follows_the_data():
    """After a mass death memory is released without further requests."""
    need_real_memory()
    count, value = 45000, b"v" * 1000
    for threads in ("1", "4"):
        with Daemon("-m", "64", "-t", threads) as d, d.client() as c:
            for i in range(0, count, 1000):
                c.send(b"".join(b"set %d 0 %d 1000 noreply\r\n%s\r\n" % (n, 3600 * (n % 2), value)
                                for n in range(i, i + 1000)))
                assert c.ask(b"version").startswith(b"VERSION")
            assert d.rss() > 45 * MIB
            # Nine of ten, then half of the rest, by expiry.
            for i in range(0, count, 1000):
                c.send(b"".join(b"delete %d noreply\r\n" % n for n in range(i, i + 1000) if n * 7919 % 10))
                assert c.ask(b"version").startswith(b"VERSION")
            resident_after(d, c, "nine tenths deleted")
            assert c.stat("curr_items") == count / 10
            for i in range(0, count, 1000):
                c.send(b"".join(b"touch %d 1 noreply\r\n" % n for n in range(i, i + 1000)))
                assert c.ask(b"version").startswith(b"VERSION")
            resident_after(d, c, "all expired")
            wait_for(lambda: d.rss() < 16 * MIB, "hardly anything stays")
            assert c.stat("evictions") == 0


def test_storm_of_flushes():
    """Flushed indexes are memory too: nothing stored between two flushes is evicted for them, and
    they stay in bounds, whatever protocol asked for the flush."""
    rounds, each = 40, 100
    text = b"".join(b"set k 0 0 1\r\n%d\r\nget k\r\nflush_all\r\n" % (n % 10) for n in range(each))
    replies = b"".join(b"STORED\r\nVALUE k 0 1\r\n%d\r\nEND\r\nOK\r\n" % (n % 10) for n in range(each))
    frames = binary.store(binary.SET, b"k") + binary.timed(binary.FLUSH)
    with Daemon("-m", "64", "-t", "2") as d, d.client() as c, d.client() as b, d.client() as control:
        before = d.rss()
        worst = 0
        for _ in range(rounds):
            c.send(text)
            assert c.exactly(len(replies)) == replies
            b.send(frames * each)
            for _ in range(2 * each):
                assert b.exactly(binary.HEADER)[6:8] == b"\0\0"
            worst = max(worst, d.rss())
        assert control.stat("evictions") == 0
        assert control.stat("cmd_flush") == 2 * rounds * each
        assert mayfly.is_sanitized() or worst - before < 16 * MIB, "%.1f MiB" % ((worst - before) / MIB)


def test_idle_connections():
    need_real_memory()
    with Daemon("-c", "2000", "-t", "2") as d, d.client() as c:
        warm = [d.client() for _ in range(100)]
        for w in warm:
            assert w.set(b"k", b"v" * 1000) == b"STORED"
            assert w.get(b"k") == b"v" * 1000
        before = d.rss()
        idle = [d.client() for _ in range(800)]
        assert all(w.get(b"k") == b"v" * 1000 for w in idle)
        assert c.stat("curr_connections") >= 900
        each = (d.rss() - before) / 800
        assert each < 2048, "%d bytes resident for an idle connection" % each


def test_noeviction_keeps_everything():
    with Daemon("-M", "-m", "16", "-t", "2") as d, d.client() as c:
        stored = []
        for i in range(400):
            answer = c.set(b"k%d" % i, mayfly.pattern(b"k%d" % i, 100000))
            if answer != b"STORED":
                assert answer.startswith(b"SERVER_ERROR out of memory"), answer
                break
            stored.append(i)
        assert 50 < len(stored) < 200, len(stored)
        assert all(c.get(b"k%d" % i) == mayfly.pattern(b"k%d" % i, 100000) for i in stored)
        assert all(c.ask(b"delete k%d" % i) == b"DELETED" for i in stored[:20])

        def fits():
            return c.set(b"more", b"x" * 100000) == b"STORED"
        wait_for(fits, "deletes make room")
        assert c.stat("evictions") == 0


mayfly.main(globals())
