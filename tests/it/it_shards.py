#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The number of shards changes while the server serves: `config set shards`, `config set threads` where
shards is 0, a file that is read again, a start with the items of an earlier process. Items are moved in
the background; clients check that they find what they stored last."""
import os
import random
import signal
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import mayfly                                                           # noqa: E402
from checked import Load, binary, meta, text, upload                    # noqa: E402
from mayfly import Daemon, wait_for                                     # noqa: E402

SANITIZED = mayfly.is_sanitized()
ITEMS = 5000 if SANITIZED else 40000        # as many as take some time to move


def shards(c, n):
    assert c.ask(b"config set shards %d" % n) == b"OK"


def items_of(c):
    """Items in each shard."""
    got = c.stats(b"shards")
    return [int(got["%d:curr_items" % i]) for i in range(int(got["shards"]))]


def wait_until_moved(c, n):
    """The first n shards have items, and the others have none."""
    def is_moved():
        got = items_of(c)
        return len(got) >= n and min(got[:n]) > 0 and sum(got[n:]) == 0
    wait_for(is_moved, "%d shards have all items" % n)


def fill(c, count=ITEMS, size=100, name=b"i"):
    value = mayfly.pattern(b"v", size)
    for at in range(0, count, 1000):
        c.send(b"".join(b"set %s%d 0 0 %d noreply\r\n%s\r\n" % (name, i, size, value)
                        for i in range(at, min(count, at + 1000))))
    assert c.ask(b"mn") == b"MN"


def count_items(c, count=ITEMS, name=b"i"):
    """How many of what fill() has stored are found."""
    found = 0
    for at in range(0, count, 500):
        c.send(b"".join(b"mg %s%d\r\n" % (name, i) for i in range(at, min(count, at + 500))) + b"mn\r\n")
        line = c.line()
        while line != b"MN":
            found += line == b"HD"
            line = c.line()
    return found


# ---- tests ---------------------------------------------------------------------------------------

def test_up_and_down_under_load():
    with Daemon("-t", "2", "-m", "512", "-M", "-o", "shards=1", control=True) as d, d.operator() as c, \
            Load(d, 12, text, meta, binary, upload):
        fill(c)
        for n in (8, 3, 1):
            shards(c, n)
            wait_until_moved(c, n)
            assert c.stats(b"settings")["shards"] == str(n)
        assert count_items(c) == ITEMS
        assert int(c.stats(b"shards")["shards"]) == 8, "they stay, without items"


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
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        path = os.path.join(folder, "mayfly.conf")

        def write(text):
            with open(path, "w") as f:
                f.write(text)
        write("threads = 2\n")
        with Daemon("--config", path, control=True) as d, d.operator() as c:
            fill(c)
            write("threads = 4\n")
            d.process.send_signal(signal.SIGHUP)
            wait_until_moved(c, 4)
            write("threads = 4\nshards = 3\n")
            d.process.send_signal(signal.SIGHUP)
            wait_until_moved(c, 3)
            shards(c, 7)
            assert c.ask(b"config rewrite") == b"OK"
            with open(path) as f:
                assert f.read() == "threads = 4\nshards = 7\n"
            wait_until_moved(c, 7)


def test_numbers_that_are_none():
    with Daemon("-t", "2", "-m", "16", control=True) as d, d.operator() as c:
        fill(c, 1000)
        for n in (b"513", b"-1", b"x", b""):
            assert c.ask(b"config set hz 77 shards " + n).startswith(b"CLIENT_ERROR"), n
        answer = c.ask(b"config set hz 77 shards 17")
        assert answer == b"CLIENT_ERROR shards: with a limit of 16 megabytes there may be 1 to 16 shards", answer
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
    with tempfile.TemporaryDirectory(prefix="mayfly-it.", dir="/dev/shm") as folder:
        path = os.path.join(folder, "items")
        for args, n in (("-t 2", 2), ("-t 5", 5), ("-t 1", 1), ("-t 1 -o shards=9", 9), ("-t 3", 3)):
            with Daemon("-m", "128", "-e", path, *args.split(), control=True) as d, d.operator() as c:
                if n == 2:
                    fill(c)
                wait_until_moved(c, n)
                assert count_items(c) == ITEMS, args
                d.stop()


def cpu_of_thread(d, name):
    """Seconds of CPU that a thread has used."""
    for task in os.listdir("/proc/%d/task" % d.pid):
        where = "/proc/%d/task/%s/" % (d.pid, task)
        with open(where + "comm") as f:
            if f.read().strip() != name:
                continue
        with open(where + "stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    raise AssertionError("there is no thread " + name)


def test_the_part_of_a_cpu():
    """A slow machine only makes the part smaller."""
    with Daemon("-t", "1", "-m", "512", "-M", control=True) as d, d.operator() as c:
        fill(c, 10 * ITEMS)
        assert c.ask(b"config set move_cpu_pct 1 shards 4") == b"OK"
        began = time.monotonic()
        wait_for(lambda: cpu_of_thread(d, "mover") > 0.03, "the mover has worked")
        part = cpu_of_thread(d, "mover") / (time.monotonic() - began)
        assert part < 0.15, part
        assert c.ask(b"config set move_cpu_pct 0").startswith(b"CLIENT_ERROR")
        assert c.ask(b"config set move_cpu_pct 100") == b"OK"
        wait_until_moved(c, 4)
        assert count_items(c, 10 * ITEMS) == 10 * ITEMS


mayfly.main(globals())
