#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A server that follows another one: it has all items, refuses changes of clients, and takes over."""
import contextlib
import os
import re
import signal
import socket
import struct
import tempfile

import binary
import deftables
import mayfly
import replicas
from mayfly import wait_for
from replicas import Node, Writer, assert_equal, assert_has, level

READ_ONLY = b"SERVER_ERROR read-only replica"
BIN_READ_ONLY = 0x83
BINARY_KEY = b"AAECCv8gIA=="     # base64, with a zero byte, a line end and blanks


def fill(c):
    """One of each kind."""
    for n in range(200):
        c.send(b"set t%d %d %d %d noreply\r\n%s\r\n" % (n, n, 0 if n % 2 else 5000 + n, n, b"v" * n))
        c.send(b"ms m%d 3 p%d F%d q\r\nhi!\r\n" % (n, 100000000 + 7 * n, n))
    assert c.ask(b"ms %s 8 b F7 T4000\r\n\0\r\nEND\r\n" % BINARY_KEY) == b"HD"
    assert c.set(b"k" * 250, bytes(range(256)) * 9) == b"STORED"
    assert c.set(b"empty", b"") == b"STORED"
    assert c.set(b"large", mayfly.pattern(b"large", 5 << 20)) == b"STORED"
    assert c.ask(b"ms stale 1 T9000\r\nx") == b"HD" and c.ask(b"md stale I T8000") == b"HD"
    assert c.ask(b"ms won 1\r\nx") == b"HD" and c.ask(b"md won I") == b"HD" and b" W" in c.ask(b"mg won v t")
    assert c.line() == b"x"
    assert c.ask(b"mg vivid N600") == b"HD W"
    assert c.ask(b"ms ownnumber 1 E123456789\r\nx") == b"HD"


def change(c):
    """By each word that changes."""
    wrote = [
        (b"set t1 1 0 3\r\nnew", b"STORED"), (b"add added 2 100 1\r\na", b"STORED"),
        (b"replace t2 3 0 2\r\nrr", b"STORED"),
        (b"append t3 0 0 3\r\n-ap", b"STORED"), (b"prepend t4 0 0 3\r\npr-", b"STORED"),
        (b"set count 0 0 2\r\n40", b"STORED"), (b"incr count 2", b"42"), (b"decr count 1", b"41"),
        (b"delete t5", b"DELETED"), (b"touch t6 7777", b"TOUCHED"), (b"ma count D5", b"HD"),
        (b"ma made N900 J17", b"HD"), (b"ms t7 2 T0 F9\r\nxy", b"HD"), (b"ms t8 2 MA\r\nxy", b"HD"),
        (b"md t9 q\r\nmn", b"MN"), (b"md t10 I T6000", b"HD"), (b"ms t11 3 C1 I\r\nold", b"HD"),
        (b"md t12 x", b"HD"), (b"mg t14 T5000", b"HD"), (b"mg t16 N60 R100000", b"HD W"), (b"mg new N60", b"HD W"),
        (b"expire t18 3000", b"1"), (b"pexpire t20 123456789", b"1"), (b"persist t22", b"1"),
        (b"pexpireat t24 99999999999999", b"1"), (b"unlink t26 t28", b"2"),
        (b"ms %s 3 b MA\r\nend" % BINARY_KEY, b"HD"), (b"append large 0 0 4\r\nlast", b"STORED"),
        (b"gat 8888 t30", None), (b"gats 9999 t32", None),
    ]
    for line, answer in wrote:
        if answer is None:
            c.send(line + b"\r\n")
            assert c.get_reply(), line
        else:
            got = c.ask(line)
            assert got == answer, (line, got)


def assert_same_deadlines(a, b):
    """All that came by one full sync: the distance of two deadlines is the same on either side, to the millisecond."""
    was, now = replicas.dump(a.c), replicas.dump(b.c)
    shifts = [now[k][2] - was[k][2] for k in was if k[:1] in (b"t", b"m") and not isinstance(was[k][2], bool)]
    assert len(shifts) > 200 and max(shifts) - min(shifts) <= 2, (len(shifts), min(shifts), max(shifts))


def test_everything_is_sent_and_then_each_change():
    with Node("-m", "256", "-I", "8m") as a:
        fill(a.c)
        with Node("-m", "256", "-I", "8m", of=a.port) as b:
            level(a, b)
            found = assert_equal(a, b)
            assert len(found) == 400 + 8 and found[b"large"][0] == mayfly.pattern(b"large", 5 << 20)
            assert_same_deadlines(a, b)
            change(a.c)
            level(a, b)
            found = assert_equal(a, b)
            assert found[b"large"][0].endswith(b"last") and found[b"count"][0].strip() == b"46" and b"t5" not in found
            assert found[BINARY_KEY + b" b"][0] == b"\0\r\nEND\r\nend"


