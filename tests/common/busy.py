# SPDX-License-Identifier: BSD-3-Clause
"""Busy clients that know every byte of their answers: to see how a server ends under load.

Each client repeats one pipeline for ever, on keys of its own, and sends as much as its socket
takes. So the bytes that it may receive are known, and so is where a reply ends. A client reads
until the end of the stream, or until the server resets the connection.
"""
import selectors
import socket
import time

READ_BYTES = 1 << 18


def value(key, n):
    unit = b"<%s>" % key
    return (unit * (n // len(unit) + 1))[:n]


class Pipeline:
    """Requests and their replies, in sequence."""

    def __init__(self):
        self.requests = b""
        self.replies = b""
        self.borders = {0: 0}   # offsets in the replies at which one begins: number of the request
        self.ends = []          # offset of the end of each request

    def add(self, request, reply):
        self.requests += request
        self.replies += reply
        self.ends.append(len(self.requests))
        self.borders[len(self.replies)] = len(self.ends)

    def add_get(self, key, n):
        self.add(b"get %s\r\n" % key, b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, n, value(key, n)))

    def add_set(self, key, n):
        self.add(b"set %s 0 0 %d\r\n%s\r\n" % (key, n, value(key, n)), b"STORED\r\n")


def mixed(name, sizes=(10, 100, 3000, 20000, 100000), repeats=6):
    """Sets and gets of values of several sizes, and a few other commands."""
    p = Pipeline()
    for n in sizes:
        p.add_set(b"%s-%d" % (name, n), n)
    for i in range(repeats):
        for n in sizes:
            key = b"%s-%d" % (name, n)
            p.add_get(key, n)
            p.add(b"mg %s s\r\n" % key, b"HD s%d\r\n" % n)
            p.add(b"get %s-none\r\n" % name, b"END\r\n")
        p.add_set(b"%s-%d" % (name, sizes[i % len(sizes)]), sizes[i % len(sizes)])
        p.add(b"touch %s-none 0\r\n" % name, b"NOT_FOUND\r\n")
    return p


def large(name):
    """Gets of a value of a megabyte."""
    p = Pipeline()
    p.add_set(name, 1000000)
    for _ in range(8):
        p.add_get(name, 1000000)
    return p


class Client:
    """One busy client. `pause` is how long it waits after each read; with one_by_one it sends a
    request only when it has the reply to the one before."""

    def __init__(self, sock, pipeline, pause=0.0, read_bytes=READ_BYTES, one_by_one=False):
        self.one_by_one = one_by_one
        self.sock, self.pipeline, self.pause, self.read_bytes = sock, pipeline, pause, read_bytes
        sock.setblocking(False)
        self.sent = 0           # of the pipeline
        self.at = 0             # in its replies
        self.received = 0
        self.wrong = None       # the first bytes that were not expected
        self.end = None         # "end", "reset" or "cut off": how the stream ended
        self.end_time = None
        self.next_read = 0.0
        self.may_send = True

    def sendable(self):
        """The end of what may be sent now."""
        if not self.one_by_one:
            return len(self.pipeline.requests)
        if self.at == 0 and self.sent == len(self.pipeline.requests):
            self.sent = 0
        number = self.pipeline.borders.get(self.at)
        return self.sent if number is None else self.pipeline.ends[number]

    def send(self):
        """Send until the socket is full; returns the number of sent bytes."""
        n = 0
        end = self.sendable()
        try:
            if self.sent < end:
                n = self.sock.send(memoryview(self.pipeline.requests)[self.sent:end])
                self.sent += n
        except BlockingIOError:
            pass
        except OSError:
            self.may_send = False       # what has come can still be read
        if not self.one_by_one:
            self.sent %= len(self.pipeline.requests)
        return n

    def read(self):
        try:
            data = self.sock.recv(self.read_bytes)
        except BlockingIOError:
            return
        except OSError:
            self.finish("reset")
            return
        if not data:
            self.finish("end")
            return
        self.received += len(data)
        self.check(data)
        if self.pause:
            self.next_read = time.monotonic() + self.pause

    def check(self, data):
        expected = self.pipeline.replies
        pos = 0
        while pos < len(data) and self.wrong is None:
            n = min(len(data) - pos, len(expected) - self.at)
            if data[pos:pos + n] != expected[self.at:self.at + n]:
                self.wrong = data[pos:pos + 60]
            pos += n
            self.at = (self.at + n) % len(expected)

    def finish(self, how):
        self.end = how
        self.end_time = time.monotonic()
        self.sock.close()

    @property
    def is_whole(self):
        """Only expected bytes arrived, and the last reply is complete."""
        return self.wrong is None and self.at in self.pipeline.borders

    def __str__(self):
        return "%s after %d bytes, %s" % (self.end, self.received, "wrong: %r" % self.wrong if self.wrong else
                                          "whole" if self.is_whole else "in the middle of a reply")


def run(clients, tell, told_when=0.3, patience=100.0):
    """Keep the clients busy; call tell() once all of them have received something and told_when
    seconds have passed, and go on until every stream has ended. Returns when tell() was called."""
    poll = selectors.DefaultSelector()
    for c in clients:
        poll.register(c.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, c)
    began = time.monotonic()
    told = None
    left = set(clients)
    while left and time.monotonic() < began + patience:
        now = time.monotonic()
        if told is None and now > began + told_when and all(c.received for c in clients):
            tell()
            told = now
        has_moved = False
        for key, events in poll.select(0.1):
            c = key.data
            if events & selectors.EVENT_WRITE and c.may_send:
                has_moved |= c.send() > 0
                if not c.may_send:
                    poll.modify(c.sock, selectors.EVENT_READ, c)
            if events & selectors.EVENT_READ and c.next_read <= now:
                has_moved = True
                sock = c.sock
                c.read()
                if c.end is not None:
                    poll.unregister(sock)
                    left.discard(c)
        if not has_moved:
            time.sleep(0.0005)
    for c in left:
        c.finish("cut off")
    poll.close()
    return told


def dial(address):
    family = socket.AF_UNIX if isinstance(address, (str, bytes)) else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM)
    s.connect(address)
    return s
