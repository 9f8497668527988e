#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The log: nobody waits for a standard error that takes nothing, what is dropped is counted and
said, and no client can fill it."""
import contextlib
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import mayfly                                                           # noqa: E402
from mayfly import Daemon, Inapplicable, Skip, wait_for                 # noqa: E402

BURST = 5           # lines of one kind in a window of ten seconds (daemon/base/log.h)


class Pipe:
    """Standard error of a daemon, which is read only when the test says so."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)

    def fill(self):
        """O_NONBLOCK belongs to the pipe's end, which the daemon shares: it is set back."""
        os.set_blocking(self.writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(self.writer, b"." * fcntl.fcntl(self.writer, fcntl.F_GETPIPE_SZ))
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(self.writer, b".")
        os.set_blocking(self.writer, True)

    def read(self):
        got = []
        with contextlib.suppress(BlockingIOError):
            while True:
                got.append(os.read(self.reader, 1 << 16))
                if not got[-1]:
                    break
        return b"".join(got)

    def close(self):
        os.close(self.reader)
        os.close(self.writer)


@contextlib.contextmanager
def daemon_with_pipe(*args):
    pipe = Pipe()
    try:
        with Daemon(*args, stderr=pipe.writer) as d:
            yield d, pipe
    finally:
        pipe.close()


def is_served(d):
    """A new client, which main accepts, and one on each worker."""
    for _ in range(4):
        with d.client() as c:
            assert c.set(b"k", b"v") == b"STORED"
            assert c.get(b"k") == b"v"


def drop_some(d, c):
    """Have it log until messages are dropped: each SIGHUP is answered by one."""
    while c.stat("mayfly_log_dropped") == 0:
        d.process.send_signal(signal.SIGHUP)


def test_a_full_pipe_holds_up_nobody():
    with daemon_with_pipe("-t", "2") as (d, pipe), d.client() as c:
        assert c.ask(b"verbosity 3") == b"OK"
        pipe.fill()
        drop_some(d, c)
        is_served(d)
        for _ in range(16):     # a megabyte of commands
            assert c.set(b"k" * 200, b"v" * 65536) == b"STORED"
            assert len(c.get(b"k" * 200)) == 65536
        assert d.stop() == 0, "it ends although nobody reads"


def test_what_was_dropped_is_said_when_there_is_room():
    with daemon_with_pipe("-t", "2") as (d, pipe), d.client() as c:
        pipe.fill()
        drop_some(d, c)
        text = bytearray()

        def is_said():
            text.extend(pipe.read())
            return re.search(rb"warn: log, (\d+) messages dropped \(standard error did not take them\)\n", text)
        assert int(wait_for(is_said, "it is said").group(1)) > 0
        dropped = c.stat("mayfly_log_dropped")
        assert sum(int(n) for n in re.findall(rb"log, (\d+) messages dropped", text)) <= dropped
        is_served(d)


def test_a_reader_that_leaves_is_survived():
    with daemon_with_pipe("-t", "2") as (d, pipe), d.client() as c:
        os.close(pipe.reader)
        pipe.reader = os.open(os.devnull, os.O_RDONLY)
        for _ in range(10):
            d.process.send_signal(signal.SIGHUP)
            is_served(d)
        assert c.get(b"k") == b"v"


def test_everything_is_written_at_the_end():
    with Daemon("-v", "-t", "2") as d:
        assert d.stop() == 0
        assert d.log().endswith("info: server, stopped\n"), d.log()[-200:]


def test_background_says_what_it_has_to_before_it_leaves():
    """With -d the messages of the start reach whoever has started it, up to the last."""
    folder = tempfile.mkdtemp(prefix="mayfly-it.")
    try:
        pid_file = os.path.join(folder, "pid")
        root = ["-u", "root"] if os.geteuid() == 0 else []
        done = subprocess.run([mayfly.PROGRAM, "-d", "-v", "-P", pid_file, "-s", os.path.join(folder, "socket")] + root,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=dict(os.environ),
                              stderr=open(os.path.join(folder, "log"), "wb"), timeout=mayfly.PATIENCE)
        assert done.returncode == 0
        with open(pid_file) as f:
            pid = int(f.read())
        try:
            def is_ready():
                with open(os.path.join(folder, "log")) as f:
                    return "server, is ready" in f.read()
            wait_for(is_ready, "it says that it is ready")
        finally:
            os.kill(pid, signal.SIGTERM)
            wait_for(lambda: not os.path.exists(pid_file), "it ends")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_certificate(folder):
    if shutil.which("openssl") is None:
        raise Skip("openssl is not installed")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-keyout", "key", "-out", "pem", "-days", "2", "-subj", "/CN=log"], cwd=folder,
                   check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def fail_handshakes(d, count):
    for _ in range(count):
        with d.client() as c:
            c.send(b"this is no handshake\r\n")
            with contextlib.suppress(ConnectionError):
                c.rest()


def test_clients_cannot_fill_the_log():
    """Each failed handshake has its message at -v, which any client may ask for by verbosity."""
    with Daemon() as probe, probe.client() as asked:
        if asked.ask(b"refresh_certs") == b"ERROR":
            raise Inapplicable("mayflyd is built without TLS")
    folder = tempfile.mkdtemp(prefix="mayfly-it.")
    try:
        make_certificate(folder)
        options = "ssl_chain_cert=%s,ssl_key=%s" % (os.path.join(folder, "pem"), os.path.join(folder, "key"))
        with Daemon("-l", "notls:127.0.0.1:0", "-Z", "-o", options, "-vvv", "-t", "2", tcp=True,
                    wait=False) as d:
            wait_for(d.find_port, "it listens")
            with open(d.port_file) as f:
                plain_port = [int(line.split()[2]) for line in f][-1]
            with mayfly.Client(("127.0.0.1", plain_port)) as c:
                before = d.log().count("handshake failed")
                windows = c.stat("uptime") // 10
                fail_handshakes(d, 200)
                lines = d.log().count("handshake failed") - before
                windows = c.stat("uptime") // 10 - windows + 2
                assert 1 <= lines <= windows * BURST, "%d lines of 200 failures" % lines
                assert c.stat("mayfly_log_left_out") >= 200 - windows * BURST
                assert c.stat("ssl_handshake_errors") >= 200
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Journal:
    """A socket that takes messages in the journal's form."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="mayfly-it.")
        self.path = os.path.join(self.folder.name, "socket")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        os.chmod(self.path, 0o666)
        os.chmod(self.folder.name, 0o755)
        self.socket.settimeout(mayfly.PATIENCE)

    def hears(self, what):
        """The fields of the next message with this text."""
        while True:
            fields = dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())
            if what in fields["MESSAGE"]:
                return fields

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.folder.cleanup()


def test_the_journal_gets_fields():
    with Journal() as j, tempfile.NamedTemporaryFile(prefix="mayfly-it.") as users:
        users.write(b"u:p\n")
        users.flush()
        with Daemon("-t", "2", "-m", "77", "-Y", users.name, "--log", j.path) as d:
            fields = j.hears("server, is ready")
            assert fields["PRIORITY"] == "5" and fields["SYSLOG_IDENTIFIER"] == "mayflyd", fields
            assert fields["MAYFLY_AREA"] == "server" and fields["MAYFLY_THREAD"].startswith("mayfly"), fields
            for what in ("pid %d," % d.pid, "2 threads", "77 megabytes", "density", "unix:" + d.path, "users by file"):
                assert what in fields["MESSAGE"], (what, fields)
            with d.client() as c:
                for _ in range(5):
                    assert c.set(b"x", b"somebody wrong") == b"CLIENT_ERROR authentication failure"
            fields = j.hears("failed logins")
            assert fields["MAYFLY_PEER"] == "unix" and fields["MAYFLY_USER"] == "somebody", fields
            assert fields["PRIORITY"] == "4" and fields["MAYFLY_AREA"] == "auth", fields
            assert d.log() == ""
            assert d.stop() == 0
        with Daemon("--log", "/nonexistent/socket") as d:
            wait_for(lambda: "server, is ready: mayflyd " in d.log(), "it is logged")
            assert "no journal at /nonexistent/socket" in d.log()


mayfly.main(globals())