def test_flush_and_flush_to_come():
    with Node() as a, Node(of=a.port) as b:
        a.c.fill(b"k", 100, b"x")
        level(a, b)
        assert len(assert_equal(a, b)) == 100
        assert a.c.ask(b"flush_all") == b"OK" and a.c.set(b"after", b"y") == b"STORED"
        level(a, b)
        assert list(assert_equal(a, b)) == [b"after"]
        assert a.c.ask(b"flush_all 1") == b"OK"
        level(a, b)
        assert a.c.set(b"before", b"z") == b"STORED"
        wait_for(lambda: a.c.get(b"after") is None, "the flush comes")
        assert a.c.set(b"kept", b"z") == b"STORED"
        level(a, b)
        wait_for(lambda: b.c.get(b"after") is None, "it comes at the replica")
        assert list(assert_equal(a, b)) == [b"kept"]
        # One that was asked for before a full sync comes after it.
        assert a.c.ask(b"flush_all 3") == b"OK"
        with Node(of=a.port) as late:
            level(a, late, count=2)
            wait_for(lambda: a.c.get(b"kept") is None, "the second flush comes")
            wait_for(lambda: late.c.get(b"kept") is None, "and at the new replica")


# ---- a replica changes nothing ---------------------------------------------------------------

TEXT_WRITES = {
    "GAT": b"gat 100 k", "GATS": b"gats 100 k", "SET": b"set k 0 0 1\r\nx", "ADD": b"add k2 0 0 1\r\nx",
    "REPLACE": b"replace k 0 0 1\r\nx", "APPEND": b"append k 0 0 1\r\nx", "PREPEND": b"prepend k 0 0 1\r\nx",
    "CAS": b"cas k 0 0 1 1\r\nx", "DELETE": b"delete k", "INCR": b"incr k 1", "DECR": b"decr k 1",
    "TOUCH": b"touch k 100", "MS": b"ms k 1\r\nx", "MD": b"md k", "MA": b"ma k", "EXPIRE": b"expire k 100",
    "PEXPIRE": b"pexpire k 100", "EXPIREAT": b"expireat k 9999999999", "PEXPIREAT": b"pexpireat k 9999999999999",
    "PERSIST": b"persist k", "UNLINK": b"unlink k",
}
MORE_WRITES = (b"flush_all", b"flush_all 10", b"flush_prefix k", b"flush_prefix k noreply\r\nflush_prefix k",
               b"flush_all noreply\r\nflush_all", b"mg k T100", b"mg k N100",
               b"mg k v p100", b"mg absent N10 v", b"md k I", b"md k x", b"md absent q", b"ms k 1 MA\r\nx", b"ms k 1 C1 I\r\nx",
               b"ms YQ== 1 b\r\nx", b"ma absent N10", b"restore begin", b"set k 0 0 70000\r\n" + b"x" * 70000)


def test_each_write_of_text_is_refused():
    # All that the table has; a new one that is not here fails.
    needed = {row[1] for row in deftables.rows("proto/command.def", "COMMAND|EXTENSION") if "NEED_WRITE" in row[5]}
    assert needed == set(TEXT_WRITES), needed ^ set(TEXT_WRITES)
    with Node() as a, Node("-U", "-1", of=a.port) as b:
        assert a.c.set(b"k", b"1") == b"STORED"
        level(a, b)
        before = replicas.dump(b.c)
        with b.client() as c:
            for who in (b.c, c):
                for line in list(TEXT_WRITES.values()) + list(MORE_WRITES):
                    if who is c and line.startswith((b"flush_", b"restore")):
                        continue
                    got = who.ask(line)
                    assert got == READ_ONLY, (line[:60], got)
            # One that is not to be answered changes nothing either.
            c.send(b"set k 0 0 1 noreply\r\nx\r\ndelete k noreply\r\ntouch k 1 noreply\r\n")
            assert c.get(b"k") == b"1"
            # What is no change is none: also words beside it.
            assert c.ask(b"mg k t v") == b"VA 1 t-1" and c.line() == b"1"
            assert c.ask(b"ttl k") == b"-1" and c.ask(b"mn") == b"MN"
        udp(b, before)
        assert replicas.dump(b.c) == before


