#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The log of changes since the snapshot: after a crash no item reappears that was overwritten, deleted, flushed or
has expired, and unchanged items remain. Disk faults are in tests/lib/log/test_keylog.c."""
import ctypes
import os
import resource
import select
import shutil
import signal
import threading

import mayfly
from crash import MODES, Crash
from kept import figure, figures, fill, kept, status_of
from mayfly import wait_for

MIB = 1 << 20
STRICT = 65     # exit status EX_DATAERR
KEYS = ("-o", "appendonly=keys")

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000


def wait_for_log(c):
    """All that was answered is in the file."""
    wait_for(lambda: figure(c, "aof_whole") == 1 and figure(c, "aof_pending_bytes") == 0, "the log has everything")


def wait_for_base(k, c):
    wait_for(lambda: k.has_file() and figure(c, "aof_rewrite_in_progress") == 0, "there is a snapshot")


def log_names(k):
    return [name for name in k.names() if ".log." in name]


def log_path(k):
    """Of the newest."""
    return os.path.join(k.folder, max(log_names(k), key=lambda name: int(name.split(".")[-1])))


def change_each(o, flags=b""):
    """Change keys in the ways that there are, one each by its name; flags: of the one that is stored."""
    assert o.ask(b"md deleted") == b"HD"
    assert o.ask(b"ms stored 1" + flags + b"\r\n2") == b"HD"
    assert o.ask(b"touch touched 1000") == b"TOUCHED"
    assert o.ask(b"md marked I") == b"HD"
    assert o.ask(b"incr counted 1") == b"2"
    assert o.ask(b"ms short 1 p1\r\n2") == b"HD"


def test_what_has_changed_does_not_come_back():
    with kept() as k:
        with k.daemon("-o", "appendonly=keys") as d, d.operator() as o:
            for key in b"same", b"deleted", b"stored", b"touched", b"marked", b"counted", b"short", b"later":
                o.set(key, b"1")
            assert o.ask(b"save") == b"OK"
            change_each(o)
            assert o.ask(b"ms new 1\r\n2") == b"HD"
            wait_for_log(o)
            d.crash()
        for n in (2, 3):    # the second time from two logs
            with k.daemon(*KEYS) as d, d.operator() as o:
                assert figure(o, "aof_last_load_files") == n - 1
                assert figure(o, "rdb_last_load_keys_changed") == (6 if n == 2 else 7)
                assert figure(o, "rdb_last_load_keys_loaded") == (2 if n == 2 else 1)
                for key in b"deleted", b"stored", b"touched", b"marked", b"counted", b"short", b"new":
                    assert o.ask(b"mg " + key) == b"EN", key
                assert o.get(b"same") == b"1"
                if n == 2:
                    assert o.ask(b"md later") == b"HD"
                else:
                    assert o.ask(b"mg later") == b"EN"
                wait_for_log(o)
                d.crash()


def test_a_stop_loses_nothing():
    with kept() as k:
        with k.daemon(*KEYS) as d, d.operator() as o:
            o.set(b"a", b"1")
            assert d.stop() == 0
        assert len(log_names(k)) == 1
        with k.daemon(*KEYS) as d, d.operator() as o:
            assert o.get(b"a") == b"1"
            assert o.ask(b"md a") == b"HD"
            o.send(b"shutdown nosave\r\n")
            assert status_of(d) == 0
        with k.daemon(*KEYS) as d, d.operator() as o:
            assert o.ask(b"mg a") == b"EN"
        # Without the option the logs are read all the same, and gone with the next save.
        with k.daemon(*KEYS) as d, d.operator() as o:
            o.set(b"b", b"1")
            o.set(b"c", b"1")
            assert o.ask(b"save") == b"OK"
            assert o.ask(b"md b") == b"HD"
            wait_for_log(o)
            d.crash()
        with k.daemon() as d, d.operator() as o:
            assert figures(o)["aof_enabled"] == "no"
            assert o.ask(b"mg b") == b"EN"
            assert o.get(b"c") == b"1"
        assert log_names(k) == []
        # Nor does switching it on need a new snapshot: it is logged what changes from then on.
        with k.daemon("-o", "appendonly=keys,appendfsync=no") as d, d.operator() as o:
            assert o.ask(b"md c") == b"HD"
            wait_for_log(o)
            d.crash()
        with k.daemon(*KEYS) as d, d.operator() as o:
            assert o.ask(b"mg c") == b"EN"


FULL = ("-o", "appendonly=full")


def test_full_brings_back_what_was_there():
    large = b"l" * 3000000
    with kept() as k:
        with k.daemon(*FULL, "-o", "appendfsync=always") as d, d.operator() as o:
            assert k.has_file() and figure(o, "aof_whole") == 1     # before it serves
            for key in b"same", b"deleted", b"stored", b"touched", b"marked", b"counted", b"short":
                o.set(key, b"1")
            assert o.ask(b"save") == b"OK"
            change_each(o, b" F5")
            assert o.set(b"large", large) == b"STORED"
            d.crash()        # what was answered is there
        for n in (2, 3):    # the second time from two logs
            with k.daemon(*FULL) as d, d.operator() as o:
                assert figure(o, "aof_last_load_files") == n - 1
                assert figure(o, "aof_last_load_states") >= 7   # one of each key, or more
                assert o.ask(b"mg same v") == b"VA 1" and o.line() == b"1"
                assert o.ask(b"mg stored v f") == b"VA 1 f5" and o.line() == b"2"
                assert o.ask(b"mg counted v") == b"VA 1" and o.line() == b"2"
                assert 900 < int(o.ask(b"mg touched t").split(b"t")[1]) <= 1000
                assert o.get(b"large") == large
                assert b"X" in o.ask(b"mg marked v") and o.line() == b"1"
                for key in b"deleted", b"short":
                    assert o.ask(b"mg " + key) == b"EN", key
                wait_for_log(o)
                d.crash()
        # With the option gone the logs are loaded all the same.
        with k.daemon() as d, d.operator() as o:
            assert o.get(b"large") == large


def test_full_flush():
    """The snapshot stays, the log has the flush when it is answered."""
    with kept() as k:
        with k.daemon(*FULL) as d, d.operator() as o:
            o.set(b"a", b"1")
            assert o.ask(b"save") == b"OK"
            o.set(b"b", b"1")
            assert o.ask(b"flush_all") == b"OK"
            d.crash()
        assert k.has_file()
        with k.daemon(*FULL) as d, d.operator() as o:
            assert o.stats()["curr_items"] == "0"
            o.set(b"c", b"1")
            assert o.ask(b"flush_all 1000") == b"OK"
            d.crash()
        with k.daemon(*FULL) as d, d.operator() as o:
            assert o.get(b"c") == b"1"
            assert o.ask(b"flush_all") == b"OK"
            o.set(b"d", b"1")
            assert o.ask(b"bgrewriteaof") == b"OK"
            wait_for(lambda: len(log_names(k)) == 1, "it is made anew")
            wait_for_log(o)
            d.crash()
        with k.daemon(*FULL) as d, d.operator() as o:
            assert o.stats()["curr_items"] == "1" and o.get(b"d") == b"1"


def test_full_does_not_start_with_damage():
    with kept() as k:
        with k.daemon(*FULL) as d, d.operator() as o:
            for n in range(3):
                o.set(b"k%d" % n, b"1")
                wait_for_log(o)
            d.crash()
        log = bytearray(mayfly.read_bytes(log_path(k)))
        with open(log_path(k), "ab") as f:
            f.write(b"torn")
        with k.daemon(*FULL) as d, d.operator() as o:
            assert figure(o, "aof_last_load_bytes_cut") == 4
            assert o.stats()["curr_items"] == "3"
            d.crash()
        log[64 + 48] ^= 1
        mayfly.write(os.path.join(k.folder, log_names(k)[0]), log)
        names = k.names()
        with k.daemon(*FULL, wait=False) as d:
            assert status_of(d) == STRICT
            assert d.says("checksum differs")
        assert k.names() == names
        with k.daemon(*FULL, "-o", "load=salvage") as d, d.operator() as o:
            assert o.stats()["curr_items"] == "0"
            assert "mayfly.snapshot.bad" in k.names()


def test_logs_are_kept_with_a_snapshot_that_is_put_aside():
    """Damage of a log, and none that a start without logs would look for: nothing of it is replaced."""
    always = ("-o", "appendonly=full,appendfsync=always")
    with kept() as k:
        with k.daemon(*always) as d, d.operator() as o:
            o.set(b"a", b"1")
            assert o.ask(b"save") == b"OK"
            for n in range(100):
                o.set(b"k%d" % n, b"1")
            wait_for_log(o)
            d.crash()
        name = os.path.basename(log_path(k))
        good = mayfly.read_bytes(log_path(k))
        bad = bytearray(good)
        bad[64 + 48] ^= 1
        for number, more in enumerate(([], ["-o", "load=salvage"], [*always, "-o", "load=salvage"])):
            aside = "mayfly.snapshot.bad" if number == 0 else "mayfly.snapshot.%d.bad" % (number + 1)
            snapshot = k.bytes()
            mayfly.write(os.path.join(k.folder, name), bad)
            with k.daemon(*more) as d, d.operator() as o:
                assert o.stats()["curr_items"] == "0", more
            with open(os.path.join(k.folder, aside + name[len("mayfly.snapshot"):]), "rb") as f:
                assert f.read() == bad, (more, k.names())
            assert mayfly.read_bytes(os.path.join(k.folder, aside)) == snapshot, more
            # The operator has repaired it, and puts it back.
            for path in [k.file] + [os.path.join(k.folder, n) for n in log_names(k) if ".bad." not in n]:
                os.unlink(path)
            shutil.copy(os.path.join(k.folder, aside), k.file)
            mayfly.write(os.path.join(k.folder, name), good)
        with k.daemon(*always) as d, d.operator() as o:
            assert o.stats()["curr_items"] == "101"
            assert [n for n in k.names() if n.endswith(".bad")] == ["mayfly.snapshot.2.bad", "mayfly.snapshot.3.bad",
                                                                    "mayfly.snapshot.bad"], k.names()


def mode_is(c, mode):
    """Another snapshot has its name, whose log is as is wanted."""
    number = figure(c, "rdb_saves")
    assert c.ask(b"config set appendonly " + mode) == b"OK"
    wait_for(lambda: figure(c, "rdb_saves") > number, "it is made anew")
    wait_for(lambda: figure(c, "aof_whole") == (mode != b"no"), "it has a log, or none")


def test_it_is_switched_while_the_server_runs():
    with kept() as k:
        with k.daemon("-o", "save=1:1000000") as d, d.operator() as o:
            o.set(b"a", b"1")
            mode_is(o, b"full")
            assert o.ask(b"config set appendfsync always") == b"OK"
            assert o.set(b"a", b"2") == b"STORED"
            assert o.set(b"b", b"1") == b"STORED"
            assert figure(o, "aof_unsynced_bytes") == 0
            d.crash()
        with k.daemon(*FULL) as d, d.operator() as o:
            assert o.get(b"a") == b"2" and o.get(b"b") == b"1"
            mode_is(o, b"keys")
            assert o.ask(b"md a") == b"HD"
            o.set(b"b", b"2")
            o.set(b"c", b"2")
            wait_for_log(o)
            d.crash()
        with k.daemon(*KEYS) as d, d.operator() as o:
            assert o.stats()["curr_items"] == "0"
            o.set(b"d", b"1")
            mode_is(o, b"full")
            assert o.ask(b"flush_all") == b"OK"
            assert k.has_file()
            o.set(b"e", b"1")
            # Without a log the snapshot is one as any other: it is not the one that had a log.
            mode_is(o, b"no")
            assert log_names(k) == [] and figures(o)["aof_enabled"] == "no"
            assert o.ask(b"bgrewriteaof") == b"SERVER_ERROR no log is kept here (appendonly is not set)"
            assert o.ask(b"md e") == b"HD"
            d.crash()
        with k.daemon() as d, d.operator() as o:
            assert o.get(b"e") == b"1"
    with mayfly.Daemon(control=True) as d, d.operator() as o:
        assert b"needs a folder" in o.ask(b"config set appendonly keys")


def test_without_a_log_its_snapshot_is_not_loaded():
    """If none takes its place, there is none."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, 100 << 10))
    with kept() as k, k.daemon(*KEYS, "-o", "save_on_stop=no", before=limit) as d, d.operator() as o:
        wait_for_base(k, o)
        fill(o, 500)
        assert o.ask(b"config set appendonly no") == b"OK"
        wait_for(lambda: figures(o)["aof_enabled"] == "no", "it is off")
        assert log_names(k) == []
        wait_for(lambda: figures(o)["rdb_last_bgsave_status"] == "err", "none can be saved")
        assert not k.has_file()


