#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""load_async: the server serves at once while the snapshot is being loaded. Items deleted, replaced or flushed
meanwhile never reappear, at any time."""
import os
import shutil
import tempfile

import mayfly
from mayfly import wait_for

KEYS = 150000
LATER = 30000       # of them: deleted or replaced while the file is loaded
TRIES = 10


class Kept:
    """A folder with a snapshot of KEYS items, of the form v1:<key>, and one large one."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="mayfly-load-async.")
        self.file = os.path.join(self.folder, "mayfly.snapshot")
        with self.daemon() as d, d.operator() as o:
            for at in range(0, KEYS, 5000):
                ask_all(o, (b"ms k%d %d q\r\nv1:k%d\r\n" % (n, len(b"v1:k%d" % n), n) for n in range(at, at + 5000)))
            o.set(b"large", b"x" * 3000000)
            assert d.stop() == 0
        self.good = mayfly.read_bytes(self.file)

    def daemon(self, *args, **kw):
        return mayfly.Daemon("-t", "2", "-m", "256", "-I", "8m", "-o", "dir=" + self.folder, *args, control=True, **kw)

    def put_back(self, data=None):
        mayfly.write(self.file, self.good if data is None else data)


kept = None


def ask_all(c, lines):
    """Quiet requests; what they answer all the same."""
    c.send(b"".join(lines) + b"mn\r\n")
    said = []
    while True:
        line = c.line()
        if line == b"MN":
            return said
        said.append(line)


def status(c):
    return c.stats(b"persistence")["rdb_last_load_status"]


def values(c, keys):
    """The values of the keys; absent keys are missing."""
    found = {}
    keys = list(keys)
    for at in range(0, len(keys), 100):
        c.send(b"get " + b" ".join(keys[at:at + 100]) + b"\r\n")
        while True:
            line = c.line()
            if line == b"END":
                break
            _, key, _, n = line.split()
            found[key] = c.line()
            assert len(found[key]) == int(n)
    return found


def loaded(c):
    wait_for(lambda: status(c) != "loading", "the load ends", patience=60)
    return status(c)


def test_deletes_and_flushes_while_it_loads():
    """Some tries may be too late; retried until one coincides with the load."""
    for attempt in range(TRIES):
        kept.put_back()
        with kept.daemon("-o", "load_async,save_on_stop=no") as d, d.operator() as o:
            was_loading = status(o) == "loading"
            for at in range(0, LATER, 3000):
                ask_all(o, (b"md k%d q\r\n" % n if n % 2 == 0 else
                            b"ms k%d 2 q\r\nv2\r\n" % n for n in range(at, at + 3000)))
            gone = o.stat("rdb_last_load_keys_gone", b"persistence")
            was_loading = was_loading and status(o) == "loading"
            assert loaded(o) == "ok"
            found = values(o, (b"k%d" % n for n in range(LATER)))
            assert len(found) == LATER // 2, len(found)
            for n in range(LATER):
                assert found.get(b"k%d" % n) == (None if n % 2 == 0 else b"v2"), n
            others = values(o, (b"k%d" % n for n in range(LATER, KEYS)))
            for key, value in others.items():
                assert value == b"v1:" + key, (key, value)
            lost = KEYS - LATER - len(others)
            # Few are taken for one of those that have gone.
            assert lost <= (KEYS - LATER) // 20 and lost <= o.stat("rdb_last_load_keys_gone", b"persistence"), lost
            assert gone <= o.stat("rdb_last_load_keys_gone", b"persistence")
            assert len(o.get(b"large")) == 3000000
        if was_loading:
            return
    raise AssertionError("no try of %d has met the load" % attempt)


def test_a_flush_ends_it():
    met = False
    for attempt in range(TRIES):
        kept.put_back()
        with kept.daemon("-o", "load_async,save_on_stop=no") as d, d.operator() as o:
            assert o.ask(b"flush_all") == b"OK"
            assert not os.path.exists(kept.file)
            o.set(b"new", b"x")
            met = loaded(o) == "flushed"
            assert o.stats()["curr_items"] == "1"
            assert o.get(b"new") == b"x"
            assert values(o, (b"k%d" % n for n in range(0, KEYS, 100))) == {}
        if met:
            return
    raise AssertionError("no try of %d has met the load" % attempt)


def test_a_stop_meanwhile_keeps_all():
    kept.put_back()
    with kept.daemon("-o", "load_async") as d, d.operator() as o:
        assert o.ask(b"md k7") in (b"HD", b"NF")
        assert d.stop() == 0
    with kept.daemon("-o", "load_async,save_on_stop=no") as d, d.operator() as o:
        assert loaded(o) == "ok"
        assert int(o.stats()["curr_items"]) >= KEYS * 0.95
        assert o.ask(b"mg k7") == b"EN"


def test_a_stop_without_a_save_leaves_the_file():
    kept.put_back()
    with kept.daemon("-o", "load_async,save_on_stop=no") as d:
        assert d.stop() == 0
    assert mayfly.read_bytes(kept.file) == kept.good


def test_a_damaged_file():
    bad = bytearray(kept.good)
    bad[len(bad) * 3 // 4] ^= 1
    for mode, end in (("yes", "bad"), ("salvage", "salvaged")):
        kept.put_back(bytes(bad))
        with kept.daemon("-o", "load_async,save_on_stop=no,load=" + mode) as d, d.operator() as o:
            assert loaded(o) == end
            assert (int(o.stats()["curr_items"]) > 0) == (mode == "salvage")
            wait_for(lambda: "checksum differs" in d.log(), "the log says why")
        assert os.path.exists(kept.file + ".bad")
        os.unlink(kept.file + ".bad")


def test_a_save_waits_for_it():
    kept.put_back()
    with kept.daemon("-o", "load_async,save_on_stop=no") as d, d.operator() as o:
        assert o.ask(b"save") == b"OK"
        assert status(o) == "ok"
        assert o.stat("rdb_last_save_keys", b"persistence") == KEYS + 1


def test_no_program_takes_over_meanwhile():
    """It would find some of the items, and load no more."""
    if not os.access("/dev/shm", os.W_OK) or "drop_privileges" in " ".join(mayfly.MORE_ARGS):
        raise mayfly.Inapplicable("no program can take over here")
    for attempt in range(TRIES):
        kept.put_back()
        with tempfile.TemporaryDirectory(prefix="mayfly-load-async.", dir="/dev/shm") as memory:
            with kept.daemon("-o", "load_async,save_on_stop=no", "-e", os.path.join(memory, "items")) as d, d.operator() as o:
                assert o.ask(b"upgrade") == b"OK"
                wait_for(lambda: "upgrade, refused: a snapshot is being loaded" in d.log() or d.log().count("is ready") == 2,
                         "it is refused, or too late")
                if "upgrade, refused" in d.log():
                    assert loaded(o) == "ok" and o.stat("curr_items") == KEYS + 1
                    return
    raise AssertionError("no try of %d has met the load" % attempt)


def test_not_with_strict():
    d = mayfly.Daemon("-o", "load_async,load=strict", wait=False)
    with d:
        assert d.process.wait(mayfly.PATIENCE) == 64
        assert d.says("load_async")


try:
    kept = Kept()
    mayfly.main(globals())
finally:
    shutil.rmtree(kept.folder)
