#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What is shown of workers, connections and items that move: `stats moves`, `moves`, `moves cancel`,
/metrics, the log, and mayflyctl."""
import re

import mayfly
from mayfly import Daemon, wait_for

ITEMS = 10000 if mayfly.is_sanitized() else 60000      # many enough that a slow move of them takes seconds
SIZE = 2000
SLOTS = 4096


def look(c):
    return {name: int(value) if re.fullmatch(r"-?[0-9]+", value) else value for name, value in c.stats(b"moves").items()}


def wait_for_state(c, state, waits_for="none"):
    wait_for(lambda: (look(c)["move_state"], look(c)["move_waits_for"]) == (state, waits_for), state + " " + waits_for)
    return look(c)


def ok(c, line):
    got = c.ask(line)
    assert got == b"OK", (line, got)


def fill(c, count=ITEMS, size=SIZE):
    c.fill(b"i", count, mayfly.pattern(b"v", size))


def lines(d, word):
    """Log lines about moves, or about workers."""
    return re.findall(r"notice: %s, (.*)" % word, d.log())


class Slow:
    """A daemon with two shards that is filled, and moves items as slowly as it can."""

    def __init__(self, *args):
        self.d = Daemon("-t", "2", "-m", "512", "-o", "move_cpu_pct=1", *args, control=True)

    def __enter__(self):
        self.d.__enter__()
        self.c = self.d.operator()
        fill(self.c)
        return self.d, self.c

    def __exit__(self, *exc):
        self.c.close()
        self.d.__exit__(*exc)


# ---- the server ----------------------------------------------------------------------------------

def test_a_server_at_rest():
    with Daemon("-t", "3") as d, d.client() as c:
        got = look(c)
        assert all(got["threads_" + name] == 3 for name in ("created", "active", "wanted")), got
        assert all(got["shards_" + name] == 3 for name in ("created", "active", "wanted")), got
        assert (got["move_state"], got["move_waits_for"]) == ("idle", "none"), got
        assert not any(value for name, value in got.items() if isinstance(value, int) and not re.match("(threads|shards)_[acw]", name)), got


def test_a_move_from_begin_to_end():
    with Slow() as (d, c):
        ok(c, b"config set shards 5")
        got = wait_for_state(c, "moving")
        assert (got["shards_created"], got["shards_active"], got["shards_wanted"]) == (5, 5, 5), got
        wait_for(lambda: look(c)["move_items_done"] > 0, "some have moved")
        got = look(c)
        assert got["move_state"] == "moving" and got["move_slots_done"] < got["move_slots_all"], got
        assert abs(got["move_slots_all"] - SLOTS * 3 / 5) < 5, got
        assert abs(got["move_items_all"] - ITEMS * 3 / 5) < ITEMS / 20, got
        assert SIZE < got["move_bytes_all"] / got["move_items_all"] < SIZE + 20, got
        assert SIZE < got["move_bytes_done"] / got["move_items_done"] < SIZE + 20, got
        assert got["move_left_ms"] > 0, got
        assert c.ask(b"moves") == b"STAT threads_created 2"
        while c.line() != b"END":
            pass
        ok(c, b"config set move_cpu_pct 100")
        got = wait_for_state(c, "idle")
        assert got["move_slots_done"] == got["move_slots_all"] and got["move_items_done"] == got["move_items_all"], got
        assert got["move_bytes_done"] == got["move_bytes_all"] and got["move_left_ms"] == 0 and got["move_elapsed_ms"] > 0, got
        assert got["move_evicted"] == got["move_expired"] == got["move_waits"] == 0, got
        first = got
        ok(c, b"config set shards 2")
        wait_for(lambda: look(c)["shards_active"] == 2, "the others are left")
        got = wait_for_state(c, "idle")
        assert (got["shards_created"], got["shards_wanted"]) == (5, 2), got
        wait_for(lambda: len(lines(d, "moves")) >= 4, "the log says so")
        log = lines(d, "moves")
        assert len(log) == 4 and log[0] == "moving items to 5 shards" and log[2] == "moving items to 2 shards", log
        assert re.fullmatch(r"items are in 5 shards \(done; %d slots, [1-9]\d* items and [1-9]\d* bytes moved, "
                            r"0 expired, 0 evicted, in \d+\.\d s\)" % first["move_slots_done"], log[1]), (log, first)


def test_cancel():
    with Slow() as (d, c), d.client() as other:
        assert c.ask(b"moves cancel") == b"NOT_FOUND"
        ok(c, b"config set shards 5")
        wait_for(lambda: look(c)["move_items_done"] > 0, "some have moved")
        assert other.ask(b"moves cancel").startswith(b"CLIENT_ERROR config is for operators")
        assert look(c)["move_state"] == "moving"
        ok(c, b"moves cancel")
        ok(c, b"config set move_cpu_pct 100")
        got = wait_for_state(c, "cancelled")
        assert 0 < got["move_slots_done"] < got["move_slots_all"] and got["move_items_done"] < got["move_items_all"], got
        assert got["shards_wanted"] == got["shards_active"] and got["shards_created"] == 5, got
        wait_for(lambda: "(cancelled; %d slots" % got["move_slots_done"] in lines(d, "moves")[-1], "the log says so")
        assert c.ask(b"moves cancel") == b"NOT_FOUND"
        ok(c, b"config set shards 5")
        assert wait_for_state(c, "idle")["shards_active"] == 5


def shards_of(c):
    return int(c.stats(b"settings")["shards"])


def test_the_option_says_what_is_wanted_after_a_cancel():
    """Whether it was given or derived. What is written of it does not bring the move back, nor do other threads."""
    with mayfly.place("mayfly.conf") as path:
        for change in (b"shards", b"threads"):
            mayfly.write(path, "hz = 20\n")
            with Slow("--config", path) as (d, c):
                ok(c, b"config set move_cpu_pct 100 %s 4" % change)
                wait_for_state(c, "idle")
                ok(c, b"config set move_cpu_pct 1 %s 1" % change)
                wait_for(lambda: look(c)["move_items_done"] > 0, "some have moved")
                ok(c, b"moves cancel")
                ok(c, b"config set move_cpu_pct 100")
                got = wait_for_state(c, "cancelled")
                assert got["shards_wanted"] == 4, got
                wait_for(lambda: shards_of(c) == 4, "the option says so")
                wait_for(lambda: "options, shards is now 4 (moves cancel)" in d.log(), "the log as well")
                ok(c, b"config set threads 3")
                assert look(c)["move_state"] == "cancelled" and look(c)["shards_wanted"] == 4
                line = c.ask(b"config rewrite")
                while line.startswith(b"OVERRIDDEN "):      # by what Slow gives on the command line
                    line = c.line()
                assert line == b"OK"
                assert "shards = 4\n" in mayfly.read(path)
                ok(c, b"config set shards 0")
                assert wait_for_state(c, "idle")["shards_active"] == 3


def test_a_cancel_that_the_limit_forbids():
    """It was lowered to one that the shards to come bear, not those that there are."""
    with Slow() as (d, c):
        ok(c, b"config set shards 200 move_cpu_pct 100")
        wait_for_state(c, "idle")
        # At once, so that the move is not over before.
        c.send(b"config set move_cpu_pct 1 shards 3\r\nconfig set memory_limit 160\r\nmoves cancel\r\n")
        assert [c.line() for _ in range(3)] == \
            [b"OK", b"OK", b"CLIENT_ERROR the limit on memory is too low for the shards there are now"]
        assert look(c)["shards_wanted"] == 3 == shards_of(c), look(c)
        # Little more than what each shard keeps in reserve is left: none can drop anything for another.
        if not mayfly.is_sanitized():       # of its fewer items all may have moved before
            wait_for(lambda: int(c.stats()["curr_items"]) < ITEMS // 20 or look(c)["move_state"] == "idle",
                     "the shards have dropped what is too much")
        ok(c, b"config set move_cpu_pct 100")
        assert wait_for_state(c, "idle")["shards_active"] == 3


def test_no_room_is_told_once():
    """-M and full: the move waits for room, and has it when items are deleted."""
    with Daemon("-t", "1", "-m", "16", "-M", control=True) as d, d.operator() as c:
        count = 0
        while c.set(b"f%d" % count, b"v" * 10000) == b"STORED":
            count += 1
        ok(c, b"config set shards 3")
        got = wait_for_state(c, "waiting", "room")
        assert got["move_waits"] >= 1 and got["move_slots_done"] < got["move_slots_all"], got
        assert got["move_items_all"] > got["move_items_done"] and got["move_evicted"] == 0, got
        for limit in (b"15", b"16"):        # another limit, and it is tried again at once
            before = look(c)["move_waits"]
            ok(c, b"config set memory_limit " + limit)
            wait_for(lambda: look(c)["move_waits"] > before, "there is no room again")
        for i in range(0, count, 2):
            assert c.ask(b"delete f%d" % i) == b"DELETED"
        got = wait_for_state(c, "idle")
        assert got["shards_active"] == 3 and got["move_evicted"] == 0, got
        assert all(c.get(b"f%d" % i) is not None for i in range(1, count, 2))
        wait_for(lambda: "(done; " in lines(d, "moves")[-1], "the log says so")
        log = lines(d, "moves")
        assert log[0] == "moving items to 3 shards" and len(log) == 3 and "there is no room" in log[1], log


def test_workers_that_leave():
    """A worker with a client in the middle of an upload stays in leaving until the upload ends."""
    with Daemon("-t", "4", control=True) as d, d.operator() as c:
        uploads = [d.client() for _ in range(8)]
        for one in uploads:
            one.send(b"set k 0 0 200000\r\n" + b"v" * 199000)
        wait_for(lambda: int(c.stat("bytes_read")) >= 8 * 199000, "each has begun")
        ok(c, b"config set threads 1")
        got = look(c)
        assert (got["threads_created"], got["threads_active"], got["threads_wanted"]) == (4, 1, 1), got
        wait_for(lambda: look(c)["threads_leaving"] > 0, "some are leaving")
        wait_for(lambda: lines(d, "workers"), "the log says so")
        assert lines(d, "workers") == ["1 of 4 are active"], lines(d, "workers")
        for one in uploads:
            one.send(b"v" * 1000 + b"\r\n")
            assert one.line() == b"STORED"
        wait_for(lambda: look(c)["threads_leaving"] == 0, "they are parked")
        wait_for(lambda: look(c)["conns_moving"] == 0, "none is on its way")
        assert look(c)["conns_moved"] >= 6, look(c)
        wait_for(lambda: len(lines(d, "workers")) == 2, "the log says that as well")
        assert lines(d, "workers")[1] == "inactive workers are parked", lines(d, "workers")


mayfly.main(globals())
