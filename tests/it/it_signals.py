#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Signals: SIGTERM under load ends within seconds with status 0 and whole replies; a graceful stop
serves the clients that are there; the same port listens again at once, also after SIGKILL; a daemon
that was stopped for seconds keeps elapsed time."""
import fcntl
import os
import resource
import signal
import struct
import termios
import time

import busy
import mayfly
from mayfly import Daemon, wait_for

DRAIN = 1.5         # seconds: a client that has not taken its answers by then is cut off (daemon/worker/worker.h)


def busy_clients(d):
    """Clients that never stop sending, and some that take large values slowly, one by one."""
    clients = [busy.Client(busy.dial(d.address), busy.mixed(b"c%d" % i)) for i in range(26)]
    clients += [busy.Client(busy.dial(d.address), busy.large(b"l%d" % i)) for i in range(3)]
    clients += [busy.Client(busy.dial(d.address), busy.large(b"s%d" % i), 0.005, 1 << 16, one_by_one=True)
                for i in range(3)]
    return clients


def check_end(how, tcp, args=()):
    """Every client gets complete replies, then the end of the stream. On a busy machine this test may be too slow to
    read the replies in time; daemons are started until most connections were read in time."""
    def whole_streams():
        with Daemon("-m", "256", "-t", "2", *args, tcp=tcp) as d:
            clients = busy_clients(d)
            told = busy.run(clients, lambda: how(d), patience=mayfly.PATIENCE)
            assert told is not None, "not every client got something"
            status = d.process.wait(mayfly.PATIENCE)
            assert status == 0, "exit status %d: %s" % (status, d.log())
            took = time.monotonic() - told
            assert took < (60 if mayfly.is_sanitized() else 10), "%.1f s" % took
            in_time = [c for c in clients if c.end_time - told < DRAIN]
            for c in clients:
                assert c.wrong is None, str(c)
            for c in in_time:
                assert c.is_whole and c.end == "end", str(c)
            return len(in_time) > len(clients) / 2
    wait_for(whole_streams, "most connections are read to their end in time")


def test_term_under_load():
    check_end(lambda d: d.process.send_signal(signal.SIGTERM), True)


def test_int_under_load():
    check_end(lambda d: d.process.send_signal(signal.SIGINT), False)


def test_shutdown_under_load():
    def ask(d):
        with d.client() as c:
            c.send(b"shutdown\r\n")
            assert c.rest() == b""
    check_end(ask, True, ("-A",))


def unsent(sock):
    """Bytes that the server's kernel has not acknowledged."""
    return struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0\0\0\0"))[0]


def test_what_was_received_is_answered():
    """So it is on connections that were open, and on those that were not accepted yet."""
    value = mayfly.pattern(b"k", 30000)
    answer = b"VALUE k 0 30000\r\n" + value + b"\r\nEND\r\n"
    with Daemon("-m", "64", "-t", "2", tcp=True) as d:
        old = [d.client() for _ in range(4)]
        assert all(c.set(b"k", value) == b"STORED" for c in old)
        with d.paused():    # what is sent from now on waits in the kernel
            new = [d.client() for _ in range(4)]
            for c in old:
                c.send((b"set k 0 0 30000\r\n" + value + b"\r\n") * 2 + b"get k\r\n")
            for c in new:
                c.send(b"get k\r\n" * 50)
            for c in old + new:
                wait_for(lambda: unsent(c.sock) == 0, "all requests have arrived")
            d.process.send_signal(signal.SIGTERM)
        assert all(c.rest() == b"STORED\r\n" * 2 + answer for c in old)
        assert all(c.rest() == answer * 50 for c in new)
        assert d.process.wait(mayfly.PATIENCE) == 0


def test_half_a_request_is_not_answered():
    """Uploads, lines and frames that are not whole end without a reply, and without a reset."""
    halves = [b"set k 0 0 900000\r\n" + b"x" * 500000, b"set k 0 0 10\r\nabc", b"get k", b"ms k 5\r\nab",
              b"\x80\x00\x00\x03\x00\x00\x00\x00"]
    with Daemon("-m", "64", "-t", "2", tcp=True) as d:
        clients = [d.client() for _ in halves]
        for c, half in zip(clients, halves):
            c.send((b"" if half.startswith(b"\x80") else b"mn\r\n") + half)
        for c, half in zip(clients, halves):
            if not half.startswith(b"\x80"):
                assert c.line() == b"MN"
        d.process.send_signal(signal.SIGTERM)
        assert all(c.rest() == b"" for c in clients)
        assert d.process.wait(mayfly.PATIENCE) == 0


def test_a_second_signal_cuts_the_stop_short():
    """A client that reads nothing is not waited for any longer."""
    with Daemon("-m", "64", "-t", "2") as d, d.client() as c:
        assert c.set(b"big", b"v" * 1000000) == b"STORED"
        stalled = mayfly.hold(d, 1, b"get big\r\n" * 100)
        wait_for(lambda: c.shard_sum("mayfly_out_pending_bytes") > 0, "an answer waits")
        with d.paused():    # so that both signals come before the first one has run its time
            d.process.send_signal(signal.SIGTERM)
            d.process.send_signal(signal.SIGINT)
        assert d.process.wait(mayfly.PATIENCE) == 0
        assert d.says("is stopping (") and d.says("is stopping at once (")


def begin_graceful_stop(d, how):
    """Request a graceful stop by how(); returns when the daemon accepts no further connections."""
    how()

    def is_refused():
        try:
            d.client().close()
        except OSError:
            return True
        return False
    wait_for(is_refused, "no client is accepted any more")
    assert d.is_alive()


