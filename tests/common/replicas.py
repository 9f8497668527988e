# SPDX-License-Identifier: BSD-3-Clause
"""Servers that follow each other, for the tests of replication."""
import contextlib
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mayfly                                                           # noqa: E402
from mayfly import wait_for                                             # noqa: E402


def xxh32(data):
    """XXH32 with seed 0."""
    def turned(x, n):
        x &= 0xffffffff
        return (x << n | x >> (32 - n)) & 0xffffffff

    p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    words = [int.from_bytes(data[i:i + 4], "little") for i in range(0, len(data) - 3, 4)]
    stripes = len(data) // 16
    if stripes:
        lanes = [p1 + p2, p2, 0, -p1]
        for i in range(stripes * 4):
            lanes[i % 4] = turned(lanes[i % 4] + words[i] * p2, 13) * p1
        h = sum(turned(lane, n) for lane, n in zip(lanes, (1, 7, 12, 18)))
    else:
        h = p5
    h += len(data)
    for word in words[stripes * 4:]:
        h = turned(h + word * p3, 17) * p4
    for byte in data[len(words) * 4:]:
        h = turned(h + byte * p5, 11) * p1
    h &= 0xffffffff
    for shift, prime in ((15, p2), (13, p3)):
        h = (h ^ h >> shift) * prime & 0xffffffff
    return h ^ h >> 16


def sealed(line):
    """A line of a primary, with its final checksum."""
    return line + b" %08x\r\n" % xxh32(line)


class Node(mayfly.Daemon):
    """A server that may follow another one; c: an operator's connection. of: the port of its primary."""

    def __init__(self, *args, of=None, **kw):
        follows = ("-o", "replicaof=127.0.0.1:%d" % of) if of else ()
        self.c = None
        super().__init__("-t", "2", "-m", "64", *args, *follows, tcp=True, control=True, **kw)
        self.wait_for_operator()
        self.c = self.operator()

    def role(self):
        """The words of `role`: primary or replica, state, id, epoch, offset."""
        line = self.c.ask(b"role")
        assert line.startswith(b"ROLE "), line
        return line.decode().split()[1:]

    def state(self):
        return self.role()[1]

    def wait_for_state(self, *states):
        wait_for(lambda: self.state() in states, "%s, not %s" % (" or ".join(states), self.role()))
        return self

    def online(self):
        return self.wait_for_state("online")

    def follow(self, port, how="%s %d"):
        assert self.c.ask(b"replicaof " + (how % ("127.0.0.1", port)).encode()) == b"OK"

    def stand_alone(self):
        assert self.c.ask(b"replicaof no one") == b"OK"

    def kill(self):
        if self.c is not None:
            self.c.close()
        super().kill()


def level(primary, *replicas, count=1):
    """Wait until these replicas have all changes; the given number of them follow the primary directly."""
    for r in replicas:
        r.online()
    said = primary.c.ask(b"wait %d 100000" % count)
    assert int(said.split()[1]) >= count, said  # a link that was cut just now may count as well
    wait_for(lambda: len({tuple(n.role()[2:]) for n in (primary,) + replicas}) == 1,
             "%s have come to the same offset" % [n.role() for n in (primary,) + replicas])


def keys(c):
    """Its keys in the form of meta commands: with the flag for base64 if needed."""
    c.send(b"lru_crawler mgdump all\r\n")
    found = []
    line = c.line()
    assert line == b"OK", line
    while True:
        line = c.line()
        if line == b"EN":
            return sorted(found)
        assert line is not None and line.startswith(b"mg "), line
        found.append(line[3:])


def batches(items, n=200):
    for at in range(0, len(items), n):
        yield items[at:at + n]


def dump(c):
    """All items. For each key: value, flags, cas, whether it is stale, and its deadline as a unix time in
    milliseconds if the key is text; None: no deadline."""
    found = {}
    for some in batches(keys(c)):
        c.send(b"".join(b"mg %s v f c t\r\npexpiretime %s\r\n" % (name, name.split()[0]) for name in some))
        for name in some:
            line = c.line()
            assert line == b"EN" or line.startswith(b"VA "), line
            words = line.split()
            value = c.exactly(int(words[1]) + 2) if words[0] == b"VA" else None
            until = int(c.line())
            if value is not None:
                # Which of the two got the right to renew a stale item does not count.
                rest = [w for w in words[2:] if w not in (b"W", b"Z") and w[:1] != b"t"]
                found[name] = (value[:-2], rest, until if until >= 0 else b"t-1" in words)
    return found


# How much later a replica may see a deadline than its primary: what the best of its first messages took to come. If the
# roles have changed since, the other one sees it later.
TRANSIT_MS = 5000


def are_same(a, b):
    """Two items, the second a replica's."""
    if a is None or b is None or a[:2] != b[:2] or isinstance(a[2], bool) or isinstance(b[2], bool):
        return a == b
    return abs(b[2] - a[2]) <= TRANSIT_MS


def differences(a, b):
    """The differences of two dumps, the second of a replica, without values."""
    return [(k, a.get(k, ("none",))[1:], b.get(k, ("none",))[1:]) for k in sorted(set(a) | set(b))
            if not are_same(a.get(k), b.get(k))][:10]


def assert_equal(*nodes):
    """The first server has the items of its replicas, the other servers."""
    dumps = [dump(n.c) for n in nodes]
    for other in dumps[1:]:
        assert not differences(dumps[0], other), differences(dumps[0], other)
    return dumps[0]


class Writer:
    """A client that counts some keys up, as fast as it is answered, until it is ended or refused."""

    def __init__(self, node, keys=16, size=1000):
        self.node, self.keys, self.size = node, keys, size
        self.confirmed, self.count, self.goes_on, self.refused = {}, 0, True, None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        with contextlib.suppress(OSError), self.node.client() as c:
            while self.goes_on:
                n = self.count + 1
                got = c.set(b"n%d" % (n % self.keys), b"%d " % n + b"v" * self.size)
                if got != b"STORED":
                    self.refused = got
                    return
                self.confirmed[n % self.keys] = self.count = n

    def wait_for_more(self, n):
        until = self.count + n
        wait_for(lambda: self.count >= until or not self.thread.is_alive(), "it writes")

    def end(self):
        self.goes_on = False
        self.thread.join()
        return dict(self.confirmed)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def number(value):
    return int(value.split()[0]) if value is not None else 0


def assert_has(c, confirmed, keys=16):
    """What was confirmed by a moment, or something newer."""
    for key in range(keys):
        assert number(c.get(b"n%d" % key)) >= confirmed.get(key, 0), (key, c.get(b"n%d" % key), confirmed.get(key))
