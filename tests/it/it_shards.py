#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The number of shards changes while the server serves: `config set shards`, `config set threads` where
shards is 0, a file that is read again, a start with the items of an earlier process. Items are moved in
the background; clients check that they find what they stored last."""
import os
import random
import resource
import signal
import tempfile
import time

import mayfly
import replicas
from checked import Load, binary, meta, text, upload
from kept import kept
from mayfly import Daemon, wait_for

SANITIZED = mayfly.is_sanitized()
ITEMS = 5000 if SANITIZED else 40000        # as many as take some time to move


def shards(c, n):
    assert c.ask(b"config set shards %d" % n) == b"OK"


def items_of(c):
    """Items in each shard."""
    got = c.stats(b"shards")
    return [int(got["%d:curr_items" % i]) for i in range(int(got["shards"]))]


def is_moved(c, n):
    """The first n shards have items, and the others have none. stats shards has thousands of lines, so it is
    requested only when no item is moving."""
    if c.stats(b"moves")["move_state"] != "idle":
        return False
    got = items_of(c)
    return len(got) >= n and min(got[:n]) > 0 and sum(got[n:]) == 0


def wait_until_moved(c, n):
    wait_for(lambda: is_moved(c, n), "%d shards have all items" % n)


def fill(c, count=ITEMS, size=100, name=b"i"):
    c.fill(name, count, mayfly.pattern(b"v", size))


def count_items(c, count=ITEMS, name=b"i"):
    """Number of items stored by fill() that are found."""
    found = 0
    for at in range(0, count, 5000):
        c.send(b"".join(b"mg %s%d q\r\n" % (name, i) for i in range(at, min(count, at + 5000))) + b"mn\r\n")
        while not c.buf.endswith(b"MN\r\n"):
            assert c.more()
        found += c.buf.count(b"HD\r\n")
        c.buf = b""
    return found


def versions():
    """A kind of load: each client has its own keys, and reads the value it stored last, or nothing if it deleted
    that. Nothing may be evicted."""
    last = {}

    def kind(c, name, n, rng):
        mine = last.setdefault(name, {})
        lump, wanted = b"", b""
        for _ in range(rng.randint(1, 60)):
            n += 1
            key = b"v%s.%d" % (name, rng.randrange(300))
            what = rng.randrange(5)
            if what < 2:
                mine[key] = b"%d" % n * rng.choice((1, 1, 1, 20, 2000))
                lump += b"set %s 0 0 %d\r\n%s\r\n" % (key, len(mine[key]), mine[key])
                wanted += b"STORED\r\n"
            elif what == 2:
                lump += b"delete %s\r\n" % key
                wanted += b"DELETED\r\n" if mine.pop(key, None) is not None else b"NOT_FOUND\r\n"
            else:
                lump += b"get %s\r\n" % key
                if key in mine:
                    wanted += b"VALUE %s 0 %d\r\n%s\r\n" % (key, len(mine[key]), mine[key])
                wanted += b"END\r\n"
        c.send(lump)
        got = c.exactly(len(wanted))
        assert got == wanted, (got[:300], wanted[:300])
        return n
    return kind


def has_begun(c, n):
    """Some items are in the last of n shards, and not all of them where they shall be."""
    got = items_of(c)
    return len(got) >= n and got[n - 1] > 0


# ---- tests ---------------------------------------------------------------------------------------

def test_up_and_down_under_load():
    with Daemon("-t", "2", "-m", "512", "-M", "-o", "shards=1", control=True) as d, d.operator() as c, \
            Load(d, 5, text, meta, binary, upload, versions()) as load:
        fill(c)
        for n in (8, 3, 1):
            shards(c, n)
            load.goes_on()
            wait_until_moved(c, n)
            assert c.stats(b"settings")["shards"] == str(n)
        assert count_items(c) == ITEMS
        assert int(c.stats(b"shards")["shards"]) == 8, "they stay, without items"


def test_flushes_meanwhile():
    """One at once, and one that is scheduled when shards are added: nothing older stays, nothing newer goes."""
    with Daemon("-t", "2", "-m", "256", "-M", "-o", "shards=1,move_cpu_pct=20", control=True) as d, d.operator() as c:
        for n, then in ((8, 3), (1, 9), (2, 5)):
            fill(c, name=b"a")
            shards(c, n)
            assert c.ask(b"flush_all") == b"OK"
            assert count_items(c, name=b"a") == 0
            fill(c, name=b"b")
            assert count_items(c, name=b"b") == ITEMS
            assert c.ask(b"flush_all 1") == b"OK"
            shards(c, then)
            wait_for(lambda: count_items(c, name=b"b") == 0, "the flush has come")
            fill(c, name=b"c")
            wait_until_moved(c, then)
            assert count_items(c, name=b"c") == ITEMS


def test_other_limits_meanwhile():
    with Daemon("-t", "2", "-m", "128", "-M", "-o", "shards=1,move_cpu_pct=20", control=True) as d, d.operator() as c, \
            Load(d, 6, versions()) as load:
        fill(c)
        for n, limits in ((8, (256, 96, 128)), (1, (300, 64, 128))):
            shards(c, n)
            assert all(c.ask(b"config set memory_limit %d" % limit) == b"OK" for limit in limits)
            load.goes_on()
            wait_until_moved(c, n)
            assert count_items(c) == ITEMS


def test_a_full_cache():
    """It evicts, but nothing fails, and waiting stores get room."""
    with Daemon("-t", "2", "-m", "16", "-o", "shards=1", control=True) as d, d.operator() as c:
        fill(c, 4 * ITEMS, 1000)
        for n in (6, 2, 1):
            shards(c, n)
            c.fill(b"new", 2000, b"x" * 1000)
            wait_until_moved(c, n)
        assert c.get(b"new1999") == b"x" * 1000


def test_what_expires_meanwhile():
    """Each shard has a home worker, also after it has moved."""
    with Daemon("-t", "3", "-o", "shards=1", control=True) as d, d.operator() as c:
        for step in range(8):
            for i in range(500):
                c.send(b"set e%d.%d 0 1 1 noreply\r\nx\r\n" % (step, i))
            shards(c, (8, 1, 3, 20)[step % 4])
            assert c.ask(b"config set threads %d" % (2, 5, 1)[step % 3]) == b"OK"
        wait_for(lambda: int(c.stats()["curr_items"]) == 0, "all have expired")


def test_a_hold_meanwhile():
    with Daemon("-t", "2", "-o", "shards=1", control=True) as d, d.operator() as c:
        for i in range(1000):
            c.send(b"set e%d 0 1 1 noreply\r\nx\r\n" % i)
        assert c.ask(b"expire_hold 600") == b"OK"
        wait_for(lambda: c.get(b"e999") is None, "their time has come")
        for n in (4, 2):
            shards(c, n)
            wait_until_moved(c, n)
        assert int(c.stats()["curr_items"]) == 1000
        assert c.ask(b"expire_hold 0") == b"OK"
        wait_for(lambda: int(c.stats()["curr_items"]) == 0, "all have expired")


def test_two_operators_who_disagree():
    with Daemon("-t", "2", "-m", "256", "-M", control=True) as d, Load(d, 8, text, binary, versions()) as load:
        def change(seed):
            rng = random.Random(seed)
            with d.operator() as c:
                for _ in range(40):
                    shards(c, rng.choice((1, 2, 3, 5, 9, 17, 40)))
                    time.sleep(0.01)    # as often as that; no verdict rests on it
        with d.operator() as c:
            fill(c)
            mayfly.in_parallel(change, (1, 2))
            load.goes_on()
            shards(c, 3)
            wait_until_moved(c, 3)
            assert count_items(c) == ITEMS


def test_a_restart_in_the_midst_of_a_move():
    """Items in a file come along, and go on to where they shall be; also to another number."""
    with mayfly.place("items", in_memory=True) as path:
        for step, (n, to, how) in enumerate(((1, 7, signal.SIGTERM), (2, 5, signal.SIGUSR1), (3, 6, signal.SIGINT))):
            with Daemon("-t", "2", "-m", "256", "-M", "-e", path, "-o", "shards=%d,move_cpu_pct=100" % n,
                        control=True) as d, d.operator() as c:
                if step == 0:
                    fill(c, 2 * ITEMS)
                wait_until_moved(c, n)
                assert count_items(c, 2 * ITEMS) == 2 * ITEMS
                assert c.ask(b"config set move_cpu_pct 1") == b"OK"
                shards(c, to)
                wait_for(lambda: has_begun(c, 2), "it has begun")
                d.process.send_signal(how)
                assert d.process.wait(mayfly.PATIENCE) == 0, d.log()


def test_ends_of_any_kind_at_any_moment():
    """MAYFLY_SEED draws other moments. A crash leaves nothing, everything else all items."""
    upgrades = "drop_privileges" not in " ".join(mayfly.MORE_ARGS)
    rng = random.Random(int(os.environ.get("MAYFLY_SEED", "1"), 0))
    with tempfile.TemporaryDirectory(prefix="mayfly-it.", dir="/dev/shm") as folder:
        path, has_items = os.path.join(folder, "items"), False
        for number in range(16):
            with Daemon("-t", str(rng.choice((1, 2, 4))), "-m", "256", "-M", "-e", path, "-o",
                        "shards=%d,move_cpu_pct=%d" % (rng.choice((1, 2, 3, 5, 13)), rng.choice((1, 20, 100))),
                        control=True) as d, d.operator() as c:
                if not has_items:
                    fill(c)
                assert count_items(c) == ITEMS, (number, d.log())
                for _ in range(rng.randrange(3)):
                    shards(c, rng.choice((1, 2, 4, 7, 16)))
                    time.sleep(rng.choice((0, 0.001, 0.01, 0.05)))     # some moment; no verdict rests on it
                how = rng.choice((signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGKILL))
                has_items = how != signal.SIGKILL
                if how == signal.SIGUSR2 and upgrades:
                    ready = d.log().count("is ready")
                    d.process.send_signal(how)
                    wait_for(lambda: d.log().count("is ready") > ready, "another serves")
                    with d.operator() as o:
                        assert count_items(o) == ITEMS, (number, d.log())
                    how = signal.SIGTERM
                d.process.send_signal(how if how != signal.SIGUSR2 else signal.SIGTERM)
                assert d.process.wait(mayfly.PATIENCE) in (0, -signal.SIGKILL), (number, d.log())


def test_a_crash_in_the_midst_of_a_move():
    with mayfly.place("items", in_memory=True) as path:
        with Daemon("-t", "1", "-m", "256", "-e", path, "-o", "move_cpu_pct=1", control=True) as d, d.operator() as c:
            fill(c, 2 * ITEMS)
            shards(c, 4)
            wait_for(lambda: has_begun(c, 2), "it has begun")
            d.crash()
        with Daemon("-t", "1", "-m", "256", "-e", path, "-o", "shards=3", control=True) as d, d.operator() as c:
            wait_for(lambda: "starts empty" in d.log(), "it says so")
            assert count_items(c) == 0
            fill(c)
            wait_until_moved(c, 3)


def test_an_upgrade_in_the_midst_of_a_move():
    mayfly.skip_if("drop_privileges" in " ".join(mayfly.MORE_ARGS), "with drop_privileges no program can be started")
    with Daemon("-t", "1", "-m", "256", "-M", "-e", "fdstore", "-o", "move_cpu_pct=1", control=True) as d, d.client() as c:
        with d.operator() as o:
            fill(c, 2 * ITEMS)
            shards(o, 6)
            wait_for(lambda: has_begun(o, 2), "it has begun")
            ready = d.log().count("is ready")
            d.process.send_signal(signal.SIGUSR2)
            wait_for(lambda: d.log().count("is ready") > ready, "another serves")
        with d.operator() as o:
            assert o.stats(b"settings")["shards"] == "6" and o.stats(b"settings")["move_cpu_pct"] == "1"
            assert o.ask(b"config set move_cpu_pct 100") == b"OK"
            wait_until_moved(o, 6)
            assert count_items(c, 2 * ITEMS) == 2 * ITEMS


def test_a_save_and_a_full_log_meanwhile():
    with kept() as k:
        for n, to in ((1, 6), (4, 2)):
            with k.daemon("-M", "-o", "appendonly=full,appendfsync=always,move_cpu_pct=10,shards=%d" % n) as d, \
                    d.operator() as c:
                if n == 1:
                    fill(c, ITEMS // 4)
                for i in range(0, 60):
                    if i % 20 == 0:
                        shards(c, to if i == 20 else n)
                    if i == 30:
                        assert c.ask(b"save") == b"OK"
                    assert c.set(b"last", b"%d.%d" % (n, i)) == b"STORED"
                    assert c.set(b"gone%d" % i, b"x") == b"STORED" and c.ask(b"delete gone%d" % i) == b"DELETED"
                d.crash()
            with k.daemon("-M", "-o", "appendonly=full,appendfsync=always,shards=3") as d, d.operator() as c:
                assert c.get(b"last") == b"%d.59" % n and count_items(c, ITEMS // 4) == ITEMS // 4
                assert not any(c.get(b"gone%d" % i) for i in range(60))


def test_replicas_with_other_shards():
    with replicas.Node("-M", "-o", "shards=1,move_cpu_pct=20", "-m", "256") as a:
        fill(a.c, ITEMS // 4)
        shards(a.c, 3)
        with replicas.Node("-o", "shards=5,move_cpu_pct=20", "-m", "256", of=a.port) as b, Load(a, 4, versions()) as load:
            for n, m in ((6, 2), (1, 8), (4, 4), (2, 3)):
                shards(a.c, n)
                shards(b.c, m)
                load.goes_on()
            wait_until_moved(a.c, 2)
            b.online()
            wait_until_moved(b.c, 3)
            load.is_over = True
            for thread in load.threads:
                thread.join()
            replicas.level(a, b)
            replicas.assert_equal(a, b)


def test_idle_shards_have_little_memory():
    """A shard that has given its items away keeps 16 KiB at most, and it can be used again."""
    mayfly.skip_if(mayfly.is_sanitized(), "sanitizers keep memory of their own")
    few, many, idle_bytes = 32, 256, 16 << 10
    # Two numbers are compared: the first moves leave a few megabytes in heaps, whatever the number is.
    with Daemon("-t", "2", "-m", "4096", "-o", "shards=2", is_visible=True, control=True) as d, d.operator() as c:
        def use(n):
            fill(c)
            shards(c, n)
            wait_until_moved(c, n)
            c.send(b"".join(b"set short%d 0 1 1 noreply\r\nx\r\n" % i for i in range(5000)))
            assert c.ask(b"mn") == b"MN"
            wait_for(lambda: int(c.stats()["curr_items"]) == ITEMS, "some have expired")
            shards(c, 2)
            wait_until_moved(c, 2)
            assert count_items(c) == ITEMS
            assert c.ask(b"flush_all") == b"OK"
        use(few)
        before = []
        wait_for(lambda: before.append(d.rss()) or len(before) > 9 and before[-1] == before[-9], "memory is given back")
        use(many)
        wait_for(lambda: (d.rss() - before[-1]) / (many - few) < idle_bytes * 1.5, "idle shards give back")


def test_without_privileges():
    mayfly.skip_if(mayfly.has_address_sanitizer(), "the search for leaks needs system calls that the filter forbids")
    with tempfile.TemporaryDirectory(prefix="mayfly-it.", dir="/dev/shm") as folder:
        for more in ((), ("-e", os.path.join(folder, "items")), ("-e", "fdstore")):
            with Daemon("-t", "2", "-m", "128", "-M", "-o", "drop_privileges,max_threads=4", *more, control=True) as d, \
                    d.operator() as c, Load(d, 4, text, versions()) as load:
                fill(c, ITEMS // 4)
                for n in (30, 1):
                    shards(c, n)
                    load.goes_on()
                    wait_until_moved(c, n)
                shards(c, 0)
                assert c.ask(b"config set threads 4") == b"OK"
                wait_until_moved(c, 4)
                assert count_items(c, ITEMS // 4) == ITEMS // 4


def is_unchanged(c):
    assert c.ask(b"config get hz") == b"CONFIG hz 10" and c.line() == b"END"
    assert c.ask(b"config get shards") == b"CONFIG shards 0" and c.line() == b"END"
    assert c.ask(b"config get threads") == b"CONFIG threads 2" and c.line() == b"END"
    return sum(n > 0 for n in items_of(c)) == 2 and count_items(c) == ITEMS


def test_a_file_that_cannot_become_longer():
    with mayfly.place("items", in_memory=True) as path:
        with Daemon("-t", "2", "-m", "128", "-e", path, control=True) as d, d.operator() as c:
            fill(c)
            resource.prlimit(d.pid, resource.RLIMIT_FSIZE, (os.stat(path).st_size, resource.RLIM_INFINITY))
            for what in (b"shards", b"threads"):
                answer = c.ask(b"config set hz 77 %s 20" % what)
                assert answer.startswith(b"CLIENT_ERROR %s: files may have " % what), answer
                assert is_unchanged(c)
            resource.prlimit(d.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            shards(c, 5)
            wait_until_moved(c, 5)


def test_no_memory_changes_nothing():
    mayfly.skip_if(SANITIZED, "sanitizers take address space")
    with Daemon("-t", "2", "-m", "128", control=True) as d, d.operator() as c:
        fill(c)
        mapped = int(mayfly.read("/proc/%d/statm" % d.pid).split()[0]) * resource.getpagesize()
        soft, hard = resource.prlimit(d.pid, resource.RLIMIT_AS)
        for more in (8, 300):
            resource.prlimit(d.pid, resource.RLIMIT_AS, (mapped + (more << 20), hard))
            answer = c.ask(b"config set shards 30 hz 77")
            resource.prlimit(d.pid, resource.RLIMIT_AS, (soft, hard))
            assert answer == b"CLIENT_ERROR shards: out of memory", answer
            assert is_unchanged(c)
        shards(c, 30)
        wait_until_moved(c, 30)


def test_where_address_space_is_limited():
    """Shards that hold less than the limit are not added for threads."""
    mayfly.skip_if(SANITIZED, "sanitizers take address space")
    with Daemon("-t", "2", "-m", "20000", control=True,
                before=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))) as d, d.operator() as c:
        wait_for(lambda: "the address space is limited" in d.log(), "it says so")
        fill(c, 1000)
        assert all(c.ask(b"config set threads %d hz 20" % n) == b"OK" for n in (4, 1, 3))
        assert c.ask(b"config set hz 30") == b"OK"
        assert c.ask(b"config set shards 4").startswith(b"CLIENT_ERROR shards: ")
        assert count_items(c, 1000) == 1000 and int(c.stats(b"shards")["shards"]) == 2


def info(c):
    """What is wanted, and shards that there are."""
    return c.stats(b"settings")["shards"], int(c.stats(b"shards")["shards"])


def test_threads_say_how_many_unless_that_is_said():
    with Daemon("-t", "2", "-m", "128", control=True) as d, d.operator() as c:
        fill(c)
        for n in (5, 1, 3):
            assert c.ask(b"config set threads %d" % n) == b"OK"
            wait_until_moved(c, n)
        shards(c, 2)
        wait_until_moved(c, 2)
        assert c.ask(b"config set threads 6") == b"OK"
        shards(c, 4)
        wait_until_moved(c, 4)
        assert info(c) == ("4", 5)
        shards(c, 0)
        wait_until_moved(c, 6)
        assert c.ask(b"config set threads 40 memory_limit 100") == b"OK"
        wait_until_moved(c, 25)         # 4 megabytes each
        assert c.ask(b"config reset *") == b"OK"
        wait_until_moved(c, 2)
        assert info(c) == ("0", 25)


def test_a_file_that_is_read_again():
    with mayfly.place("mayfly.conf", "threads = 2\n") as path, Daemon("--config", path, control=True) as d, d.operator() as c:
        fill(c)
        mayfly.write(path, "threads = 4\n")
        d.process.send_signal(signal.SIGHUP)
        wait_until_moved(c, 4)
        mayfly.write(path, "threads = 4\nshards = 3\n")
        d.process.send_signal(signal.SIGHUP)
        wait_until_moved(c, 3)
        shards(c, 7)
        assert c.ask(b"config rewrite") == b"OK"
        assert mayfly.read(path) == "threads = 4\nshards = 7\n"
        wait_until_moved(c, 7)


def test_numbers_that_are_none():
    with Daemon("-t", "2", "-m", "16", control=True) as d, d.operator() as c:
        fill(c, 1000)
        for n in (b"513", b"-1", b"x", b""):
            assert c.ask(b"config set hz 77 shards " + n).startswith(b"CLIENT_ERROR"), n
        answer = c.ask(b"config set hz 77 shards 17")
        assert answer == b"CLIENT_ERROR shards: a limit of 16 megabytes allows 1 to 16 shards", answer
        assert c.ask(b"config set shards 3 shards 3").startswith(b"CLIENT_ERROR shards: ")
        assert c.ask(b"config get hz") == b"CONFIG hz 10" and c.line() == b"END"
        assert info(c) == ("0", 2)
        # Both together, where one alone would not do.
        shards(c, 16)
        assert c.ask(b"cache_memlimit 8").startswith(b"MEMLIMIT_")
        assert c.ask(b"config set memory_limit 8 shards 8") == b"OK"
        assert c.ask(b"config set shards 30 memory_limit 32") == b"OK"
        assert c.ask(b"config set memory_limit 8").startswith(b"CLIENT_ERROR memory_limit: ")
        assert c.ask(b"config set memory_limit 64 shards 65").startswith(b"CLIENT_ERROR shards: ")
        assert c.ask(b"config get memory_limit") == b"CONFIG memory_limit 32" and c.line() == b"END"
        wait_until_moved(c, 30)
    for args in (("-m", "4", "-o", "shards=5"), ("-o", "shards=513"), ("-o", "move_cpu_pct=101")):
        with Daemon(*args, wait=False) as d:
            assert d.process.wait(mayfly.PATIENCE) != 0, args


def test_a_warm_start_with_other_shards():
    with mayfly.place("items", in_memory=True) as path:
        for args, n in (("-t 2", 2), ("-t 5", 5), ("-t 1", 1), ("-t 1 -o shards=9", 9), ("-t 3", 3)):
            with Daemon("-m", "128", "-e", path, *args.split(), control=True) as d, d.operator() as c:
                if n == 2:
                    fill(c)
                wait_until_moved(c, n)
                assert count_items(c) == ITEMS, args
                d.stop()


def test_shards_that_are_not_wanted_any_more_are_not_left():
    """The next start may have a limit that does not bear them."""
    with mayfly.place("items", in_memory=True) as path:
        with Daemon("-t", "1", "-m", "64", "-e", path, control=True) as d, d.operator() as c:
            fill(c, 1000)
            shards(c, 40)
            wait_until_moved(c, 40)
            shards(c, 2)
            wait_until_moved(c, 2)
            d.stop()
        for n in (2, 8):
            with Daemon("-t", "1", "-m", "8", "-e", path, "-o", "shards=%d" % n, control=True) as d, d.operator() as c:
                assert count_items(c, 1000) == 1000, d.log()
                wait_until_moved(c, n)
                assert int(c.stats(b"shards")["shards"]) == n
                d.stop()


def test_a_limit_for_the_shards_to_come_and_a_stop():
    """The limit is lowered to one that allows only the wanted number of shards, and the server stops before the move
    ends: the next one has the items, and continues the move."""
    with mayfly.place("items", in_memory=True) as path:
        with Daemon("-t", "1", "-m", "128", "-e", path, "-o", "shards=100", control=True) as d, d.operator() as c:
            fill(c, 4 * ITEMS)
            assert c.ask(b"config set move_cpu_pct 1 shards 2") == b"OK"
            assert c.ask(b"config set memory_limit 64") == b"OK"
            d.stop()
            assert "items are in" not in d.log(), "the move is not over"
        with Daemon("-t", "1", "-m", "64", "-e", path, "-o", "shards=2", control=True) as d, d.operator() as c:
            assert int(c.stats(b"shards")["shards"]) == 100, d.log()
            wait_until_moved(c, 2)
            assert count_items(c, 4 * ITEMS) > 4 * ITEMS * 0.9, count_items(c, 4 * ITEMS)
            c.fill(b"new", 2000, b"x" * 1000)
            d.stop()


def test_the_part_of_a_cpu():
    """A slow machine only makes the part smaller. It can be observed if the move takes a while."""
    with Daemon("-t", "1", "-m", "512", "-M", control=True) as d, d.operator() as c:
        fill(c, 10 * ITEMS)
        assert c.ask(b"config set move_cpu_pct 1 shards 4") == b"OK"
        began = time.monotonic()

        def part():
            return d.cpu_of_thread("mover") / (time.monotonic() - began)

        def is_over():
            return is_moved(c, 4) and c.stats(b"moves")["move_state"] == "idle"
        wait_for(lambda: d.cpu_of_thread("mover") > 0.03 or is_over(), "the mover has worked")
        cpu = d.cpu_of_thread("mover")
        # The first touch of a huge page can take 20 ms at once; the rest that follows makes up for it.
        wait_for(lambda: part() < 0.15 or is_over(), "it rests")
        assert part() < 0.15 or cpu <= 0.03, part()
        assert c.ask(b"config set move_cpu_pct 0").startswith(b"CLIENT_ERROR")
        assert c.ask(b"config set move_cpu_pct 100") == b"OK"
        wait_until_moved(c, 4)
        assert count_items(c, 10 * ITEMS) == 10 * ITEMS


mayfly.main(globals())