def udp(b, before):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(mayfly.PATIENCE)
        s.connect(("127.0.0.1", b.ports("UDP INET")[0]))
        for n, line in enumerate(TEXT_WRITES.values()):
            s.send(struct.pack(">HHHH", n, 0, 1, 0) + line + b"\r\n")
            got = s.recv(2000)
            assert got[8:] == READ_ONLY + b"\r\n", (line, got)
        s.send(struct.pack(">HHHH", 999, 0, 1, 0) + b"get k\r\n")
        assert s.recv(2000)[8:] == b"VALUE k 0 1\r\n1\r\nEND\r\n"
        assert b.c.ask(b"config set replica_reads no") == b"OK"
        s.send(struct.pack(">HHHH", 1000, 0, 1, 0) + b"get k\r\n")
        assert s.recv(2000)[8:] == b"SERVER_ERROR this replica serves no clients\r\n"
    assert replicas.dump(b.c) == before


def frame_of(row):
    """A request that changes something, if it were served."""
    number, _, command, _, _, extras, key, value = row[1:9]
    opcode = int(number, 16)
    return opcode, command, binary.pack(opcode, b"k" if key == "A_KEY" else b"",
                                        b"" if extras == "MAYBE_4" else bytes(int(extras)),
                                        b"1" if value == "A_VALUE" else b"", opaque=7)


def test_each_write_of_binary_is_refused():
    written = {row[1] for row in deftables.rows("proto/command.def", "COMMAND|EXTENSION") if "NEED_WRITE" in row[5]}
    count = 0
    with Node() as a, Node(of=a.port) as b:
        assert a.c.set(b"k", b"1") == b"STORED"
        level(a, b)
        before = replicas.dump(b.c)
        for row in deftables.rows("proto/opcodes.def", "OPCODE"):
            opcode, command, request = frame_of(row)
            if command not in written | {"FLUSH_ALL"}:
                continue
            count += 1
            with b.client() as c:
                c.send(request + binary.pack(binary.NOOP, opaque=8))
                head = c.exactly(24)
                magic, op, _, _, _, status, body, opaque, _ = struct.unpack(">BBHBBHIIQ", head)
                assert (magic, op, status, opaque) == (binary.RESPONSE, opcode, BIN_READ_ONLY, 7), (row, head)
                assert c.exactly(body) == b"Read-only replica"
                head = c.exactly(24)
                assert head[1] == binary.NOOP and head[6:8] == b"\0\0", head
        assert count >= 20 and replicas.dump(b.c) == before


def test_stale_items_are_won_at_the_primary_only():
    with Node() as a:
        assert a.c.ask(b"ms s 1\r\nx") == b"HD" and a.c.ask(b"md s I") == b"HD"
        assert a.c.ask(b"ms soon 1 T30\r\nx") == b"HD" and a.c.ask(b"mg vivid N60") == b"HD W"
        with Node(of=a.port) as b:
            level(a, b)
            for _ in range(3):
                for key, flags in ((b"s", {b"X", b"Z"}), (b"vivid", {b"Z"})):
                    words = set(b.c.ask(b"mg %s s" % key).split())
                    assert flags <= words and b"W" not in words, (key, words)
                words = b.c.ask(b"mg soon s R60").split()
                assert b"W" not in words, words
            assert b" W" in a.c.ask(b"mg s s") and b" W" in a.c.ask(b"mg soon s R60")
            level(a, b)
            assert_equal(a, b)


# ---- items that expire -----------------------------------------------------------------------

def test_expired_items_are_masked_and_go_with_the_primary():
    with Node("-o", "active_expire=no") as a, Node(of=a.port) as b:
        for n in range(50):
            assert a.c.ask(b"ms e%d 1 p400\r\nx" % n) == b"HD"
        assert a.c.set(b"k", b"x") == b"STORED"
        level(a, b)
        wait_for(lambda: not a.c.get(*[b"e%d" % n for n in range(25)]), "they expire, and are met")
        wait_for(lambda: not b.c.get(*[b"e%d" % n for n in range(50)]), "the replica masks them")
        assert b.c.ask(b"mg e30") == b"EN" and b.c.ask(b"ttl e30") == b"-2"
        # The primary has them yet, and the replica keeps them too.
        assert a.c.stat("curr_items") > 1 and b.c.stat("curr_items") >= a.c.stat("curr_items")
        assert a.c.ask(b"config set active_expire yes") == b"OK"
        wait_for(lambda: a.c.stat("curr_items") == 1, "the primary deletes them")
        wait_for(lambda: b.c.stat("curr_items") == 1, "the replica follows")
        assert_equal(a, b)


