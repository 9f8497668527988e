#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The daemon under a service manager: its notifications (sd_notify), passed sockets by name, and a restart without
refused clients. The manager is this script."""
import contextlib
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request

import mayfly
from mayfly import Client, Daemon, wait_for



# ---- what the manager hears -----------------------------------------------------------------------

class Manager:
    """A socket for notifications, and all received ones."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="mayfly-it.")
        self.path = os.path.join(self.folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.setblocking(False)
        self.heard = []

    def listen(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                self.heard.append(self.socket.recv(4096).decode())
        return self.heard

    def hears(self, what, since=0):
        """Wait for a message with this in it; returns its number."""
        def found():
            return [i for i, m in enumerate(self.listen()) if i >= since and what in m]
        return wait_for(found, "the manager hears " + what)[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        os.unlink(self.path)
        os.rmdir(self.folder)


def test_life_of_a_service():
    with Manager() as m:
        env = {"NOTIFY_SOCKET": m.path, "WATCHDOG_USEC": "60000"}
        with Daemon("-t", "2", "-m", "64", env=env) as d, d.client() as c:
            ready = m.hears("READY=1\nMAINPID=%d\n" % d.pid)
            assert ready == 0, m.heard
            at = m.hears("WATCHDOG=1")
            for _ in range(5):
                at = m.hears("WATCHDOG=1", at + 1)
            assert c.set(b"k", b"v") == b"STORED"
            status = m.listen()[m.hears("STATUS=serving 1 connections")]
            assert re.search(r"items, [0-9.]+ \w+ of 64\.0 MiB in use", status), status
            d.process.send_signal(signal.SIGHUP)
            at = m.hears("RELOADING=1\nMONOTONIC_USEC=")
            m.hears("READY=1", at + 1)
            d.process.send_signal(signal.SIGUSR1)
            m.hears("STOPPING=1", at)
            c.close()
            assert d.process.wait(mayfly.PATIENCE) == 0


def test_nothing_is_said_without_a_watchdog():
    with Manager() as m:
        env = {"NOTIFY_SOCKET": m.path, "WATCHDOG_USEC": "30000", "WATCHDOG_PID": "1"}
        with Daemon("-t", "1", env=env):
            m.hears("STATUS=serving ")      # a second later
            assert not [t for t in m.heard if "WATCHDOG" in t], m.heard


def test_a_manager_that_does_not_read_does_no_harm():
    with Manager() as m, Daemon("-t", "1", env={"NOTIFY_SOCKET": m.path, "WATCHDOG_USEC": "4000"}) as d:
        # Its queue is full when a message of ours finds no place.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.setblocking(False)

            def is_full():
                try:
                    s.sendto(b"x", m.path)
                    return False
                except BlockingIOError:
                    return True
            wait_for(is_full, "the queue is full")
        for _ in range(3):
            with d.client() as c:       # main accepts, and goes on to
                assert c.set(b"k", b"v") == b"STORED"
        assert d.stop() == 0


def test_a_manager_that_is_gone_does_no_harm():
    with Daemon("-t", "1", env={"NOTIFY_SOCKET": "/nonexistent/notify", "WATCHDOG_USEC": "30000"}) as d:
        with d.client() as c:
            assert c.set(b"k", b"v") == b"STORED"


# ---- descriptors that the manager keeps -----------------------------------------------------------

class Keeper(Manager):
    """A manager that keeps descriptors, and says so."""

    def __init__(self):
        super().__init__()
        self.kept = []      # name, descriptor
        self.socket.setblocking(True)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while "END" not in self.heard:
            text, fds, _, _ = socket.recv_fds(self.socket, 4096, 4)
            self.heard.append(text.decode())
            fields = dict(line.split("=", 1) for line in self.heard[-1].splitlines() if "=" in line)
            if fields.get("FDSTORE") == "1":
                assert fields["FDPOLL"] == "0" and len(fds) == 1, (fields, fds)
                self.kept.append((fields["FDNAME"], fds.pop()))
            elif fields.get("FDSTOREREMOVE") == "1":
                for name, fd in [k for k in self.kept if k[0] == fields["FDNAME"]]:
                    os.close(fd)
                    self.kept.remove((name, fd))
            for fd in fds:      # BARRIER: closing it is the answer
                os.close(fd)

    def listen(self):
        return self.heard

    @contextlib.contextmanager
    def daemon(self, *args):
        """A server that gets the kept descriptors, and its notifications since."""
        path = os.path.join(self.folder, "socket")
        since = len(self.heard)
        with activated([(n, Descriptor(fd)) for n, fd in self.kept], "-s", path, *args,
                       env={"NOTIFY_SOCKET": self.path}) as (process, log):
            self.hears("READY=1", since)
            # Without such a socket it has those that it was passed.
            with Client(path) if os.path.exists(path) else contextlib.nullcontext() as c:
                yield c, process, log, lambda: "".join(self.heard[since:])
            is_running = process.poll() is None
            process.terminate()     # there is no client to wait for
            assert process.wait(mayfly.PATIENCE) == 0
            if is_running:
                self.hears("STOPPING=1", since)     # or it would be taken for the next one's

    def __exit__(self, *args):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(b"END", self.path)
        self.thread.join()
        for _, fd in self.kept:
            os.close(fd)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.folder, "socket"))
        super().__exit__(*args)


class Descriptor:
    def __init__(self, fd):
        self.fd = fd

    def fileno(self):
        return self.fd


def test_the_manager_keeps_the_items():
    def state(c):
        return c.stats(b"persistence")["restart_state"]
    with Keeper() as m:
        with m.daemon("-e", "fdstore") as (c, _, log, told):
            assert state(c) == "cold"
            assert told().index("FDNAME=mayfly.memory") < told().index("BARRIER=1") < told().index("READY=1"), told()
            assert [name for name, _ in m.kept] == ["mayfly.memory"]
            c.set(b"k", b"v")
        for _ in range(2):
            with m.daemon("-e", "fdstore") as (c, _, log, told):
                assert state(c) == "warm", log()
                assert c.get(b"k") == b"v"
                assert "FDSTORE" not in told() and len(m.kept) == 1, told()
        # A crash: the same file is used, and it is empty.
        with m.daemon("-e", "fdstore") as (c, process, _, _):
            with contextlib.suppress(AssertionError):
                process.kill()
                process.wait()
            process.returncode = 0
        with m.daemon("-e", "fdstore") as (c, _, log, told):
            assert state(c) == "cold"
            wait_for(lambda: "clean stop" in log(), "it is said why")
            assert c.get(b"k") is None and len(m.kept) == 1
        # What is no use is replaced, and what is not wanted is given up.
        strange = os.memfd_create("strange")
        os.write(strange, b"x" * 100000)
        m.kept.append(("mayfly.memory", strange))
        os.close(m.kept.pop(0)[1])
        with m.daemon("-e", "fdstore") as (c, _, log, told):
            wait_for(lambda: "cannot be used" in log(), "it is said")
            assert state(c) == "cold"
            assert told().index("FDSTOREREMOVE=1") < told().index("FDSTORE=1") and len(m.kept) == 1
        with m.daemon() as (c, _, log, told):
            assert "FDSTOREREMOVE=1" in told() and not m.kept
            assert state(c) == "off"


def test_a_program_takes_over_under_the_manager():
    """It tells that it reloads, not that it stops; sockets and items of the manager are the next one's."""
    mayfly.skip_if("drop_privileges" in " ".join(mayfly.MORE_ARGS), "with drop_privileges no program can be started")
    server, port = listening()
    with server, Keeper() as m:
        m.kept.append(("client", os.dup(server.fileno())))
        for state in ("cold", "warm"):      # the memory is the process's own at first, then the manager's
            with m.daemon("-e", "fdstore") as (_, process, log, told):
                with Client(("127.0.0.1", port)) as c:
                    assert c.stats(b"persistence")["restart_state"] == state, log()
                    c.set(b"k", b"v")
                stays = Client(("127.0.0.1", port))
                for n in (2, 3):
                    process.send_signal(signal.SIGUSR2)
                    wait_for(lambda: told().count("READY=1\nMAINPID=%d\n" % process.pid) == n, "another is ready")
                    with Client(("127.0.0.1", port)) as c:
                        assert c.stats(b"persistence")["restart_state"] == "warm", log()
                        assert c.get(b"k") == b"v"
                    assert stays.get(b"k") == b"v"
                stays.close()
                assert told().count("RELOADING=1") == 2 and "STOPPING" not in told(), told()
                assert [name for name, _ in m.kept] == ["client", "mayfly.memory"]


def test_items_that_nobody_keeps():
    with Daemon("-t", "1", "-e", "fdstore") as d, d.client() as c:
        assert c.set(b"k", b"v") == b"STORED"
        wait_for(lambda: "the items will be lost at a restart (there is no service manager)" in d.log(), "it is said")


# ---- sockets by name ------------------------------------------------------------------------------

# What the manager does in the process that becomes the daemon: descriptors from 3 on.
BECOME = ("import os, sys\n"
          "fds = [int(n) for n in sys.argv[1].split(',') if n]\n"
          "for i, fd in enumerate(fds):\n"
          "    os.dup2(fd, 3 + i)\n"
          "env = dict(os.environ, LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)))\n"
          "env['LISTEN_FDNAMES'] = sys.argv[2]\n"
          "os.execve(sys.argv[3], sys.argv[3:], env)\n")


@contextlib.contextmanager
def activated(sockets, *args, env=None):
    """A daemon that is passed these sockets, by name."""
    with mayfly.place("log") as path:
        # Out of the way of those that they become.
        fds = [fcntl.fcntl(s.fileno(), fcntl.F_DUPFD, 20) for _, s in sockets]
        with open(path, "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", BECOME, ",".join(map(str, fds)), ":".join(n for n, _ in sockets),
                 mayfly.PROGRAM, *mayfly.MORE_ARGS, "-v", "-t", "2", *args] + mayfly.ROOT,
                stdin=subprocess.DEVNULL, stderr=log, pass_fds=fds, env={**os.environ, **(env or {})})
        for fd in fds:
            os.close(fd)
        try:
            yield process, lambda: open(path).read()
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(mayfly.PATIENCE)


