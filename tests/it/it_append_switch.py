#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The log is switched on, to the other kind, and off, in each state of the snapshot: loading, not loaded, saved
before, being saved, failing to be saved. The server is killed in each state. aof_whole is 1 only when snapshot and
log are complete; before that the last save is loaded, with the content of the log. Each start succeeds."""
import contextlib
import errno
import os

import mayfly
from inject import EVER, inject, skip_without
from kept import figure, figures, fill, kept
from mayfly import in_parallel, wait_for

skip_without()

KEYS = 2000     # of 1000 bytes: two seconds of a save at 1 MB/s
SLOW = ("-o", "save_rate=1")
MODES = "keys", "full"
NEW = ".mayfly.snapshot.new"    # what a save writes to


@contextlib.contextmanager
def injected():
    with kept() as k, inject(k.folder) as i:
        yield k, i


def fail_saves(i):
    i.arm(["write"], 1, "fail", errno.ENOSPC, times=EVER, part=NEW)


def make_base(k, *args, log=()):
    """A snapshot with KEYS items and x=1, and a log of the keys in `log`, which become 2."""
    with k.daemon("-o", "save_on_stop=no,appendfsync=always", *args) as d, d.operator() as o:
        fill(o, KEYS)
        o.set(b"x", b"1")
        assert o.ask(b"save") == b"OK"
        assert all(o.set(key, b"2") == b"STORED" for key in log)
        d.crash()


def switch(c, mode):
    assert c.ask(b"config set appendfsync always") == b"OK"
    assert c.ask(b"config set appendonly " + mode.encode()) == b"OK"


def has_log(k):
    return any(".log." in name for name in k.names())


def check_next(k, mode, may, keys=KEYS):
    """The next start succeeds, has these `keys`, and of the keys in `may` only those values. It continues from there:
    further changes survive another crash."""
    args = ("-o", "appendonly=%s,appendfsync=always" % mode)
    with k.daemon(*args) as d, d.operator() as o:
        found = {key: o.get(key) for key in may}
        for key, values in may.items():
            assert found[key] in values, (key, found[key], values)
        others = int(o.stats()["curr_items"]) - sum(value is not None for value in found.values())
        assert others == keys, others
        assert o.set(b"x", b"9") == b"STORED"
        if mode != "no":
            assert figures(o)["aof_enabled"] == "yes"
            wait_for(lambda: figure(o, "aof_whole") == 1, "it has everything")
        d.crash()
    with k.daemon(*args) as d, d.operator() as o:
        assert o.get(b"x") in {"no": (found.get(b"x"), b"1"), "keys": (b"9", None), "full": (b"9",)}[mode]


def lost(mode):
    """The expected value, after a crash, of a key that was changed and logged."""
    return None if mode == "keys" else b"3"


def test_while_a_snapshot_is_loaded():
    def run(mode):
        with injected() as (k, i):
            make_base(k)
            i.arm(["read"], 0)
            with k.daemon("-o", "load_async", *SLOW, env=i.env) as d, d.operator() as o:
                wait_for(lambda: figures(o)["rdb_last_load_status"] == "ok", "it is loaded")
                count = i.get("seen")
                d.crash()
            for state in "loading", "saving":
                i.arm(["read"], count - 1, "hang")
                with k.daemon("-o", "load_async", *SLOW, env=i.env) as d, d.operator() as o:
                    assert o.set(b"x", b"2") == b"STORED"
                    switch(o, mode)
                    assert figures(o)["rdb_last_load_status"] == "loading"
                    assert figure(o, "aof_whole") == 0
                    i.disarm()
                    if state == "saving":
                        wait_for(lambda: has_log(k) and figure(o, "rdb_current_keys_processed") > 0, "it is saved")
                        assert figure(o, "aof_whole") == 0 and figures(o)["aof_enabled"] == "yes"
                        assert o.set(b"y", b"3") == b"STORED"
                        assert figure(o, "aof_whole") == 0
                    d.crash()
                check_next(k, mode, {b"x": (b"1", b"2"), b"y": ((None,), (lost(mode),))[state == "saving"]})
                for name in k.names():
                    os.unlink(os.path.join(k.folder, name))
                make_base(k)
    in_parallel(run, MODES)


def test_after_a_start():
    """Changes made before are in no file until the next save is complete."""
    def run(mode):
        for log in (), (b"z",):     # with the log of an earlier server, which is needed as long as its snapshot is
            with injected() as (k, i):
                make_base(k, *(("-o", "appendonly=full") if log else ()), log=log)
                with k.daemon(*SLOW, env=i.env) as d, d.operator() as o:
                    assert o.set(b"x", b"2") == b"STORED"
                    switch(o, mode)
                    wait_for(lambda: figure(o, "rdb_current_keys_processed") > 0, "it is saved")
                    assert figure(o, "aof_whole") == 0
                    assert o.set(b"y", b"3") == b"STORED"
                    d.crash()
                check_next(k, mode, {b"x": (b"1", b"2"), b"y": (lost(mode),), b"z": (b"2",) if log else (None,)})
    in_parallel(run, MODES)


def test_when_it_was_saved():
    """Then it holds: nothing is older than what was answered."""
    def run(mode):
        with injected() as (k, i):
            make_base(k)
            with k.daemon(env=i.env) as d, d.operator() as o:
                assert o.set(b"x", b"2") == b"STORED"
                switch(o, mode)
                wait_for(lambda: figure(o, "aof_whole") == 1, "it has everything")
                assert o.set(b"y", b"3") == b"STORED"
                d.crash()
            check_next(k, mode, {b"x": (b"2",), b"y": (lost(mode),)})
    in_parallel(run, MODES)


def test_when_it_cannot_be_saved():
    """The snapshot that is there stays, and can be loaded, with the log and after that was switched off again."""
    def run(mode):
        with injected() as (k, i):
            make_base(k)
            fail_saves(i)
            for state in "on", "off", "on again":
                with k.daemon("-o", "save_on_stop=no", env=i.env) as d, d.operator() as o:
                    assert o.set(b"x", b"2") == b"STORED"
                    switch(o, mode)
                    wait_for(lambda: figures(o)["rdb_last_bgsave_status"] == "err", "it cannot be saved")
                    assert figure(o, "aof_whole") == 0 and figures(o)["aof_enabled"] == "yes"
                    assert o.set(b"y", b"3") == b"STORED"
                    for wanted in {"on": (), "off": ("no",), "on again": ("no", mode)}[state]:
                        switch(o, wanted)
                        wait_for(lambda: figures(o)["aof_enabled"] == ("no" if wanted == "no" else "yes"),
                                 "it is switched")
                    assert k.has_file() and figure(o, "aof_whole") == 0
                    d.crash()
                with k.daemon() as d, d.operator() as o:
                    assert int(o.stats()["curr_items"]) >= KEYS
                    assert o.get(b"x") in (b"1", b"2") and o.get(b"y") in (lost(mode), None)
                    d.crash()
            i.disarm()
            check_next(k, mode, {b"x": (b"1", b"2"), b"y": (lost(mode), None)})
    in_parallel(run, MODES)


def test_beside_a_snapshot_that_was_not_loaded():
    """It is kept as .bad, and none of its logs is taken for the new one's."""
    def run(mode):
        for base in (), ("-o", "appendonly=full"):
            with kept() as k:
                make_base(k, *base, log=(b"x",))
                saved = k.bytes()
                with k.daemon("-o", "load=no", *SLOW) as d, d.operator() as o:
                    fill(o, KEYS)
                    switch(o, mode)
                    wait_for(lambda: figure(o, "rdb_current_keys_processed") > 0, "it is saved")
                    assert figure(o, "aof_whole") == 0
                    assert open(k.file + ".bad", "rb").read() == saved
                    d.crash()
                check_next(k, mode, {b"x": (None,)}, keys=0)
    in_parallel(run, MODES)


