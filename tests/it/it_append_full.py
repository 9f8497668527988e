#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A full log across several restarts: every answered change is present and nothing older, in combination with a
pending flush, snapshots and changed options."""
import os
import socket
import tempfile
import time

import mayfly
from kept import figure, figures, kept
from mayfly import wait_for

FULL = ("-o", "appendonly=full,appendfsync=always")


def store(c, keys, value):
    for at in range(0, len(keys), 5000):
        c.send(b"".join(b"ms %s %d q\r\n%s\r\n" % (key, len(value), value) for key in keys[at:at + 5000]))
        assert c.ask(b"mn") == b"MN"


def test_a_flush_that_came_while_nothing_ran():
    """The flush affects items stored before the restart, not items stored afterwards."""
    with kept() as k:
        with k.daemon(*FULL) as d, d.operator() as o:
            o.set(b"a", b"1")
            due = time.time() + 1
            assert o.ask(b"flush_all 1") == b"OK"
            d.crash()
        wait_for(lambda: time.time() > due + 0.1, "it is due")
        with k.daemon(*FULL) as d, d.operator() as o:
            assert o.get(b"a") is None
            assert o.set(b"b", b"1") == b"STORED"
            d.crash()
        with k.daemon(*FULL) as d, d.operator() as o:
            assert o.get(b"a") is None and o.get(b"b") == b"1"


def test_a_cas_is_not_given_again():
    """A client may still have the cas of a value that was lost or removed."""
    with kept() as k:
        given = []
        with k.daemon(*FULL) as d, d.operator() as o:
            o.set(b"a", b"1")
            d.crash()
        for _ in range(5):
            with k.daemon(*FULL, "-o", "appendfsync=everysec") as d, d.operator() as o:
                assert o.ask(b"save") == b"OK"
                o.send(b"ms b 1 c\r\n1\r\nmd b\r\n")
                given.append(o.line())
                assert o.line() == b"HD"
                wait_for(lambda: figure(o, "aof_pending_bytes") == 0, "the log has everything")
                d.crash()
        assert len(set(given)) == len(given), given


def test_a_snapshot_is_as_old_as_its_log():
    """With load_max_age: what was changed just before the crash is not an hour old."""
    aged = ("-o", "load_max_age=2")
    with kept() as k:
        with k.daemon(*FULL, *aged) as d, d.operator() as o:
            begun = time.time()
            o.set(b"a", b"1")
            wait_for(lambda: time.time() > begun + 3.2, "the snapshot is too old")
            assert o.set(b"a", b"2") == b"STORED"
            d.crash()
        with k.daemon(*FULL, *aged) as d, d.operator() as o:
            assert o.get(b"a") == b"2"
            d.crash()
        for name in k.names():
            os.utime(os.path.join(k.folder, name), (begun, begun))
        with k.daemon(*FULL, *aged) as d, d.operator() as o:
            assert figures(o)["rdb_last_load_status"] == "too-old"
            assert o.get(b"a") is None


def test_logs_are_not_loaded_beside_requests():
    """They would overwrite newer items and restore deleted ones."""
    keys = [b"k%d" % n for n in range(100000)]
    with kept() as k:
        with k.daemon(*FULL, "-o", "appendfsync=no,auto_aof_rewrite_percentage=0") as d, d.operator() as o:
            store(o, keys, b"old")
            wait_for(lambda: figure(o, "aof_pending_bytes") == 0, "the log has everything")
            d.crash()
        with k.daemon("-o", "load_async=yes") as d, d.operator() as o:
            assert figures(o)["rdb_last_load_status"] == "ok"
            assert o.get(keys[-1]) == b"old"
            wait_for(lambda: "loads it before serving" in d.log(), "it is said")


def test_a_damaged_snapshot_is_salvaged_with_its_log():
    with kept() as k:
        with k.daemon(*FULL) as d, d.operator() as o:
            for key in b"a", b"b", b"c":
                o.set(key, b"1")
            assert o.ask(b"save") == b"OK"
            o.set(b"a", b"2")
            assert o.ask(b"md b") == b"HD"
            d.crash()
        data = bytearray(k.bytes())
        data[-1] ^= 1
        k.write(data)
        with k.daemon(*FULL, "-o", "load=salvage") as d, d.operator() as o:
            assert figures(o)["rdb_last_load_status"] == "salvaged"
            assert [o.get(key) for key in (b"a", b"b", b"c")] == [b"2", None, b"1"]


def test_a_log_that_begins_after_a_save_was_cancelled():
    """It belongs to the snapshot that is there."""
    with kept() as k:
        with k.daemon() as d, d.operator() as o:
            store(o, [b"k%d" % n for n in range(3000)], b"v" * 1000)
            assert o.ask(b"save") == b"OK"
            assert o.ask(b"config set save_rate 1") == b"OK"
            assert o.ask(b"bgsave") == b"OK"
            wait_for(lambda: figure(o, "rdb_current_keys_processed") > 0, "it is saved once more")
            assert o.ask(b"bgsave cancel") == b"OK"
            wait_for(lambda: figure(o, "rdb_bgsave_in_progress") == 0, "it is not")
            assert o.ask(b"config set appendonly full") == b"OK"
            wait_for(lambda: any(".log." in name for name in k.names()), "there is a log")
            d.crash()
        with k.daemon(*FULL) as d, d.operator() as o:
            assert o.stats()["curr_items"] == "3000"


def test_a_snapshot_that_found_no_room_stays_until_there_is_another():
    """Before the server serves: a crash meanwhile loses nothing. The service manager is told of the save."""
    with kept() as k, mayfly.place("notify") as path, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(mayfly.PATIENCE)
        with k.daemon(*FULL) as d, d.operator() as o:
            store(o, [b"k%d" % n for n in range(3000)], b"v" * 1000)
            assert o.set(b"large", b"v" * 6000000) == b"STORED"
            d.crash()
        with k.daemon(*FULL, "-I", "4m", "-o", "save_rate=1", wait=False, env={"NOTIFY_SOCKET": path}) as d:
            wait_for(lambda: ".mayfly.snapshot.new" in k.names() and "1 did not fit" in d.log(), "it is saved")
            while b"STATUS=saving a snapshot: " not in manager.recv(4096):
                pass
            d.crash()
        with k.daemon(*FULL, "-I", "4m") as d, d.operator() as o:
            assert figure(o, "rdb_saves") == 1 and o.stats()["curr_items"] == "3000"
            assert o.ask(b"md large") == b"NF"
            d.crash()
        with k.daemon(*FULL) as d, d.operator() as o:
            assert o.get(b"large") is None and o.stats()["curr_items"] == "3000"


def test_a_warm_start_keeps_the_snapshot_until_there_is_another():
    """The snapshot belongs to the items in memory: a crash meanwhile loses nothing, and no removed item reappears."""
    keys = [b"k%d" % n for n in range(3000)]
    made = time.time()
    with kept() as k, tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        args = (*FULL, "-e", os.path.join(memory, "items"), "-o", "save_on_stop=no")

        def crash_in_save(*more):
            if ".mayfly.snapshot.new" in k.names():     # of the crash before
                os.unlink(os.path.join(k.folder, ".mayfly.snapshot.new"))
            with k.daemon(*args, *more, "-o", "save_rate=1", wait=False) as d:
                wait_for(lambda: ".mayfly.snapshot.new" in k.names() and "took over" in d.log(), "it is saved")
                d.crash()

        with k.daemon(*args) as d, d.operator() as o:
            store(o, keys, b"v" * 1000)
            assert o.ask(b"save") == b"OK"
            assert o.ask(b"md k7") == b"HD" and o.set(b"k8", b"new") == b"STORED"
        for aged in ((), ("-o", "load_max_age=1")):
            wait_for(lambda: not aged or time.time() > made + 3, "the snapshot is too old")
            for name in k.names():
                os.utime(os.path.join(k.folder, name), (made, made))
            crash_in_save(*aged)
            assert k.has_file()
            with k.daemon(*args) as d, d.operator() as o:
                assert figure(o, "rdb_last_load_keys_loaded") > 0, d.log()
                assert o.stats()["curr_items"] == "2999"
                assert o.get(b"k7") is None and o.get(b"k8") == b"new" and o.get(b"k9") == b"v" * 1000
        # What others have left meanwhile is not it: the items of the file are older, or newer.
        with k.daemon(*FULL, "-o", "save_on_stop=no") as d, d.operator() as o:
            assert o.ask(b"md k9") == b"HD"
        crash_in_save()
        assert not k.has_file()
        with k.daemon(*args) as d, d.operator() as o:
            assert o.stats()["curr_items"] == "0"


mayfly.main(globals())
