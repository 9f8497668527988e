#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The snapshot: after a save, a stop and a start all items are present, except expired and flushed ones, whatever
happens in between. tests/lib/snapshot/test_save.c makes each write and fsync fail."""
import os
import pwd
import resource
import select
import signal
import time

import mayfly
from kept import figure, figures, fill, kept, status_of
from mayfly import wait_for

MIB = 1 << 20
STRICT = 65     # exit status EX_DATAERR


def meta(c, key):
    """All there is to see of an item, with its value."""
    head = c.ask(b"mg %s v f c s t k" % key)
    assert head.startswith(b"VA "), head
    return head, c.line()


def unix_ms(c, key):
    return int(c.ask(b"pexpiretime %s" % key).split()[-1])


def test_all_is_there_after_a_restart():
    with kept() as k:
        with k.daemon() as d, d.operator() as o:
            assert o.ask(b"ms plain 5 F7\r\nvalue") == b"HD"
            assert o.ask(b"ms timed 5 p100000000\r\nvalue") == b"HD"
            assert o.ask(b"ms stale 5\r\nvalue") == b"HD"
            assert o.ask(b"md stale I") == b"HD"
            assert o.ask(b"ms won 5\r\nvalue") == b"HD"
            assert o.ask(b"md won I") == b"HD"
            assert b" W" in o.ask(b"mg won s")
            for n in (0, 1, 1000, 20000, 300000, 5 * MIB):
                o.set(b"n%d" % n, b"x" * n)
            seen_values = {n: o.get(b"n%d" % n) for n in (0, 1, 1000, 20000, 300000, 5 * MIB)}
            assert None not in seen_values.values()
            before = {key: meta(o, key) for key in (b"plain", b"n20000")}
            deadline = unix_ms(o, b"timed")
            cas = int(o.ask(b"mg plain c").split(b"c")[-1])
            assert o.ask(b"save") == b"OK"
            assert figures(o)["rdb_last_bgsave_status"] == "ok"
            assert figure(o, "rdb_last_save_keys") == 10
            assert k.names() == ["mayfly.snapshot"]
            assert o.ask(b"lastsave").startswith(b"LASTSAVE 1")
        for threads in ("1", "3"):
            with k.daemon("-t", threads) as d, d.operator() as o:
                assert figures(o)["rdb_last_load_status"] == "ok"
                assert figure(o, "rdb_last_load_keys_loaded") == 10
                for key, seen in before.items():
                    assert meta(o, key) == seen, (key, seen)
                assert unix_ms(o, b"timed") == deadline
                stale = o.ask(b"mg stale s")
                assert b" W" in stale and b" X" in stale, stale
                won = o.ask(b"mg won s")
                assert b" Z" in won and b" X" in won, won
                o.ask(b"md stale")
                o.ask(b"ms stale 5\r\nvalue")
                assert o.ask(b"md stale I") == b"HD"
                for n in (0, 1, 1000, 20000, 300000, 5 * MIB):
                    assert o.get(b"n%d" % n) == seen_values[n], n
                assert o.ask(b"ms later 1\r\nx") == b"HD"
                assert int(o.ask(b"mg later c").split(b"c")[-1]) > cas
                assert o.ask(b"md later") == b"HD"


def nice_of(d):
    """The nice values of its threads by their names."""
    tasks = "/proc/%d/task" % d.pid
    found = {}
    for task in os.listdir(tasks):
        name, rest = mayfly.read("%s/%s/stat" % (tasks, task)).rsplit(")", 1)
        found[name.split("(", 1)[1]] = int(rest.split()[16])
    return found


def test_a_deadline_that_never_comes():
    """The latest ones there are become the latest that an item keeps, wherever they are shown."""
    latest = 9223372036854775807 // 4
    kept_s = (127 << 38) // 1000  # 1106 years
    with kept() as k:
        with k.daemon() as d, d.operator() as o:
            assert o.ask(b"ms k 1 p%d\r\nv" % latest) == b"HD"
            assert o.ask(b"ms near 1 p%d\r\nv" % (latest - 10000000)) == b"HD"
            assert o.set(b"s", b"v", latest // 1000) == b"STORED"
            assert kept_s <= int(o.ask(b"expiretime k").split()[-1]) < 2 * kept_s
            assert o.ask(b"lru_crawler metadump all") == b"OK"
            lines = o.line().split(b"\n")
            assert len(lines) == 4 and lines.pop() == b"END", lines
            assert all(int(line.split(b" exp=")[1].split()[0]) >= kept_s for line in lines), lines
        for _ in range(2):
            with k.daemon() as d, d.operator() as o:
                for key in (b"k", b"near", b"s"):
                    assert o.get(key) == b"v", key


def cas_of_a_set(c):
    c.set(b"k", b"v")
    return int(c.ask(b"mg k c").split(b"c")[-1])


def test_cas_values_do_not_repeat():
    """Also cas values of items that no longer exist: clients may still have them."""
    with kept() as k:
        for args in ((), ("-e", os.path.join(k.folder, "memory"))):
            last = 0
            for _ in range(3):
                with k.daemon(*args) as d, d.operator() as o:
                    value = cas_of_a_set(o)
                    assert value > last, (args, value, last)
                    last = value
                    d.crash()
                    assert not k.has_file()


def test_requests_go_first():
    """Also where most system calls are forbidden."""
    is_filtered = mayfly.has_text(b"libseccomp") and not mayfly.is_sanitized()
    for args in ((), ("-o", "drop_privileges"))[:1 + is_filtered]:
        with kept() as k, k.daemon(*args) as d:
            expected = dict.fromkeys(("snapshot", "snapshot write", "export"), min(19, os.nice(0) + 5))
            expected["snapshot flush"] = os.nice(0)             # somebody waits for it
            # Threads name themselves, some of them after the server is ready.
            wait_for(lambda: expected.items() <= nice_of(d).items(), "they have their names and places")


def test_what_expires_meanwhile_does_not_come_back():
    with kept() as k:
        with k.daemon() as d, d.operator() as o:
            assert o.ask(b"ms short 1 p400\r\nx") == b"HD"
            assert o.ask(b"ms long 1 T1000\r\nx") == b"HD"
            gone_at = unix_ms(o, b"short")
            assert d.stop() == 0
        wait_for(lambda: time.time() * 1000 > gone_at, "its time comes")
        with k.daemon() as d, d.operator() as o:
            assert o.ask(b"mg short") == b"EN"
            assert o.ask(b"mg long") == b"HD"
            loaded, expired = figure(o, "rdb_last_load_keys_loaded"), figure(o, "rdb_last_load_keys_expired")
            assert loaded == 1 and expired <= 1


def test_what_was_flushed_does_not_come_back():
    with kept() as k:
        with k.daemon() as d, d.operator() as o:
            o.set(b"a", b"x")
            assert o.ask(b"save") == b"OK"
            assert k.has_file()
            assert o.ask(b"flush_all") == b"OK"
            assert not k.has_file()
            o.set(b"b", b"x")
            d.crash()
        with k.daemon() as d, d.operator() as o:
            assert figures(o)["rdb_last_load_status"] == "no-file"
            assert o.ask(b"mg a") == b"EN"
            # One that is to come: before its time, and after.
            o.set(b"c", b"x")
            assert o.ask(b"flush_all 1000") == b"OK"
            o.send(b"shutdown save\r\n")
            assert status_of(d) == 0
        with k.daemon() as d, d.operator() as o:
            assert o.ask(b"mg c") == b"HD"
            assert o.ask(b"flush_all 1") == b"OK"
            assert o.ask(b"save") == b"OK"
            d.crash()
        written = os.stat(k.file).st_mtime
        wait_for(lambda: time.time() > written + 1.1, "the flush's time comes")
        with k.daemon() as d, d.operator() as o:
            assert o.ask(b"mg c") == b"EN"
            assert figure(o, "rdb_last_load_keys_loaded") == 0


def test_a_stop_saves_as_it_is_told():
    with kept() as k:
        with k.daemon() as d, d.operator() as o:
            o.set(b"a", b"1")
            o.send(b"shutdown nosave\r\n")
            assert status_of(d) == 0
        assert not k.has_file()
        with k.daemon("-o", "save_on_stop=no") as d, d.operator() as o:
            o.set(b"a", b"1")
            assert o.ask(b"shutdown save nosave") == b"CLIENT_ERROR invalid shutdown mode"
            assert d.stop() == 0
        assert not k.has_file()
        with k.daemon("-o", "save_on_stop=no") as d, d.operator() as o:
            o.set(b"a", b"1")
            o.send(b"shutdown graceful save\r\n")
            o.close()
            assert status_of(d) == 0
        assert k.has_file()
    with mayfly.Daemon(control=True) as d, d.operator() as o:
        assert o.ask(b"shutdown save") == b"SERVER_ERROR no snapshot is kept here (dir is not set)"
        assert o.ask(b"bgsave") == b"SERVER_ERROR no snapshot is kept here (dir is not set)"
        assert o.ask(b"save") == b"SERVER_ERROR no snapshot is kept here (dir is not set)"
        assert o.ask(b"bgsave cancel") == b"NOT_FOUND"
        assert o.ask(b"lastsave") == b"LASTSAVE 0"
        assert figures(o)["rdb_enabled"] == "no"


def test_a_save_under_way():
    """Slowed down, so that it is there to be seen: cancelled, scheduled, killed, and flushed."""
    with kept() as k:
        with k.daemon() as d, d.operator() as o, d.operator() as p:
            o.set(b"old", b"x")
            assert o.ask(b"save") == b"OK"
            old = k.bytes()
            fill(o, 20000)
            assert o.ask(b"config set save_rate 1") == b"OK"
            assert o.ask(b"bgsave") == b"OK"
            wait_for(lambda: figure(o, "rdb_current_keys_processed") > 0, "a save is under way")
            assert o.ask(b"bgsave") == b"BUSY a save is under way"
            assert o.ask(b"bgsave schedule") == b"SCHEDULED"
            assert o.ask(b"bgsave now") == b"CLIENT_ERROR usage: bgsave [schedule|cancel]"
            assert figure(o, "rdb_bgsave_scheduled") == 1
            p.send(b"save\r\n")
            assert o.ask(b"bgsave cancel") == b"OK"

            def is_told():  # its request may come after the first cancel, which does not count then
                o.ask(b"bgsave cancel")
                return select.select([p.sock], [], [], 0)[0]
            wait_for(is_told, "who waits for a save is told that there is none")
            assert p.line() == b"SERVER_ERROR not saved: the log says why"
            wait_for(lambda: figure(o, "rdb_bgsave_in_progress") == 0, "it ends")
            assert k.bytes() == old and k.names() == ["mayfly.snapshot"]
            # A stop during a slow save is not slow.
            assert o.ask(b"bgsave") == b"OK"
            wait_for(lambda: figure(o, "rdb_current_keys_processed") > 0, "a save is under way")
            d.crash()
        assert k.bytes() == old
        with k.daemon("-o", "save_rate=1") as d, d.operator() as o:
            assert o.ask(b"mg old") == b"HD"
            assert o.ask(b"mg k1") == b"EN"
            fill(o, 20000)
            assert o.ask(b"bgsave") == b"OK"
            wait_for(lambda: figure(o, "rdb_current_keys_processed") > 0, "a save is under way")
            assert o.ask(b"flush_all") == b"OK"
            assert not k.has_file()
            o.set(b"new", b"x")
            wait_for(lambda: figure(o, "rdb_saves") == 1, "it began anew")
            assert figure(o, "rdb_last_save_keys") <= 1
            assert o.ask(b"config set save_rate 0") == b"OK"
        with k.daemon() as d, d.operator() as o:
            assert o.ask(b"mg new") == b"HD"
            assert o.ask(b"mg k1") == b"EN"


def test_its_name_and_its_length():
    with kept() as k:
        lengths = []
        for options in ("dbfilename=plain", "dbfilename=packed,rdbcompression=zstd"):
            try:
                d = k.daemon("-o", options)
            except AssertionError as why:
                assert "not built with zstd" in str(why)
                break
            with d, d.operator() as o:
                fill(o, 2000)
                assert o.ask(b"save") == b"OK"
                lengths.append(figure(o, "rdb_last_save_bytes"))
        assert k.names()[-1] == "plain"
        if len(lengths) == 2:
            assert k.names() == ["packed", "plain"]
            assert lengths[1] < lengths[0] / 5


def test_rules():
    with kept() as k, k.daemon("--save=3600:1,1:100") as d, d.operator() as o:
        fill(o, 500, 10)
        wait_for(lambda: figure(o, "rdb_saves") == 1, "a rule is met")
        assert k.has_file()
        assert figure(o, "rdb_changes_since_last_save") < 500


def test_a_full_disk_keeps_the_old_file():
    """A limit on the length of files in place of a disk that is full."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))
    with kept() as k, k.daemon("-o", "save_on_stop=no", before=limit) as d, d.operator() as o:
        o.set(b"old", b"x")
        assert o.ask(b"save") == b"OK"
        old = k.bytes()
        fill(o, 5000)
        assert o.ask(b"save") == b"SERVER_ERROR not saved: the log says why"
        assert figures(o)["rdb_last_bgsave_status"] == "err"
        assert figure(o, "rdb_save_failures") == 1
        assert k.bytes() == old and k.names() == ["mayfly.snapshot"]
        wait_for(lambda: "File too large" in d.log(), "the log says why")
        assert o.ask(b"flush_all") == b"OK"
        o.set(b"new", b"x")
        assert o.ask(b"save") == b"OK"
        assert figures(o)["rdb_last_bgsave_status"] == "ok"