def test_to_another_kind():
    """Whole all the time: the old kind is kept until the snapshot of the new one is there."""
    def run(modes):
        before, after = modes
        with injected() as (k, i):
            make_base(k)
            with k.daemon("-o", "appendonly=%s,appendfsync=always" % before, *SLOW, env=i.env) as d, d.operator() as o:
                wait_for(lambda: figure(o, "aof_whole") == 1, "it has everything")
                assert o.set(b"x", b"2") == b"STORED"
                switch(o, after)
                wait_for(lambda: figure(o, "rdb_current_keys_processed") > 0, "it is saved")
                assert figure(o, "aof_whole") == 1
                assert o.set(b"y", b"3") == b"STORED"
                d.crash()
            check_next(k, after, {b"x": (b"2", None) if "keys" in modes else (b"2",), b"y": (b"3", None)})
    in_parallel(run, (("keys", "full"), ("full", "keys")))


def test_off_while_it_is_saved():
    """The snapshot with the complete log is removed and replaced by one without a log."""
    def run(mode):
        with injected() as (k, i):
            make_base(k)
            with k.daemon("-o", "appendonly=%s,appendfsync=always" % mode, *SLOW, env=i.env) as d, d.operator() as o:
                wait_for(lambda: figure(o, "aof_whole") == 1, "it has everything")
                assert o.ask(b"bgsave schedule") in (b"OK", b"SCHEDULED")
                wait_for(lambda: figure(o, "rdb_current_keys_processed") > 0, "it is saved")
                assert o.set(b"x", b"2") == b"STORED"
                assert o.ask(b"config set appendonly no save_rate 0") == b"OK"
                saves = figure(o, "rdb_saves")
                wait_for(lambda: figures(o)["aof_enabled"] == "no" and figure(o, "rdb_saves") > saves, "it is off")
                wait_for(lambda: figure(o, "rdb_bgsave_in_progress") == 0 and k.has_file(), "one without is there")
                assert figure(o, "aof_whole") == 0
                d.crash()
            check_next(k, "no", {b"x": (b"2",)})
            assert not has_log(k)
    in_parallel(run, MODES)


mayfly.main(globals())
