#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Items in a file (-e): live items at a stop exist at the next start, expired ones do not. After anything but a clean
stop the cache is empty. MAYFLY_RESTARTS: number of restarts, 5. tests/lib/engine/test_attach_doubts.c shows that
damaged files are refused."""
import contextlib
import os
import random
import re
import resource
import signal
import subprocess
import threading
import time

import crash
import mayfly
from mayfly import Inapplicable, wait_for

MIB = 1 << 20
RESTARTS = int(os.environ.get("MAYFLY_RESTARTS", "5"))
WRONG_FILE = 65     # exit statuses: EX_DATAERR, EX_OSERR
NO_ROOM = 71
CUT = 74


class Kept:
    """A file, and daemons that have it one after the other."""

    def __init__(self, folder):
        self.folder = folder
        self.file = os.path.join(folder, "memory")

    def daemon(self, *args, m=64, t=2, **kw):
        return mayfly.Daemon("-e", self.file, "-m", str(m), "-t", str(t), "-I", "8m", *args, control=True, **kw)


@contextlib.contextmanager
def kept():
    with mayfly.folder(in_memory=True) as folder:
        yield Kept(folder)


def figure(o, name):
    return o.stats(b"persistence")["restart_" + name]


def assert_warm(o):
    assert figure(o, "state") == "warm", o.stats(b"persistence")


def assert_cold(o, why):
    assert figure(o, "state") == "cold", o.stats(b"persistence")
    assert why in figure(o, "reason"), figure(o, "reason")
    assert o.stats()["curr_items"] == "0"


def dump(o, keys):
    """All there is to see of items: marks, cas, flags, sizes, when they end, values."""
    seen = {}
    for key in keys:
        head = o.ask(b"mg %s v f c s k" % key)
        if head.startswith(b"VA"):
            seen[key] = head, o.exactly(int(head.split()[1]) + 2), o.ask(b"pexpiretime %s" % key)
        else:
            seen[key] = head
    return seen


def near(seen, then):
    """The same; a deadline is the same instant by the clock that does not step, and is shown by the other."""
    assert seen.keys() == then.keys()
    for key, value in seen.items():
        if len(value) == 3 and len(then[key]) == 3:
            assert value[:2] == then[key][:2], (key, value, then[key])
            assert abs(int(value[2].split()[-1]) - int(then[key][2].split()[-1])) < 2000, (key, value, then[key])
        else:
            assert value == then[key], (key, value, then[key])


def fill(o, r, count, sizes=(0, 10, 100, 1000, 20000, 300000)):
    keys = []
    for i in range(count):
        key = b"k%d" % r.randrange(10 * count)
        size = r.choice(sizes) if i % 50 == 0 else r.randrange(200)
        end = r.choice((b"", b" T%d" % r.randrange(10000, 100000)))
        assert o.ask(b"ms %s %d F%d%s\r\n%s" % (key, size, i, end, r.randbytes(size))) == b"HD"
        keys.append(key)
    return keys


def test_items_come_back_again_and_again():
    r = random.Random(int(os.environ.get("MAYFLY_SEED", "1")))
    keys = {b"stale", b"won"}
    with kept() as k:
        seen = None
        for i in range(RESTARTS + 1):
            with k.daemon() as d, d.operator() as o:
                if seen is None:
                    assert_cold(o, "new")
                    assert o.ask(b"ms stale 1\r\nx") == b"HD" and o.ask(b"md stale I") == b"HD"
                    assert o.ask(b"ms won 1\r\nx") == b"HD" and o.ask(b"md won I") == b"HD"
                    assert b" W" in o.ask(b"mg won s")
                else:
                    assert_warm(o)
                    assert int(figure(o, "items")) == sum(type(v) is tuple for v in seen.values())
                    near(dump(o, keys), seen)
                    assert int(o.stats()["uptime"]) < 3600
                keys |= set(fill(o, r, 300))
                for key in r.sample(sorted(keys), 60):
                    if key not in (b"stale", b"won"):
                        o.ask(b"delete " + key)
                dump(o, keys)       # which has somebody win what is stale
                seen = dump(o, keys)
                # However a stop is asked for. Two of them are within a second.
                assert d.stop((signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)[i % 3]) == 0
                assert d.says("left the items in")


def test_what_ended_meanwhile_does_not_come_back():
    with kept() as k:
        with k.daemon() as d, d.operator() as o:
            assert o.ask(b"ms short 1 p700\r\nx") == b"HD"
            assert o.ask(b"ms large 300000 p700\r\n" + b"x" * 300000) == b"HD"
            assert o.ask(b"ms long 1 T1000\r\nx") == b"HD"
            gone_at = int(o.ask(b"pexpiretime large").split()[-1])
            assert o.ask(b"set deleted 0 0 1\r\nx") == b"STORED" and o.ask(b"delete deleted") == b"DELETED"
            assert d.stop() == 0
        wait_for(lambda: time.time() * 1000 > gone_at, "its time comes")
        with k.daemon() as d, d.operator() as o:
            assert_warm(o)
            assert int(figure(o, "items")) == 1
            for key in (b"short", b"large", b"deleted"):
                assert o.ask(b"mg " + key) == b"EN", key
            assert o.ask(b"mg long") == b"HD"
            assert o.ask(b"flush_all") == b"OK"
            o.set(b"new", b"x")
            assert d.stop() == 0
        with k.daemon() as d, d.operator() as o:
            assert o.ask(b"mg long") == b"EN" and o.ask(b"mg new") == b"HD"
            # One that is to come: before its time, and after.
            assert o.ask(b"flush_all 1000") == b"OK"
            assert d.stop() == 0
        with k.daemon() as d, d.operator() as o:
            assert o.ask(b"mg new") == b"HD"
            assert o.ask(b"flush_all 1") == b"OK"
            flushed_at = time.time() + 1.1
            assert d.stop() == 0
        wait_for(lambda: time.time() > flushed_at, "the flush's time comes")
        with k.daemon() as d, d.operator() as o:
            assert_warm(o)
            assert o.ask(b"mg new") == b"EN"


def test_a_crash_is_a_cold_start():
    with kept() as k:
        with k.daemon() as d, d.operator() as o:
            o.set(b"a", b"x")
            d.crash()
        with k.daemon() as d, d.operator() as o:
            assert_cold(o, "clean stop")
            wait_for(lambda: "starts empty with %s (it was not left by a clean stop)" % k.file in d.log(), "it says so")
            assert o.get(b"a") is None
            o.set(b"b", b"x")
        with k.daemon() as d, d.operator() as o:
            assert_warm(o)
            assert o.get(b"b") == b"x"


def test_other_options():
    """Of those of the engine all may change; threads: see below."""
    value = b"x" * 1000
    with kept() as k:
        with k.daemon(m=64) as d, d.operator() as o:
            for i in range(40000):
                o.send(b"set k%d 0 0 1000 noreply\r\n%s\r\n" % (i, value))
            o.set(b"large", b"y" * 3 * MIB)
            items = int(o.stats()["curr_items"])
        with k.daemon("-I", "1m", m=256, t=4) as d, d.operator() as o:
            assert_warm(o)
            assert int(o.stats()["curr_items"]) == items == int(figure(o, "items"))
            assert o.get(b"large") == b"y" * 3 * MIB
        with k.daemon("-o", "maxmemory-policy=allkeys-lru", m=24) as d, d.operator() as o:
            assert_warm(o)
            wait_for(lambda: int(o.stats()["bytes"]) < 24 * MIB, "it evicts what is too much")
            assert int(o.stats()["curr_items"]) > 5000
            wait_for(lambda: os.stat(k.file).st_blocks * 512 < 30 * MIB, "it gives memory back")
            o.set(b"new", b"x")


def test_other_numbers_of_threads():
    """The shards follow, and each of them has a worker."""
    r = random.Random(int(os.environ.get("MAYFLY_SEED", "1")))
    keys = set()
    with kept() as k:
        seen = None
        for t in 4, 1, 4, 2, 3:
            with k.daemon(t=t) as d, d.operator() as o:
                if seen is not None:
                    assert_warm(o)
                    near(dump(o, keys), seen)
                shards = o.stats(b"shards")
                assert int(shards["shards"]) >= t
                assert {name.split(":")[0] for name in shards if ":" in name} == set("0123"[:int(shards["shards"])])
                keys |= set(fill(o, r, 200))
                items = int(o.stats()["curr_items"])
                for i in range(200):
                    assert o.ask(b"ms short%d 1 p200\r\nx" % i) == b"HD"
                wait_for(lambda: int(o.stats()["curr_items"]) == items, "what is due is dropped, unasked")
                o.set(b"large", b"y" * 3 * MIB)
                assert "large" in o.stats(b"bigkeys").values(), o.stats(b"bigkeys")
                assert o.ask(b"delete large") == b"DELETED"
                seen = dump(o, keys)
                assert d.stop() == 0


def test_too_old_or_as_stale():
    with kept() as k:
        with k.daemon() as d, d.operator() as o:
            o.set(b"a", b"x")
        with k.daemon("-o", "restart_stale") as d, d.operator() as o:
            assert_warm(o)
            answer = o.ask(b"mg a s")
            assert b" W" in answer and b" X" in answer, answer
        stopped = time.time()
        wait_for(lambda: time.time() > stopped + 1.1, "it is older")
        with k.daemon("-o", "restart_max_age=1") as d, d.operator() as o:
            assert_cold(o, "restart_max_age")


def test_files_that_are_not_to_be_used():
    def refuses(status, text):
        with k.daemon(wait=False) as d:
            assert d.process.wait(mayfly.PATIENCE) == status, d.log()
            assert d.says(text)
    with kept() as k:
        with open(k.file + ".meta", "w"):
            pass
        refuses(WRONG_FILE, "memcached has left its items")
        os.unlink(k.file + ".meta")
        mayfly.write(k.file, "precious")
        refuses(73, "something else")
        assert os.stat(k.file).st_size == 8
        os.unlink(k.file)
        with k.daemon():
            refuses(73, "another process uses it")


def test_the_items_win_over_a_snapshot():
    with kept() as k:
        options = "-o", "dir=" + k.folder
        with k.daemon(*options) as d, d.operator() as o:
            o.set(b"a", b"old")
            assert o.ask(b"save") == b"OK"
            o.set(b"a", b"new")
            assert d.stop() == 0
        with k.daemon(*options, "-o", "save_on_stop=no") as d, d.operator() as o:
            assert_warm(o)
            assert o.get(b"a") == b"new"
            assert o.stats(b"persistence")["rdb_last_load_status"] == "none"
            o.set(b"a", b"newer")
            d.crash()
        with k.daemon(*options) as d, d.operator() as o:
            assert figure(o, "state") == "cold"
            assert o.stats(b"persistence")["rdb_last_load_status"] == "ok"
            assert o.get(b"a") == b"new"


def test_a_stop_under_load_loses_no_answered_store():
    """All changes answered before the stop are present, of every client."""
    def store(n):
        with contextlib.suppress(OSError, AssertionError, IndexError), d.client() as c:
            i = 0
            while c.ask(b"set c%d 0 0 10\r\n%010d" % (n, i)) == b"STORED":
                answered[n] = i
                i += 1
                if i % 3 == 0:
                    c.set(b"f%d.%d" % (n, i), b"x" * (i % 30000))
    with kept() as k:
        answered = [-1] * 6
        for _ in range(3):
            with k.daemon() as d:
                threads = [threading.Thread(target=store, args=(n,)) for n in range(len(answered))]
                answered[:] = [-1] * len(answered)
                for t in threads:
                    t.start()
                wait_for(lambda: min(answered) > 50, "all store")
                assert d.stop() == 0
                for t in threads:
                    t.join()
            with k.daemon() as d, d.operator() as o:
                assert_warm(o)
                for n, last in enumerate(answered):
                    # One more may have been stored, whose answer did not arrive.
                    assert last <= int(o.get(b"c%d" % n)) <= last + 1, (n, last)


class Ends(crash.Crash):
    """Runs that end by a stop, by a stop after an upgrade, or by a crash, all under load. After a stop all answered
    changes are present, and nothing older; after a crash the cache is empty. An upgrade ends no run."""

    def store_steady(self, c):
        super().store_steady(c)
        self.model.steady = {b"s%d" % n for n in range(crash.STEADY)}

    def look(self, c):
        steady = set(self.model.steady)
        super().look(c)
        assert not [key for key in steady if c.get(key) is None], self.kills

    def end(self, d, how):
        if how == signal.SIGUSR2:
            d.process.send_signal(how)
            wait_for(lambda: self.is_over or d.log().count("is ready") == 2, "another serves")
            before = self.requests
            wait_for(lambda: self.is_over or self.requests > before + 100, "it serves the same client")
            self.is_taken_over, how = not self.is_over, signal.SIGTERM
        d.process.send_signal(how)

    def life(self, d, how):
        self.is_over = self.is_taken_over = False
        ender = threading.Timer(self.rng.uniform(0.02, 0.3), self.end, (d, how))
        ender.start()
        try:
            self.load(d)
        except (OSError, EOFError, ConnectionError, AssertionError) as why:
            self.is_over = True
            ender.join()
            assert self.is_taken_over == (how == signal.SIGUSR2), why
            if how != signal.SIGKILL:
                assert d.process.wait(mayfly.PATIENCE) == 0, why
            else:
                d.process.wait(mayfly.PATIENCE)
                self.model.flushed()

    def run(self, ends):
        how = None
        self.is_answered_safe = True
        with kept() as k:
            for self.kills in range(ends + 1):
                with k.daemon(t=self.rng.choice((1, 2, 2, 4))) as d:
                    with d.operator() as c:
                        assert figure(c, "state") == ("cold" if how in (None, signal.SIGKILL) else "warm")
                        self.look(c)
                    how = self.rng.choice((signal.SIGTERM, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGKILL))
                    if how == signal.SIGUSR2 and "drop_privileges" in " ".join(mayfly.MORE_ARGS):
                        how = signal.SIGTERM
                    if self.kills != ends:
                        self.life(d, how)


def test_nothing_older_than_what_was_answered():
    run = Ends("snapshot", int(os.environ.get("MAYFLY_SEED", "1")))
    run.run(2 * RESTARTS)
    assert run.hits > 100 and run.requests > 500, (run.hits, run.requests)


def test_what_belongs_to_another_is_not_used():
    mayfly.skip_if(os.geteuid() != 0, "not root")
    with kept() as k:
        with open(k.file, "w"):
            pass
        os.chown(k.file, 65534, 65534)
        with k.daemon(wait=False) as d:
            assert d.process.wait(mayfly.PATIENCE) == 73
            assert d.says("belongs to another user")
        os.chown(k.file, 0, 0)
        os.chmod(k.file, 0o666)
        with k.daemon():
            assert os.stat(k.file).st_mode & 0o777 == 0o600


def test_long_files_that_are_not_allowed():
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100 * MIB, 100 * MIB))
    with kept() as k, k.daemon(before=limit, wait=False) as d:
        assert d.process.wait(mayfly.PATIENCE) == NO_ROOM
        assert d.says("files may have 100 MiB at most (ulimit -f)")


def booted(path):
    """For before=: the file with the boot id, in a mount namespace of the daemon."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)

    def bind():
        if libc.unshare(0x20000) != 0 or libc.mount(b"none", b"/", None, 0x44000, None) != 0 \
                or libc.mount(path.encode(), b"/proc/sys/kernel/random/boot_id", None, 0x1000, None) != 0:
            raise OSError(ctypes.get_errno(), "cannot mount")
    return bind


