#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Effects of options on a primary and a replica: min_replicas_to_write, replica_reads, a stop with failover, and
versions of the link."""
import os
import socket
import tempfile

import mayfly
from mayfly import wait_for
from proxy import Proxy, Scripted
from replicas import assert_equal, level, Node, sealed


def test_changes_need_replicas():
    with Node() as a, a.operator() as o:
        assert o.ask(b"config set min_replicas_to_write 1 min_replicas_max_lag 1") == b"OK"
        wait_for(lambda: a.c.set(b"k", b"v") == b"SERVER_ERROR not enough replicas", "it notices that there is none")
        assert a.c.ask(b"md k q\r\nmn") == b"SERVER_ERROR not enough replicas" and a.c.line() == b"MN"
        assert a.c.ask(b"flush_all") == b"SERVER_ERROR not enough replicas"
        assert a.c.get(b"k") is None
        with Node(of=a.port) as b:
            wait_for(lambda: a.c.set(b"k", b"v") == b"STORED", "a replica is enough")
            level(a, b)
            assert b.c.get(b"k") == b"v"
            b.process.send_signal(19)         # SIGSTOP: it acknowledges nothing any more
            wait_for(lambda: a.c.set(b"k", b"w") == b"SERVER_ERROR not enough replicas", "one that hangs is none")
            b.process.send_signal(18)
            wait_for(lambda: a.c.set(b"k", b"x") == b"STORED", "it is back")
        wait_for(lambda: a.c.set(b"k", b"w") == b"SERVER_ERROR not enough replicas", "it has gone")
        assert o.ask(b"config reset min_replicas_to_write") == b"OK"
        wait_for(lambda: a.c.set(b"k", b"w") == b"STORED", "none is needed")


def closes(d, command=b"mn\r\n"):
    """Does it close a new connection at its first command, without an answer?"""
    with socket.create_connection(("127.0.0.1", d.port), mayfly.PATIENCE) as s:
        s.sendall(command)
        try:
            return s.recv(10) == b""
        except ConnectionError:
            return True


def test_a_replica_that_serves_nobody():
    with Node() as a, Node(of=a.port) as b:
        level(a, b)
        assert not closes(b)
        with b.operator() as o, b.client() as early:
            assert early.ask(b"mn") == b"MN"
            assert o.ask(b"config set replica_reads no") == b"OK"
            for command in (b"mn\r\n", b"get k\r\n", b"stats\r\n", b"role\r\n", b"nonsense\r\n", b"set k 0 0 9\r\n",
                            b"set k 0 0 1\r\nx\r\n", b"set k 0 0 999999\r\n", b"set k 0 0 x\r\n", b"sync\r\n",
                            b"replconf ack 0\r\n", b"\x80\x0a" + bytes(22)):
                assert closes(b, command), command
            early.send(b"mn\r\n")
            assert early.rest() == b""               # as does one that was there before
            assert o.ask(b"mn") == b"MN"             # operators are served
            assert o.ask(b"config set replica_reads yes") == b"OK"
            assert not closes(b)
            assert o.ask(b"config set replica_reads no") == b"OK"
            assert closes(b)
            assert o.ask(b"replicaof no one") == b"OK"
            assert not closes(b)
            with b.client() as c:
                assert c.set(b"k", b"v") == b"STORED"
                # Those that are connected have to leave, too.
                assert o.ask(b"replicaof 127.0.0.1 %d" % a.port) == b"OK"
                wait_for(lambda: c.rest() == b"", "it closes the connection")
            assert closes(b)


def test_one_that_serves_nobody_is_followed():
    """Over TCP, and with a login."""
    with tempfile.TemporaryDirectory(prefix="mayfly-roles.") as folder:
        secret, users = os.path.join(folder, "secret"), os.path.join(folder, "users")
        for path, text in ((secret, "word\n"), (users, "me:word\n")):
            mayfly.write(path, text, 0o600)
        with Node() as a, Node("-o", "replica_reads=no", "-Y", users, of=a.port) as b, \
                Node("-o", "replica_user=me,replica_password_file=" + secret, of=b.port) as c:
            assert a.c.set(b"k", b"v") == b"STORED"
            level(a, b)
            wait_for(lambda: c.c.get(b"k") == b"v", "it is passed on")
            with b.client() as client:
                assert client.set(b"login", b"me word") == b"STORED"
                client.send(b"get k\r\n")
                assert client.rest() == b""
            b.stand_alone()
            assert b.c.set(b"k", b"w") == b"STORED"
            level(b, c)
            assert c.c.get(b"k") == b"w"


def test_a_replica_behind_another_address():
    """A server that hands over follows its replica at the announced address, not at the source address of its
    connections."""
    for how, host in (("localhost %d", "localhost"), ("127.0.0.1:%d", "127.0.0.1"),
                      ("[::ffff:127.0.0.1]:%d", "::ffff:127.0.0.1")):
        with Node() as a, Node(of=a.port) as b:
            level(a, b)
            with b.operator() as o, Proxy(b.port) as p:
                assert o.ask(b"config set replica_announce " + (how % p.port).encode()) == b"OK"
                shown = "address=%s:%d," % ("[%s]" % host if ":" in host else host, p.port)
                wait_for(lambda: shown in a.c.stats(b"replication").get("replica0", ""), "it is told")
                level(a, b)
                assert a.c.ask(b"failover") == b"OK"
                assert a.c.stats(b"replication")["repl_primary"] == "%s %d" % (host, p.port)
                level(b, a)
                assert len(p.links) > 0


def test_bounds_of_the_backlog():
    """A ring is large enough for what is written to it at once, and leaves room for items."""
    for size, taken in ((b"1", 2 << 20), (b"100g", 32 << 20)):
        with Node("-o", "repl_backlog_size=" + size.decode()) as a, Node() as b:
            assert b.c.ask(b"config set repl_backlog_size " + size) == b"OK"
            b.follow(a.port)
            level(a, b)
            assert a.c.set(b"k", os.urandom(500000)) == b"STORED"
            level(a, b)
            assert_equal(a, b)
            for n in (a, b):
                assert int(n.c.stats(b"replication")["repl_backlog_size"]) == taken, n.c.stats(b"replication")


def test_a_file_is_not_replaced_by_less():
    """During a full sync, save rules do not save the partial data of the replica. The rate can be changed during the
    sync; without that, it takes longer than this test waits."""
    with Node("-m", "300", "-o", "save_rate=1") as a:
        for i in range(200):
            assert a.c.set(b"k%d" % i, os.urandom(1000000)) == b"STORED"
        with tempfile.TemporaryDirectory(prefix="mayfly-roles.") as folder, \
                Node("-m", "400", "-o", "dir=%s,save=1:1" % folder, of=a.port) as b:
            wait_for(lambda: int(b.c.stats()["curr_items"]) > 2, "more than a second's worth is here")
            assert b.state() == "syncing"
            with a.operator() as o:
                assert o.ask(b"config set save_rate 0") == b"OK"
            level(a, b)
            wait_for(lambda: b.c.stats(b"persistence")["rdb_saves"] != "0", "the rule is met now")
            assert b.says("snapshot, saved")
            before, after = b.log().split("-> online", 1)
            assert "snapshot, saved" not in before, before
            assert " 200 items" in after, after


def test_nor_by_a_save_under_way():
    """One that had begun before is given up, and not begun again with less."""
    with Node("-o", "save_rate=1") as a, tempfile.TemporaryDirectory(prefix="mayfly-roles.") as folder, \
            Node("-o", "dir=%s" % folder) as b, b.operator() as o:
        for i in range(40):
            assert a.c.set(b"k%d" % i, os.urandom(200000)) == b"STORED"
            assert b.c.set(b"old%d" % i, os.urandom(50000)) == b"STORED"
        assert o.ask(b"save") == b"OK" and o.ask(b"config set save_rate 1") == b"OK" and o.ask(b"bgsave") == b"OK"
        b.follow(a.port)
        b.wait_for_state("syncing")
        wait_for(lambda: b.c.stats(b"persistence")["rdb_bgsave_in_progress"] == "0", "it has ended")
        assert b.state() == "syncing" and b.says("the save was cancelled"), b.log()
        assert b.c.stats(b"persistence")["rdb_saves"] == "1", b.log()


def test_a_crash_while_everything_is_sent():
    """A replica that is promoted during a full sync serves none of the received items."""
    with Node("-o", "save_rate=1") as a:
        for i in range(40):
            assert a.c.set(b"k%d" % i, os.urandom(200000)) == b"STORED"
        for log in ("full", "keys"):
            with tempfile.TemporaryDirectory(prefix="mayfly-roles.") as folder:
                options = ("-o", "dir=%s,appendonly=%s,appendfsync=always" % (folder, log))
                with Node(*options) as b:
                    assert b.c.set(b"old", b"v") == b"STORED"
                    with b.operator() as o:
                        wait_for(lambda: o.ask(b"save") == b"OK", "it is in a file")
                    b.follow(a.port)
                    wait_for(lambda: int(b.c.stats()["curr_items"]) > 2, "some items have come")
                    assert b.state() == "syncing"
                    b.kill()
                with Node(*options) as b:
                    assert int(b.c.stats()["curr_items"]) == 0, (log, b.log())


def test_what_it_missed_outlives_a_crash_as_well():
    """A replica that received a full sync, or was promoted during one, removes its old file, because it may have
    missed a flush."""
    with Node("-o", "save_rate=1") as a:
        for i in range(40):
            assert a.c.set(b"big%d" % i, os.urandom(200000)) == b"STORED"
        for is_whole in (False, True):
            with tempfile.TemporaryDirectory(prefix="mayfly-roles.") as folder:
                with Node("-o", "dir=" + folder) as b:
                    assert b.c.set(b"k", b"v") == b"STORED"
                    with b.operator() as o:
                        assert o.ask(b"save") == b"OK"
                    b.follow(a.port)
                    b.wait_for_state("syncing")
                    if is_whole:
                        assert a.c.ask(b"config set save_rate 0") == b"OK"
                        level(a, b)
                    else:
                        b.stand_alone()
                    wait_for(lambda: b.c.get(b"k") is None, "it is gone")
                    b.kill()
                with Node("-o", "dir=" + folder) as b:
                    assert b.c.get(b"k") is None, (is_whole, b.log())


def test_a_flush_of_the_primary_outlives_a_crash():
    """Once a replica has acknowledged a flush, none of its files contains flushed items."""
    for flush, log in ((b"flush_all", "no"), (b"flush_all", "keys"), (b"flush_all 1", "no"), (b"flush_prefix k", "no")):
        with tempfile.TemporaryDirectory(prefix="mayfly-roles.") as folder, Node() as a:
            options = ("-o", "dir=%s,appendonly=%s" % (folder, log))
            with Node(*options, of=a.port) as b:
                assert a.c.set(b"k", b"v") == b"STORED"
                level(a, b)
                with b.operator() as o:
                    wait_for(lambda: o.ask(b"bgsave") and o.stats(b"persistence")["rdb_last_save_keys"] == "1",
                             "it is in a file")
                assert a.c.ask(flush) == b"OK"
                level(a, b)
                wait_for(lambda: b.c.get(b"k") is None, "it is flushed")
                b.kill()
            with Node(*options) as b:
                assert b.c.get(b"k") is None, (flush, log)


def test_a_stop_hands_over():
    with Node() as a, Node(of=a.port) as b:
        level(a, b)
        with a.operator() as o:
            assert o.ask(b"config set failover_on_stop yes") == b"OK"
        assert a.c.set(b"last", b"word") == b"STORED"
        a.process.terminate()
        assert a.process.wait(mayfly.PATIENCE) == 0
        assert b.c.ask(b"role").startswith(b"ROLE primary"), b.c.ask(b"role")
        assert b.c.get(b"last") == b"word" and b.c.set(b"k", b"v") == b"STORED"


def test_a_primary_that_handed_over_goes_on_serving_reads():
    """It has the items of its successor, and serves them before there is a link."""
    with Node() as a, Node() as b, Proxy(a.port) as p, Proxy(b.port) as q:
        assert b.c.ask(b"config set replica_announce 127.0.0.1:%d" % q.port) == b"OK"
        b.follow(p.port)
        assert a.c.set(b"k", b"v") == b"STORED"
        level(a, b)
        q.is_refusing = True
        assert a.c.ask(b"failover") == b"OK"
        assert a.role()[:2] == ["replica", "cut"] and a.c.get(b"k") == b"v"
        q.is_refusing = False
        level(b, a)


def test_a_successor_that_lost_its_items_is_not_followed():
    """A primary that handed over is the only one that has them, when its successor starts again without them."""
    with Node() as a, Node() as b, Proxy(b.port) as q:
        assert b.c.ask(b"config set replica_announce 127.0.0.1:%d" % q.port) == b"OK"
        b.follow(a.port)
        assert a.c.set(b"k", b"v") == b"STORED"
        level(a, b)
        q.is_refusing = True
        assert a.c.ask(b"failover") == b"OK"
        b.kill()
        with Node() as empty:
            q.target = empty.port
            q.is_refusing = False
            wait_for(lambda: a.state() != "cut" or "another history of the same epoch" in a.log(), "it is found")
            assert a.state() == "cut" and a.c.get(b"k") == b"v", a.log()


def test_a_stop_without_replicas_waits_for_nobody():
    with Node() as a:
        with a.operator() as o:
            assert o.ask(b"config set failover_on_stop yes failover_timeout 60000") == b"OK"
        a.process.terminate()
        assert a.process.wait(mayfly.PATIENCE) == 0
        assert "no online replica" in a.log()


def test_an_interrupted_greeting_empties_nobody():
    """Items stay if a link is interrupted before the state of the other server is known."""
    with Node() as a, Node(of=a.port) as b, socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(mayfly.PATIENCE)
        assert a.c.set(b"k", b"v") == b"STORED"
        level(a, b)
        b.follow(silent.getsockname()[1])
        peer, _ = silent.accept()
        with peer, peer.makefile("rb") as said:
            assert said.readline().startswith(b"psync ")     # and is not answered
            b.stand_alone()
        assert b.state() == "primary" and b.c.get(b"k") == b"v"
        assert "-> syncing" not in b.log().split("-> online")[-1]


def test_no_keys_are_listed_where_reads_miss():
    with Node() as a, socket.create_server(("127.0.0.1", 0)) as silent:
        assert a.c.set(b"k", b"v") == b"STORED"
        listings = (b"lru_crawler mgdump all", b"lru_crawler metadump all", b"stats cachedump 1 0", b"stats bigkeys")
        a.follow(silent.getsockname()[1])
        assert a.state() == "connecting" and a.c.get(b"k") is None
        for line in listings:
            assert a.c.ask(line) == b"SERVER_ERROR this replica is not in sync with its primary", line
        a.stand_alone()
        for line in listings:
            a.c.send(line + b"\r\nmn\r\n")
            said = list(iter(a.c.line, b"MN"))
            assert any(b"k" in x for x in said), (line, said)


def test_a_full_sync_ends_dumps():
    """What a dump has not shown yet is dropped: its client is told, and not that it has seen every key."""
    with Node() as a, Node() as b:
        b.c.fill(b"k" * 100, 50000, b"v")
        with b.client(rcvbuf=4096) as reader, b.client(rcvbuf=4096) as other:
            reader.send(b"lru_crawler metadump all\r\nversion\r\n")
            other.send(b"lru_crawler mgdump all\r\nversion\r\n")
            assert reader.line() == b"OK" and other.line() == b"OK"
            b.follow(a.port)
            level(a, b)
            for c in (reader, other):
                while not c.buf.endswith(b"\r\n") or b"VERSION" not in c.buf:
                    c.buf = c.buf[-4096:]
                    assert c.more(), "the dump ends"
                assert c.buf.split(b"\n")[-3] == b"SERVER_ERROR this replica is not in sync with its primary\r", \
                    c.buf[-200:]


# ---- versions of the link ----

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
                before = b.log().count("no common version of the replication protocol")
                b.follow(p.port)
                wait_for(lambda: b.log().count("no common version of the replication protocol") > before, "it is refused")
                # A link that was cut before it had said anything was made again.
                assert next(filter(None, heard)).startswith(b"psync %d-%d " % (LEAST, OWN)), heard
                wait_for(lambda: "upgrade the older one first" in b.c.stats(b"replication")["repl_state_reason"],
                         "it says why, right after the line of its log")
        # What it says of itself is shown.
        line = b"SERVER_ERROR no version in common (replica 1-1, primary 3-4): upgrade the older one first"
        with Scripted(answer(line + b"\r\n", [])) as p:
            b.follow(p.port)
            wait_for(lambda: line.decode() in b.c.stats(b"replication")["repl_state_reason"], "the reason is shown")
        # Nothing was emptied for any of them.
        b.stand_alone()
        assert "-> syncing" not in b.log() and b.c.get(b"k") == b"v"


mayfly.main(globals())
