#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Clients that take their time, or never read at all: what they cost is bounded, and others do
not notice (see also CVE-2025-21605)."""
import time

import mayfly
from mayfly import Daemon, best_of, wait_for

MIB = 1 << 20


def push(client, data, patience=3.0):
    """Send until the socket takes no more; returns the bytes that went out."""
    client.sock.setblocking(False)
    sent, end = 0, time.monotonic() + patience
    stuck = 0
    while time.monotonic() < end and stuck < 20:
        try:
            sent += client.sock.send(data)
            stuck = 0
        except BlockingIOError:
            stuck += 1
            time.sleep(0.005)
        except OSError:
            break           # the daemon gave up on this client: that is one way to be bounded
    return sent


def median_ms(daemon):
    times = []
    with daemon.client() as c:
        assert c.set(b"polite", b"x") == b"STORED"
        for _ in range(101):
            began = time.monotonic()
            assert c.get(b"polite") == b"x"
            times.append(time.monotonic() - began)
    return sorted(times)[len(times) // 2] * 1000


def serves_within(daemon, limit_ms):
    """Is a polite client served within this time? A busy machine may need several tries; a faulty
    daemon would be late each time."""
    best = best_of(lambda: median_ms(daemon), limit_ms)
    assert best < limit_ms, "median %.1f ms, limit %d" % (best, limit_ms)


def test_clients_that_never_read():
    with Daemon("-m", "64", "-t", "2") as d:
        with d.client() as c:
            for i in range(8):
                assert c.set(b"big%d" % i, mayfly.pattern(b"big%d" % i, 500000)) == b"STORED"
            c.stats()
        before = d.rss()
        deaf = [d.client(rcvbuf=4096) for _ in range(20)]
        for i, c in enumerate(deaf):
            if i % 3 == 2:
                push(c, b"stats\r\nstats items\r\n" * 2000)
            else:
                push(c, b"get big0 big1 big2 big3 big4 big5 big6 big7\r\n" * 2000)
        serves_within(d, 200)
        grown = d.rss() - before
        for c in deaf:
            c.close()
        assert mayfly.is_sanitized() or grown < 48 * MIB, "%d MiB for 20 clients that do not read" % (grown // MIB)
        serves_within(d, 200)


def test_sockets_take_little_that_nobody_reads():
    """What the kernel takes is memory of the whole machine, and copying it takes the neighbours'
    time."""
    value = mayfly.pattern(b"big", 900000)
    with Daemon("-m", "64", "-t", "1", tcp=True) as d, d.client() as c:
        assert c.set(b"big", value) == b"STORED"
        before = c.stat("bytes_written")
        with d.client(rcvbuf=65536) as deaf:
            deaf.send(b"get big\r\n" * 20)
            wait_for(lambda: "conn_mwrite" in c.stats(b"conns").values(), "it waits for its reader")
            taken = c.stat("bytes_written") - before
            assert taken < MIB, "%d KiB for a client that does not read" % (taken // 1024)
            for _ in range(20):
                assert deaf.get_reply() == {b"big": value}


SIZE = 900000


def begin_slow_get(daemon, i):
    """Ask for a large value and read only its first bytes."""
    s = daemon.client(rcvbuf=4096)
    s.send(b"get key%d\r\nversion\r\n" % i)
    s.want = b"VALUE key%d 0 %d\r\n" % (i, SIZE) + mayfly.pattern(b"key%d" % i, SIZE) + b"\r\nEND\r\n"
    assert s.exactly(100) == s.want[:100]
    return s


def disturb(c, i):
    """Delete, overwrite, append to or evict what is being sent."""
    if i % 5 == 0:
        assert c.ask(b"delete key%d" % i) in (b"DELETED", b"NOT_FOUND")
    elif i % 5 == 1:
        assert c.set(b"key%d" % i, b"other" * 1000) == b"STORED"
    elif i % 5 == 2:
        c.send(b"append key%d 0 0 5\r\nxxxxx\r\n" % i)
        assert c.line() in (b"STORED", b"NOT_STORED")       # the latter when it was evicted
    for k in range(100):
        assert c.set(b"fill%d" % k, mayfly.pattern(b"fill%d" % k, 800000)) == b"STORED"


def test_many_values_that_are_sent_slowly():
    """Over the limit of what slow readers may hold, some may be cut off, but none gets wrong bytes."""
    with Daemon("-m", "64", "-t", "2") as d, d.client() as c:
        for i in range(12):
            assert c.set(b"key%d" % i, mayfly.pattern(b"key%d" % i, SIZE)) == b"STORED"
        slow = [begin_slow_get(d, i) for i in range(12)]
        for i in (0, 1, 2, 4):
            disturb(c, i)
        cut = 0
        for i, s in enumerate(slow):
            try:
                got = s.exactly(len(s.want) - 100)
            except (EOFError, ConnectionError):
                got = s.buf
                cut += 1
            assert got == s.want[100:100 + len(got)], "value of key%d is torn" % i
            s.close()
        assert c.shard_sum("mayfly_slow_drops") == cut


mayfly.main(globals())
