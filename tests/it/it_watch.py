#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""watch: the forms of its lines, all streams, and that a watcher that stalls or leaves never holds
up other clients."""
import contextlib
import os
import re
import shutil
import socket
import struct
import subprocess
import time

import binary
import mayfly
from mayfly import Client, Daemon, Skip, wait_for

MIB = 1 << 20
HEAD = rb"ts=(\d+)\.(\d+) gid=(\d+) "


class Watcher:
    """A connection that watches; yields lines without their head."""

    def __init__(self, daemon, streams, **how):
        self.client = daemon.client(**how)
        assert self.client.ask((b"watch " + streams).strip()) == b"OK"
        self.gids = []
        self.skipped = 0

    def line(self):
        c = self.client
        while True:
            while b"\n" not in c.buf:
                assert c.more(), "the watcher was closed"
            line, c.buf = c.buf.split(b"\n", 1)
            if line.startswith(b"skipped="):
                self.skipped += int(line[8:])
                continue
            match = re.match(HEAD, line)
            assert match, line
            self.gids.append(int(match.group(3)))
            return line[match.end():]

    def lines_until(self, pattern):
        """All lines up to the first that matches, that one included."""
        found = []
        while True:
            found.append(self.line())
            if re.search(pattern, found[-1]):
                return found

    def close(self):
        self.client.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# What memcached logs for the same requests; its descriptors and classes differ.
REQUESTS = [
    b"get foo", b"set foo 0 0 3\r\nabc", b"get foo", b"gets foo bar", b"add foo 0 0 1\r\n1",
    b"add new 0 100 1\r\n1", b"replace nono 0 0 1\r\n1", b"append foo 0 0 1\r\n1",
    b"prepend foo 0 0 1\r\n1", b"append nono 0 0 1\r\n1", b"cas foo 0 0 1 1\r\n1",
    b"cas nono 0 0 1 1\r\n1", b"incr new 1", b"incr new 100", b"decr nono 1", b"touch new 100",
    b"touch nono 100", b"gat 100 new nono", b"delete new", b"delete new",
    b"set k%25:,~-_.!*'()/ 0 0 1\r\n1", b"set k\xff\x01 0 0 1\r\n1", b"get last",
]
TOLD = """
type=item_get key=foo status=not_found clsid=0 cfd=N size=0
type=item_get key=foo status=not_found clsid=0 cfd=N size=0
type=item_store key=foo status=stored cmd=set ttl=0 clsid=1 cfd=N size=3
type=item_get key=foo status=found clsid=1 cfd=N size=3
type=item_get key=foo status=found clsid=1 cfd=N size=3
type=item_get key=bar status=not_found clsid=0 cfd=N size=0
type=item_get key=foo status=found clsid=1 cfd=N size=3
type=item_store key=foo status=not_stored cmd=add ttl=0 clsid=1 cfd=N size=1
type=item_get key=new status=not_found clsid=0 cfd=N size=0
type=item_store key=new status=stored cmd=add ttl=100 clsid=1 cfd=N size=1
type=item_get key=nono status=not_found clsid=0 cfd=N size=0
type=item_store key=nono status=not_stored cmd=replace ttl=0 clsid=1 cfd=N size=1
type=item_get key=foo status=found clsid=1 cfd=N size=3
type=item_store key=foo status=stored cmd=append ttl=0 clsid=1 cfd=N size=4
type=item_get key=foo status=found clsid=1 cfd=N size=4
type=item_store key=foo status=stored cmd=prepend ttl=0 clsid=1 cfd=N size=5
type=item_get key=nono status=not_found clsid=0 cfd=N size=0
type=item_store key=nono status=not_stored cmd=append ttl=0 clsid=1 cfd=N size=1
type=item_get key=foo status=found clsid=1 cfd=N size=5
type=item_store key=foo status=exists cmd=cas ttl=0 clsid=1 cfd=N size=1
type=item_get key=nono status=not_found clsid=0 cfd=N size=0
type=item_store key=nono status=not_found cmd=cas ttl=0 clsid=1 cfd=N size=1
type=item_get key=new status=found clsid=1 cfd=N size=1
type=item_get key=new status=found clsid=1 cfd=N size=1
type=item_get key=nono status=not_found clsid=0 cfd=N size=0
type=item_get key=new status=found clsid=1 cfd=N size=3
type=item_get key=nono status=not_found clsid=0 cfd=N size=0
type=item_get key=new status=found clsid=1 cfd=N size=3
type=item_get key=nono status=not_found clsid=0 cfd=N size=0
type=item_get key=new status=found clsid=1 cfd=N size=3
type=item_get key=new status=not_found clsid=0 cfd=N size=0
type=item_get key=k%2525%3A%2C~-_.%21%2A%27%28%29%2F status=not_found clsid=0 cfd=N size=0
type=item_store key=k%2525%3A%2C~-_.%21%2A%27%28%29%2F status=stored cmd=set ttl=0 clsid=1 cfd=N size=1
type=item_get key=k%FF%01 status=not_found clsid=0 cfd=N size=0
type=item_store key=k%FF%01 status=stored cmd=set ttl=0 clsid=1 cfd=N size=1
type=item_get key=last status=not_found clsid=0 cfd=N size=0
""".strip().encode().split(b"\n")


def told(watcher, client):
    """Send the requests; returns the lines of the watcher, without descriptors."""
    for request in REQUESTS:
        client.send(request + b"\r\n")
        if not request.startswith((b"get", b"gat")):
            assert client.line()
        else:
            client.get_reply()
    lines = [re.sub(rb"cfd=\d+", b"cfd=N", line) for line in watcher.lines_until(rb"key=last ")]
    return [re.sub(rb" ttl_ms=-?\d+$", b"", line) for line in lines if not line.startswith(b"type=expire ")]


def test_fetchers_and_mutations():
    with Daemon("-m", "64") as d, d.client() as c, Watcher(d, b"fetchers mutations") as w:
        assert told(w, c) == TOLD
        assert w.gids == sorted(w.gids), "one client, one worker: in order"


def test_memcached_tells_the_same():
    path = shutil.which("memcached")
    if path is None:
        raise Skip("memcached is not installed")
    with Daemon() as d:         # its folder has room for another server's socket
        place = os.path.join(d.folder, "other")
        # While another thread reads an item, incr writes a new one; so no other client may run.
        alone = ["-o", "no_lru_maintainer,no_lru_crawler"]
        peer = subprocess.Popen([path, *mayfly.ROOT, "-s", place, "-t", "1", *alone])

        def listens():          # a while after the file is there
            try:
                Client(place).close()
            except OSError:
                return False
            return True
        try:
            wait_for(listens, "memcached listens")
            d.path = place
            with d.client() as c, Watcher(d, b"fetchers mutations") as w:
                assert told(w, c) == TOLD
        finally:
            peer.terminate()
            peer.wait()


# A meta command, and what both log alike for it. memcached looks twice before ma
# creates an item.
META = [
    (b"mg foo v", ["get foo not_found 0"]),
    (b"mg nono v N30", ["get nono not_found 0"]),
    (b"ms foo 2\r\nab", ["get foo not_found 0", "store foo stored set 2"]),
    (b"ms foo 2 C12345\r\nab", ["get foo found 2", "store foo exists cas 2"]),
    (b"ms foo 2 MA\r\nab", ["get foo found 2", "store foo stored append 4"]),
    (b"ms foo 2 ME\r\nab", ["get foo found 4", "store foo not_stored add 2"]),
    (b"ms foo 1 MP\r\na", ["get foo found 4", "store foo stored prepend 5"]),
    (b"ms foo 1 MR\r\na", ["get foo found 5", "store foo stored replace 1"]),
    (b"ma foo", ["get foo found 1"]),
    (b"ma made N0 J5", ["get made not_found 0", "store made stored add 1"]),
    (b"md foo I", ["get foo found 1"]),
    (b"md foo", ["get foo found 1", "deleted foo md 1"]),
    (b"md foo", ["get foo not_found 0"]),
]


def test_meta_commands():
    with Daemon("-m", "64") as d, d.client() as c, Watcher(d, b"fetchers mutations deletions") as w:
        for request, want in META:
            c.send(request + b"\r\nmn\r\n")
            while c.line() != b"MN":
                pass
            for told_ in want:
                line = w.line()
                fields = dict(f.split(b"=", 1) for f in line.split())
                got = [fields[b"type"].replace(b"item_", b""), fields[b"key"]]
                got += [fields[f] for f in (b"status", b"cmd") if f in fields]
                got.append(fields[b"size"])
                assert b" ".join(got).decode() == told_, (request, line)
        assert c.set(b"last", b"x") == b"STORED"
        assert b"key=last" in w.line(), "nothing else was reported"


def test_words_and_errors():
    with Daemon("-m", "64") as d, d.client() as c:
        for line in (b"watch bogus", b"watch fetchers bogus", b"watch Fetchers"):
            assert c.ask(line) == b"ERROR", line
        for streams in (b"", b"rawcmds", b"sysevents", b"proxyreqs", b"proxyevents proxyuser",
                        b"deletions expirations evictions connevents"):
            Watcher(d, streams).close()
        with Watcher(d, b"") as w:
            assert c.get(b"k") is None
            assert w.line().startswith(b"type=item_get key=k "), "fetchers are the default"


def test_watch_switched_off():
    with Daemon("-m", "64", "-W") as d, d.client() as c:
        assert c.ask(b"watch") == b"CLIENT_ERROR watch commands not allowed"
        assert c.get(b"k") is None


def test_deletions():
    with Daemon("-m", "64") as d, d.client() as c, Watcher(d, b"deletions") as w:
        assert c.set(b"k", b"abcd") == b"STORED"
        assert c.ask(b"delete absent") == b"NOT_FOUND"
        assert c.ask(b"delete k") == b"DELETED"
        assert w.line() == b"type=deleted key=k cmd=delete clsid=1 size=4"
        assert all(c.set(key, b"abcde") == b"STORED" for key in (b"a", b"b", b"c"))
        assert c.ask(b"unlink a absent b") == b"2"
        assert c.ask(b"expire c -1") == b"1"
        assert [w.line() for _ in range(3)] == [b"type=deleted key=%s cmd=%s clsid=1 size=5" % told_ for told_ in
                                                ((b"a", b"unlink"), (b"b", b"unlink"), (b"c", b"expire"))]


def test_nothing_is_written_for_a_watcher_that_has_gone():
    with Daemon("-m", "64", "-t", "1") as d, d.client() as c:
        with Watcher(d, b"fetchers") as w:
            assert c.get(b"k") is None
            assert w.line().startswith(b"type=item_get key=k ")
        wait_for(lambda: c.stat("log_watchers") == 0, "it has gone")
        written = c.stat("log_worker_written")
        assert written >= 1 and c.get(b"k") is None
        assert c.stat("log_worker_written") == written


# How a deadline is changed or removed, or takes the item away at once, and the command that is named.
DEADLINES = [
    (b"touch k %d", b"touch"), (b"gat %d k", b"gat"), (b"gats %d k", b"gat"), (b"mg k T%d", b"mg"),
    (b"mg k v T%d", b"mg"), (b"ma k T%d", b"ma"), (b"md k I T%d", b"md"), (b"md k x T%d", b"md"),
    (b"expire k %d", b"expire"), (b"pexpire k %d000", b"expire"), (b"binary touch", b"touch"),
    (b"binary gat", b"gat"),
]


def change(d, c, form, seconds):
    if form.startswith(b"binary"):
        opcode = binary.TOUCH if form == b"binary touch" else binary.GAT
        with d.client() as b:
            exptime = seconds if seconds >= 0 else 10000000     # in 1970: it has no sign
            b.send(binary.pack(opcode, b"k", struct.pack(">I", exptime)) + binary.pack(binary.NOOP))
            b.exactly(binary.HEADER)
    else:
        c.send(form % seconds + b"\r\nmn\r\n")
        while c.line() != b"MN":
            pass


def test_deadlines_that_change():
    with Daemon("-m", "64") as d, d.client() as c, Watcher(d, b"mutations deletions") as w:
        for form, command in DEADLINES:
            assert c.set(b"k", b"1234", exptime=1000) == b"STORED"
            assert w.line().startswith(b"type=item_store key=k ")
            change(d, c, form, 100)
            assert re.match(rb"type=expire key=k cmd=%s ttl=100 clsid=1 cfd=\d+ size=\d ttl_ms=100000$"
                            % command, w.line()), form
            if b"expire" not in form:       # there 0 is in the past
                change(d, c, form, 0)
                assert re.match(rb"type=persist key=k cmd=%s clsid=1 cfd=\d+ size=\d$" % command, w.line()), form
                change(d, c, form, 0)       # it has none by now
            change(d, c, form, -1)
            assert re.match(rb"type=deleted key=k cmd=%s clsid=1 size=\d$" % command, w.line()), form
            change(d, c, form, 100)         # it is not there
        assert c.ask(b"persist k") == b"0"
        assert c.set(b"k", b"x", exptime=1000) == b"STORED" and c.ask(b"expire k 100 NX") == b"0"
        assert c.ask(b"persist k") == b"1"
        assert w.line().startswith(b"type=item_store key=k ")
        assert w.line().startswith(b"type=persist key=k cmd=persist ")
        c.close()
        assert d.client().set(b"last", b"x") == b"STORED"
        assert b"key=last" in w.line(), "nothing else was reported"


def test_times_to_live_in_milliseconds():
    with Daemon("-m", "64") as d, d.client() as c, Watcher(d, b"mutations") as w:
        for flag, want in ((b"p400", b"1 400"), (b"p1500", b"2 1500"), (b"T2", b"2 2000"), (b"", b"0 0"),
                           (b"T-1", b"-1 -1")):
            assert c.ask(b"ms k 1 %s\r\nx" % flag) == b"HD"
            match = re.search(rb" ttl=(-?\d+) .* ttl_ms=(-?\d+)$", w.line())
            assert match and b" ".join(match.groups()) == want, (flag, want, match)


def test_connevents():
    with Daemon("-m", "64", tcp=True) as d, Watcher(d, b"connevents") as w:
        for end, reason in (("quit", b"normal"), ("close", b"normal"), ("reset", b"error")):
            c = d.client()
            port = c.sock.getsockname()[1]
            form = rb"type=conn_%s rip=127.0.0.1 rport=%d transport=tcp %scfd=(\d+)$"
            said = w.lines_until(b" rport=%d " % port)[-1]  # an earlier client may be leaving yet
            fd = re.match(form % (b"new", port, b""), said).group(1)
            if end == "quit":
                c.send(b"quit\r\n")
            elif end == "reset":
                c.reset()
            else:
                c.close()
            said = w.lines_until(b" rport=%d " % port)[-1]
            match = re.match(form % (b"close", port, b"reason=" + reason + b" "), said)
            assert match and match.group(1) == fd, said
            c.close()


def test_connevents_of_idle_and_unix_clients():
    # Two seconds, so that a machine that hangs for one does not keep the watcher from asking.
    with Daemon("-m", "64", "-o", "idle_timeout=2") as d, Watcher(d, b"connevents") as w, d.client():
        lines = w.lines_until(b"reason=idle_timeout")
        form = re.compile(rb"type=conn_new rip=unix rport=0 transport=local cfd=\d+$")
        assert any(form.match(line) for line in lines), lines
        assert re.match(rb"type=conn_close rip=unix rport=0 transport=local "
                        rb"reason=idle_timeout cfd=\d+$", lines[-1])


EXPIRED = rb"type=expired key=%s late_ms=(\d+) fetch=%s size=%d by=%s$"


def test_expirations_active():
    with Daemon("-m", "64") as d, d.client() as c, Watcher(d, b"expirations") as w:
        assert c.set(b"stays", b"x", exptime=1000) == b"STORED"
        began = time.monotonic()
        c.send(b"set goes 0 1 3\r\nabc\r\nget goes\r\n")        # at once: it lives for a second
        assert c.line() == b"STORED"
        assert c.get_reply() == {b"goes": b"abc"}
        match = re.match(EXPIRED % (b"goes", b"yes", 3, b"active"), w.line())
        late_s = time.monotonic() - began - 1
        assert match and int(match.group(1)) <= late_s * 1000 + 1, "it tells how late it was"
        assert c.stat("crawler_reclaimed") == 1


def test_expirations_lazy():
    with Daemon("-m", "64", "-o", "no_lru_crawler") as d, d.client() as c, Watcher(d, b"expirations fetchers") as w:
        for key in (b"b", b"a"):            # so b is due when a is
            assert c.set(key, b"abcde", exptime=1) == b"STORED"

        def is_over():
            return c.get(b"a") is None

        wait_for(is_over, "it is past its deadline")
        for _ in range(20):     # one that finds another thread in the shard leaves it to the next
            c.get(b"a")
        lines = w.lines_until(rb"type=expired key=a ")
        assert re.match(EXPIRED % (b"a", b"(yes|no)", 5, b"lazy"), lines[-1]), lines
        assert b"key=a status=expired" in w.line()
        assert c.set(b"b", b"x") == b"STORED"       # a store over an expired item
        lines = w.lines_until(rb"type=expired key=b ")
        assert re.match(EXPIRED % (b"b", b"no", 5, b"lazy"), lines[-1]), lines


def test_evictions():
    with Daemon("-m", "8", "-I", "1m", "-t", "1", "-o", "worker_logbuf_size=4096") as d:
        with d.client() as c, Watcher(d, b"evictions") as w:
            for i in range(3000):
                assert c.set(b"k:%d" % i, b"v" * 5000, exptime=1000 * (i % 2)) == b"STORED"
            evicted = c.stat("evictions")
            assert evicted > 1000
            seen = set()
            for _ in range(evicted):
                match = re.match(rb"type=eviction key=k%3A(\d+) fetch=no ttl=(-1|\d+) la=\d+ "
                                 rb"clsid=1 size=5000 ttl_ms=(-1|\d+)$", w.line())
                assert match
                assert (match.group(3) == b"-1") == (match.group(2) == b"-1")
                assert (match.group(2) == b"-1") == (int(match.group(1)) % 2 == 0)
                seen.add(match.group(1))
            assert len(seen) == evicted, "each is reported once"
            assert c.stat("log_worker_dropped") == 0


def test_failing_stores_while_mutations_are_watched():
    """memcached once crashed here."""
    with Daemon("-m", "8", "-I", "4m", "-M") as d, d.client() as c, Watcher(d, b"mutations") as w:
        said = []
        for i in range(30):             # longer ones fail while they are read
            said.append(c.set(b"k%d" % i, b"v" * 400000))
        assert b"SERVER_ERROR out of memory storing object" in said
        c.send(b"set big 0 0 9000000 noreply\r\n" + b"x" * 9000000 + b"\r\n")
        c.send(b"ms ")                  # half a line, then the end of it
        c.send(b"x\r\n")
        assert c.line()
        assert c.set(b"small", b"1") in (b"STORED", b"SERVER_ERROR out of memory storing object")
        lines = w.lines_until(rb"key=small ")
        assert any(b"status=no_memory cmd=set" in line for line in lines), lines
        assert any(b"key=big status=too_large cmd=set ttl=0 clsid=0" in line for line in lines)
        statuses = [re.search(rb"key=k\d+ status=(\w+)", line) for line in lines]
        assert [m.group(1) == b"stored" for m in statuses if m] == [s == b"STORED" for s in said]


class OverTcp:
    """The TCP side of a daemon that listens on a unix socket as well."""

    def __init__(self, daemon):
        self.address = ("127.0.0.1", daemon.find_port())

    def client(self, **how):
        return Client(self.address, **how)


def test_two_more_may_watch_over_a_unix_socket():
    """Clients that took all places over the network do not keep the operator from watching."""
    with Daemon("-m", "64", "-t", "2", "-l", "127.0.0.1", "-p", "-1", "-o", "listen_both") as d, d.client() as c:
        remote = OverTcp(d)
        watchers = [Watcher(remote, b"fetchers") for _ in range(20)]
        with remote.client() as late:
            assert late.ask(b"watch") == b"WATCHER_TOO_MANY log watcher limit reached"
            watchers += [Watcher(d, b"fetchers") for _ in range(2)]
            assert c.ask(b"watch") == b"WATCHER_TOO_MANY log watcher limit reached"
            assert c.get(b"k") is None
            for w in watchers:
                assert b"key=k " in w.line(), "all of them are sent it"
            watchers.pop(0).close()
            wait_for(lambda: c.stat("log_watchers") == 21, "one has left")
            assert late.ask(b"watch") == b"OK"


def test_watcher_only_listens():
    with Daemon("-m", "64", "-t", "1") as d, d.client() as c, d.client() as w:
        w.send(b"get x\r\nmn\r\nwatch fetchers\r\nget y\r\nquit\r\n")  # what follows is dropped
        assert w.get_reply() == {}
        assert w.line() == b"MN"
        assert w.line() == b"OK"
        w.send(b"flush_all\r\nset y 0 0 1\r\n1\r\nquit\r\n")
        assert c.get(b"z") is None
        while b"\n" not in w.buf:
            assert w.more()
        assert re.match(HEAD + rb"type=item_get key=z status=not_found clsid=0 cfd=\d+ size=0\n$", w.buf), w.buf
        w.sock.shutdown(socket.SHUT_WR)
        assert w.more() is False, "it leaves when its client does"
        wait_for(lambda: c.stat("log_watchers") == 0, "it left")


def load(c, rounds, key=b"some-key-of-usual-length:%d"):
    """Gets of absent keys, each answered: each gives one line of the fetchers."""
    for r in range(rounds):
        c.send(b"".join(b"get " + key % i + b"\r\n" for i in range(r * 100, r * 100 + 100)))
        for _ in range(100):
            assert c.line() == b"END"


def test_stalled_watcher_holds_up_nobody():
    """Its lines are skipped and counted; others are answered and get all of theirs."""
    with Daemon("-m", "64", "-t", "1", "-o", "watcher_logbuf_size=16") as d, d.client() as c:
        load(c, 50)
        before = d.rss()
        deaf = [Watcher(d, b"fetchers", rcvbuf=4096) for _ in range(19)]
        load(c, 200)
        wait_for(lambda: c.stat("log_watcher_skipped") > 0, "lines are skipped")
        with Watcher(d, b"fetchers") as w:
            # A watcher that reads gets all lines, however slow the others are.
            for i in range(500):
                assert c.get(b"now:%d" % i) is None
                assert b"key=now%%3A%d " % i in w.line()
            assert w.skipped == 0
        assert mayfly.is_sanitized() or d.rss() - before < 16 * MIB, "%d MiB" % ((d.rss() - before) // MIB)
        # One of them wakes up: whole lines, then the count of what it missed, then fresh ones.
        w = deaf.pop()
        w.client.sock.settimeout(0.2)
        end = time.monotonic() + mayfly.PATIENCE
        while w.skipped == 0:
            assert time.monotonic() < end
            assert c.get(b"fresh") is None
            with contextlib.suppress(TimeoutError, socket.timeout):
                w.line()
        assert w.gids == sorted(set(w.gids)), "in order, none twice"
        stats = c.stats()
        assert int(stats["log_watcher_skipped"]) >= w.skipped
        w.close()
        for i, x in enumerate(deaf):        # leave midway, half of them rudely
            x.client.reset() if i % 2 else x.close()
        wait_for(lambda: c.stat("log_watchers") == 0, "all left")
        load(c, 5)
        wait_for(lambda: c.shard_sum("mayfly_out_pending_bytes") == 0, "nothing is left behind")


def catch_up(w, c):
    """Read until the line of the newest request is among them; returns how many were asked."""
    w.client.sock.settimeout(0.2)
    asked = 0
    end = time.monotonic() + mayfly.PATIENCE
    while time.monotonic() < end:
        assert c.get(b"fresh:%d" % asked) is None
        asked += 1
        try:
            w.lines_until(b"key=fresh%%3A%d " % (asked - 1))
            return asked
        except (TimeoutError, socket.timeout):
            pass            # it was skipped, or comes late: the next one tells
    raise AssertionError("the watcher never caught up")


def test_each_skipped_line_is_counted_once():
    """A watcher stalls twice: the lines it got and those reported as skipped are all there were."""
    with Daemon("-m", "64", "-t", "1", "-o", "watcher_logbuf_size=16") as d, d.client() as c:
        with Watcher(d, b"fetchers", rcvbuf=4096) as w:
            asked = 0
            for _ in range(2):
                before = c.stat("log_watcher_skipped")
                while c.stat("log_watcher_skipped") == before:
                    load(c, 20)
                    asked += 2000
                asked += catch_up(w, c)
                stats = c.stats()
                assert w.skipped == int(stats["log_watcher_skipped"]) > before
                assert len(w.gids) == int(stats["log_watcher_sent"])
                assert len(w.gids) + w.skipped + int(stats["log_worker_dropped"]) == asked
            assert w.gids == sorted(set(w.gids)), "in order, none twice"


def test_full_ring_of_a_worker_drops_and_counts():
    with Daemon("-m", "64", "-t", "1", "-o", "worker_logbuf_size=1") as d, d.client() as c:
        with Watcher(d, b"fetchers") as w:
            load(c, 20)
            stats = c.stats()
            lost, kept = int(stats["log_worker_dropped"]), int(stats["log_worker_written"])
            assert lost > 0 and lost + kept == 2000, stats
            wait_for(lambda: c.stat("log_watcher_sent") == kept, "the rest is sent")
            for _ in range(kept):
                w.line()
    with Daemon("-m", "64", "-t", "1", "-o", "worker_logbuf_size=0,watcher_logbuf_size=0") as d:
        with d.client() as c, Watcher(d, b"fetchers"):
            load(c, 1)
            assert c.stat("log_worker_dropped") == 100


def test_watchers_come_and_go_under_load():
    with Daemon("-m", "64", "-t", "2") as d, d.client() as c, d.client() as e:
        for i in range(100):
            streams = (b"fetchers", b"mutations evictions", b"connevents expirations", b"deletions")
            w = Watcher(d, streams[i % 4], rcvbuf=4096)
            for x in (c, e):
                x.send(b"".join(b"set k%d 0 1 1\r\n1\r\nget k%d\r\ndelete k%d\r\n" % (k, k, k) for k in range(100)))
            if i % 3 == 0:
                w.client.reset()
            for x in (c, e):
                for _ in range(100):
                    assert x.line() == b"STORED"
                    x.get_reply()
                    assert x.line() in (b"DELETED", b"NOT_FOUND")
            w.close()
        wait_for(lambda: c.stat("log_watchers") == 0, "all left")


def test_a_watcher_sees_nothing_of_before():
    """Events logged before the watch request are not sent, even if they were not dealt out yet."""
    asked = b"".join(b"get past:%d\r\n" % i for i in range(100))
    with Daemon("-m", "64", "-t", "1") as d, d.client() as c, Watcher(d, b"fetchers") as first:
        for i in range(100):
            with d.client() as late:
                late.send(asked + b"mn\r\nwatch fetchers\r\n")
                for _ in range(100):
                    assert late.get_reply() == {}
                assert late.line() == b"MN"
                assert late.line() == b"OK"
                assert c.get(b"now:%d" % i) is None
                while b"\n" not in late.buf:
                    assert late.more()
                assert b" key=now%%3A%d " % i in late.buf.split(b"\n")[0], late.buf[:200]
            first.lines_until(b"key=now%%3A%d " % i)


def test_server_stops_while_clients_watch():
    d = Daemon("-m", "64", "-t", "2")
    with d, d.client() as c:
        watchers = [Watcher(d, b"fetchers connevents", rcvbuf=4096) for _ in range(10)]
        load(c, 100)
        assert d.stop() in (0, None)
        for w in watchers:
            w.close()


mayfly.main(globals())
