#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A disk that fails under a running daemon, at the n-th call of each kind: the daemon continues to serve and logs the
failure. After any load, no item reappears that was overwritten, deleted or flushed, as far as that was promised, and
no successful save is lost. With MAYFLY_INJECT_ALL=1 each n is tried, otherwise a sample."""
import contextlib
import errno
import os
import select

import mayfly
from binary import FLUSH, FLUSHQ, NOOP, OK, BinaryClient, pack
from inject import DIED, EVER, inject, skip_without
from kept import figure, figures, fill, kept
from mayfly import wait_for

skip_without()


@contextlib.contextmanager
def injected():
    with kept() as k, inject(k.folder) as i:
        yield k, i


def test_a_flush_holds_up_nobody():
    """The disk takes its time to forget the file; only the client that flushed waits for it."""
    with injected() as (k, i), k.daemon("-t", "1", env=i.env) as d, d.operator() as o, d.client() as a, \
            d.client() as b, BinaryClient(d.address) as c:
        o.set(b"x", b"1")
        assert o.ask(b"save") == b"OK"
        i.arm(["sync"], 1, "hang")
        a.send(b"get x\r\nflush_all\r\nget x\r\n")
        wait_for(lambda: i.get("hanging") == 1, "the folder is synced")
        assert a.get_reply() == {b"x": b"1"}    # what came before it is not held up
        c.send(pack(FLUSH) + pack(FLUSHQ) + pack(NOOP))
        b.send(b"flush_all noreply\r\nmn\r\n")
        for n in range(100):
            assert o.get(b"x") is None
            assert o.set(b"y", b"%d" % n) == b"STORED"
        assert not select.select([a.sock, b.sock, c.sock], [], [], 0)[0]
        i.disarm()
        assert a.line() == b"OK"
        assert a.get_reply() == {}
        assert b.line() == b"MN"
        assert [(f.opcode, f.status) for f in (c.frame(), c.frame())] == [(FLUSH, OK), (NOOP, OK)]
        assert not k.has_file()
        # Without a file nobody waits.
        i.arm(["open", "sync", "unlink"], 0)
        assert a.ask(b"flush_all") == b"OK"
        assert i.get("seen") == 0
        # A client that goes meanwhile does no harm.
        o.set(b"x", b"1")
        assert o.ask(b"save") == b"OK"
        i.arm(["unlink"], 1, "hang")
        a.send(b"flush_all\r\n")
        wait_for(lambda: i.get("hanging") == 1, "it is removed")
        a.reset()
        i.disarm()
        assert b.ask(b"flush_all") == b"OK"
        assert not k.has_file()


def test_a_get_of_an_expired_key_waits_for_no_log():
    """The item is dropped on the way, and logged, but that is no change of the client."""
    log = ("-t", "1", "-o", "appendonly=full,appendfsync=always,no_active_expire")
    with injected() as (k, i), k.daemon(*log, env=i.env) as d, d.operator() as o, d.client() as a, d.client() as b, \
            d.client() as c:
        for n in range(8):
            assert o.ask(b"ms due%d 1 p1\r\nx" % n) == b"HD"
        assert o.ask(b"set later 0 0 1\r\nx") == b"STORED" and o.ask(b"ms last 1 p1\r\nx") == b"HD"
        wait_for(lambda: o.ask(b"pttl last") == b"-2", "all are due")
        i.arm(["sync"], 1, "hang")
        a.send(b"set k 0 0 1\r\nx\r\n")
        wait_for(lambda: i.get("hanging") == 1, "the log is synced")
        lazily = o.shard_sum("expired_lazy")
        for n, line in enumerate((b"get due%d", b"mg due%d", b"gat 0 due%d", b"touch due%d 0", b"delete due%d",
                                  b"incr due%d 1")):
            got = b.ask(line % n)
            assert got in (b"END", b"EN", b"NOT_FOUND"), (line, got)
        assert o.shard_sum("expired_lazy") > lazily
        # Changes wait as ever, also if they drop an item.
        c.send(b"set due6 0 0 1\r\nx\r\n")
        b.send(b"delete later\r\n")
        assert o.ask(b"get due7") == b"END"
        assert not select.select([a.sock, b.sock, c.sock], [], [], 0)[0]
        i.disarm()
        assert (a.line(), b.line(), c.line()) == (b"STORED", b"DELETED", b"STORED")


# What may happen to a call: its kinds, how it fails, with which error.
FAULTS = ((("write",), "fail", errno.ENOSPC), (("write",), "fail", errno.EIO), (("write",), "short", 0),
          (("sync",), "fail", errno.EIO), (("sync",), "fail", errno.ENOSPC), (("range",), "fail", errno.EIO),
          (("open",), "fail", errno.EMFILE), (("rename",), "fail", errno.EDQUOT),
          (("unlink",), "fail", errno.EROFS))
ALL_KINDS = ("open", "write", "sync", "range", "rename", "unlink", "truncate", "allocate", "map")


def some(count, n=4):
    """Which calls of this number are to fail."""
    if os.environ.get("MAYFLY_INJECT_ALL") or count <= n:
        return range(1, count + 1)
    return sorted({1 + (count - 1) * j // (n - 1) for j in range(n)})


def wait_for_line(d, text):
    wait_for(lambda: text in d.log(), "the log says: " + text)


def end(d):
    d.crash()


def counted(i, kinds, act):
    """How many such calls an action makes."""
    i.arm(kinds, 0)
    act()
    return i.get("seen")


class Model:
    """The answers to clients: for each key its version, 0 if none, and the versions that may reappear after a
    crash."""

    def __init__(self, c, keys=20):
        self.now = {b"k%d" % n: 0 for n in range(keys)}
        self.may = {key: {0} for key in self.now}
        self.version = 0
        self.c = c

    def store(self, keys=None):
        self.version += 1
        for key in keys or self.now:
            self.may[key].add(self.version)     # it may be there before it is answered
            assert self.c.set(key, b"%d" % self.version + b"." * 30000) == b"STORED"
            self.now[key] = self.version

    def delete(self, key):
        self.may[key].add(0)
        assert self.c.ask(b"md " + key) in (b"HD", b"NF")
        self.now[key] = 0

    def flush(self):
        for key in self.now:
            self.may[key].add(0)
        answer = self.c.ask(b"flush_all")
        self.now = dict.fromkeys(self.now, 0)
        return answer

    def only_now(self):
        """From here on nothing older may come back; a miss always may."""
        self.may = {key: {0, version} for key, version in self.now.items()}

    def check(self, c, is_all=False):
        """Check the items of a server; is_all: nothing may be missing. The result becomes the new expected state."""
        for key in self.now:
            value = c.get(key)
            version = int(value.split(b".")[0]) if value is not None else 0
            assert version in self.may[key], (key, version, self.may[key])
            assert not is_all or version == self.now[key], (key, version, self.now[key])
            self.now[key] = version
        self.c = c
        self.only_now()


def test_saves():
    """The old file or the new one, whatever fails."""
    with injected() as (k, i):
        with k.daemon(env=i.env) as d, d.operator() as o:
            m = Model(o)
            m.store()
            assert o.ask(b"save") == b"OK"
            for kinds, how, number in FAULTS:
                for nth in some(counted(i, kinds, lambda: o.ask(b"save"))):
                    old = k.bytes()
                    failures = figure(o, "rdb_save_failures")
                    m.store()
                    i.arm(kinds, nth, how, number)
                    answer = o.ask(b"save")
                    i.disarm()
                    what = (kinds, how, number, nth, answer)
                    assert i.get("fired") == 1, what
                    m.check(o, is_all=True)
                    if how == "short" or answer == b"OK":
                        assert answer == b"OK" and k.bytes() != old, what
                        assert figures(o)["rdb_last_bgsave_status"] == "ok", what
                    else:
                        assert answer.startswith(b"SERVER_ERROR"), what
                        assert figures(o)["rdb_last_bgsave_status"] == "err", what
                        assert figure(o, "rdb_save_failures") == failures + 1, what
                        if kinds == ("write",) and nth == 1 and number == errno.ENOSPC:
                            # The log takes some lines a second, not all.
                            wait_for_line(d, "cannot save %s (%s)" % (k.file, os.strerror(number)))
                        # Only if the file has its name already, and the folder's fsync fails, is it the new one.
                        assert k.bytes() == old or (kinds == ("sync",) and nth == 2), what
                    assert k.names() == ["mayfly.snapshot"], what
                    i.check()
            assert o.ask(b"save") == b"OK"
            end(d)
        with k.daemon() as d, d.operator() as o:
            m.check(o, is_all=True)
            end(d)


def test_a_save_in_the_background():
    """That fails as well: what was there stays, and one by the rules is not tried all the time."""
    with injected() as (k, i), k.daemon("-o", "save=1:1", env=i.env) as d, d.operator() as o:
        i.arm(["write"], 1, "fail", errno.ENOSPC, times=EVER)
        o.set(b"x", b"1")
        wait_for(lambda: figure(o, "rdb_save_failures") == 1, "a rule is met")
        assert not k.has_file()
        assert o.ask(b"bgsave") == b"OK"
        wait_for(lambda: figure(o, "rdb_save_failures") == 2, "it fails again")
        seen = i.get("seen")
        for _ in range(200):
            o.set(b"x", b"2")
        assert figure(o, "rdb_save_failures") == 2 and i.get("seen") == seen
        i.disarm()
        assert o.ask(b"save") == b"OK"
        assert k.has_file()


def test_death_while_saving():
    with injected() as (k, i):
        with k.daemon(env=i.env) as d, d.operator() as o:
            m = Model(o)
            m.store()
            count = counted(i, ALL_KINDS, lambda: o.ask(b"save"))
            end(d)
        for nth in some(count, 5):
            with k.daemon(env=i.env) as d, d.operator() as o:
                m.check(o, is_all=nth == 1)
                before = dict(m.now)
                assert 0 not in before.values()
                m.store()
                for key in m.now:
                    m.may[key].discard(0)   # the old file or the new one
                    m.may[key].add(before[key])
                i.arm(ALL_KINDS, nth, "die")
                if o.ask(b"save") is None:
                    assert d.process.wait(mayfly.PATIENCE) == DIED
                else:
                    end(d)      # it had fewer blocks than the first
                i.disarm()
        with k.daemon() as d, d.operator() as o:
            m.check(o)
            assert len(set(m.now.values())) == 1 and 0 not in m.now.values()
            end(d)


def test_flushes():
    """One that is answered with OK holds after any crash."""
    with injected() as (k, i):
        d = None
        for kinds, how, number in ((("unlink",), "fail", errno.EIO), (("sync",), "fail", errno.EIO),
                                   (("open",), "fail", errno.EMFILE), (ALL_KINDS, "die", 0)):
            for nth in range(1, 4 if how == "die" else 2):
                with k.daemon(env=i.env) as d, d.operator() as o:
                    m = Model(o, 3)
                    m.store()
                    assert o.ask(b"save") == b"OK"
                    i.arm(kinds, nth, how, number)
                    if how == "die":
                        o.send(b"flush_all\r\n")
                        assert d.process.wait(mayfly.PATIENCE) == DIED
                        m.may = {key: {0, 1} for key in m.now}
                    else:
                        assert m.flush().startswith(b"SERVER_ERROR flushed, but")
                        assert i.get("fired") == 1
                        wait_for_line(d, "cannot remove %s after a flush (%s)" % (k.file, os.strerror(number)))
                        assert o.get(b"k0") is None
                        assert m.flush() == b"OK"       # and this one has told the disk
                        assert not k.has_file() and i.get("seen") >= 2
                        m.only_now()
                        end(d)
                    i.disarm()
                with k.daemon() as d, d.operator() as o:
                    m.check(o, is_all=how != "die")
                    if k.has_file():
                        os.unlink(k.file)
                    end(d)


def is_logged(k, o):
    """Would a crash bring nothing back? Between a fault and the end of the file that it costs nothing waits, but
    the file is still there."""
    now = figures(o)
    return now["aof_pending_bytes"] == "0" and (now["aof_whole"] == "1" or not k.has_file())


def log_round(k, i, args, kinds, nth, how, number):
    """Various changes while the log's calls fail, then a crash: promises are kept. A complete full log restores
    everything."""
    always = "always" in args[-1]
    is_whole = False
    with k.daemon(*args, env=i.env) as d, d.operator() as o:
        m = Model(o)
        m.store()
        assert o.ask(b"save") == b"OK"
        m.only_now()
        wait_for(lambda: figure(o, "aof_rewrite_in_progress") == 0, "nothing is saved")
        i.arm(kinds, nth, how, number)
        is_dead = False
        try:
            m.store([b"k1", b"k2"])
            m.delete(b"k3")
            m.store([b"k4"])
            o.ask(b"save")      # a new log
            m.store([b"k5"])
            m.delete(b"k6")
            assert figures(o)["aof_enabled"] == "yes"
            if how != "die":
                m.check(o, is_all=True)
                if not always or "full" in args[-1]:
                    wait_for(lambda: is_logged(k, o), "the file has it, or there is none")
                    is_whole = "full" in args[-1] and figures(o)["aof_whole"] == "1" and k.has_file()
                m.only_now()
        except (OSError, AssertionError, TypeError):
            is_dead = True
            if how != "die":
                raise
            assert d.process.wait(mayfly.PATIENCE) == DIED
            if always:
                # What was answered is promised.
                m.may = {key: {0, m.now[key]} | ({m.version} & m.may[key]) for key in m.now}
        seen, fired = i.get("seen"), i.get("fired")
        if not is_dead:
            end(d)
        i.disarm()
    with k.daemon(*args) as d, d.operator() as o:
        m.check(o, is_all=is_whole)
        kept_keys = sum(version != 0 for version in m.now.values())
        end(d)
    return seen, fired, kept_keys


def log_faults(policy, mode="keys"):
    args = ("-o", "appendonly=%s,appendfsync=%s" % (mode, policy))
    # A full log is written as one of keys is: of each sort of calls one fault will do.
    faults = FAULTS if mode == "keys" or os.environ.get("MAYFLY_INJECT_ALL") else FAULTS[::3]
    with injected() as (k, i):
        counts = {}
        for kinds, how, number in faults + ((ALL_KINDS, "die", 0),):
            if kinds not in counts:
                counts[kinds], _, kept_keys = log_round(k, i, args, kinds, 0, "fail", 0)
                assert kept_keys > 0
            for nth in some(counts[kinds], 2):
                _, fired, _ = log_round(k, i, args, kinds, nth, how, number)
                assert fired <= 1
                i.check()


mayfly.cases(globals(), log_faults, the_log_that_is_always_synced=("always",),
             the_log_that_is_synced_every_second=("everysec",), the_full_log_that_is_always_synced=("always", "full"),
             the_full_log_that_is_synced_every_second=("everysec", "full"))


def test_stops():
    """That save: with a fault the old file stays, and the status is that of any stop."""
    with injected() as (k, i):
        with k.daemon(env=i.env) as d, d.operator() as o:
            m = Model(o)
            m.store()
            i.arm(ALL_KINDS, 0)
            assert d.stop() == 0
            count = i.get("seen")
        for how in "fail", "die":
            for nth in some(count, 4):
                with k.daemon(env=i.env) as d, d.operator() as o:
                    m.check(o)
                    assert 0 not in m.now.values()
                    before = dict(m.now)
                    m.store()
                    for key in m.now:
                        m.may[key] = {before[key], m.now[key]}
                    i.arm(ALL_KINDS, nth, how, errno.EIO)
                    assert d.stop() == (DIED if how == "die" and i.get("fired") else 0)
                    i.disarm()
        with k.daemon() as d, d.operator() as o:
            m.check(o)
            assert 0 not in m.now.values()


def test_items_in_a_file():
    """A restart has all of them, or none."""
    with injected() as (k, i):
        path = os.path.join(k.folder, "items")
        args = ("-e", path)
        warm = 0

        def run(at_start, nth, how, number):
            """One that is started and stopped, with a fault at either."""
            nonlocal warm
            i.arm(ALL_KINDS + ("read",), nth if at_start else 0, how, number)
            d = mayfly.Daemon("-t", "2", "-m", "64", *args, control=True, env=i.env, wait=False)
            with d:
                def serves_or_ended():
                    if d.process.poll() is not None:
                        return True
                    try:
                        with d.operator() as c:
                            return c.ask(b"version") is not None
                    except OSError:
                        return False
                wait_for(serves_or_ended, "it serves, or does not")
                seen = i.get("seen")
                i.disarm()
                if d.process.poll() is not None:
                    assert at_start, d.log()
                    return seen
                with d.operator() as o:
                    is_warm = figures(o)["restart_state"] == "warm"
                    m.check(o, is_all=is_warm)
                    warm += is_warm
                    assert is_warm or set(m.now.values()) == {0}
                    m.store()
                    m.delete(b"k3")
                    m.only_now()
                    i.arm(ALL_KINDS + ("read",), 0 if at_start else nth, how, number)
                    status = d.stop()
                    assert status == (DIED if how == "die" and not at_start and nth else 0), status
                    i.disarm()
                    return seen if at_start else i.get("seen")

        m = Model(None)
        run(True, 0, "fail", 0)
        for at_start in True, False:
            count = run(at_start, 0, "fail", 0)
            assert warm
            for how, number in (("fail", errno.EIO), ("die", 0)):
                for nth in some(count, 4):
                    run(at_start, nth, how, number)
        warm = 0
        run(True, 0, "fail", 0)
        run(True, 0, "fail", 0)
        assert warm


def saved_and_read(k, i):
    """Save a file, and load it once: its bytes, and how many reads that takes."""
    with k.daemon(env=i.env) as d, d.operator() as o:
        fill(o, 3000, 1000)
    saved = k.bytes()
    i.arm(["read"], 0)
    with k.daemon(env=i.env) as d, d.operator() as o:
        assert figure(o, "rdb_last_load_keys_loaded") == 3000
        count = i.get("seen")
        end(d)
    return saved, count


def test_a_file_that_cannot_be_read():
    """The server does not start, and replaces nothing: what the disk does not read today it may read tomorrow."""
    with injected() as (k, i):
        saved, count = saved_and_read(k, i)
        for load in "yes", "strict", "salvage":
            for nth in some(count, 3):
                i.arm(["read"], nth, "fail", errno.EIO)
                with k.daemon("-o", "load=" + load, env=i.env, wait=False) as d:
                    assert d.process.wait(mayfly.PATIENCE) == 65
                    assert os.strerror(errno.EIO) in d.log() and "does not start" in d.log(), d.log()
                i.disarm()
                assert k.names() == ["mayfly.snapshot"] and k.bytes() == saved
        with k.daemon() as d, d.operator() as o:
            assert figure(o, "rdb_last_load_keys_loaded") == 3000
            end(d)


def test_a_file_that_cannot_be_read_beside_requests():
    """It is too late not to start: the file is kept as .bad, or, if that fails, nothing is saved over it."""
    with injected() as (k, i):
        saved, count = saved_and_read(k, i)
        for times in 1, EVER:
            i.arm(["read", "rename"], count, "fail", errno.EIO, times=times)
            with k.daemon("-o", "load_async", env=i.env) as d, d.operator() as o:
                wait_for(lambda: figures(o)["rdb_last_load_status"] == "bad", "it is not read to its end")
                i.disarm()
                o.set(b"new", b"1")
                if times == 1:
                    assert k.names() == ["mayfly.snapshot.bad"]
                    os.rename(k.file + ".bad", k.file)
                    end(d)
                else:
                    assert o.ask(b"save").startswith(b"SERVER_ERROR not saved")
                    assert o.ask(b"bgsave").startswith(b"SERVER_ERROR not saved")
                    assert k.names() == ["mayfly.snapshot"]
                    assert d.stop() == 0
            if k.has_file():
                assert k.bytes() == saved
        assert open(k.file + ".bad", "rb").read() == saved     # it could be renamed by then


def test_a_save_asked_for_while_a_file_is_loaded_that_cannot_be_read():
    """It does not replace the file either."""
    with injected() as (k, i):
        saved, count = saved_and_read(k, i)
        i.arm(["read"], count - 1, "hang")
        with k.daemon("-o", "load_async,save_on_stop=no", env=i.env) as d, d.operator() as o, d.operator() as p:
            wait_for(lambda: i.get("hanging") == 1, "it is being loaded")
            p.send(b"save\r\n")
            wait_for(lambda: figure(o, "rdb_bgsave_in_progress") == 1, "it is asked for")
            i.arm(["read", "rename"], 1, "fail", errno.EIO, times=2)    # to read it, and to put it aside
            assert p.line().startswith(b"SERVER_ERROR not saved")
            assert figures(o)["rdb_last_load_status"] == "bad"
            i.disarm()
            assert k.names() == ["mayfly.snapshot"]
        assert k.bytes() == saved


def test_a_log_that_cannot_be_read():
    """The same: its snapshot would be replaced, and the log removed."""
    for mode in "keys", "full":
        with injected() as (k, i):
            args = ("-o", "appendonly=" + mode)
            with k.daemon(*args) as d, d.operator() as o:
                o.set(b"a", b"1")
                assert o.ask(b"save") == b"OK"
                o.set(b"b", b"1")
                wait_for(lambda: figure(o, "aof_pending_bytes") == 0, "it is in the log")
                end(d)
            names = k.names()
            for load in "yes", "strict", "salvage":
                i.arm(["read"], 1, "fail", errno.EIO, times=EVER, part=".log.")
                with k.daemon(*args, "-o", "load=" + load, env=i.env, wait=False) as d:
                    assert d.process.wait(mayfly.PATIENCE) == 65
                    assert "does not start" in d.log(), d.log()
                i.disarm()
                assert k.names() == names
            with k.daemon(*args) as d, d.operator() as o:
                assert o.get(b"a") == b"1"
                end(d)


mayfly.main(globals())