def test_when_it_is_durable():
    for policy in "no", "everysec":
        with kept() as k, k.daemon(*KEYS, "-o", "appendfsync=" + policy) as d, d.operator() as o:
            wait_for_base(k, o)
            o.set(b"a", b"1")
            wait_for_log(o)
            if policy == "everysec":
                wait_for(lambda: figure(o, "aof_unsynced_bytes") == 0, "a second is over")
            else:
                assert figure(o, "aof_unsynced_bytes") > 0


class Stopped:
    """A thread of a process that is stopped, as if the disk hung."""

    def __init__(self, pid, name):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        tasks = "/proc/%d/task" % pid
        self.tid = [int(tid) for tid in os.listdir(tasks)
                    if open("%s/%s/comm" % (tasks, tid)).read().strip() == name][0]

    def __enter__(self):
        mayfly.skip_if(self.libc.ptrace(PTRACE_SEIZE, self.tid, None, None) != 0, "threads cannot be traced here")
        assert self.libc.ptrace(PTRACE_INTERRUPT, self.tid, None, None) == 0
        os.waitpid(self.tid, WALL)

    def __exit__(self, *_):
        assert self.libc.ptrace(PTRACE_DETACH, self.tid, None, None) == 0


def test_who_changes_something_waits_for_the_disk():
    """And nobody else does, on the same worker."""
    with kept() as k, k.daemon(*KEYS, "-r", "-t", "1", "-o", "appendfsync=always") as d, \
            d.operator() as o, d.operator() as p:
        wait_for_base(k, o)
        for n in range(50):
            assert o.set(b"a", b"%d" % n) == b"STORED"
            assert figure(o, "aof_unsynced_bytes") == 0 and figure(o, "aof_pending_bytes") == 0
        with Stopped(d.process.pid, "log writer"):
            # More than one answer: the second request waits with the first.
            o.send(b"set a 0 0 1\r\nx\r\nget a\r\n")
            wait_for(lambda: p.get(b"a") == b"x", "it is executed")
            for _ in range(100):
                assert p.get(b"b") is None
            assert not select.select([o.sock], [], [], 0)[0]
        assert o.line() == b"STORED"
        assert o.get_reply() == {b"a": b"x"}
        # A client that closes meanwhile does no harm, nor does a stop.
        with Stopped(d.process.pid, "log writer"):
            o.send(b"set a 0 0 1\r\ny\r\n")
            wait_for(lambda: p.get(b"a") == b"y", "it is executed")
            o.close()
        assert p.set(b"c", b"1") == b"STORED"
        # A stop does not wait for the disk for ever, and answers nothing that is not on it.
        with Stopped(d.process.pid, "log writer"):
            p.send(b"set a 0 0 1\r\nz\r\n")
            with d.operator() as q:
                wait_for(lambda: q.get(b"a") == b"z", "it is executed")
            d.process.send_signal(signal.SIGTERM)
            assert p.line() is None
        assert status_of(d) == 0


