# SPDX-License-Identifier: BSD-3-Clause
"""Clients that load a daemon in batches, and check that they get each reply, complete and in order."""
import random
import struct
import threading
import time

import mayfly
from mayfly import wait_for


class Load:
    """Clients that send in batches and check every reply, until they are stopped."""

    def __init__(self, d, count, *kinds, connect=None):
        self.d, self.is_over, self.errors, self.lumps = d, False, [], 0
        self.connect = connect or (lambda: d.client())
        self.threads = [threading.Thread(target=self.run, args=(i, kinds[i % len(kinds)])) for i in range(count)]

    def run(self, number, kind):
        try:
            with self.connect() as c:
                rng, n = random.Random(number), 0
                while not self.is_over:
                    n = kind(c, b"%d" % number, n, rng)
                    self.lumps += 1
                    time.sleep(rng.choice((0, 0.05)))    # some are idle when they move; and other tests need the CPU
        except Exception as error:      # the report must not end the others
            self.errors.append("client %d: %r" % (number, error))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        wait_for(lambda: self.lumps > len(self.threads) or self.errors, "there is load")
        return self

    def goes_on(self):
        """All of them make progress: wait for some more batches."""
        before = self.lumps
        wait_for(lambda: self.lumps > before + 2 * len(self.threads) or self.errors, "the load goes on")
        assert not self.errors, self.errors

    def __exit__(self, *_):
        self.is_over = True
        for thread in self.threads:
            thread.join()
        assert not self.errors, self.errors


def text(c, name, n, rng):
    lump, wanted = b"", b""
    for _ in range(rng.randint(1, 40)):
        n += 1
        lump += b"set t%s 0 0 %d\r\n%d\r\nget t%s none t%s\r\n" % (name, len(b"%d" % n), n, name, name)
        wanted += b"STORED\r\n" + b"VALUE t%s 0 %d\r\n%d\r\n" % (name, len(b"%d" % n), n) * 2 + b"END\r\n"
    c.send(lump)
    got = c.exactly(len(wanted))
    assert got == wanted, (got[:200], wanted[:200])
    return n


def meta(c, name, n, rng):
    lump, wanted = b"", b""
    for _ in range(rng.randint(1, 40)):
        n += 1
        lump += b"ms m%s %d q O%d\r\n%d\r\nmg m%s v O%d\r\nmn\r\n" % (name, len(b"%d" % n), n, n, name, n)
        wanted += b"VA %d O%d\r\n%d\r\nMN\r\n" % (len(b"%d" % n), n, n)
    c.send(lump)
    got = c.exactly(len(wanted))
    assert got == wanted, (got[:200], wanted[:200])
    return n


def binary(c, name, n, rng):
    key = b"b" + name
    count = rng.randint(1, 30)
    lump = b""
    for _ in range(count):
        n += 1
        value = b"%d" % n
        lump += struct.pack(">BBHBBHIIQII", 0x80, 0x01, len(key), 8, 0, 0, 8 + len(key) + len(value), n, 0, 0, 0) + key + value
        lump += struct.pack(">BBHBBHIIQ", 0x80, 0x00, len(key), 0, 0, 0, len(key), n, 0) + key
    c.send(lump)
    for at in range(n - count + 1, n + 1):
        for opcode in (0x01, 0x00):
            head = struct.unpack(">BBHBBHIIQ", c.exactly(24))
            body = c.exactly(head[6])
            assert (head[0], head[1], head[5], head[7]) == (0x81, opcode, 0, at), (head, at)
            assert opcode == 0x01 or body[4:] == b"%d" % at, (body, at)
    return n


def upload(c, name, n, rng):
    """A large value in pieces, so that it is in transit while workers come and go."""
    n += 1
    value = mayfly.pattern(b"%s.%d" % (name, n), 300000 + rng.randrange(200000))
    c.send(b"set u%s 0 0 %d\r\n" % (name, len(value)))
    for at in range(0, len(value), 60000):
        c.send(value[at:at + 60000])
    c.send(b"\r\nget u%s\r\n" % name)
    assert c.line() == b"STORED"
    assert c.line() == b"VALUE u%s 0 %d" % (name, len(value))
    assert c.exactly(len(value) + 7) == value + b"\r\nEND\r\n"
    return n


def many_keys(c, name, n, rng):
    """A line that takes many turns, whose replies exceed the socket's buffer."""
    if n == 0:
        assert c.set(b"l" + name, mayfly.pattern(name, 100)) == b"STORED"
    keys = rng.randint(2000, 20000)
    one = b"VALUE l%s 0 100\r\n%s\r\n" % (name, mayfly.pattern(name, 100))
    sender = threading.Thread(target=c.send, args=(b"get" + b" l%s" % name * keys + b"\r\n",))
    sender.start()
    got = c.exactly(len(one) * keys + 5)
    sender.join()
    assert got == one * keys + b"END\r\n"
    return n + 1
