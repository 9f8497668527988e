#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Versions of the link of a replica: what is said to peers that speak others."""
import os

import mayfly
from mayfly import wait_for
from proxy import Scripted
from replicas import Node, level, sealed

SOURCES = os.environ.get("MAYFLY_SRCDIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
with open(os.path.join(SOURCES, "daemon", "replica", "replication.h"), encoding="utf-8") as header:
    OWN = int(header.read().split("#define REPL_VERSION ")[1].split("u")[0])
LEAST = max(OWN - 1, 1)
REST = b"0 - 0 %032x 0" % 7


def test_replicas_of_other_versions():
    with Node() as a:
        for theirs, spoken in ((b"%d" % OWN, OWN), (b"%d-%d" % (LEAST, OWN), OWN), (b"%d-%d" % (OWN, OWN + 1), OWN),
                               (b"1-%d" % LEAST, LEAST), (b"%d-4294967295" % LEAST, OWN)):
            with a.client() as c:
                said = c.ask(b"psync %s %s" % (theirs, REST))
                assert said.startswith(b"FULLSYNC %d " % spoken), (theirs, said)
        # A later one may say more.
        with a.client() as c:
            assert c.ask(b"psync %d-%d %s x y=1" % (OWN, OWN + 1, REST)).startswith(b"FULLSYNC %d " % OWN)
        for theirs in (b"%d" % (OWN + 1), b"%d-%d" % (OWN + 1, OWN + 2)):
            with a.client() as c:
                said = c.ask(b"psync %s %s" % (theirs, REST))
                assert said == (b"SERVER_ERROR no version in common (replica %s, primary %d-%d): upgrade the older one first"
                                % (theirs if b"-" in theirs else b"%s-%s" % (theirs, theirs), LEAST, OWN)), said
        for line in (b"psync 0 " + REST, b"psync 2-1 " + REST, b"psync 1- " + REST, b"psync x " + REST,
                     b"psync %d %s more" % (OWN, REST)):
            with a.client() as c:
                assert c.ask(line).startswith(b"CLIENT_ERROR usage: psync "), line
        with Node(of=a.port) as b:
            level(a, b)


def answer(greeting, heard):
    """A primary that answers psync by this."""
    def serve(end):
        with end.makefile("rb") as said:
            heard.append(said.readline())
            end.sendall(greeting)
            said.read()
    return serve


def test_primaries_of_other_versions():
    with Node() as b:
        assert b.c.set(b"k", b"v") == b"STORED"
        for version in (OWN + 1, 0):
            heard = []
            line = sealed(b"FULLSYNC %d %s 9 0 0 1800000000000 %s it has nothing" % (version, b"a" * 32, b"f" * 32))
            with Scripted(answer(line, heard)) as p:
                before = b.log().count("speaks a version of replication")
                b.follow(p.port)
                wait_for(lambda: b.log().count("speaks a version of replication") > before, "it is refused")
                # A link that was cut before it had said anything was made again.
                assert next(filter(None, heard)).startswith(b"psync %d-%d " % (LEAST, OWN)), heard
                assert "upgrade the older one first" in b.c.stats(b"replication")["repl_state_reason"]
        # What it says of itself is shown.
        line = b"SERVER_ERROR no version in common (replica 1-1, primary 3-4): upgrade the older one first"
        with Scripted(answer(line + b"\r\n", [])) as p:
            b.follow(p.port)
            wait_for(lambda: line.decode() in b.c.stats(b"replication")["repl_state_reason"], "the reason is shown")
        # Nothing was emptied for any of them.
        b.stand_alone()
        assert "-> syncing" not in b.log() and b.c.get(b"k") == b"v"


mayfly.main(globals())