def test_who_waits_for_the_disk_is_not_idle():
    with kept() as k, k.daemon(*KEYS, "-t", "1", "-o", "appendfsync=always,idle_timeout=1") as d, \
            d.operator() as o, d.operator() as p:
        assert o.set(b"a", b"0") == b"STORED"
        with Stopped(d.process.pid, "log writer"):
            o.send(b"set a 0 0 1\r\nx\r\n")
            wait_for(lambda: p.get(b"a") == b"x", "it is executed")
            for _ in range(2):      # the second is idle later, by more than what one check takes together
                with d.client() as idle:
                    assert idle.get(b"b") is None
                    assert idle.line() is None
        assert o.line() == b"STORED"


def test_changes_wait_for_a_full_log_that_is_behind():
    """Before the rings of changes overflow. Clients that only read do not wait."""
    def store():
        with d.operator() as c:
            while not is_over:
                c.send(b"".join(b"set %0240d 0 0 1000\r\n%s\r\n" % (n, b"v" * 1000) for n in range(100)))
                answers.extend(c.line() for _ in range(100))
    with kept() as k, k.daemon(*FULL, "-r", "-t", "1", "-m", "256") as d, d.operator() as p:
        answers, is_over = [], False
        thread = threading.Thread(target=store)
        with Stopped(d.process.pid, "log writer"):
            thread.start()
            wait_for(lambda: figure(p, "aof_behind") == 1, "it is behind")
            assert p.get(b"%0240d" % 0) == b"v" * 1000
        before = len(answers)
        wait_for(lambda: len(answers) > before + 1000, "they go on")
        is_over = True
        thread.join()
        assert set(answers) == {b"STORED"}