def test_another_boot_goes_by_the_wall_clock():
    mayfly.skip_if(os.geteuid() != 0, "not root")
    with kept() as k:
        boot = os.path.join(k.folder, "boot")
        mayfly.write(boot, "11111111-2222-3333-4444-555555555555\n")
        with k.daemon() as d, d.operator() as o:
            assert o.ask(b"ms short 1 p500\r\nx") == b"HD"
            assert o.ask(b"ms long 1 T1000\r\nx") == b"HD"
            short, long = (int(o.ask(b"pexpiretime " + key).split()[-1]) for key in (b"short", b"long"))
            assert d.stop() == 0
        wait_for(lambda: time.time() * 1000 > short, "its time comes")
        try:
            d = k.daemon(before=booted(boot))
        except subprocess.SubprocessError as e:
            raise Inapplicable("nothing can be mounted over another file") from e
        with d, d.operator() as o:
            assert_warm(o)
            assert o.ask(b"mg short") == b"EN"
            assert abs(int(o.ask(b"pexpiretime long").split()[-1]) - long) < 2000


def mounted(where, options):
    """For before=: a file system in memory there, in a namespace of the daemon's own."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)

    def mount():
        if libc.unshare(0x20000) != 0 or libc.mount(b"none", b"/", None, 0x44000, None) != 0 \
                or libc.mount(b"none", where.encode(), b"tmpfs", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "cannot mount")
    return mount


def test_a_full_file_system_ends_nothing():
    mayfly.skip_if(os.geteuid() != 0, "not root")
    with kept() as k:
        try:
            d = k.daemon(before=mounted(k.folder, "size=40m"), wait=False)
        except subprocess.SubprocessError as e:
            raise Inapplicable("no file system can be mounted") from e
        with d:
            assert d.process.wait(mayfly.PATIENCE) == NO_ROOM
            assert re.search("its file system has room for [34][0-9] MiB, and the limit is 64", d.log()), d.log()

        def taken():
            mount()
            mayfly.write(os.path.join(k.folder, "taken"), b"x" * 50 * MIB)
        mount = mounted(k.folder, "size=66m")
        with k.daemon(before=taken) as d, d.operator() as o:
            wait_for(lambda: re.search("has room for 1[0-9] megabytes only", d.log()), "it warns")
            for i in range(30000):
                o.send(b"set k%d 0 0 1000 noreply\r\n%s\r\n" % (i, b"x" * 1000))
            o.set(b"last", b"x" * 1000)
            assert o.get(b"last") == b"x" * 1000
            assert 5000 < int(o.stats()["curr_items"]) < 20000
        with k.daemon(before=mounted(k.folder, "size=66m")) as d, d.operator() as o:
            with open("/proc/%d/root%s/other" % (d.pid, k.folder), "wb") as f, contextlib.suppress(OSError):
                f.write(b"x" * 40 * MIB)
            for i in range(60000):
                o.send(b"set k%d 0 0 1000 noreply\r\n%s\r\n" % (i, b"x" * 1000))
            o.set(b"last", b"x" * 1000)
            assert o.get(b"last") == b"x" * 1000
            assert 5000 < int(o.stats()["curr_items"]) < 30000
            assert int(o.stats()["evictions"]) > 20000
            # Not a page is left for what the stop writes.
            with open("/proc/%d/root%s/other" % (d.pid, k.folder), "ab", buffering=0) as f:
                with contextlib.suppress(OSError):
                    while True:
                        f.write(b"x" * 4096)
            assert d.stop() == 0
            assert d.says("left the items in")


def test_a_file_that_is_cut_ends_the_server_with_a_line():
    with kept() as k:
        with k.daemon() as d, d.operator() as o:
            o.set(b"a", b"x" * 100000)
            os.truncate(k.file, 0)
            o.send(b"get a\r\n")
            assert d.process.wait(mayfly.PATIENCE) == CUT, d.log()
            assert d.says("memory, %s has lost pages that are in use" % k.file)
        with k.daemon() as d, d.operator() as o:
            assert_cold(o, "new")


def test_items_in_a_file_that_was_removed_are_not_said_to_be_saved():
    with kept() as k:
        with k.daemon() as d, d.operator() as o:
            o.set(b"a", b"x")
            os.unlink(k.file)
            assert d.stop() == 0 and o.rest() == b""
            assert "%s is not usable by the next start (it was removed or replaced)" % k.file in d.log()
            assert "left the items" not in d.log()
        with k.daemon() as d, d.operator() as o:
            assert_cold(o, "new")


def in_handler(d):
    """Number of threads that block SIGBUS, which they do only in its handler; except the thread of the log."""
    n = 0
    for task in os.listdir("/proc/%d/task" % d.pid):
        with open("/proc/%d/task/%s/status" % (d.pid, task)) as f:
            lines = dict(line.split(":", 1) for line in f)
        n += "mayfly-log" not in lines["Name"] and int(lines["SigBlk"], 16) >> (signal.SIGBUS - 1) & 1
    return n


def test_whoever_meets_the_end_of_a_cut_file_says_so():
    """A thread that stores, the reclaimer, and two at once of which one cannot write its line yet."""
    def ends(d):
        assert d.process.wait(mayfly.PATIENCE) == CUT, d.log()

    with kept() as k:
        for pattern in b"set n%d 0 0 1000 noreply\r\n" + b"y" * 1000 + b"\r\n", b"delete k%d noreply\r\n":
            with k.daemon() as d, d.operator() as o:
                for i in range(20000):
                    o.send(b"set k%d 0 0 1000 noreply\r\n%s\r\n" % (i, b"x" * 1000))
                if pattern.startswith(b"delete"):
                    o.send(b"".join(pattern % i for i in range(0, 20000, 2)))
                o.ask(b"version")
                os.truncate(k.file, 0)
                with contextlib.suppress(OSError):
                    if pattern.startswith(b"set"):
                        for i in range(20000):
                            o.send(pattern % i)
                ends(d)
                assert d.says("has lost pages that are in use")
            os.unlink(k.file)
        told, log = os.pipe()
        with open(told, "rb", buffering=0) as told, open(log, "wb", buffering=0) as log, k.daemon(stderr=log) as d:
            clients = [d.client() for _ in range(4)]
            clients[0].set(b"a", b"x" * 1000)
            os.set_blocking(log.fileno(), False)
            while log.write(b".") is not None:
                pass
            os.set_blocking(log.fileno(), True)
            os.truncate(k.file, 0)
            for c in clients:
                c.send(b"get a\r\n")
            wait_for(lambda: in_handler(d) == 2, "both workers are there")
            text = b""
            while b"has lost pages that are in use" not in text:
                text += told.read(1 << 16)
            ends(d)


def test_a_relative_path_in_the_background():
    """It stays in the folder from which the file is named."""
    with kept() as k:
        for warm in b"", b"here":
            with mayfly.background(k.folder, "-e", "memory", "-t", "1", "-m", "16") as (path, _), mayfly.Client(path) as c:
                assert (c.get(b"a") or b"") == warm
                c.set(b"a", b"here")
            assert os.path.exists(k.file)


def test_a_start_that_fails_leaves_nothing():
    with kept() as k:
        options = "-o", "dir=" + k.folder
        with k.daemon(*options) as d, d.operator() as o:
            o.set(b"a", b"x" * 1000)
            assert d.stop() == 0
        os.unlink(k.file)
        snapshot = os.path.join(k.folder, "mayfly.snapshot")
        whole = mayfly.read_bytes(snapshot)
        with open(snapshot, "r+b") as f:
            f.truncate(len(whole) - 10)
        for _ in range(2):
            with k.daemon(*options, "-o", "load=strict", wait=False) as d:
                assert d.process.wait(mayfly.PATIENCE) == WRONG_FILE, d.log()
        mayfly.write(snapshot, whole)
        with k.daemon(*options, "-o", "load=strict") as d, d.operator() as o:
            assert o.get(b"a") == b"x" * 1000


mayfly.main(globals())