def check_graceful_stop(d, how):
    """Connected clients are served until the last one has disconnected; no new one is served."""
    clients = [d.client() for _ in range(4)]
    assert all(c.set(b"k", b"v") == b"STORED" for c in clients)
    begin_graceful_stop(d, lambda: how(d))
    while clients:
        for c in clients:
            assert c.get(b"k") == b"v", "it is served to the end"
        assert d.is_alive()
        clients.pop().close()
    assert d.process.wait(mayfly.PATIENCE) == 0


def test_usr1_stops_gracefully():
    with Daemon("-t", "2") as d:
        check_graceful_stop(d, lambda d: d.process.send_signal(signal.SIGUSR1))


def test_shutdown_graceful():
    def ask(d):
        with d.client() as c:
            c.send(b"shutdown graceful\r\n")
            assert c.rest() == b"", "whoever asks is the first to leave"
    with Daemon("-A", "-t", "2") as d:
        check_graceful_stop(d, ask)


def test_shutdown_ends_at_once():
    with Daemon("-A", "-t", "2") as d, d.client() as c, d.client() as stays:
        assert stays.set(b"k", b"v") == b"STORED"
        c.send(b"shutdown\r\n")
        assert c.rest() == b""
        assert stays.rest() == b""
        assert d.process.wait(mayfly.PATIENCE) == 0


def test_graceful_stop_without_clients():
    with Daemon("-t", "2") as d:
        with d.client() as c:
            wait_for(lambda: c.stat("curr_connections") == 1, "the first connection is alone")
        assert d.stop(signal.SIGUSR1) == 0


def test_term_cuts_a_graceful_stop_short():
    for second in (signal.SIGTERM, signal.SIGINT):
        with Daemon("-t", "2") as d, d.client() as stays:
            assert stays.set(b"k", b"v") == b"STORED"
            begin_graceful_stop(d, lambda: d.process.send_signal(signal.SIGUSR1))
            d.process.send_signal(signal.SIGUSR1)       # again: nothing changes
            assert stays.get(b"k") == b"v"
            assert d.stop(second) == 0
            assert stays.rest() == b""


def once_of(attempt, tries=5):
    """Between two daemons the kernel may give their port to another program's connection, but not
    every time."""
    for left in reversed(range(tries)):
        try:
            return attempt()
        except AssertionError as e:
            if left == 0 or "Address already in use" not in str(e):
                raise


def test_same_port_at_once():
    def attempt():
        with Daemon(tcp=True) as d:
            port = d.port
            clients = [d.client() for _ in range(5)]
            assert all(c.set(b"k", b"v") == b"STORED" for c in clients)
            assert d.stop() == 0        # it closes first, so the port is left in TIME_WAIT
            with Daemon(tcp=True, port=port) as again, again.client() as c:
                assert c.get(b"k") is None
    once_of(attempt)


def test_same_port_after_kill():
    def attempt():
        with Daemon(tcp=True) as d:
            port = d.port
            c = d.client()
            assert c.set(b"k", b"v") == b"STORED"
            d.crash()
            with Daemon(tcp=True, port=port) as again, again.client() as n:
                assert n.get(b"k") is None
    once_of(attempt)


def test_same_socket_after_kill():
    """A stale unix socket is replaced."""
    with Daemon() as d:
        path = d.path
        d.crash()
        assert os.path.exists(path)
        with Daemon(path=path) as again, again.client() as c:
            assert c.set(b"k", b"v") == b"STORED"


def test_stopped_for_seconds():
    with Daemon("-t", "2") as d, d.client() as c:
        assert c.set(b"short", b"x", exptime=1) == b"STORED"
        assert c.set(b"long", b"x", exptime=100) == b"STORED"
        assert c.set(b"none", b"x") == b"STORED"
        d.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        while time.monotonic() < began + 1.2:       # the time that must count is real time
            time.sleep(0.1)
        d.process.send_signal(signal.SIGCONT)
        assert c.get(b"short", b"long", b"none") == {b"long": b"x", b"none": b"x"}
        wait_for(lambda: c.stat("curr_items") == 2, "what died meanwhile is collected")


def test_ignored_signals():
    with Daemon("-t", "1") as d, d.client() as c:
        d.process.send_signal(signal.SIGPIPE)
        assert c.set(b"k", b"v") == b"STORED"
        assert c.get(b"k") == b"v"


def test_a_log_that_may_not_grow():
    """Under ulimit -f a write that is too long raises SIGXFSZ, also at the start."""
    for size in (0, 1000):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        with Daemon("-vv", control=True, before=limit) as d, d.operator() as c:
            for n in range(100):
                assert c.ask(b"config set hz %d" % (10 + n % 2)) == b"OK"
            assert c.set(b"k", b"v") == b"STORED"
            assert os.path.getsize(d.log_path) <= size


def test_a_start_that_fails_gives_a_reason():
    """In an address space that is too small the start fails at one step or another, or it succeeds. No
    message has an empty reason."""
    mayfly.skip_if(mayfly.is_sanitized(), "a sanitizer takes more")
    for megabytes in range(28, 104, 4):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
        d = Daemon("-t", "1", before=limit, wait=False)
        try:
            wait_for(lambda: not d.is_alive() or "is ready" in d.log(), "it is ready, or has failed")
            assert d.is_alive() or (d.process.returncode > 0 and "()" not in d.log()), (megabytes, d.log())
        finally:
            d.kill()


mayfly.main(globals())