def test_who_changes_something_quietly_waits_with_the_next_answer():
    """A quiet change is acknowledged by the next answer, which must wait for the log; so must a late answer."""
    with kept() as k, k.daemon(*FULL, "-t", "1", "-o", "appendfsync=always") as d, d.operator() as o, d.operator() as p:
        o.set(b"a", b"0")
        for value, asks, last in (b"1", b"mn", b"MN"), (b"2", b"stats detail dump", b"END"):
            with Stopped(d.process.pid, "log writer"):
                o.send(b"ms a 1 q\r\n" + value + b"\r\n")
                wait_for(lambda: p.get(b"a") == value, "it is executed")
                o.send(asks + b"\r\n")
                for _ in range(100):
                    assert p.get(b"a") == value
                assert not select.select([o.sock], [], [], 0)[0]
            assert o.line() == last


def test_what_was_flushed_does_not_come_back():
    with kept() as k:
        with k.daemon(*KEYS) as d, d.operator() as o:
            o.set(b"a", b"1")
            assert o.ask(b"save") == b"OK"
            assert o.ask(b"flush_all") == b"OK"
            assert not k.has_file()
            o.set(b"b", b"1")
            wait_for_base(k, o)     # made anew by itself
            wait_for(lambda: figure(o, "aof_whole") == 1, "it is logged again")
            assert o.ask(b"md b") == b"HD"
            wait_for_log(o)
            d.crash()
        with k.daemon(*KEYS) as d, d.operator() as o:
            assert o.ask(b"mg a") == b"EN"
            assert o.ask(b"mg b") == b"EN"