def test_bad_files():
    with kept() as k:
        with k.daemon() as d, d.operator() as o:
            fill(o, 2000)
        good = k.bytes()
        bad = bytearray(good)
        bad[len(bad) // 2] ^= 1
        for data, text in ((bytes(bad), ": block "), (b"REDIS0011\xfa", "is a Redis RDB file"),
                           (good[:-1], "the file ends here"), (b"", "is empty")):
            k.write(data)
            d = k.daemon("-o", "load=strict", wait=False)
            with d:
                assert status_of(d) == STRICT
                assert d.says(text)
            assert k.bytes() == data
            with k.daemon("-o", "save_on_stop=no") as d, d.operator() as o:
                assert o.stats()["curr_items"] == "0"
                assert figures(o)["rdb_last_load_status"] == "bad"
                wait_for(lambda: text in d.log(), "the log says why")
            assert k.names() == ["mayfly.snapshot.bad"]
            os.unlink(k.file + ".bad")
        k.write(bytes(bad))
        with k.daemon("-o", "load=salvage") as d, d.operator() as o:
            assert figures(o)["rdb_last_load_status"] == "salvaged"
            assert 0 < int(o.stats()["curr_items"]) < 2000
        k.write(good)
        with k.daemon("-o", "load=no,save_on_stop=no") as d, d.operator() as o:
            assert o.stats()["curr_items"] == "0"
        assert k.bytes() == good


def test_too_old_or_as_stale():
    with kept() as k:
        with k.daemon() as d, d.operator() as o:
            o.set(b"a", b"x")
        made = int(os.stat(k.file).st_mtime)
        with k.daemon("-o", "load_stale,save_on_stop=no") as d, d.operator() as o:
            answer = o.ask(b"mg a s")
            assert b" W" in answer and b" X" in answer, answer
        wait_for(lambda: time.time() > made + 2.1, "it is older")
        with k.daemon("-o", "load_max_age=1,save_on_stop=no") as d, d.operator() as o:
            assert figures(o)["rdb_last_load_status"] == "too-old"
            assert o.ask(b"mg a") == b"EN"


def test_a_file_that_may_not_be_read_is_not_replaced():
    """Data of root, a server of another user: it does not start, whatever it is to do with damage."""
    mayfly.skip_if(os.getuid() != 0, "only root can make a file that the server may not read")
    nobody = pwd.getpwnam("nobody")
    with kept() as k:
        os.chown(k.folder, nobody.pw_uid, nobody.pw_gid)
        with k.daemon() as d, d.operator() as o:
            o.set(b"a", b"1")
        saved = k.bytes()
        for load in "yes", "strict", "salvage":
            for how in (), ("--check-config",):
                with k.daemon("-u", "nobody", "-o", "load=" + load, *how, wait=False) as d:
                    assert status_of(d) == 65, d.log()
                    assert d.says("Permission denied")
            assert k.names() == ["mayfly.snapshot"] and k.bytes() == saved


def test_files_that_are_removed_are_saved_again():
    """By another program. The snapshot alone, or its log alone, would bring nothing back."""
    for mode in "keys", "full":
        for what in "", ".snapshot", ".log.":
            with kept() as k, k.daemon("--appendonly", mode) as d, d.operator() as o:
                assert o.set(b"k", b"v") == b"STORED" and o.ask(b"save") == b"OK"
                saves = figure(o, "rdb_saves")
                removed = [name for name in k.names() if what in name]
                for name in removed:
                    os.unlink(os.path.join(k.folder, name))
                assert removed and what or len(removed) == 2
                wait_for(lambda: figure(o, "rdb_saves") > saves and len(k.names()) == 2, "it is saved again")
                d.kill()
                with k.daemon("--appendonly", mode) as again, again.operator() as o:
                    assert o.get(b"k") == b"v"


def test_a_save_shows_from_when_it_was_asked_for():
    """So that a client that asks, and then polls until none is under way, has its save."""
    with kept() as k, k.daemon() as d, d.operator() as o:
        o.set(b"a", b"1")
        for saves in range(50):
            o.send(b"bgsave\r\nstats persistence\r\n")
            assert o.line() == b"OK"
            seen = dict(line.decode().split(" ")[1:3] for line in iter(o.line, b"END"))
            assert seen["rdb_bgsave_in_progress"] == "1" or int(seen["rdb_saves"]) > saves, saves
            wait_for(lambda: figure(o, "rdb_bgsave_in_progress") == 0, "it ends")
            assert figure(o, "rdb_saves") == saves + 1


def test_a_second_server_is_refused():
    with kept() as k:
        with k.daemon("--appendonly", "full"):
            with k.daemon(wait=False) as other:
                assert status_of(other) == 73
                assert other.says("another server does")
            with k.daemon("--dbfilename", "another"):
                pass
        with k.daemon():
            pass


def test_names_that_look_like_those_of_logs():
    """They are names as any other."""
    for name in "x.log", "x.log.", "x.log.1a", "log.1", "x.bad.1":
        with kept() as k, k.daemon("--dbfilename", name) as d, d.operator() as o:
            assert o.ask(b"save") == b"OK"
            assert k.names() == [name]


def test_what_cannot_work_is_refused():
    for options, text in (("dir=/nonexistent/folder", "cannot write to"),
                          ("dir=/dev/null", "cannot write to /dev/null (Not a directory)"),
                          ("save=5", "-o save: \"5\" is not a list of rules"),
                          ("dbfilename=a/b", "dbfilename:"), ("load=perhaps", ""),
                          # Names that are those of another server's logs, or of what it has put aside.
                          ("dbfilename=x.log.1", "dbfilename:"), ("dbfilename=x.log.0123", "dbfilename:"),
                          ("dbfilename=x.bad", "dbfilename:")):
        d = mayfly.Daemon("-o", options, wait=False)
        with d:
            assert status_of(d) != 0
            assert d.says(text)


mayfly.main(globals())