def test_writes_to_keys_that_are_due():
    """As seen from the replica, whichever comes first there: the write or the deadline."""
    with Node("-o", "active_expire=no") as a, Node(of=a.port) as b:
        for n in range(60):
            assert a.c.ask(b"ms d%d 1 p300\r\n1" % n) == b"HD"
        level(a, b)
        for n in range(60):
            # Before the deadline or after it.
            a.c.ask((b"incr d%d 1", b"append d%d 0 0 1\r\nx", b"touch d%d 5000", b"set d%d 0 0 1\r\n5",
                     b"add d%d 0 0 1\r\n6", b"mg d%d T600", b"ma d%d N600", b"md d%d I T900")[n % 8] % n)
        wait_for(lambda: b.c.ask(b"mg d0") == b"EN" and a.c.ask(b"mg d0") == b"EN", "some expire")
        for n in range(60):
            a.c.ask((b"add d%d 0 0 1\r\n9", b"incr d%d 1", b"ma d%d N60 J3", b"touch d%d 900")[n % 4] % n)
        assert a.c.ask(b"config set active_expire yes") == b"OK"
        level(a, b)
        wait_for(lambda: not replicas.differences(replicas.dump(a.c), replicas.dump(b.c)), "they are the same")
        # A time that has passed already, by each word that sets one.
        for n, line in enumerate((b"ms p%d 1 T-1\r\nx", b"set p%d 0 -1 1\r\nx", b"touch p%d -1", b"expire p%d 0",
                                  b"mg p%d T-1", b"pexpireat p%d 1000", b"gat -1 p%d", b"md p%d I T-1")):
            assert a.c.set(b"p%d" % n, b"x") == b"STORED"
            level(a, b)
            a.c.send(line % n + b"\r\nmn\r\n")
            while (said := a.c.line()) != b"MN":
                assert said is not None, line
            level(a, b)
            wait_for(lambda: b.c.ask(b"mg p%d" % n) == b"EN", "%r is gone" % (line % n))
            assert a.c.ask(b"mg p%d" % n) == b"EN"


def test_expire_hold_on_either_side():
    for held in (0, 1):
        with Node() as a, Node(of=a.port) as b:
            assert (a, b)[held].c.ask(b"expire_hold 600") == b"OK"

            def are_there():
                """All of them, before the deadline; false: the machine was too slow."""
                for n in range(20):
                    assert a.c.ask(b"ms e%d 1 p500\r\nx" % n) == b"HD"
                level(a, b)
                return b.c.stat("curr_items") == 20
            wait_for(are_there, "a try in time")
            if held == 1:
                wait_for(lambda: a.c.stat("curr_items") == 0, "the primary lets them go")
            else:
                wait_for(lambda: a.c.ask(b"mg e19") == b.c.ask(b"mg e19") == b"EN", "they are due")
                assert a.c.stat("curr_items") == 20
            level(a, b)
            assert b.c.stat("curr_items") == 20
            assert (a, b)[held].c.ask(b"expire_hold 0") == b"OK"
            wait_for(lambda: a.c.stat("curr_items") == b.c.stat("curr_items") == 0, "both let them go")


# ---- roles -----------------------------------------------------------------------------------

def test_wait_and_role():
    with Node() as a:
        assert a.role()[:2] == ["primary", "primary"]
        assert a.c.ask(b"wait 0 1000") == b"WAIT 0" and a.c.ask(b"wait 1 20") == b"WAIT 0"
        with Node(of=a.port) as b, Node(of=a.port) as other:
            level(a, b, other, count=2)
            assert a.role()[0] == "primary" and b.role()[0] == "replica" and a.role()[2:] == b.role()[2:]
            a.c.set(b"k", b"x")
            assert a.c.ask(b"wait 2 100000") == b"WAIT 2" and b.c.get(b"k") == other.c.get(b"k") == b"x"
            with b.paused():
                a.c.set(b"k", b"y")
                assert a.c.ask(b"wait 1 100000") == b"WAIT 1" and other.c.get(b"k") == b"y"
                assert a.c.ask(b"wait 2 20") == b"WAIT 1"
            assert a.c.ask(b"wait 2 100000") == b"WAIT 2"
            for bad in (b"wait", b"wait 1", b"wait x 1", b"wait 1 x", b"wait 1 2 3", b"wait -1 2", b"wait 1 99999999999"):
                assert a.c.ask(bad).startswith(b"CLIENT_ERROR usage"), bad
            # A replica that waits is answered when its time is over.
            assert b.c.ask(b"wait 1 10") == b"WAIT 0"