def test_a_flush_while_a_log_begins():
    """The save that began the log is begun again, and not given up."""
    with kept() as k, k.daemon(*KEYS) as d, d.operator() as o, d.operator() as p:
        wait_for_base(k, o)
        saves = figure(o, "rdb_saves")
        with Stopped(d.process.pid, "log writer"):
            assert o.ask(b"bgsave") == b"OK"
            wait_for(lambda: figure(o, "rdb_bgsave_in_progress") == 1, "it waits for the writer")
            assert p.ask(b"flush_all") == b"OK"
        wait_for(lambda: figure(o, "rdb_saves") > saves and figure(o, "aof_whole") == 1, "it is saved, with a log")
        assert figure(o, "rdb_save_failures") == 0, d.log()


def test_it_is_made_anew_when_it_has_grown():
    with kept() as k, k.daemon(*KEYS, "-o", "auto_aof_rewrite_min_size=10k") as d, d.operator() as o:
        wait_for_base(k, o)
        number = figure(o, "aof_file_number")
        fill(o, 2000, 10)
        wait_for(lambda: figure(o, "aof_file_number") > number, "it is made anew")
        wait_for(lambda: figure(o, "aof_base_size") > 2000 * 32, "with all that there is")
        assert o.ask(b"config set auto_aof_rewrite_percentage 0") == b"OK"
        wait_for(lambda: figure(o, "aof_rewrite_in_progress") == 0, "the last one ends")
        number, size = figure(o, "aof_file_number"), figure(o, "aof_current_size")
        fill(o, 2000, 10)
        fill(o, 2000, 10)
        wait_for_log(o)
        assert figure(o, "aof_file_number") == number
        # Keys that change again and again are not in it each time.
        assert 2000 * 8 <= figure(o, "aof_current_size") - size < 2 * 2000 * 8
        wait_for(lambda: len(log_names(k)) == 1, "older logs are gone")
        assert o.ask(b"bgrewriteaof") in (b"OK", b"SCHEDULED")
        wait_for(lambda: figure(o, "aof_file_number") > number, "it is asked for")
        assert o.ask(b"bgrewriteaof now") == b"ERROR"
        d.crash()
    with kept() as k, k.daemon() as d, d.operator() as o:
        assert o.ask(b"bgrewriteaof") == b"SERVER_ERROR no log is kept here (appendonly is not set)"


