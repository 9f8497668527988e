#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The log: no thread waits for a standard error that is not read, dropped lines are counted and reported, and no
client can fill the log."""
import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import tempfile

import mayfly
import tls
from mayfly import Daemon, Inapplicable, wait_for

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

    def close(self):
        os.close(self.reader)
        os.close(self.writer)


@contextlib.contextmanager
def daemon_with_pipe(*args):
    with contextlib.closing(Pipe()) as pipe, Daemon(*args, stderr=pipe.writer) as d:
        yield d, pipe


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


def test_everything_is_written_at_the_end():
    with Daemon("-v", "-t", "2") as d:
        assert d.stop() == 0
        assert d.log().endswith("info: server, stopped\n"), d.log()[-200:]


def test_background_says_what_it_has_to_before_it_leaves():
    """With -d all messages of the start reach the starting process."""
    with mayfly.place("log") as path, open(path, "wb") as log, \
            mayfly.background(os.path.dirname(path), "-v", stderr=log):
        wait_for(lambda: "server, is ready" in mayfly.read(path), "it says that it is ready")


def fail_handshakes(d, count):
    for _ in range(count):
        with d.client() as c:
            c.send(b"this is no handshake\r\n")
            with contextlib.suppress(ConnectionError):
                c.rest()


def test_clients_cannot_fill_the_log():
    """Each failed handshake is logged at -v, which any client can turn on by verbosity."""
    with Daemon("-l", "notls:127.0.0.1:0", *tls.Certificates().serve("log"), "-vvv", "-t", "2", tcp=True, wait=False) as d:
        wait_for(d.find_port, "it listens")
        with mayfly.Client(("127.0.0.1", d.ports()[-1])) as c:
            before = d.log().count("handshake failed")
            windows = c.stat("uptime") // 10
            fail_handshakes(d, 200)
            lines = d.log().count("handshake failed") - before
            windows = c.stat("uptime") // 10 - windows + 2
            assert 1 <= lines <= windows * BURST, "%d lines of 200 failures" % lines
            assert c.stat("mayfly_log_left_out") >= 200 - windows * BURST
            assert c.stat("ssl_handshake_errors") >= 200


def test_notices_of_clients_are_limited():
    with Daemon(tcp=True) as d, d.client() as c:
        def come_and_go():
            with d.client() as replica:
                assert replica.ask(b"psync 1 0 - 0 %s 0" % os.urandom(16).hex().encode()).startswith(b"FULLSYNC ")

        began = c.stat("uptime") // 10
        for cause, text in ((come_and_go, "connected, needs a full sync: it has no items of this history"),
                            (come_and_go, "disconnected"),
                            (lambda: c.ask(b"expire_hold 0"), "expired items are kept for 0 s")):
            for _ in range(100):
                cause()
            assert d.says(text)
            windows = c.stat("uptime") // 10 - began + 2
            assert d.log().count(text) <= windows * BURST, (d.log().count(text), windows)


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
    with Journal() as j, mayfly.place("users", b"u:p\n") as users:
        with Daemon("-t", "2", "-m", "77", "-Y", users, "--log", j.path) as d:
            fields = j.hears("server, is ready")
            assert fields["PRIORITY"] == "5" and fields["SYSLOG_IDENTIFIER"] == "mayflyd", fields
            assert fields["MAYFLY_AREA"] == "server" and fields["MAYFLY_THREAD"].startswith("mayfly"), fields
            for what in ("pid %d," % d.pid, "2 threads", "77 megabytes", "density", "unix:" + d.path, "authentication by file"):
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
            assert d.says("no journal at /nonexistent/socket")


# ---- a file, and lines of JSON --------------------------------------------------------------------

class Folder:
    """A folder that the server may write, with a file log in it."""

    def __enter__(self):
        self.made = tempfile.TemporaryDirectory(prefix="mayfly-it.")
        os.chmod(self.made.name, 0o755)
        self.log = os.path.join(self.made.name, "log")
        return self

    def __exit__(self, *_):
        self.made.cleanup()

    def read(self, name="log"):
        return mayfly.read(os.path.join(self.made.name, name))


def config(c, what):
    reply = c.ask(b"config " + what.encode())
    return reply.decode()


def test_a_file_that_is_rotated():
    with Folder() as f:
        with Daemon("--log-file", f.log, "-m", "77", control=True) as d, d.operator() as c:
            wait_for(lambda: "server, is ready" in f.read() and "77 megabytes" in f.read(), "it is in the file")
            assert d.log() == ""
            assert os.stat(f.log).st_mode & 0o777 == 0o640 & ~mask()
            os.rename(f.log, f.log + ".1")
            assert config(c, "set hz 20") == "OK"
            wait_for(lambda: "hz is 20" in f.read("log.1"), "the renamed file is written until then")
            d.process.send_signal(signal.SIGHUP)
            wait_for(lambda: os.path.exists(f.log) and "log, reopened" in f.read(), "another one is begun")
            assert config(c, "set hz 30") == "OK"
            wait_for(lambda: "hz is 30" in f.read(), "it is written")
            assert "hz is 30" not in f.read("log.1") and "hz is 20" not in f.read()
            # One that cannot be opened: the old one goes on, and it says so.
            os.rename(f.log, f.log + ".2")
            os.mkdir(f.log)
            assert config(c, "reload") == "CLIENT_ERROR log-file: the file cannot be opened again, see the log"
            wait_for(lambda: "because %s cannot be opened (Is a directory)" % f.log in f.read("log.2"), "it says so")
            assert config(c, "set hz 40") == "OK"
            wait_for(lambda: "hz is 40" in f.read("log.2"), "the old file is written")
            os.rmdir(f.log)
            os.mkfifo(f.log)
            assert config(c, "reload").startswith("CLIENT_ERROR")     # and does not wait for a reader
            os.unlink(f.log)
            assert config(c, "reload") == "OK"
            wait_for(lambda: "log, reopened" in f.read(), "it is open again")
            assert d.log() == ""
        with Daemon("--log-file", f.log):
            # Of the file that was begun last, which the first daemon was ready before.
            wait_for(lambda: f.read().count("is ready") == 1, "what was there stays")


def mask():
    before = os.umask(0)
    os.umask(before)
    return before


def test_a_file_that_cannot_be_opened_ends_the_start():
    with Folder() as f:
        os.mkdir(f.log)
        os.mkfifo(f.log + ".fifo")
        for args, status, why in ((["--log-file", f.log], 73, "cannot open %s (Is a directory)" % f.log),
                                  (["--log-file", f.log + ".fifo"], 73, "cannot open"),
                                  (["--log-file", "/dev/null"], 73, "cannot open /dev/null (not a regular file)"),
                                  (["--log-file", "/nonexistent/log"], 73, "(No such file or directory)"),
                                  (["--log-file", "log"], 64, '"log" is not an absolute path'),
                                  (["--log-file", " "], 64, '" " is not an absolute path'),
                                  (["--log-file", "/" + "x" * 300], 73, "(File name too long)"),
                                  (["--log-file", f.log, "--log", "stderr"], 64, "cannot be used with --log"),
                                  (["--log-format", "xml"], 64, "is not one of text json"),
                                  (["--log-format="], 64, "is not one of text json"),
                                  (["--log-format", " json"], 64, "is not one of text json")):
            for more in ([], ["--check-config"]):
                done = subprocess.run([mayfly.PROGRAM, *mayfly.ROOT, "-s", f.log + ".socket", *args, *more], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=mayfly.PATIENCE)
                said = done.stdout.decode()
                assert done.returncode == status and "mayflyd: --log-f" in said and why in said, (args, more, done)


def test_a_full_disk_is_told_to_standard_error():
    mayfly.skip_if(not os.access("/dev/shm", os.W_OK), "nowhere to limit a file")
    with Folder() as f:
        def small():
            import resource
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        with Daemon("--log-file", f.log, "-t", "1", before=small, control=True) as d, d.operator() as c:
            for n in range(200):
                assert config(c, "set slowlog_max %d" % (n % 100 + 1)) == "OK"
            wait_for(lambda: "slowlog_max is" in d.log(), "what the file does not take is on standard error")
            assert len(f.read()) <= 4096


def test_a_confined_server_opens_it_again():
    with open(mayfly.PROGRAM, "rb") as f:
        if b"libseccomp" not in f.read() or mayfly.is_sanitized():
            raise Inapplicable("built without libseccomp, or with a sanitizer")
    with Folder() as f, Daemon("--log-file", f.log, "-o", "drop_privileges") as d:
        os.rename(f.log, f.log + ".1")
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: os.path.exists(f.log) and "log, reopened" in f.read(), "another one is begun")


def objects(text):
    found = [json.loads(line) for line in text.splitlines()]
    for one in found:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", one["time"]), one
        assert one["level"] in ("error", "warn", "notice", "info", "debug", "trace") and one["message"], one
    return found


def test_lines_of_json():
    with Folder() as f, mayfly.place("users", b"u:p\n") as users:
        with Daemon("-vv", "--log-format", "json", "--log-file", f.log, "-Y", users, control=True) as d, d.operator() as c:
            odd = b'\xff\xc3\xa4"\\\x01\x7f\xe2\x82'
            with d.client() as guest:
                for _ in range(5):
                    assert guest.set(b"x", odd + b" wrong") == b"CLIENT_ERROR authentication failure"
            wait_for(lambda: "failed logins" in f.read(), "they are told")
            found = objects(f.read())
            ready = [one for one in found if "is ready" in one["message"]]
            assert len(ready) == 1 and ready[0]["level"] == "notice" and ready[0]["area"] == "server", ready
            failed = [one for one in found if "failed logins" in one["message"]][0]
            assert failed["peer"] == "unix" and failed["user"] == "????\\????", failed
            assert failed["level"] == "warn" and failed["area"] == "auth" and failed["thread"].startswith("mayfly-w"), failed
            assert config(c, "set log_format text") == "OK"
            wait_for(lambda: re.search(r"(?m)^\d{4}\S+Z notice: options, log_format is text now", f.read()), "it changes at once")
            assert config(c, "set log_format json") == "OK" and config(c, "set log_format xml").startswith("CLIENT_ERROR")
            wait_for(lambda: re.search(r"(?m)^\{.*options, log_format is json now", f.read()), "and back")
            assert objects(d.log()), "the start, until the file is open"
    with Daemon("--log-format=json") as d:
        assert d.stop() == 0
        assert any("is ready" in one["message"] for one in objects(d.log()))


mayfly.main(globals())