def test_commands_of_roles_that_are_wrong():
    with Node() as a, a.client() as c:
        for line in (b"replicaof", b"failover 1 2 3", b"failover here", b"replconf ack", b"psync 1", b"sync"):
            said = a.c.ask(line)
            assert said.startswith(b"CLIENT_ERROR usage: " + line.split()[0]), (line, said)
        assert a.c.ask(b"promote 0").startswith(b"CLIENT_ERROR usage: promote")
        assert a.c.ask(b"replicaof a 1 2").endswith(b"the port is followed by something else")
        assert a.c.ask(b"replicaof  no  one") == b"OK"
        for line in (b"replicaof no one", b"promote", b"failover"):
            assert c.ask(line) == b"CLIENT_ERROR not allowed: connect to the control socket (mayflyd --control)", line
        assert c.ask(b"psync 1 0 - 0 %032x 0" % 1).startswith(b"FULLSYNC ")
        assert c.ask(b"wait 0 0") == b"SERVER_ERROR this connection is that of a replica"


def test_the_rest_of_a_line_changes_nothing_any_more():
    """A gat whose client does not take the values, when changes begin to be refused."""
    with mayfly.Daemon("-m", "256", "-I", "2m", control=True) as d, d.client() as c, d.client() as slow, \
            d.operator() as o:
        for n in range(20):
            assert c.set(b"k%d" % n, bytes(1000000)) == b"STORED"
        slow.send(b"gat 1000 %s\r\n" % b" ".join(b"k%d" % n for n in range(20)))
        wait_for(lambda: c.ask(b"ttl k0") != b"-1", "it has begun")
        assert o.ask(b"config set min_replicas_to_write 1") == b"OK"
        wait_for(lambda: c.stat("repl_too_few_replicas", b"replication") == 1, "changes are refused")
        assert c.ask(b"ttl k19") == b"-1"
        slow.send(b"mn\r\n")
        while not slow.buf.endswith(b"END\r\nMN\r\n"):
            assert slow.more()
        assert 0 < slow.buf.count(b"VALUE ") < 20 and c.ask(b"ttl k19") == b"-1"


def test_who_waits_and_goes_holds_up_no_stop():
    with Node() as a:
        with a.client() as c:
            c.send(b"wait 9 86400000\r\n")
        assert a.c.ask(b"wait 0 1000") == b"WAIT 0"
        assert a.stop(patience=10) == 0


def test_replicaof_no_one_keeps_everything():
    with Node() as a, Node(of=a.port) as b:
        for n in range(300):
            a.c.set(b"k%d" % n, b"v%d" % n)
        level(a, b)
        was = replicas.dump(a.c)
        epoch = int(b.role()[3])
        assert b.c.ask(b"replicaof no one") == b"OK"
        role = b.role()
        assert role[:2] == ["primary", "primary"] and int(role[3]) == epoch + 1
        assert not replicas.differences(was, replicas.dump(b.c))
        assert b.c.set(b"k1", b"mine") == b"STORED" and a.c.set(b"k2", b"other") == b"STORED"
        # cas values that are drawn now come after those of the primary.
        cas = [int(n.c.ask(b"mg k1 c").split(b" c")[1]) for n in (a, b)]
        assert cas[1] > cas[0], cas
        # Two that were promoted: the one that follows takes what the other has.
        a.follow(b.port)
        level(b, a)
        assert a.c.get(b"k1") == b"mine" and a.c.get(b"k2") == b"v2"
        assert_equal(b, a)


def hand_over_under_load(a, b, by):
    """No confirmed change is lost. by: the side that asks."""
    with Writer(a) as writer:
        writer.wait_for_more(100)
        word = b"promote 60000" if by is b else b"failover"
        said = by.c.ask(word)
        assert said == b"OK", said
        writer.thread.join(mayfly.PATIENCE)
        assert not writer.thread.is_alive() and writer.refused in (None, READ_ONLY), writer.refused
    wait_for(lambda: b.state() == "primary", "it is the primary")
    assert_has(b.c, writer.confirmed)
    level(b, a)
    assert_equal(b, a)


def test_handing_over_under_load():
    with Node("--failover-timeout", "60000") as a, Node("--failover-timeout", "60000", of=a.port) as b:
        a.c.fill(b"fill", 2000, b"x" * 100)
        level(a, b)
        for turn in range(3):
            for first, second, by in ((a, b, 1), (b, a, 0)):
                hand_over_under_load(first, second, (first, second)[by])
        # Nobody was sent everything after the first time.
        assert a.log().count("a full sync is running") == 0, a.log()
        assert b.log().count("a full sync is running") == 1, b.log()
        epochs = [int(n.role()[3]) for n in (a, b)]
        assert epochs == [7, 7], epochs


