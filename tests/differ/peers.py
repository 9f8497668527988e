# SPDX-License-Identifier: BSD-3-Clause
"""memcached and mayflyd side by side: starting and stopping both, and connections to either.

Environment: MAYFLYD names the daemon (default $MAYFLY_BUILDDIR/daemon/mayflyd), MEMCACHED the
peer.
"""
import array
import contextlib
import fcntl
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import termios
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import binary_streams                                                   # noqa: E402
from mayfly import PROGRAM, Skip                                        # noqa: E402

PATIENCE_S = 100
RECHECK_S = 0.05        # should an edge be lost

# An incr or decr that meets a background thread of memcached at the same item writes the number
# without the spaces after it, so the threads that can be switched off are off.
PEER_FLAGS = ["-o", "no_lru_maintainer,no_lru_crawler,no_slab_reassign"]


class Silence(Exception):
    """The server neither answers nor closes."""


class Server:
    def __init__(self, name, command, extra, folder):
        self.name = name
        self.path = os.path.join(folder, name)
        args = [command, "-s", self.path, "-m", "64", "-t", "2", "-U", "0"] + extra
        if os.geteuid() == 0:
            args += ["-u", "root"]
        self.log = open(self.path + ".log", "w+b")
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.control = None

    def wait_until_ready(self):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                self.control = self.connect()
                return
            except OSError:
                time.sleep(0.01)
        raise RuntimeError("%s does not start: %s" % (self.name, self.log_text()))

    def log_text(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def connect(self):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(self.path)
        except OSError:
            sock.close()
            raise
        sock.setblocking(False)
        return sock

    def flush(self):
        self.control.sendall(b"flush_all\r\n")
        answer = b""
        while not answer.endswith(b"\r\n"):
            answer += receive(self.control)
        if answer != b"OK\r\n":
            raise RuntimeError("%s: flush_all answers %r" % (self.name, answer))

    def version(self):
        """Its version as three numbers."""
        self.control.sendall(b"version\r\n")
        answer = b""
        while not answer.endswith(b"\r\n"):
            answer += receive(self.control)
        return tuple(int(n) for n in re.findall(rb"\d+", answer)[:3])

    def stop(self):
        if self.control is not None:
            self.control.close()
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        return self.process.returncode


def receive(sock):
    """The bytes that have come, after waiting for some; none at the end of the stream."""
    ready, _, _ = select.select([sock], [], [], PATIENCE_S)
    if not ready:
        raise Silence()
    try:
        return sock.recv(1 << 16)
    except ConnectionResetError:
        return b""


class Dialogue:
    """One connection: bytes in pieces, answers collected on the way."""

    def __init__(self, server):
        self.sock = server.connect()
        self.marks = 0
        self.out = bytearray()
        self.is_open = True
        # An edge is reported whenever the server has answered or taken something, so that nobody spins
        # on a core that the server needs.
        self.edges = select.epoll()
        self.edges.register(self.sock, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)

    def close(self):
        self.edges.close()
        self.sock.close()

    def send(self, piece):
        """Send all of a piece, reading meanwhile, and wait until the server has taken it."""
        view = memoryview(piece)
        deadline = time.monotonic() + PATIENCE_S
        while self.is_open:
            try:
                if len(view) > 0:
                    view = view[self.sock.send(view) :]
            except BlockingIOError:
                pass
            except (BrokenPipeError, ConnectionResetError):
                self.is_open = False
                return
            if len(view) == 0 and self.unread_by_server() == 0:
                return
            self.edges.poll(RECHECK_S)
            self.take_what_came()
            if time.monotonic() > deadline:
                raise Silence()

    def unread_by_server(self):
        count = array.array("i", [0])
        fcntl.ioctl(self.sock, termios.TIOCOUTQ, count)
        return count[0]

    def take_what_came(self):
        try:
            while self.is_open:
                self.keep(self.sock.recv(1 << 16))
        except BlockingIOError:
            pass
        except ConnectionResetError:
            self.is_open = False

    def take(self):
        """Wait for some bytes, or the end."""
        self.keep(receive(self.sock))

    def keep(self, data):
        self.out += data
        if not data:
            self.is_open = False

    def cas_of(self, key):
        """Ask for the cas of a key within the stream; the answer is part of what is compared."""
        # Only what comes from here on answers this request.
        asked_at = len(self.out)
        self.send(b"gets " + key + b"\r\nversion\r\n")
        while self.is_open and not re.search(rb"VERSION [^\r\n]*\r\n\Z", self.out[asked_at:]):
            self.take()
        found = re.findall(rb"VALUE " + re.escape(key) + rb" \d+ \d+ (\d+)\r\n", bytes(self.out))
        return found[-1] if found else b"1"

    def binary_cas_of(self, key):
        """The same in the binary protocol."""
        self.marks += 1
        self.send(binary_streams.ask_cas(key, self.marks))
        while self.is_open and binary_streams.cas_in(bytes(self.out), self.marks) is None:
            self.take()
        return binary_streams.cas_in(bytes(self.out), self.marks) or 1

    def finish(self):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)
        while data := receive(self.sock):
            self.out += data
        return bytes(self.out)


@contextlib.contextmanager
def both(*extra, peer_flags=PEER_FLAGS, own_flags=()):
    """memcached and mayflyd on unix sockets in a fresh folder; mayflyd has to end with status 0."""
    memcached = shutil.which(os.environ.get("MEMCACHED", "memcached"))
    if memcached is None:
        raise Skip("memcached is not installed")
    with tempfile.TemporaryDirectory(prefix="mayfly-differ.") as folder:
        servers = []
        try:
            for name, command, flags in (("memcached", memcached, peer_flags), ("mayflyd", PROGRAM, list(own_flags))):
                servers.append(Server(name, command, flags + list(extra), folder))
                servers[-1].wait_until_ready()
            yield servers
        finally:
            statuses = [server.stop() for server in servers]
        if statuses[1] != 0:
            with open(servers[1].path + ".log", errors="replace") as f:
                raise AssertionError("mayflyd ends with status %d: %s" % (statuses[1], f.read()[-2000:]))


def compare_streams(servers, streams, variants, read):
    """Both read the same in every variant of every stream; `read` plays one to a server."""
    different = 0
    for stream in streams:
        for variant in variants(stream):
            theirs, ours = (read(server, variant) for server in servers)
            if theirs != ours:
                different += 1
                print("DIFFERENT: sent %r" % b"".join(stream)[:400])
                print("  memcached %r\n  mayflyd   %r" % first_difference(theirs, ours)[1:])
                break
    assert different == 0, "%d streams differ" % different


def compare_rows(servers, rows, read):
    """Each reads what the row of an intended difference says: sent, memcached's, mayflyd's, reason.
    None means an answer that varies."""
    different = 0
    for sent, theirs, ours, reason in rows:
        for server, want in zip(servers, (theirs, ours)):
            got = read(server, sent)
            if want is not None and got != want:
                different += 1
                print("NOT AS INTENDED (%s), %s: %r, wanted %r" % (reason, server.name, got, want))
    assert different == 0, "%d answers are not as intended" % different


def first_difference(a, b):
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    begin = max(0, at - 60)
    return at, a[begin : at + 100], b[begin : at + 100]