def listening():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(128)
    return s, s.getsockname()[1]


def test_sockets_have_names():
    client, port = listening()
    metrics, metrics_port = listening()
    with client, metrics, activated([("metrics", metrics), ("client", client)]) as (process, log):
        with Client(("127.0.0.1", port)) as c:
            assert c.set(b"k", b"v") == b"STORED"
        if "cannot load" in log() or "not built with metrics" in log():
            return
        with urllib.request.urlopen("http://127.0.0.1:%d/readyz" % metrics_port, timeout=mayfly.PATIENCE) as a:
            assert a.status == 200
        process.terminate()
        assert process.wait(mayfly.PATIENCE) == 0
        # They are the manager's, and the next daemon gets them again.
        with activated([("metrics", metrics), ("client", client)]), Client(("127.0.0.1", port)) as c:
            assert c.get(b"k") is None


def test_a_tls_socket_needs_tls():
    tls, _ = listening()
    with tls, activated([("tls", tls)]) as (process, log):
        assert process.wait(mayfly.PATIENCE) == 64, log()
        assert "for TLS, which is off" in log()


def test_a_restart_refuses_nobody():
    """Clients that connect while no daemon runs wait for the next one. A client whose request arrives when the stop
    has started may be closed."""
    server, port = listening()
    done, wrong, stop = [0], [], threading.Event()

    def connect():
        while not stop.is_set():
            try:
                with Client(("127.0.0.1", port)) as c, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    done[0] += c.ask(b"version") is not None
            except OSError as e:
                wrong.append(str(e))
                return

    with server:
        thread = threading.Thread(target=connect)
        with activated([("client", server)]) as (process, _):
            thread.start()
            wait_for(lambda: done[0] > 20, "clients are served")
            process.send_signal(signal.SIGTERM)
            process.wait(mayfly.PATIENCE)
        served = done[0]
        with activated([("client", server)]):
            wait_for(lambda: done[0] > served + 20 or wrong, "clients are served again")
            stop.set()
            thread.join(mayfly.PATIENCE)
    assert not wrong, wrong


mayfly.main(globals())