def upgrade(n):
    """Another program takes over, with the number of the process and the connections."""
    ready = n.log().count("is ready")
    n.process.send_signal(signal.SIGUSR2)
    wait_for(lambda: n.log().count("is ready") > ready, "another serves")
    n.c.close()
    n.c = n.operator()


def test_either_side_is_upgraded_under_load():
    """No write is refused, and nobody is sent everything again."""
    mayfly.skip_if("drop_privileges" in " ".join(mayfly.MORE_ARGS), "with drop_privileges no program can be started")
    with tempfile.TemporaryDirectory(prefix="mayfly-it.", dir="/dev/shm") as folder, \
            Node("-e", os.path.join(folder, "a")) as a, Node("-e", os.path.join(folder, "b"), of=a.port) as b:
        b.online()
        with Writer(a) as writer:
            for side in (b, a, a, b):
                writer.wait_for_more(100)
                upgrade(side)
                b.online()
            assert writer.thread.is_alive(), writer.refused
        level(a, b)
        assert_has(b.c, writer.confirmed)
        assert_equal(a, b)
        assert b.log().count("-> syncing") == 1, b.log()


def test_failover_where_none_is_possible():
    with Node() as a:
        assert a.c.ask(b"failover").startswith(b"SERVER_ERROR no online replica has a known address")
        assert a.c.ask(b"promote").startswith(b"SERVER_ERROR this is a primary")
        with Node(of=a.port) as b:
            level(a, b)
            assert b.c.ask(b"failover").startswith(b"SERVER_ERROR this is a replica")
            assert a.c.ask(b"failover 127.0.0.1 1").startswith(b"SERVER_ERROR no online replica has that address")
            for bad in (b"failover x", b"failover 127.0.0.1 0", b"failover 127.0.0.1 99999", b"failover no one"):
                assert a.c.ask(bad).startswith(b"CLIENT_ERROR usage"), bad
            for bad in (b"promote x", b"promote 0", b"promote 60001", b"promote 1 2", b"promote -1"):
                assert b.c.ask(bad).startswith(b"CLIENT_ERROR usage"), bad
            # The replica does not answer in time: all is as before.
            with b.paused():
                said = a.c.ask(b"failover")
                assert said.startswith(b"SERVER_ERROR"), said
                assert a.state() == "primary" and a.c.set(b"k", b"x") == b"STORED"
            level(a, b)
            with Node(of=b.port) as c:      # at once, although nobody waits for as long
                level(a, b, c)
                assert c.c.ask(b"promote 60000") == b"SERVER_ERROR the primary says: SERVER_ERROR this is a replica"
                level(a, b, c)
            with a.paused(), b.operator() as c:
                assert c.ask(b"promote 50").startswith(b"SERVER_ERROR"), b.log()
            # One that is asked to follow another server does not ask that one to hand over.
            with a.paused(), b.operator() as c, Node() as other:
                c.send(b"promote 60000\r\n")
                wait_for(lambda: b.c.stats(b"replication")["failover_in_progress"] == "1", "it is asked")
                b.follow(other.port)
                assert c.line().startswith(b"SERVER_ERROR the link was cut"), b.log()
                level(other, b)
                assert other.state() == "primary"


def test_a_chain_of_three():
    with Node() as a, Node(of=a.port) as b, Node(of=b.online().port) as c:
        for n in range(500):
            a.c.set(b"k%d" % n, b"v%d" % n)
        level(a, b, c)
        assert_equal(a, b, c)
        # The middle is promoted; the last follows it on, without being sent everything.
        b.stand_alone()
        assert b.c.set(b"k1", b"b") == b"STORED"
        level(b, c)
        assert c.c.get(b"k1") == b"b" and c.log().count("a full sync is running") == 1
        a.follow(c.port)
        level(b, c, a)
        assert_equal(b, c, a)
        # The middle is killed, and the last goes on with the first.
        c.crash()
        a.wait_for_state("cut")
        a.follow(b.port)
        level(b, a)
        assert_equal(b, a)
        a.stand_alone()
        b.follow(a.port)
        assert a.c.set(b"k2", b"a") == b"STORED"
        level(a, b)
        assert_equal(a, b)


# ---- other servers ---------------------------------------------------------------------------

