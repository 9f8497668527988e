#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A snapshot that must not be loaded and cannot be removed, as on a file system that has become read-only: the
removal is retried each second, and meanwhile no change is acknowledged that a crash would undo."""
import contextlib
import errno
import resource
import select
import signal

import mayfly
from binary import DELETE, GET, SET, BinaryClient, pack
from inject import EVER, inject, skip_without
from kept import figure, figures, kept
from mayfly import in_parallel, wait_for

skip_without()

ALWAYS = ("-o", "appendfsync=always,auto_aof_rewrite_percentage=0")
REFUSED = b"SERVER_ERROR changes are refused: they would be lost in a crash"
BUSY = 0x85


@contextlib.contextmanager
def injected():
    with kept() as k, inject(k.folder) as i:
        yield k, i


def read_only(i):
    """Whatever changes the folder or a file of it fails from now on."""
    i.arm(["write", "sync", "unlink", "rename", "truncate"], 1, "fail", errno.EROFS, times=EVER)


def is_answered(c):
    return bool(select.select([c.sock], [], [], 0)[0])


@contextlib.contextmanager
def voided(k, i, mode, *args):
    """A daemon with a=1, b=1 in its snapshot, whose log cannot be written nor its snapshot removed; a client that
    has set a to 2, and was not answered; and an operator."""
    with k.daemon("-o", "appendonly=" + mode, *ALWAYS, *args, env=i.env) as d, d.operator() as o, d.operator() as p:
        assert o.set(b"a", b"1") == b"STORED" and o.set(b"b", b"1") == b"STORED"
        assert o.ask(b"save") == b"OK"
        assert figure(o, "aof_whole") == 1 and figure(o, "rdb_void_file") == 0
        read_only(i)
        p.send(b"set a 0 0 1\r\n2\r\n")
        wait_for(lambda: figure(o, "rdb_void_file") == 1, "the snapshot is void")
        yield d, o, p


def test_changes_are_refused_while_it_is_there():
    """Nothing that was answered comes back otherwise after a crash, and reads go on."""
    def run(mode):
        with injected() as (k, i):
            with voided(k, i, mode) as (d, o, p), BinaryClient(d.address) as c:
                assert o.get(b"a") == b"2" and o.get(b"b") == b"1"
                for line in (b"set b 0 0 1\r\n2", b"ms b 1\r\n2", b"md b", b"delete b", b"incr b 1", b"touch b 100",
                             b"gat 100 b", b"mg b T100", b"expire b 100", b"unlink b",
                             b"set b 0 0 900000\r\n" + b"x" * 900000):
                    assert o.ask(line) == REFUSED, line
                assert o.ask(b"mg b v") == b"VA 1" and o.line() == b"1"
                o.send(b"set b 0 0 1 noreply\r\n2\r\nms b 1 q\r\n2\r\nget b\r\n")
                assert o.line() == REFUSED      # as it is no quiet answer
                assert o.get_reply() == {b"b": b"1"}
                c.send(pack(SET, b"b", bytes(8), b"2") + pack(DELETE, b"b") + pack(GET, b"b"))
                assert [c.frame().status for _ in range(3)] == [BUSY, BUSY, 0]
                assert int(o.stats()["mayfly_log_refused"]) >= 14
                assert figure(o, "aof_whole") == 0
                assert not is_answered(p)
                assert o.ask(b"save").startswith(b"SERVER_ERROR not saved")
                d.crash()
            i.disarm()
            with k.daemon("-o", "appendonly=" + mode, *ALWAYS) as d, d.operator() as o:
                # The last change was not answered, and b has not changed. Of a log of keys a may be missing.
                assert o.get(b"a") in (b"1", b"2", None) and o.get(b"b") == b"1"
    in_parallel(run, ("keys", "full"))


def test_it_is_removed_as_soon_as_that_can_be():
    def run(mode):
        with injected() as (k, i):
            with voided(k, i, mode) as (d, o, p):
                assert k.has_file()
                i.disarm()
                assert p.line() == b"STORED"
                wait_for(lambda: figure(o, "rdb_void_file") == 0, "it is removed")
                assert o.set(b"b", b"3") == b"STORED"
                assert o.ask(b"save") == b"OK"
                assert figure(o, "aof_whole") == 1
                assert o.ask(b"md a") == b"HD"
                assert "at a retry" in d.log()
                d.crash()
            with k.daemon("-o", "appendonly=" + mode, *ALWAYS) as d, d.operator() as o:
                assert o.get(b"a") is None and o.get(b"b") == b"3"
    in_parallel(run, ("keys", "full"))


def test_other_promises_are_not_refused():
    """Without always nobody waits; it is shown all the same."""
    with injected() as (k, i), voided(k, i, "full") as (d, o, p):
        assert o.ask(b"config set appendfsync everysec") == b"OK"
        assert p.line() == b"STORED"
        assert o.set(b"b", b"2") == b"STORED"
        assert figure(o, "rdb_void_file") == 1 and figure(o, "aof_whole") == 0
        assert o.ask(b"config set appendfsync always") == b"OK"
        assert o.set(b"b", b"2") == REFUSED
        i.disarm()
        wait_for(lambda: figure(o, "rdb_void_file") == 0, "it is removed")
        assert o.set(b"b", b"3") == b"STORED"


def test_the_log_is_switched_meanwhile():
    """Off, it ends once the snapshot is gone; to another kind, it begins then."""
    def run(wanted):
        with injected() as (k, i):
            with voided(k, i, "full") as (d, o, _):
                assert o.ask(b"config set appendonly " + wanted) == b"OK"
                wait_for(lambda: figure(o, "rdb_void_file") == 1, "it is there")
                assert o.set(b"b", b"2") == REFUSED
                i.disarm()
                enabled = "no" if wanted == b"no" else "yes"
                wait_for(lambda: figure(o, "rdb_void_file") == 0 and figures(o)["aof_enabled"] == enabled,
                         "it is removed")
                assert o.set(b"b", b"2") == b"STORED"
                assert o.ask(b"save") == b"OK"
                assert figure(o, "aof_whole") == (wanted != b"no")
                assert any(".log." in name for name in k.names()) == (wanted != b"no")
                d.crash()
            with k.daemon("-o", "appendonly=" + wanted.decode(), *ALWAYS) as d, d.operator() as o:
                assert o.get(b"b") == b"2"
    in_parallel(run, (b"no", b"keys", b"full"))


def test_a_flush():
    """Without a log no change is refused; the file is removed when that is possible."""
    with injected() as (k, i), k.daemon("-o", "save_on_stop=no", env=i.env) as d, d.operator() as o:
        o.set(b"a", b"1")
        assert o.ask(b"save") == b"OK"
        read_only(i)
        assert o.ask(b"flush_all").startswith(b"SERVER_ERROR flushed, but")
        assert figure(o, "rdb_void_file") == 1
        assert o.set(b"b", b"1") == b"STORED"
        i.disarm()
        wait_for(lambda: figure(o, "rdb_void_file") == 0, "it is removed")
        assert not k.has_file()
        # A save replaces one as well, and that is the end of it.
        assert o.ask(b"save") == b"OK"
        i.arm(["unlink"], 1, "fail", errno.EIO, times=EVER)
        assert o.ask(b"flush_all").startswith(b"SERVER_ERROR flushed, but")
        assert o.set(b"c", b"1") == b"STORED"
        assert o.ask(b"save").startswith((b"OK", b"SERVER_ERROR"))      # the name of what is begun is removed first
        i.disarm()
        wait_for(lambda: figure(o, "rdb_void_file") == 0, "it is removed, or was replaced")


def test_nothing_is_answered_until_it_is_gone():
    """Between the fault and the removal, however long that takes."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, 100 << 10))
    with injected() as (k, i), k.daemon("-o", "appendonly=keys,save_on_stop=no", *ALWAYS, env=i.env,
                                        before=limit) as d, d.operator() as o, d.operator() as p, d.operator() as q:
        assert o.set(b"old", b"1") == b"STORED"
        assert o.ask(b"save") == b"OK"
        i.arm(["unlink"], 1, "hang", part="mayfly.snapshot")
        p.send(b"".join(b"ms k%d 1 q\r\n1\r\n" % n for n in range(30000)) + b"mn\r\n")
        wait_for(lambda: i.get("hanging") == 1, "the snapshot is being removed")
        q.send(b"md old\r\n")
        wait_for(lambda: o.get(b"old") is None, "it is executed")
        for _ in range(100):
            assert o.get(b"old") is None
        assert not is_answered(p), p.line()
        assert not is_answered(q), q.line()
        i.disarm()
        assert q.line() == b"HD" and p.line() == b"MN"


def test_a_stop():
    """Tries once more. A new snapshot may be there if the log began again before the stop."""
    with injected() as (k, i):
        with voided(k, i, "full", "-o", "save_on_stop=no") as (d, o, _):
            o.close()
            i.disarm()
            assert d.stop() == 0
        with k.daemon("-o", "appendonly=full") as d, d.operator() as o:
            assert o.get(b"a") in (None, b"2")


mayfly.main(globals())
