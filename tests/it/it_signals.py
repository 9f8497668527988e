#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Signals: SIGTERM under load ends within seconds with status 0 and whole replies; a graceful stop
serves the clients that are there; the same port listens again at once, also after SIGKILL; a daemon
that was stopped for seconds keeps elapsed time."""
import os
import re
import select
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import mayfly                                                           # noqa: E402
from mayfly import Daemon, wait_for                                     # noqa: E402

VALUE = mayfly.pattern(b"k", 3000)
DRAIN = 1.0         # seconds: a client that has not taken its answers by then is cut off (daemon/worker/worker.h)
WHOLE = re.compile(rb"(VALUE k 0 3000\r\n" + re.escape(VALUE) + rb"\r\nEND\r\n|STORED\r\n)*\Z")


def run_until_end(d, how):
    """Load from several connections while the daemon is asked to end; returns what each received."""
    batch = (b"get k\r\n" * 9 + b"set k 0 0 3000\r\n" + VALUE + b"\r\n") * 3
    clients = [d.client() for _ in range(12)]
    got = {c.sock: [] for c in clients}
    sent = {c.sock: 0 for c in clients}     # how far into the batch: what is left goes first
    with d.client() as c:
        assert c.set(b"k", VALUE) == b"STORED"
    for c in clients:
        c.sock.setblocking(False)
    began = time.monotonic()
    told = None
    ended = {}
    open_ones = set(got)
    while open_ones and time.monotonic() < began + mayfly.PATIENCE:
        # Every connection is busy, and has been for a while.
        if told is None and time.monotonic() > began + 0.3 and all(got.values()):
            d.process.send_signal(how)
            told = time.monotonic()
        readable, writable, _ = select.select(open_ones, open_ones if told is None else [], [], 0.1)
        for s in readable:
            try:
                data = s.recv(1 << 16)
            except ConnectionError:
                data = b""
            if data:
                got[s].append(data)
            else:
                open_ones.discard(s)
                ended[s] = time.monotonic()
        for s in writable:
            if s in open_ones:
                try:
                    sent[s] = (sent[s] + s.send(batch[sent[s]:])) % len(batch)
                except (BlockingIOError, ConnectionError):
                    pass
    assert told is not None, "not every connection got something"
    status = d.process.wait(mayfly.PATIENCE)
    took = time.monotonic() - told
    for c in clients:
        c.close()
    return status, took, [(b"".join(parts), s in ended and ended[s] - told < DRAIN)
                          for s, parts in got.items()]


def check_end(how):
    """On a busy machine this test may be too slow to take the replies in time. Daemons are tried
    until some connection was read to its end in time."""
    def whole_streams():
        with Daemon("-m", "64", "-t", "2") as d:
            status, took, streams = run_until_end(d, how)
            assert status == 0, "exit status %d: %s" % (status, d.log())
            assert took < (60 if mayfly.is_sanitized() else 10), "%.1f s" % took
            for data, is_in_time in streams:
                assert data, "a connection got nothing"
                assert WHOLE.match(data) or not is_in_time, "a reply was cut: ...%r" % data[-80:]
            return sum(is_in_time for _, is_in_time in streams)
    wait_for(whole_streams, "a connection is read to its end in time")


def test_term_under_load():
    check_end(signal.SIGTERM)


def test_int_under_load():
    check_end(signal.SIGINT)


def begin_graceful_stop(d, how):
    """Ask for a graceful stop by how(); returns when the daemon accepts no more connections."""
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
    """Connected clients are served until the last of them has left; no new one is."""
    clients = [d.client() for _ in range(4)]
    for c in clients:
        assert c.set(b"k", b"v") == b"STORED"
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
            for c in clients:
                assert c.set(b"k", b"v") == b"STORED"
            assert d.stop() == 0        # it closes first, so the port is left in TIME_WAIT
            with Daemon(tcp=True, port=port) as again, again.client() as c:
                assert c.get(b"k") is None
            for c in clients:
                c.close()
    once_of(attempt)


def test_same_port_after_kill():
    def attempt():
        with Daemon(tcp=True) as d:
            port = d.port
            c = d.client()
            assert c.set(b"k", b"v") == b"STORED"
            d.process.send_signal(signal.SIGKILL)
            d.process.wait()
            with Daemon(tcp=True, port=port) as again, again.client() as n:
                assert n.get(b"k") is None
            c.close()
    once_of(attempt)


def test_same_socket_after_kill():
    """A stale unix socket is replaced."""
    with Daemon() as d:
        path = d.path
        d.process.send_signal(signal.SIGKILL)
        d.process.wait()
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


mayfly.main(globals())