def test_damage():
    """At the end of the last log, or where nothing was synced, it is cut off; elsewhere nothing is loaded."""
    with kept() as k:
        with k.daemon(*KEYS, "-o", "appendfsync=always") as d, d.operator() as o:
            fill(o, 10, 10)
            assert o.ask(b"save") == b"OK"
            for n in range(3):      # each in a block of its own, once the one before was synced
                assert o.ask(b"md k%d" % n) == b"HD"
                wait_for_log(o)
            d.crash()
        good = {name: open(os.path.join(k.folder, name), "rb").read() for name in k.names()}
        path = log_path(k)
        log = good[os.path.basename(path)]

        def put_back(data):
            for name in k.names():
                os.unlink(os.path.join(k.folder, name))
            for name, content in good.items():
                mayfly.write(os.path.join(k.folder, name), content)
            if data is None:
                os.unlink(path)
            else:
                mayfly.write(path, data)

        put_back(log + b"torn")
        with k.daemon(*KEYS) as d, d.operator() as o:
            wait_for(lambda: "cut off" in d.log(), "the log says so")
            assert figure(o, "aof_last_load_bytes_cut") == 4
            assert [o.get(b"k%d" % n) is None for n in range(4)] == [True, True, True, False]
            d.crash()
        with k.daemon(*KEYS) as d, d.operator() as o:   # it was cut on the disk
            assert figures(o)["rdb_last_load_status"] == "ok"
            d.crash()
        middle = bytearray(log)
        middle[64 + 48] ^= 1
        foreign = bytearray(log)
        foreign[24] ^= 1
        for data, text in ((log + b"torn", "the file ends here"), (bytes(middle), "checksum differs"),
                           (bytes(foreign), "header: checksum differs"), (None, "is missing")):
            cuts = ("-o", "aof_load_truncated=no") if data and data.endswith(b"torn") else ()
            put_back(data)
            with k.daemon(*KEYS, *cuts, "-o", "load=strict", wait=False) as d:
                assert status_of(d) == STRICT
                assert d.says(text)
            assert k.has_file()
            with k.daemon(*KEYS, *cuts) as d, d.operator() as o:
                assert o.stats()["curr_items"] == "0"
                assert figures(o)["rdb_last_load_status"] == "bad"
                assert "mayfly.snapshot.bad" in k.names()
                d.crash()


def test_a_log_that_was_cut_short():
    """Where a block ends that looks like a kill, so a start says that its server did not close it."""
    said = "the last log was not closed"
    with kept() as k:
        for how in "stop", "kill", "cut":
            with k.daemon(*FULL, "-o", "save_on_stop=no,appendfsync=always") as d, d.operator() as o:
                o.set(b"a", how.encode())
                if how == "kill":
                    d.crash()
            if how == "cut":    # the seal, and the last change
                os.truncate(log_path(k), 64)
            with k.daemon(*FULL, "-o", "save_on_stop=no") as d, d.operator() as o:
                assert (said in d.log()) == (how != "stop"), d.log()
                assert o.get(b"a") == (how.encode() if how != "cut" else b"kill")


