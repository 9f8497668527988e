#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The same bytes to memcached and to mayflyd: the answers have to be the same bytes, in the text
protocol (streams.py) and in the binary one (binary_streams.py).

Starts both on unix sockets in a temporary folder and plays to each, on fresh connections
and empty caches, the scripted streams (whole, byte by byte, and cut in two at every place) and
seeded random streams (cut at random places). What is meant to differ stands in intended.py,
where both answers are checked.

Environment: MAYFLYD names the daemon (default $MAYFLY_BUILDDIR/daemon/mayflyd), MEMCACHED the
peer, MAYFLY_SEED the first seed, MAYFLY_DIFFER_STREAMS the number of random streams.
Exit status: 0 the same, 1 different, 77 no memcached here.
"""

import array
import fcntl
import os
import random
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
import binary_streams  # noqa: E402
import intended  # noqa: E402
import streams  # noqa: E402

PATIENCE_S = 100

# An incr or decr that meets a background thread of memcached at the same item writes the number
# without the spaces behind it, so those that can be switched off are.
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
        self.process = subprocess.Popen(
            args, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log
        )
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
        raise SystemExit("%s does not start: %s" % (self.name, self.log_text()))

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
            raise SystemExit("%s: flush_all answers %r" % (self.name, answer))

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
    """What is there, after waiting for something; nothing at the end of the stream."""
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

    def send(self, piece):
        """Send all of a piece, reading meanwhile, and wait until the server has taken it."""
        view = memoryview(piece)
        deadline = time.monotonic() + PATIENCE_S
        while self.is_open and (len(view) > 0 or self.unread_by_server() > 0):
            want = [self.sock] if len(view) > 0 else []
            patience = PATIENCE_S if want else 0
            readable, writable, _ = select.select([self.sock], want, [], patience)
            if readable:
                self.take()
            if writable:
                try:
                    view = view[self.sock.send(view) :]
                except (BrokenPipeError, ConnectionResetError):
                    self.is_open = False
                    return
            if time.monotonic() > deadline:
                raise Silence()

    def unread_by_server(self):
        count = array.array("i", [0])
        fcntl.ioctl(self.sock, termios.TIOCOUTQ, count)
        return count[0]

    def take(self):
        data = receive(self.sock)
        self.out += data
        if not data:
            self.is_open = False

    def cas_of(self, key):
        """Ask for the cas of a key within the stream; the answer is part of what is compared."""
        # An answer to version that is there already is that of the time before.
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
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        while True:
            data = receive(self.sock)
            if not data:
                break
            self.out += data
        self.sock.close()
        return bytes(self.out)


def play(server, stream):
    """The answers to a stream; the server has taken each piece before the next is sent."""
    server.flush()
    talk = Dialogue(server)
    try:
        for piece in stream:
            if isinstance(piece, streams.WithCas):
                piece = piece.text.replace(b"%CAS%", talk.cas_of(piece.key))
            elif isinstance(piece, binary_streams.WithCas):
                piece = binary_streams.with_cas(piece.text, talk.binary_cas_of(piece.key))
            talk.send(piece)
        return talk.finish()
    except Silence:
        return bytes(talk.out) + b"<silence>"
    finally:
        talk.sock.close()


def normal(answers):
    """Without what no two servers share: versions, the absolute value of cas numbers, and how
    much of a second has passed (times to live differ by hundreds)."""
    if answers[:1] == b"\x81":
        return binary_streams.normal(answers)
    names = {}

    def name_cas(match):
        number = names.setdefault(match.group(2), len(names) + 1)
        return b"%s<cas %d>\r\n" % (match.group(1), number)

    def meta_line(match):
        line = re.sub(rb"( c)([1-9]\d*)", lambda m: name_cas(m)[:-2], match.group())
        line = re.sub(rb" l\d+", b" l<idle>", line)
        return re.sub(rb" t(\d+)", lambda m: b" t<%d>" % -(-int(m.group(1)) // 100), line)

    answers = re.sub(rb"(?m)^(?:HD|VA|EX|NS|NF) [^\r\n]*\r\n", meta_line, answers)
    answers = re.sub(rb"(?m)^(VALUE \S+ \d+ \d+ )(\d+)\r\n", name_cas, answers)
    return re.sub(rb"(?m)^VERSION \S+\r\n", b"VERSION <version>\r\n", answers)


def first_difference(a, b):
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    begin = max(0, at - 60)
    return at, a[begin : at + 100], b[begin : at + 100]


class Comparison:
    def __init__(self, peer, ours):
        self.peer = peer
        self.ours = ours
        self.count = 0
        self.different = 0
        self.names_shown = set()

    def compare(self, name, stream):
        """Play a stream to both; one report per name is enough."""
        self.count += 1
        answers = [normal(play(server, stream)) for server in (self.peer, self.ours)]
        if answers[0] == answers[1]:
            return
        self.different += 1
        if name in self.names_shown:
            return
        self.names_shown.add(name)
        at, theirs, mine = first_difference(*answers)
        text = b"".join(p if isinstance(p, bytes) else p.text for p in stream)
        print("DIFFERENT %s, from byte %d of the answers" % (name, at))
        text = text if len(text) < 400 else text[:400] + b"..."
        print("  sent (%d pieces): %r" % (len(stream), text))
        print("  %s: %r" % (self.peer.name, theirs))
        print("  %s: %r" % (self.ours.name, mine))

    def expect(self, row):
        """An intended difference: both answers are known, and differ."""
        for server, want in ((self.peer, row.peer), (self.ours, row.ours)):
            self.count += 1
            got = normal(play(server, [row.sent]))
            if want is not None and got != want:
                self.different += 1
                print("NOT AS INTENDED (%s)" % row.reason)
                print("  sent: %r" % row.sent[:400])
                print("  %s: %r" % (server.name, got[:400]))
                print("  wanted: %r" % want[:400])


def compare_scripts(comparison):
    for name, stream in binary_streams.scripts():
        comparison.compare("binary " + name, stream)
    for name, stream in streams.scripts():
        comparison.compare(name, stream)
        if len(stream) > 1:
            continue
        text = stream[0]
        if len(text) <= streams.BYTE_BY_BYTE_MAX:
            comparison.compare(name + ", byte by byte", [text[i : i + 1] for i in range(len(text))])
        if len(text) <= streams.EVERY_CUT_MAX:
            for cut in range(1, len(text)):
                comparison.compare(name + ", cut in two", [text[:cut], text[cut:]])


def compare_random(comparison):
    seed = int(os.environ.get("MAYFLY_SEED", "20240607"))
    for number in range(int(os.environ.get("MAYFLY_DIFFER_STREAMS", "60"))):
        for kind, make in (("text", streams), ("binary", binary_streams)):
            rng = random.Random(seed + number)
            stream = make.cut(rng, make.random_stream(rng))
            name = "random %s stream of MAYFLY_SEED=%d" % (kind, seed + number)
            comparison.compare(name, stream)


def main():
    memcached = shutil.which(os.environ.get("MEMCACHED", "memcached"))
    if memcached is None:
        print("memcached is not installed")
        return 77
    build = os.environ.get("MAYFLY_BUILDDIR", ".")
    mayflyd = os.environ.get("MAYFLYD", os.path.join(build, "daemon", "mayflyd"))
    folder = tempfile.mkdtemp(prefix="mayfly-differ.")
    servers = []
    try:
        both = (("memcached", memcached, PEER_FLAGS), ("mayflyd", mayflyd, []))
        for name, command, extra in both:
            servers.append(Server(name, command, extra, folder))
            servers[-1].wait_until_ready()
        comparison = Comparison(*servers)
        compare_scripts(comparison)
        if mayflyd != memcached:
            for row in intended.DIFFERENCES + binary_streams.DIFFERENCES:
                comparison.expect(row)
        compare_random(comparison)
    finally:
        statuses = [server.stop() for server in servers]
        logs = "".join(open(s.path + ".log", errors="replace").read() for s in servers[1:])
        shutil.rmtree(folder)
    if len(statuses) == 2 and statuses[1] != 0:
        comparison.different += 1
        print("mayflyd ends with status %d: %s" % (statuses[1], logs[-2000:]))
    print("%d streams, %d different" % (comparison.count, comparison.different))
    return 1 if comparison.different else 0


if __name__ == "__main__":
    sys.exit(main())
