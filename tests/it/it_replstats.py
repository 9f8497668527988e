#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""stats replication: the statistics of a primary and a replica about themselves and each other, with a primary and a
replica simulated by the test."""
import os
import re
import socket
import time

import mayfly
from mayfly import Daemon, wait_for
from replicas import sealed

RUN = b"a" * 32     # the name of a process that the test plays


def look(c):
    return c.stats(b"replication")


def value(c, name):
    return look(c)[name]


def replicas(c):
    """The lines of replicas, each as a dictionary."""
    found = look(c)
    lines = [found["replica%d" % n] for n in range(int(found["connected_replicas"]))]
    assert len(lines) == sum(re.fullmatch(r"replica\d+", name) is not None for name in found), found
    return [dict(field.split("=", 1) for field in line.split(",")) for line in lines]


def follow(o, primary):
    assert o.ask(b"replicaof 127.0.0.1 %d" % primary.port) == b"OK"


def online(o):
    wait_for(lambda: value(o, "repl_state") == "online", "the replica is online")


class FakePrimary:
    """A simulated primary: it lets a replica continue, and sends pings."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(mayfly.PATIENCE)
        self.port = self.listener.getsockname()[1]
        self.sock = self.file = None

    def accept(self, first):
        """Accept the replica, and answer its psync."""
        self.sock, _ = self.listener.accept()
        self.sock.settimeout(mayfly.PATIENCE)
        self.file = self.sock.makefile("rb")
        assert self.file.readline().startswith(b"psync 1-1 ")
        self.sock.sendall(sealed(first))

    def go_on(self, ahead_ms, more):
        """Continue the replica's history, with this number of bytes to come."""
        self.sock, _ = self.listener.accept()
        self.sock.settimeout(mayfly.PATIENCE)
        self.file = self.sock.makefile("rb")
        _, version, epoch, name, offset, _, _ = self.file.readline().split()
        assert version == b"1-1" and len(name) == 32
        self.offset = int(offset)
        self.sock.sendall(sealed(b"CONTINUE 1 %s %d %d %d %d %s" % (
            name, max(1, int(epoch)), self.offset, self.offset, time.time() * 1000 + ahead_ms, b"c" * 32)))
        self.ping(ahead_ms, more)

    def ping(self, ahead_ms, more):
        assert self.file.readline().startswith(b"replconf ack ")
        self.sock.sendall(sealed(b"PART 0 %d %d 0 0 %d" % (now := time.time() * 1000 + ahead_ms, self.offset + more, now)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for s in (self.file, self.sock, self.listener):
            if s is not None:
                s.close()


def test_a_server_alone():
    with Daemon() as d, d.client() as c:
        found = look(c)
        for name, want in (("role", "primary"), ("repl_state", "primary"), ("repl_primary", "none"),
                           ("previous_replid", "none"), ("repl_backlog_size", "0"), ("repl_recording", "0"),
                           ("repl_lag_ms", "0"), ("repl_silent_ms", "-1"), ("connected_replicas", "0"), ("repl_epoch", "0")):
            assert found[name] == want, (name, found)
        assert re.fullmatch(r"[0-9a-f]{32}", found["replid"]), found
        assert "replica0" not in found


def test_a_primary_and_its_replica():
    with Daemon(tcp=True) as p, Daemon(tcp=True, control=True) as r, p.client() as c, r.operator() as o:
        assert c.set(b"k", b"v") == b"STORED"
        follow(o, p)
        online(o)
        assert c.set(b"large", os.urandom(100000)) == b"STORED"
        assert c.ask(b"wait 1 60000") == b"WAIT 1"
        at_p, at_r = look(c), look(o)
        assert at_p["role"] == "primary" and at_r["role"] == "replica", (at_p, at_r)
        assert at_r["repl_primary"] == "127.0.0.1 %d" % p.port, at_r
        assert at_r["repl_state_reason"] not in ("", "none"), at_r
        for name in ("replid", "repl_epoch", "repl_offset"):
            assert at_p[name] == at_r[name], (name, at_p, at_r)
        assert int(at_p["repl_backlog_histlen"]) > 100000, at_p
        assert int(at_p["repl_offset"]) == int(at_p["repl_backlog_first_byte_offset"]) + int(at_p["repl_backlog_histlen"])
        assert int(at_p["repl_backlog_size"]) >= 2 << 20 and at_p["repl_recording"] == "1" and at_r["repl_recording"] == "0"
        assert (at_p["sync_full"], at_p["sync_partial_ok"], at_p["connected_replicas"], at_p["online_replicas"]) == (
            "1", "0", "1", "1"), at_p
        assert (at_r["primary_sync_full"], at_r["primary_sync_partial"], at_r["primary_link_failures"]) == ("1", "0", "0"), at_r
        assert at_r["repl_lag_bytes"] == "0" and at_r["repl_lag_ms"] == "0", at_r
        assert 0 <= int(at_r["repl_silent_ms"]) and abs(int(at_r["repl_clock_skew_ms"])) < 1000 * mayfly.PATIENCE, at_r
        one, = replicas(c)
        assert one["address"] == "127.0.0.1:%d" % r.port and one["peer"].startswith("127.0.0.1:"), one
        assert one["peer"] != one["address"] and one["state"] == "online", one
        assert one["offset"] == at_p["repl_offset"] and one["lag_bytes"] == "0" and int(one["ack_ms"]) >= 0, one
        with r.client() as writer:
            assert writer.set(b"k", b"w") == b"SERVER_ERROR read-only replica"
        assert value(o, "repl_refused") == "1"
        assert o.ask(b"replicaof no one") == b"OK"
        found = look(o)
        assert found["role"] == "primary" and found["repl_promotions"] == "1" and found["repl_primary"] == "none", found
        assert found["previous_replid"] == at_r["replid"] and found["replid"] != at_r["replid"], found
        assert found["previous_replid_end"] == at_r["repl_offset"] and int(found["repl_epoch"]) == int(at_r["repl_epoch"]) + 1
        assert found["repl_silent_ms"] == "-1" and found["repl_lag_bytes"] == "0", found
        wait_for(lambda: value(c, "connected_replicas") == "0", "the replica has left")
        assert "replica0" not in look(c)
        for told in ("connected, needs a full sync: it has no items of this history", "disconnected"):
            wait_for(lambda: "replica at %s %s" % (one["peer"], told) in p.log(), "it is logged: " + told)


def test_a_link_that_is_cut():
    with Daemon(tcp=True) as p, Daemon("-o", "replica_max_stale=3600", tcp=True, control=True) as r, r.operator() as o:
        follow(o, p)
        online(o)
        wait_for(lambda: int(value(o, "repl_silent_ms")) >= 0, "it was heard in the stream")
        p.kill()
        wait_for(lambda: value(o, "repl_state") == "cut", "the link is cut")
        wait_for(lambda: int(value(o, "primary_link_failures")) >= 2, "it tries again")
        first = int(value(o, "repl_lag_ms"))
        assert first >= 0
        wait_for(lambda: int(value(o, "repl_lag_ms")) > first, "what is here gets older")
        found = look(o)
        assert abs(int(found["repl_lag_ms"]) - int(found["repl_silent_ms"])) == 0, found
        assert o.ask(b"config set replica_max_stale 1") == b"OK"
        wait_for(lambda: value(o, "repl_state") == "stale", "it is too old")
        wait_for(lambda: "-> stale (nothing received from the primary for replica_max_stale)" in r.log(), "it says why")
        wait_for(lambda: "refused" in value(o, "repl_state_reason"), "it says why it has no link")


def test_lag_and_skew():
    with FakePrimary() as p, Daemon(tcp=True) as real, Daemon(control=True) as r, r.operator() as o:
        follow(o, real)
        online(o)
        wait_for(lambda: int(value(o, "repl_silent_ms")) >= 0, "it was heard in the stream")
        follow(o, p)
        p.go_on(5000, 12345)
        wait_for(lambda: value(o, "repl_lag_bytes") == "12345", "it is behind")
        found = look(o)
        # A message takes its time, by which the primary's clock seems less ahead.
        assert 5000 - 1000 * mayfly.PATIENCE < int(found["repl_clock_skew_ms"]) <= 5001, found
        assert found["repl_state"] == "online" and found["primary_sync_partial"] == "1", found
        first = int(found["repl_lag_ms"])
        wait_for(lambda: int(value(o, "repl_lag_ms")) > first, "its lag grows")
        p.ping(5000, 0)
        wait_for(lambda: value(o, "repl_lag_bytes") == "0", "it is level")
        assert value(o, "repl_lag_ms") == "0"


def test_a_sync_that_a_replica_waits_for():
    with FakePrimary() as p, Daemon(control=True) as r, r.operator() as o:
        follow(o, p)
        p.accept(b"FULLSYNC 1 %s 1 0 0 %d %s it has nothing" % (b"b" * 32, time.time() * 1000, b"c" * 32))
        assert p.file.readline() == b"sync\r\n" and value(o, "repl_state") == "connecting"
        p.sock.sendall(b"PART 24\r\n")
        wait_for(lambda: value(o, "repl_state") == "syncing", "it waits for everything")
        found = look(o)
        assert found["primary_sync_in_progress"] == "1" and found["primary_sync_keys_processed"] == "0", found
        assert found["repl_lag_ms"] == "-1" and found["primary_sync_full"] == "0", found
        p.file.close()
        p.sock.close()
        wait_for(lambda: value(o, "repl_state") == "connecting", "the link is cut")
        found = look(o)
        assert found["primary_sync_in_progress"] == "0" and int(found["primary_link_failures"]) > 0, found


def test_a_sync_that_a_primary_sends():
    with Daemon("-m", "256", tcp=True) as d, d.client() as c, d.client(rcvbuf=4096) as slow:
        for i in range(200):
            assert c.set(b"k%d" % i, os.urandom(100000)) == b"STORED"
        assert slow.ask(b"psync 1 0 - 0 %s 4242" % RUN).startswith(b"FULLSYNC ")
        one, = replicas(c)
        assert (one["state"], one["offset"], one["lag_bytes"], one["ack_ms"]) == ("syncing", "-", "-", "-"), one
        assert one["address"] == "127.0.0.1:4242", one
        assert value(c, "sync_in_progress") == "0"
        slow.send(b"sync\r\n")
        wait_for(lambda: int(value(c, "sync_keys_processed")) > 0, "some are sent")
        found = look(c)
        assert found["sync_in_progress"] == "1" and found["online_replicas"] == "0", found
        assert 0 < int(found["sync_keys_processed"]) < 200 == int(found["sync_keys_total"]), found
        assert c.stats(b"persistence")["export_in_progress"] == "1"
        slow.close()
        wait_for(lambda: value(c, "sync_in_progress") == "0", "it is given up")
        wait_for(lambda: value(c, "connected_replicas") == "0", "it is gone")


def test_a_replica_with_a_long_name():
    """Its line has all fields."""
    name = b"h" * 60 + b".h" * 90
    with Daemon(tcp=True) as d, d.client() as c, d.client() as r:
        assert r.ask(b"psync 1 0 - 0 %s %s:4242" % (RUN, name)).startswith(b"FULLSYNC ")
        one, = replicas(c)
        assert (one["address"], one["state"], one["ack_ms"]) == (name.decode() + ":4242", "syncing", "-"), one


def test_an_export_is_no_sync():
    with Daemon("-m", "256", tcp=True) as d, d.client() as c, d.client(rcvbuf=4096) as slow:
        for i in range(200):
            assert c.set(b"k%d" % i, os.urandom(100000)) == b"STORED"
        slow.send(b"save -\r\n")
        wait_for(lambda: c.stats(b"persistence")["export_in_progress"] == "1", "an export is under way")
        assert value(c, "sync_in_progress") == "0"


def test_refusals_and_too_few_replicas():
    with Daemon("-o", "min_replicas_to_write=1", tcp=True, control=True) as d, d.client() as c, d.operator() as o:
        assert c.ask(b"psync 1 99 - 0 %s 0" % RUN).startswith(b"SERVER_ERROR the epoch")
        assert value(c, "sync_refused_reason") == "the epoch of this server is lower"
        wait_for(lambda: ": the epoch of this server is lower" in d.log(), "it says so")
        assert value(c, "sync_refused") == "1" and value(c, "connected_replicas") == "0"
        wait_for(lambda: value(c, "repl_too_few_replicas") == "1", "changes are refused")
        assert c.set(b"k", b"v") == b"SERVER_ERROR not enough replicas"
        assert value(c, "repl_refused") == "1"
        assert o.ask(b"config set min_replicas_to_write 0") == b"OK"
        wait_for(lambda: value(c, "repl_too_few_replicas") == "0", "changes are taken")


def test_a_replica_that_is_smaller():
    with Daemon("-m", "64", tcp=True) as p, Daemon("-m", "8", "-o", "repl_backlog_size=2m", tcp=True, control=True) as r, \
            p.client() as c, r.operator() as o:
        for i in range(300):
            assert c.set(b"k%d" % i, os.urandom(100000)) == b"STORED"
        follow(o, p)
        online(o)
        assert int(value(o, "repl_evicted")) > 0 and value(c, "repl_evicted") == "0"


def test_items_that_a_replica_does_not_store():
    """They are too large for it, or there is no room. In either case an older value goes."""
    for size, options in ((900000, ("-I", "64k")), (100000, ("-m", "8", "-M", "-o", "repl_backlog_size=2m"))):
        with Daemon("-m", "64", tcp=True) as p, Daemon(*options, tcp=True, control=True) as r, \
                p.client() as c, r.operator() as o:
            assert c.set(b"small", b"v") == b"STORED"
            follow(o, p)
            online(o)
            for i in range(100):
                assert c.set(b"small", os.urandom(size)) == b"STORED"
                c.ask(b"wait 1 %d" % (1000 * mayfly.PATIENCE))
                if o.get(b"small") is None:
                    break
                assert c.set(b"k%d" % i, os.urandom(size)) == b"STORED"
            assert o.get(b"small") is None
            count = int(value(o, "repl_not_stored"))
            assert count > 0 and value(c, "repl_not_stored") == "0"
            assert o.ask(b"replicaof no one") == b"OK"
            assert int(value(o, "repl_not_stored")) >= count


if __name__ == "__main__":
    mayfly.main(globals())
