#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Slow clients, or clients that never read: their cost is bounded, and others are not affected (see also
CVE-2025-21605)."""
import contextlib
import os
import time

import mayfly
from mayfly import Daemon, best_of, wait_for

MIB = 1 << 20


def push(client, data, patience=3.0):
    """Send until the socket is full; returns the number of sent bytes."""
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


def median_ms(daemon, rounds=101):
    times = []
    with daemon.client() as c:
        assert c.set(b"polite", b"x") == b"STORED"
        for _ in range(rounds):
            began = time.monotonic()
            assert c.get(b"polite") == b"x"
            times.append(time.monotonic() - began)
    return sorted(times)[len(times) // 2] * 1000


def serves_within(daemon, limit_ms, rounds=101):
    """Is a polite client served within this time? A busy machine may need several tries; a faulty
    daemon would be late each time."""
    best = best_of(lambda: median_ms(daemon, rounds), limit_ms)
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


def test_small_gets_never_read():
    with Daemon("-m", "64", "-t", "1") as d:
        with d.client() as c:
            assert c.set(b"k", b"v" * 1000) == b"STORED"
        before = d.rss()
        deaf = [d.client(rcvbuf=4096) for _ in range(10)]
        for c in deaf:
            push(c, b"get k\r\n" * 20000)
        serves_within(d, 200)
        grown = d.rss() - before
        for c in deaf:
            c.close()
        assert mayfly.is_sanitized() or grown < 48 * MIB, "%d MiB" % (grown // MIB)


def test_sockets_take_little_that_nobody_reads():
    """Socket buffers of the kernel use memory of the whole machine, and copying to them takes time from others."""
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
    """Delete, overwrite, append to, flush or evict what is being sent."""
    if i % 5 == 0:
        assert c.ask(b"delete key%d" % i) in (b"DELETED", b"NOT_FOUND")
    elif i % 5 == 1:
        assert c.set(b"key%d" % i, b"other" * 1000) == b"STORED"
    elif i % 5 == 2:
        c.send(b"append key%d 0 0 5\r\nxxxxx\r\n" % i)
        assert c.line() in (b"STORED", b"NOT_STORED")       # the latter when it was evicted
    elif i % 5 == 3:
        assert c.ask(b"flush_all") == b"OK"
    for k in range(100):
        assert c.set(b"fill%d" % k, mayfly.pattern(b"fill%d" % k, 800000)) == b"STORED"


def test_value_that_is_sent_slowly_stays_whole():
    with Daemon("-m", "64", "-t", "2") as d, d.client() as c:
        for i in range(5):
            assert c.set(b"key%d" % i, mayfly.pattern(b"key%d" % i, SIZE)) == b"STORED"
            s = begin_slow_get(d, i)
            disturb(c, i)
            assert s.exactly(len(s.want) - 100) == s.want[100:], "value of key%d is torn" % i
            assert s.line().startswith(b"VERSION")
            s.close()


def test_many_values_that_are_sent_slowly():
    """Beyond the limit for slow readers, some may be disconnected, but none gets wrong bytes."""
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


def test_announced_bodies_that_never_come():
    with Daemon("-m", "64", "-t", "2") as d:
        before = d.rss()
        liars = []
        for i in range(200):
            c = d.client()
            c.send(b"set lie%d 0 0 1000000\r\n" % i + b"x" * 1000)
            liars.append(c)
        with d.client() as c:
            for i in range(200):
                value = mayfly.pattern(b"k%d" % i, 1000 if i % 10 else 300000)
                assert c.set(b"k%d" % i, value) == b"STORED"
                assert c.get(b"k%d" % i) == value
        assert mayfly.is_sanitized() or d.rss() - before < 80 * MIB
        for c in liars:
            c.close()
        with d.client() as c:
            wait_for(lambda: c.stat("curr_connections") < 10, "connections are closed")


def test_bodies_that_come_in_part():
    """Half of each body arrives: together they must not exceed their share."""
    with Daemon("-m", "64", "-t", "2") as d:
        liars = []
        for i in range(150):
            c = d.client()
            c.sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                c.sock.send(b"set lie%d 0 0 1000000\r\n" % i + b"x" * 500000)
            liars.append(c)
        with d.client() as c:
            c.fill(b"k", 100, b"v" * 5000)
            for i in range(100):
                assert c.get(b"k%d" % i) == b"v" * 5000
        assert mayfly.is_sanitized() or d.rss() < 110 * MIB, "%d MiB" % (d.rss() // MIB)


def test_slow_loris():
    """Hundreds of connections, a byte at a time: each gets its reply, others see normal latency."""
    line = b"set loris 0 0 5\r\nhello\r\nget loris\r\n"
    with Daemon("-m", "64", "-t", "2", "-c", "1024") as d:
        many = [d.client() for _ in range(300)]
        for at in range(len(line)):
            for c in many:
                c.send(line[at:at + 1])
            if at == len(line) // 2:
                serves_within(d, 100)
        for c in many:
            assert c.line() == b"STORED"
            assert c.get_reply() == {b"loris": b"hello"}
            c.close()


def test_line_without_end():
    with Daemon("-m", "64", "-t", "1") as d:
        before = d.rss()
        clients = [d.client() for _ in range(20)]
        for i, c in enumerate(clients):
            push(c, b"get " + b"k " * 500000 if i % 2 else b"a" * 1000000)
        serves_within(d, 200)
        assert mayfly.is_sanitized() or d.rss() - before < 64 * MIB


def test_only_gets_may_be_long_without_an_end():
    """As in memcached: 2048 bytes without a line feed are too many for any other command, whatever follows."""
    with Daemon("-m", "64", "-t", "1") as d:
        for head in (b"", b"set ", b"mg ", b"gat 0 ", b" " * 101 + b"get "):
            with d.client() as c:
                c.send(b"version\r\n" + head + b"x" * (2048 - len(head)))
                assert c.line().startswith(b"VERSION"), head
                c.send(b"x")
                with contextlib.suppress(ConnectionError):
                    assert c.line() is None, head
        for head in (b"get ", b"gets ", b" " * 100 + b"get "):
            with d.client() as c:
                c.send(b"version\r\n" + head + b"x " * 3000)
                assert c.line().startswith(b"VERSION"), head
                c.send(b"\r\n")
                assert c.line() == b"END", head


def test_endless_pipeliner_has_a_polite_neighbour():
    with Daemon("-m", "64", "-t", "1") as d:
        with d.client() as c:
            assert c.set(b"k", b"v" * 100) == b"STORED"
        pid = os.fork()
        if pid == 0:
            try:
                c = d.client()
                batch = b"get k\r\n" * 5000
                end = time.monotonic() + 300        # it is killed long before
                c.sock.setblocking(False)
                while time.monotonic() < end:
                    for step in (lambda: c.sock.send(batch), lambda: c.sock.recv(1 << 20)):
                        with contextlib.suppress(BlockingIOError):
                            step()
            finally:
                os._exit(0)
        try:
            busy = d.cpu()
            wait_for(lambda: d.cpu() > busy + 0.05, "the pipeliner works")
            serves_within(d, 300 if mayfly.is_sanitized() else 40, 301)
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        with d.client() as c:
            assert c.stat("conn_yields") > 0


mayfly.main(globals())