def test_a_full_disk():
    """A limit on the length of files in place of it: the snapshot goes before a change is missed."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, 100 << 10))
    with kept() as k, k.daemon(*KEYS, "-o", "save_on_stop=no", before=limit) as d, d.operator() as o:
        o.set(b"old", b"x")
        assert o.ask(b"save") == b"OK"
        assert o.ask(b"md old") == b"HD"
        fill(o, 10000, 100)
        fill(o, 10000, 100)
        wait_for(lambda: figure(o, "aof_gaps") == 1, "it was too long")
        wait_for(lambda: "cannot write its log" in d.log(), "the log says why")
        wait_for(lambda: not k.has_file(), "the snapshot is gone")
        assert figures(o)["aof_last_write_status"] == "err"
        assert figure(o, "aof_whole") == 0
        assert o.ask(b"flush_all") == b"OK"
        assert o.ask(b"save") == b"OK"      # short enough
        assert figures(o)["aof_last_write_status"] == "ok"
        assert figure(o, "aof_whole") == 1
        wait_for(lambda: len(log_names(k)) == 1, "older logs are gone")


def test_a_folder_that_goes_away():
    """An fsync of a file succeeds wherever its folder is; a start would not find it."""
    def run(way, mode, sync):
        with kept() as k:
            moved = k.folder + ".moved"
            with k.daemon("-o", "save_on_stop=no,appendonly=%s,appendfsync=%s" % (mode, sync)) as d, \
                    d.operator() as o, d.operator() as p:
                o.set(b"a", b"1")
                assert o.ask(b"save") == b"OK"
                os.rename(k.folder, moved)
                if way == "removed":
                    shutil.rmtree(moved)
                began = o.stat("uptime")
                wait_for(lambda: o.stat("uptime") >= began + 3, "it is looked for")
                p.send(b"set a 0 0 1\r\n2\r\n")
                wait_for(lambda: figures(o)["aof_last_write_status"] == "err", "it was noticed")
                wait_for(lambda: figure(o, "aof_gaps") == 1 and figure(o, "rdb_void_file") == 1, "the snapshot is void")
                assert figure(o, "aof_whole") == 0
                os.mkdir(k.folder) if way == "removed" else os.rename(moved, k.folder)
                assert p.line() == b"STORED"
                assert o.set(b"b", b"1") == b"STORED"
                wait_for_base(k, o)
                wait_for_log(o)
                assert figures(o)["aof_last_write_status"] == "ok"
                assert d.log().count("cannot write its log") == 1, d.log()
                assert figure(o, "rdb_save_failures") == 0, d.log()
                d.crash()
            with k.daemon("-o", "appendonly=" + mode) as d, d.operator() as o:
                assert o.get(b"a") == b"2"
    mayfly.in_parallel(lambda case: run(*case), (("removed", "keys", "everysec"), ("removed", "full", "always"),
                                                 ("moved", "full", "everysec"), ("moved", "keys", "always")))


def test_a_mass_of_deaths_takes_next_to_nothing():
    """However long they take: the sampler is held until all are due, and their log is measured from then on."""
    for mode in b"keys", b"full":
        with kept() as k:
            options = ("-o", "save_on_stop=no,appendonly=" + mode.decode())
            with k.daemon(*options, "-o", "active_expire=no") as d, d.operator() as o:
                o.send(b"".join(b"ms k%d 1 q T1\r\nx\r\n" % n for n in range(50000)) + b"mn\r\n")
                assert o.line() == b"MN"
                o.set(b"stays", b"1")
                assert o.ask(b"save") == b"OK"
                wait_for(lambda: int(o.stats(b"expire")["expire_debt_keys"]) == 50000, "all are due")
                wait_for_log(o)
                before = os.path.getsize(log_path(k))
                assert o.ask(b"config set active_expire yes") == b"OK"
                wait_for(lambda: o.stats()["curr_items"] == "1", "all are gone")
                wait_for_log(o)
                # A word each quarter of a second that it takes; records would be a hundred times as much.
                assert 0 < os.path.getsize(log_path(k)) - before <= 16384
                assert figure(o, "aof_gaps") == 0
                d.crash()
            with k.daemon(*options) as d, d.operator() as o:
                assert o.get(b"stays") == b"1" and o.stats()["curr_items"] == "1"


def test_what_is_not_loaded_is_not_left_there():
    """Its keys are absent, so nothing would be logged when they are deleted."""
    with kept() as k:
        with k.daemon(*KEYS) as d, d.operator() as o:
            o.set(b"a", b"x")
        with k.daemon(*KEYS, "-o", "load=no") as d, d.operator() as o:
            assert "mayfly.snapshot.bad" in k.names()
            d.crash()
    with kept() as k:
        with k.daemon(*KEYS) as d, d.operator() as o:
            for n in range(20):
                o.set(b"k%d" % n, b"x" * 100000)
        with k.daemon(*KEYS, "-I", "64k") as d, d.operator() as o:
            assert figure(o, "rdb_last_load_keys_refused") + figure(o, "rdb_last_load_keys_changed") == 20
            assert figure(o, "rdb_last_load_keys_loaded") == 0
            d.crash()
        with k.daemon(*KEYS) as d, d.operator() as o:
            assert o.stats()["curr_items"] == "0"


def test_it_needs_a_folder():
    with mayfly.Daemon(*KEYS, wait=False) as d:
        assert status_of(d) != 0
        assert d.says("appendonly: needs a folder")


def test_kills():
    """A short form of `make bench-crash`."""
    for mode in MODES:
        run = Crash(mode, 7)
        run.run(4)
        assert run.requests > 0 and run.hits + run.misses > 0


mayfly.main(globals())