def test_other_threads_limits_and_cas():
    with Node("-t", "1", "-m", "128", "-I", "8m") as a, Node("-t", "4", "-I", "1m", "-C", of=a.port) as b, \
            Node("-t", "3", "-m", "128", "-I", "8m", of=b.online().port) as c:
        assert a.c.set(b"large", b"old") == b"STORED"
        for n in range(300):
            a.c.set(b"k%d" % n, mayfly.pattern(b"%d" % n, n * 40))
        level(a, b, c)
        assert b.c.get(b"large") == b"old"
        assert a.c.set(b"large", mayfly.pattern(b"l", 3 << 20)) == b"STORED"
        level(a, b, c)
        # What does not fit takes the value before it away.
        assert b.c.get(b"large") is None
        for n in range(300):
            assert a.c.get(b"k%d" % n) == b.c.get(b"k%d" % n) == c.c.get(b"k%d" % n)
        b.stand_alone()
        assert b.c.set(b"k1", b"x") == b"STORED" and b.c.ask(b"incr k1 1").startswith(b"CLIENT_ERROR")


def test_a_small_replica_behind_a_large_primary():
    with Node("-m", "256") as a:
        value = b"v" * 10000
        for at in range(0, 15000, 500):
            a.c.send(b"".join(b"ms k%d 10000 q\r\n%s\r\n" % (n, value) for n in range(at, at + 500)) + b"mn\r\n")
            assert a.c.line() == b"MN"
        with Node("-m", "64", of=a.port) as b:
            level(a, b)
            limit = 64 << 20

            def within():
                stats = b.c.stats()
                assert int(stats["bytes"]) <= limit, stats["bytes"]
                return int(stats["evictions"])
            assert within() > 0
            for n in range(0, 3000):
                a.c.send(b"set n%d 0 0 10000 noreply\r\n%s\r\n" % (n, value))
            level(a, b)
            within()
            wait_for(lambda: b.c.get(b"n2999") is not None, "the last is there")
            assert b.log().count("a full sync is running") == 1 and b.state() == "online"
            # What it evicted does not come back with an old value.
            for n in range(0, 15000, 50):
                assert b.c.get(b"k%d" % n) in (None, value)
            assert a.c.ask(b"delete k0") == b"DELETED"
            level(a, b)
            assert b.c.get(b"k0") is None


def test_values_that_are_left_out_do_not_come_back():
    """Slow readers keep a replica from being sent large values. Once it is promoted the old primary has none of them
    either: a client that deleted one there would find it here after the next failover."""
    value = mayfly.pattern(b"large", 3 << 20)
    for before in (0, 8):       # more of them are not sent in the full sync, or in the stream
        with Node("-I", "8m") as a, Node("-I", "8m") as b, contextlib.ExitStack() as stack:
            for n in range(before or 10):
                assert a.c.set(b"k%d" % n, value) == b"STORED"
            if before:
                b.follow(a.port)
                level(a, b)
            for n in range(8):
                stack.enter_context(a.client(rcvbuf=4096)).send(b"get k%d\r\n" % n)
            wait_for(lambda: list(a.c.stats(b"conns").values()).count("conn_mwrite") == 8, "all of them are read")
            if before:
                assert a.c.set(b"k8", value) == b"STORED" and a.c.set(b"k9", value) == b"STORED"
            else:
                b.follow(a.port)
            level(a, b)
            assert len(replicas.keys(b.c)) == 8 and len(replicas.keys(a.c)) == 10
            stack.close()
            assert a.c.ask(b"failover") == b"OK"
            level(b, a)
            assert_equal(b, a)


def left_out_before(restart):
    """The same where another process has the items when the roles change."""
    value = mayfly.pattern(b"large", 3 << 20)
    with mayfly.folder(in_memory=True) as folder, contextlib.ExitStack() as stack:
        options = ("-I", "8m", "-e", os.path.join(folder, "items"))
        with Node(*options) as a, Node("-I", "8m", of=a.port) as b:
            level(a, b)
            for n in range(8):
                assert a.c.set(b"k%d" % n, value) == b"STORED"
            level(a, b)
            for n in range(8):
                stack.enter_context(a.client(rcvbuf=4096)).send(b"get k%d\r\n" % n)
            wait_for(lambda: list(a.c.stats(b"conns").values()).count("conn_mwrite") == 8, "all of them are read")
            assert a.c.set(b"k8", value) == b"STORED"
            level(a, b)
            stack.close()
            with restart(a, b, options) as again:
                level(b, again)
                assert len(assert_equal(b, again)) == 8


