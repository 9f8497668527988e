#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Dumps of memcached and of mayflyd over the same items: lru_crawler metadump and stats cachedump.

A server dumps in its own order, and memcached by class, so lines are compared as sets. What depends
on the server or the moment is left out or brought to one form; what is meant to differ:
  - metadump begins with OK and ends its lines with flags=, as memcached 1.6.45 does; Debian's
    1.6.18 does not yet;
  - size= and cls= tell of the server's own memory, cas= of its own counter;
  - cachedump of memcached leaves out what its background thread has not moved to the cold end of a
    class yet, so its lines have to be among ours, and ours complete.

Environment as for differ.py. Exit status: 0 the same, 1 different, 77 no memcached here.
"""
import os
import re
import shutil
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from differ import Server, receive  # noqa: E402

CLASSES = 64
SLACK_S = 2     # between the same command on the one server and the other

KEYS = [b"plain", b"with:colon", b"100%", b"a=b&c", b"sp%20ace", b"\xc3\xa4\xff", b"tab\there",
        b"~!@#$^*()-_+[]{}|;'\",.<>/?`", b"k" * 250, b"\x01\x7f"]


class Talk:
    def __init__(self, server):
        self.sock = server.connect()
        self.sock.setblocking(True)

    def ask(self, request, end):
        """Send a request and read until the answer ends so."""
        self.sock.sendall(request)
        answer = b""
        while not re.search(end, answer):
            got = receive(self.sock)
            if not got:
                raise SystemExit("closed after %r" % request[:60])
            answer += got
        return answer


def fill(talk):
    """The same items for both: each key with each kind of end, one deleted, one read, one binary."""
    for i, key in enumerate(KEYS):
        exptime = (b"0", b"1000", b"%d" % (int(time.time()) + 5000))[i % 3]
        value = b"v" * (1 << i)
        line = b"set %s %d %s %d\r\n%s\r\n" % (key, i, exptime, len(value), value)
        assert talk.ask(line, rb"\r\n\Z") == b"STORED\r\n", line
    assert talk.ask(b"ms AAECIP8= 3 b T500\r\nbin\r\n", rb"\r\n\Z") == b"HD\r\n"
    assert talk.ask(b"set gone 0 0 1\r\nx\r\n", rb"\r\n\Z") == b"STORED\r\n"
    assert talk.ask(b"delete gone\r\n", rb"\r\n\Z") == b"DELETED\r\n"
    assert talk.ask(b"set over 0 -1 1\r\nx\r\n", rb"\r\n\Z") == b"STORED\r\n"
    assert talk.ask(b"get plain\r\n", rb"END\r\n\Z").startswith(b"VALUE plain ")
    assert talk.ask(b"touch 100% 2000\r\n", rb"\r\n\Z") == b"TOUCHED\r\n"


def rounded(seconds):
    """Moments that are as good as the same have the same name."""
    return seconds if seconds <= 0 else int(round(seconds / (10.0 * SLACK_S)))


def metadump(talk):
    answer = talk.ask(b"lru_crawler metadump all\r\n", rb"END\r\n\Z")
    found = set()
    for line in answer.splitlines()[:-1]:
        if line == b"OK":
            continue
        words = dict(word.split(b"=", 1) for word in line.split())
        assert int(words[b"size"]) > 0 and int(words[b"cas"]) > 0 and int(words[b"cls"]) > 0, line
        assert 0 <= time.time() - int(words[b"la"]) < 600, line
        found.add((words[b"key"], rounded(int(words[b"exp"])), words[b"fetch"]))
    return found


def cachedump(talk):
    found = set()
    for number in range(1, CLASSES):
        answer = talk.ask(b"stats cachedump %d 0\r\n" % number, rb"(END|ERROR[^\r]*)\r\n\Z")
        for key, size, exp in re.findall(rb"ITEM (.*) \[(\d+) b; (\d+) s\]\r\n", answer):
            found.add((key, int(size), rounded(int(exp))))
    return found


def compare(what, theirs, mine):
    if theirs == mine or (what.startswith("cachedump") and theirs <= mine):
        print("%s: %d lines, %d of them memcached's" % (what, len(mine), len(theirs)))
        return 0
    print("DIFFERENT " + what)
    for entry in sorted(theirs - mine):
        print("  memcached only: %r" % (entry,))
    for entry in sorted(mine - theirs):
        print("  mayflyd only:   %r" % (entry,))
    return 1


def main():
    memcached = shutil.which(os.environ.get("MEMCACHED", "memcached"))
    if memcached is None:
        print("memcached is not installed")
        return 77
    mayflyd = os.environ.get("MAYFLYD", os.path.join(os.environ.get("MAYFLY_BUILDDIR", "."), "daemon", "mayflyd"))
    folder = tempfile.mkdtemp(prefix="mayfly-differ.")
    servers = []
    try:
        for name, command in (("memcached", memcached), ("mayflyd", mayflyd)):
            servers.append(Server(name, command, [], folder))
            servers[-1].wait_until_ready()
        talks = [Talk(server) for server in servers]
        different = 0
        for what, dump in (("metadump of nothing", metadump), ("cachedump of nothing", cachedump)):
            different += compare(what, *(dump(talk) for talk in talks))
        for talk in talks:
            fill(talk)
        for what, dump in (("metadump", metadump), ("cachedump", cachedump)):
            found = [dump(talk) for talk in talks]
            different += compare(what, *found)
            different += len(found[1]) != len(KEYS) + 1
        for talk in talks:
            talk.sock.close()
    finally:
        statuses = [server.stop() for server in servers]
        shutil.rmtree(folder)
    return 1 if different or statuses[1:] != [0] else 0


if __name__ == "__main__":
    sys.exit(main())
