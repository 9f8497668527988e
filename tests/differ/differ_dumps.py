#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""memcached and mayflyd dump the same items: lru_crawler metadump and stats cachedump.

A server dumps in its own order, and memcached by class, so lines are compared as sets. What depends
on the server or the time is left out or normalised. Intended differences:
  - metadump begins with OK and ends its lines with flags=, as memcached 1.6.45 does; Debian's
    1.6.18 does not yet;
  - size= and cls= describe the server's own memory, cas= its own counter;
  - memcached's cachedump leaves out keys of arbitrary bytes, and shows expired items until a request
    finds them.

memcached runs without the thread that maintains its lists, because that moves items between lists
during a dump, so that some are missed, and starts crawls of its own, during which a dump is refused.

Environment as in peers.py.
"""
import contextlib
import re
import sys
import time

sys.dont_write_bytecode = True
from peers import both, receive                                         # noqa: E402

import mayfly                                                           # noqa: E402

CLASSES = 64
# How far the expiry time of an item may be off: memcached counts from a clock that ticks once a second,
# and later when the machine is busy; mayflyd counts from the request.
SLACK_S = {"memcached": 100, "mayflyd": 1}

BINARY = b"%00%01%02%20%FF"     # a key of arbitrary bytes
OVER = b"over"
KEYS = [b"plain", b"with:colon", b"100%", b"a=b&c", b"sp%20ace", b"\xc3\xa4\xff", b"tab\there",
        b"~!@#$^*()-_+[]{}|;'\",.<>/?`", b"k" * 250, b"\x01\x7f"]


class Talk:
    """A connection, and the expiry times that were asked for."""

    def __init__(self, name, server):
        self.slack = SLACK_S[name]
        self.sock = server.connect()
        self.sock.setblocking(True)
        self.ends = {}      # seconds asked for -> (earliest, latest) second of the day it can be

    def relative(self, ttl, request):
        """Send a line that stores for `ttl` seconds from now, and remember when that was."""
        before = time.time()
        answer = self.ask(request, rb"\r\n\Z")
        first, last = self.ends.get(ttl, (before + ttl, 0))
        self.ends[ttl] = (first, max(last, time.time() + ttl))
        return answer

    def named(self, end):
        """An expiry time -> the time to live that was asked for; an unknown one as it is."""
        for ttl, (first, last) in self.ends.items():
            if first - self.slack <= end <= last + self.slack:
                return "in %d s" % ttl
        return end

    def ask(self, request, end):
        """Send a request and read until the answer matches `end`."""
        self.sock.sendall(request)
        answer = b""
        while not re.search(end, answer):
            got = receive(self.sock)
            if not got:
                raise EOFError("closed after %r" % request[:60])
            answer += got
        return answer


def fill(talk):
    """The same items for both: each key with each kind of expiry, one deleted, one read, one binary."""
    absolute = int(time.time()) + 5000
    talk.ends[5000] = (absolute, absolute)
    for i, key in enumerate(KEYS):
        ttl, exptime = ((0, b"0"), (1000, b"1000"), (5000, b"%d" % absolute))[i % 3]
        value = b"v" * (1 << i)
        line = b"set %s %d %s %d\r\n%s\r\n" % (key, i, exptime, len(value), value)
        answer = talk.relative(ttl, line) if ttl == 1000 else talk.ask(line, rb"\r\n\Z")
        assert answer == b"STORED\r\n", line
    assert talk.relative(500, b"ms AAECIP8= 3 b T500\r\nbin\r\n") == b"HD\r\n"
    assert talk.ask(b"set gone 0 0 1\r\nx\r\n", rb"\r\n\Z") == b"STORED\r\n"
    assert talk.ask(b"delete gone\r\n", rb"\r\n\Z") == b"DELETED\r\n"
    assert talk.ask(b"set %s 0 -1 1\r\nx\r\n" % OVER, rb"\r\n\Z") == b"STORED\r\n"
    assert talk.ask(b"get plain\r\n", rb"END\r\n\Z").startswith(b"VALUE plain ")
    assert talk.relative(2000, b"touch 100% 2000\r\n") == b"TOUCHED\r\n"


def metadump(talk):
    answer = talk.ask(b"lru_crawler metadump all\r\n", rb"END\r\n\Z")
    found = set()
    for line in answer.splitlines()[:-1]:
        if line == b"OK":
            continue
        words = dict(word.split(b"=", 1) for word in line.split())
        assert int(words[b"size"]) > 0 and int(words[b"cas"]) > 0 and int(words[b"cls"]) > 0, line
        assert -talk.slack <= time.time() - int(words[b"la"]) < 600, line
        found.add((words[b"key"], talk.named(int(words[b"exp"])), words[b"fetch"]))
    return found


def cachedump(talk):
    found = set()
    for number in range(1, CLASSES):
        answer = talk.ask(b"stats cachedump %d 0\r\n" % number, rb"(END|ERROR[^\r]*)\r\n\Z")
        for key, size, exp in re.findall(rb"ITEM (.*) \[(\d+) b; (\d+) s\]\r\n", answer):
            found.add((key, int(size), talk.named(int(exp))))
    return found


def compare(what, dump, talks):
    """Dump both and compare; returns what mayflyd dumped."""
    theirs, mine = (dump(talk) for talk in talks)
    seen_theirs, seen_mine = theirs, mine
    if dump is cachedump:
        seen_theirs = {entry for entry in theirs if entry[0] != OVER}
        seen_mine = {entry for entry in mine if entry[0] != BINARY}
    for entry in sorted(seen_theirs - seen_mine, key=repr):
        print("  memcached only: %r" % (entry,))
    for entry in sorted(seen_mine - seen_theirs, key=repr):
        print("  mayflyd only:   %r" % (entry,))
    assert seen_theirs == seen_mine, what
    return mine


@contextlib.contextmanager
def talks_with_both():
    with both(peer_flags=["-o", "no_lru_maintainer"]) as servers:
        talks = [Talk(*pair) for pair in zip(SLACK_S, servers)]
        yield talks
        for talk in talks:
            talk.sock.close()


def test_dumps_of_nothing():
    with talks_with_both() as talks:
        assert all(not compare("%s of nothing" % dump.__name__, dump, talks) for dump in (metadump, cachedump))


def test_dumps_of_every_kind_of_item():
    with talks_with_both() as talks:
        for talk in talks:
            fill(talk)
        assert all(len(compare(dump.__name__, dump, talks)) == len(KEYS) + 1 for dump in (metadump, cachedump))


mayfly.main(globals())