def test_nor_when_the_old_primary_starts_again():
    def restart(a, b, options):
        assert a.stop() == 0
        b.stand_alone()
        return Node(*options, of=b.port)
    left_out_before(restart)


def test_nor_when_it_is_upgraded():
    mayfly.skip_if("drop_privileges" in " ".join(mayfly.MORE_ARGS), "with drop_privileges no program can be started")

    def restart(a, b, _):
        upgrade(a)
        level(a, b)
        assert a.c.ask(b"failover") == b"OK"
        return contextlib.nullcontext(a)
    left_out_before(restart)


def test_with_a_login():
    with tempfile.TemporaryDirectory(prefix="mayfly-repl.") as folder:
        def write(name, text):
            path = os.path.join(folder, name)
            mayfly.write(path, text, 0o600)
            return path
        users = write("users", "ops:secret\napp:secret\n")
        access = write("access", "user ops all\nuser app read,write\ndefault none\n")
        right, wrong = write("right", "secret\n"), write("wrong", "other\n")
        with Node("-Y", users, "--access", access, wait=False) as a:
            a.wait_for_operator()
            a.c.set(b"k", b"x")
            with Node("-o", "replica_user=ops,replica_password_file=" + wrong, of=a.port) as b:
                wait_for(lambda: "the login was refused" in b.log(), "a wrong password is told")
                assert b.state() == "connecting"
                assert b.c.ask(b"config set replica_password_file " + os.path.join(folder, "none").encode()) == b"OK"
                wait_for(lambda: "replica_password_file" in b.log(), "no such file")
                assert b.c.ask(b"config set replica_password_file " + right.encode()) == b"OK"
                level(a, b)
                assert b.c.get(b"k") == b"x"
                # Without the right it is refused.
                assert b.c.ask(b"config set replica_user app") == b"OK"
                wait_for(lambda: "it refuses to be followed" in b.log(), "it is refused")
                assert b.c.get(b"k") == b"x" and "secret" not in b.log()
                assert b.c.ask(b"config set replica_user ops") == b"OK"
                level(a, b)


def test_a_user_that_may_only_replicate():
    with tempfile.TemporaryDirectory(prefix="mayfly-repl.") as folder:
        def write(name, text):
            path = os.path.join(folder, name)
            mayfly.replace(path, text, 0o600)
            return path
        users, password = write("users", "copy:secret\n"), write("password", "secret\n")
        access = write("access", "user copy replicate\ndefault none\n")
        with Node("-Y", users, "--access", access, "-o", "audit_log", wait=False) as a:
            a.wait_for_operator()
            a.c.set(b"k", b"x")
            with a.client() as c:
                assert c.ask(b"set login 0 0 11\r\ncopy secret") == b"STORED"
                assert c.ask(b"get k") == b"CLIENT_ERROR not allowed to read"
                assert c.ask(b"set k 0 0 1\r\ny") == b"CLIENT_ERROR not allowed to write"
                assert c.ask(b"flush_all") == b"CLIENT_ERROR not allowed: for operators"
            with Node("-o", "replica_user=copy,replica_password_file=" + password, of=a.port) as b:
                level(a, b)
                assert b.c.get(b"k") == b"x"
                # That would be a change.
                assert b.c.ask(b"promote 60000") == b"SERVER_ERROR the primary says: CLIENT_ERROR not allowed: for operators"
                level(a, b)
                # A link that has lost the right is closed.
                write("access", "user copy read,write\ndefault none\n")
                a.process.send_signal(1)
                wait_for(lambda: "not allowed: for replicas" in b.log(), "the link is not opened again")
                wait_for(lambda: a.c.stats(b"replication")["connected_replicas"] == "0", "it is closed")
                a.c.set(b"k", b"y")
                assert b.c.get(b"k") == b"x"
                write("access", "user copy admin\ndefault none\n")
                a.process.send_signal(1)
                level(a, b)
                assert b.c.get(b"k") == b"y"
                # Replicas are logged, their acknowledgements are not, unless one is refused.
                wait_for(lambda: 'command="psync ' in a.log() and 'command="sync"' in a.log(), "the audit has it")
                assert not re.search("replconf ack.*outcome=executed", a.log())
                assert b.c.ask(b"promote 60000") == b"OK"
                assert b.c.set(b"k", b"z") == b"STORED"
                level(b, a)
                assert a.c.get(b"k") == b"z"


mayfly.main(globals(), beside=(
    "test_flush_and_flush_to_come", "test_expired_items_are_masked_and_go_with_the_primary",
    "test_expire_hold_on_either_side", "test_failover_where_none_is_possible", "test_with_a_login"))
