#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`config set` on a running server: each option takes effect at once. The effect of expire_effort can only be
measured by time, so it is tested in tests/daemon/worker/test_cron.c."""
import contextlib
import os
import re
import resource
import tempfile

import mayfly
from mayfly import wait_for

MIB = 1 << 20
BIG = b"x" * MIB


def Daemon(*args, **kw):
    return mayfly.Daemon(*args, control=True, **kw)


def change(c, **options):
    for name, value in options.items():
        answer = c.ask(b"config set %s %s" % (name.encode(), str(value).encode()))
        assert answer == b"OK", (name, value, answer)


def expire(c, name):
    return int(c.stats(b"expire")[name])


def store_dying(c, prefix, ttls_ms):
    """Items with this time to live in milliseconds, which are not requested again."""
    lines = [b"ms %s%d 1 p%d q\r\nx\r\n" % (prefix, i, ttl) for i, ttl in enumerate(ttls_ms)]
    for i in range(0, len(lines), 500):
        c.send(b"".join(lines[i:i + 500]))
    assert c.ask(b"mn") == b"MN"


def wait_until_gone(c):
    wait_for(lambda: expire(c, "expire_keys_volatile") == 0, "all items with a deadline are gone")


def test_active_expire():
    with Daemon("-t", "1") as d, d.operator() as c:
        change(c, active_expire="no")
        store_dying(c, b"k", [1] * 100)
        wait_for(lambda: expire(c, "expire_debt_keys") == 100, "nobody collects what has expired")
        assert expire(c, "expired_active") == 0
        change(c, active_expire="yes")
        wait_until_gone(c)
        assert expire(c, "expired_active") == 100


def slow_cycles(c):
    """Slow cycles while items fall due in 1500 different milliseconds."""
    before = expire(c, "expire_cycles_slow")
    store_dying(c, b"k", range(1, 1501))
    wait_until_gone(c)
    return expire(c, "expire_cycles_slow") - before


def test_hz():
    with Daemon("-t", "1", "-o", "hz=1,no_dynamic_hz") as d, d.operator() as c:
        few = slow_cycles(c)
        change(c, hz=500)
        assert expire(c, "hz_current") == 500
        for _ in range(20):
            many = slow_cycles(c)
            if many > 5 * few:
                return
        raise AssertionError("%d slow cycles at hz=1, %d at hz=500" % (few, many))


def test_dynamic_hz():
    with Daemon("-t", "1", "-o", "hz=1,no_dynamic_hz") as d, d.operator() as c:
        clients = [d.client() for _ in range(250)]
        assert all(one.ask(b"mn") == b"MN" for one in clients)
        assert expire(c, "hz_current") == 1
        change(c, dynamic_hz="yes")
        assert expire(c, "hz_current") == 2
        change(c, dynamic_hz="no")
        assert expire(c, "hz_current") == 1


def hold_storm(c, count):
    """Number of items that are due and not collected before active_expire is on again, except items in segments that
    are being emptied: if stores are slow, the first are due before the last is stored."""
    change(c, active_expire="no")
    store_dying(c, b"k", [1] * count)
    wait_for(lambda: 0.9 * count < expire(c, "expire_debt_keys") == expire(c, "expire_keys_volatile"), "all are due")


def slices_of_a_storm(c):
    hold_storm(c, 60000)
    before = expire(c, "expire_slices")
    change(c, active_expire="yes")
    wait_until_gone(c)
    return expire(c, "expire_slices") - before


def test_expire_slice_us():
    with Daemon("-t", "1", "-m", "64", "-o", "expire_effort=10,expire_cpu_pct=100") as d, d.operator() as c:
        for _ in range(20):
            change(c, expire_slice_us=50)
            many = slices_of_a_storm(c)
            change(c, expire_slice_us=25000)
            few = slices_of_a_storm(c)
            if many > 3 * few:
                return
        raise AssertionError("%d short slices, %d long ones" % (many, few))


def test_expire_cpu_pct():
    with Daemon("-t", "1", "-m", "256", "-o", "hz=500,expire_cpu_pct=100") as d, d.operator() as c:
        change(c, expire_cpu_pct=1)     # 10 ms of each second; the storm takes some 35 in all
        hold_storm(c, 500000)
        slices, began = expire(c, "expire_slices"), c.stat("uptime")
        change(c, active_expire="yes")
        wait_for(lambda: expire(c, "expire_debt_keys") == 0 or c.stat("uptime") > began + 1,
                 "all are collected, or the cap has been reached")
        slices, seconds = expire(c, "expire_slices") - slices, c.stat("uptime") - began
        # Each took its 250 us, or longer where the CPU was given to others amid it. The first and the
        # last second count in part.
        assert slices * 250 <= (seconds + 2) * 10000 + 2000, (slices, seconds)


# ---- lazyfree -------------------------------------------------------------------------------------

def die_by_expiry(c, i):
    c.send(b"ms k%d %d p1 q\r\n%s\r\n" % (i, len(BIG), BIG))
    wait_for(lambda: expire(c, "expire_keys_volatile") == 0, "it expires")


def die_by_delete(c, i):
    assert c.set(b"k%d" % i, BIG) == b"STORED"
    assert c.ask(b"delete k%d" % i) == b"DELETED"


def die_by_overwrite(c, i):
    assert c.set(b"k%d" % i, BIG) == b"STORED"
    assert c.set(b"k%d" % i, b"small") == b"STORED"


def die_by_flush(c, i):
    assert c.set(b"k%d" % i, BIG) == b"STORED"
    assert c.ask(b"flush_all") == b"OK"


def die_by_eviction(c, i):
    evictions = c.stat("evictions")
    for n in range(1000):
        assert c.set(b"k%d_%d" % (i, n), BIG) == b"STORED"
        if c.stat("evictions") > evictions + 4:
            return
    raise AssertionError("nothing is evicted")


def check_lazyfree(name, die):
    """With the option the reclaimer releases values of this death, without it the thread that drops them."""
    with Daemon("-t", "1", "-m", "16", "-I", "2m") as d, d.operator() as c:
        change(c, **{name: "no"})
        for i in range(3):
            die(c, i)
        assert expire(c, "lazyfree_freed_objects") == 0
        change(c, **{name: "yes"})
        die(c, 3)
        wait_for(lambda: expire(c, "lazyfree_freed_objects") > 0, "the reclaimer releases it")


def test_lazyfree_expire():
    check_lazyfree("lazyfree_expire", die_by_expiry)


def test_lazyfree_delete():
    check_lazyfree("lazyfree_delete", die_by_delete)


def test_lazyfree_overwrite():
    check_lazyfree("lazyfree_overwrite", die_by_overwrite)


def test_lazyfree_evict():
    check_lazyfree("lazyfree_evict", die_by_eviction)


def test_lazyfree_flush():
    check_lazyfree("lazyfree_flush", die_by_flush)


def test_lazyfree_threshold():
    with Daemon("-t", "1", "-m", "16", "-I", "2m") as d, d.operator() as c:
        change(c, lazyfree_threshold="2m")
        die_by_delete(c, 0)
        assert expire(c, "lazyfree_freed_objects") == 0
        change(c, lazyfree_threshold="1m")
        die_by_delete(c, 1)
        wait_for(lambda: expire(c, "lazyfree_freed_objects") == 1, "the reclaimer releases it")


def test_lazyfree_backlog():
    with Daemon("-t", "1", "-m", "64", "-I", "2m") as d, d.operator() as c:
        def delete_many():
            before = expire(c, "lazyfree_helped")
            for i in range(20):
                assert c.set(b"k%d" % i, BIG) == b"STORED"
            c.send(b"".join(b"delete k%d noreply\r\n" % i for i in range(20)) + b"mn\r\n")
            assert c.line() == b"MN"
            return expire(c, "lazyfree_helped") - before
        assert delete_many() == 0
        change(c, lazyfree_backlog=0)
        # Those that come while another waits are not left to the reclaimer.
        for _ in range(50):
            if delete_many() > 0:
                break
        else:
            raise AssertionError("no thread has helped")


# ---- memory ---------------------------------------------------------------------------------------

def test_idle_trim_ms():
    with Daemon("-t", "1", "-m", "64", "-o", "idle_trim_ms=3600000") as d, d.operator() as c:
        for i in range(20000):
            c.send(b"set k%d 0 0 1000 noreply\r\n%s\r\n" % (i, b"x" * 1000))
        assert c.ask(b"flush_all") == b"OK"
        wait_for(lambda: c.shard_sum("segments_quarantined") == 0, "what was flushed is free")
        assert c.shard_sum("mayfly_segments_discarded") == 0
        # The reclaimer sleeps for an hour; it has to be woken for this.
        change(c, idle_trim_ms=0)
        wait_for(lambda: c.shard_sum("mayfly_segments_discarded") > 100, "memory is given back")


def test_memory_limit():
    with Daemon("-t", "1", "-m", "64") as d, d.operator() as c:
        for i in range(40000):
            c.send(b"set k%d 0 0 1000 noreply\r\n%s\r\n" % (i, b"x" * 1000))
        assert c.stat("evictions") == 0
        change(c, memory_limit=16)
        assert c.stat("limit_maxbytes") == 16 * MIB
        wait_for(lambda: c.stat("bytes") < 16 * MIB, "the lower limit is taken up")
        assert c.stat("evictions") > 0


def test_ttl_jitter():
    with Daemon("-t", "1") as d, d.operator() as c:
        def left_ms():
            return {int(c.ask(b"pttl k%d" % i)) for i in range(100)
                    if c.set(b"k%d" % i, b"x", exptime=100000) == b"STORED"}
        assert min(left_ms()) > 99900000        # some milliseconds may have passed
        change(c, ttl_jitter=50)
        spread = left_ms()
        assert len(spread) > 50 and 49900000 < min(spread) < max(spread) <= 100000000, spread
        assert max(spread) - min(spread) > 20000000, spread


def test_memory_limit_holds_the_largest_item():
    with Daemon("-t", "1", "-I", "5m") as d, d.operator() as c:
        for small in (b"1", b"9", b"9m"):
            answer = c.ask(b"config set memory_limit " + small)
            assert answer == b"CLIENT_ERROR memory_limit: is less than twice the size of the largest item (-I)", answer
        assert c.ask(b"cache_memlimit 9").startswith(b"MEMLIMIT_ADJUST_FAILED")
        change(c, memory_limit=10)
        change(c, memory_limit="1g")
        assert c.stats(b"settings")["maxbytes"] == str(1 << 30)
        wait_for(lambda: "options, memory_limit is 1024 now (config set 1g)" in d.log(), "the log has the value")


def test_a_value_that_is_moved_is_told():
    with Daemon("-t", "1") as d, d.operator() as c:
        change(c, hz=501)
        assert c.stats(b"settings")["hz"] == "500"
        wait_for(lambda: "options, hz is 500 now (config set 501)" in d.log(), "the log has the value")


def test_evictions_are_shown_as_they_are():
    with Daemon("-t", "1") as d, d.operator() as c:
        assert c.stats(b"settings")["evictions"] == "on"
        change(c, maxmemory_policy="noeviction")
        assert c.stats(b"settings")["evictions"] == "off"


# ---- connections ----------------------------------------------------------------------------------

def is_served(c):
    return (c.ask(b"version") or b"").startswith(b"VERSION")


def test_conn_limit():
    with Daemon("-t", "2", "-c", "2") as d, d.operator() as c, contextlib.ExitStack() as stack:
        wait_for(lambda: c.stat("curr_connections") == 1, "the first connection has left")
        held = [stack.enter_context(d.client()) for _ in range(2)]
        assert all(is_served(one) for one in held)
        with d.client() as late:
            assert late.line() == b"ERROR Too many open connections"
        change(c, conn_limit=3)
        assert c.stats()["max_connections"] == "3"
        third = stack.enter_context(d.client())
        assert is_served(third)
        change(c, conn_limit=1)                 # those that are there stay
        assert is_served(third)
        with d.client() as late:
            assert late.line() == b"ERROR Too many open connections"


def test_conn_limit_lets_those_in_who_wait():
    with Daemon("-t", "1", "-c", "1", "-o", "no_maxconns_fast") as d, d.operator() as c, d.client() as one:
        assert is_served(one)
        with d.client() as two, d.client() as three:
            two.send(b"version\r\n")
            three.send(b"version\r\n")
            wait_for(lambda: c.stat("accepting_conns") == 0, "accepting pauses")
            change(c, conn_limit=2)
            assert two.line().startswith(b"VERSION")
            wait_for(lambda: c.stat("accepting_conns") == 0, "accepting pauses")
            change(c, maxconns_fast="yes")      # waiting clients are refused now
            assert three.line() == b"ERROR Too many open connections"


def test_conn_limit_needs_descriptors():
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
    with Daemon("-t", "1", "-c", "50", before=few) as d, d.operator() as c:
        assert c.ask(b"config set hz 20 conn_limit 5000") == \
            b"CLIENT_ERROR conn_limit: the limit on open files is 300 for this process"
        c.send(b"config get conn_limit hz\r\n")
        assert [c.line() for _ in range(3)] == [b"CONFIG conn_limit 50", b"CONFIG hz 10", b"END"]
        change(c, conn_limit=100)


def test_idle_timeout():
    with Daemon("-t", "2") as d, d.operator() as c, d.client() as early:
        assert is_served(early)
        change(c, idle_timeout=1)
        assert early.line() is None
        assert c.line() is None                 # as others
        with d.operator() as again:
            change(again, idle_timeout=0)
            with d.client() as late:
                assert is_served(late)
                began = again.stat("uptime")
                wait_for(lambda: again.stat("uptime") >= began + 3, "time passes")
                assert is_served(late) and is_served(again)


def test_auth_timeout():
    with mayfly.place("users", "user:password\n") as users, \
            Daemon("-t", "1", "-Y", users, "-o", "auth_timeout=0", wait=False) as d:
        d.wait_for_operator()
        with d.operator() as c, d.client() as silent:
            silent.send(b"get k\r\n")
            assert silent.line() == b"CLIENT_ERROR unauthenticated"
            change(c, auth_timeout=1)
            assert silent.line() is None
            assert c.stat("mayfly_auth_timeouts") == 1


def test_read_buf_mem_limit():
    """Requests without an end are kept, as long as all together are within the limit."""
    part = b"get " + b" ".join(b"k%0200d" % i for i in range(150))
    with Daemon("-t", "1", "-m", "64", "-o", "read_buf_mem_limit=64") as d, d.operator() as c, \
            contextlib.ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(d.client()).send(part)
        wait_for(lambda: c.shard_sum("mayfly_in_pending_bytes") >= 60 * len(part), "it keeps them all")
        assert c.stat("curr_connections") == 61
        change(c, read_buf_mem_limit=1)
        wait_for(lambda: is_served(c) and c.shard_sum("mayfly_in_pending_bytes") <= MIB, "it keeps less")
        assert c.stat("curr_connections") < 61


def yields(c, client):
    before = c.stat("conn_yields")
    client.send(b"set k 0 0 1\r\nx\r\n" * 2000)
    for _ in range(2000):
        assert client.line() == b"STORED"
    return c.stat("conn_yields") - before


def test_max_reqs_per_event():
    with Daemon("-t", "1", "-R", "100000") as d, d.operator() as c, d.client() as client:
        assert yields(c, client) == 0
        change(c, max_reqs_per_event=1)
        for _ in range(20):
            if yields(c, client) > 0:
                return
        raise AssertionError("it never yields")


# ---- all of them ----------------------------------------------------------------------------------

def live_options():
    """The options that the example file marks as live, and the words that each has."""
    root = os.environ.get("MAYFLY_SRCDIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    blocks = mayfly.read(os.path.join(root, "etc", "mayfly.conf")).split("\n\n")
    found = {}
    for block in blocks:
        lines = block.splitlines()
        name = re.fullmatch(r"#([a-z0-9_-]+) =.*", lines[-1])
        text = " ".join(line.lstrip("# ") for line in lines[:-1])
        if name and re.search(r"; live\.$", text):
            words = re.search(r"One of ([^;]*)", text)
            found[name.group(1).replace("-", "_")] = words.group(1).split(", ") if words else []
    return found


def value_of(c, name):
    c.send(b"config get %s\r\n" % name.encode())
    line = c.line().decode()
    assert c.line() == b"END"
    assert line.startswith("CONFIG " + name), line
    return line[len("CONFIG " + name) + 1:]


def another(c, name, words):
    """Set it to a value that it does not have; returns that."""
    now = value_of(c, name)
    number = re.match(r"\d+", now)
    if name in ("replicaof", "replica_announce"):
        words = ["h 1", "h 2"]          # no is none of its values
    candidates = words + ["yes", "no"] + ([str(int(number.group()) + 1), str(int(number.group()) - 1)] if number else []) \
        + ["2", "1"]
    for value in candidates:
        if value != now and c.ask(b"config set %s %s" % (name.encode(), value.encode())) == b"OK":
            assert value_of(c, name) == value, (name, value, value_of(c, name))
            return value
    raise AssertionError("no value of %s is accepted" % name)


def test_every_live_option_is_set_and_reset():
    options = live_options()
    assert len(options) > 25, options
    with tempfile.TemporaryDirectory() as folder, Daemon("-t", "1", "-o", "dir=" + folder) as d, d.operator() as c:
        given = {name: value_of(c, name) for name in options}
        for name, words in options.items():
            another(c, name, words)
            assert c.ask(b"config reset " + name.encode()) == b"OK"
            assert value_of(c, name) == given[name], name
        changed = {name: another(c, name, words) for name, words in options.items()}
        assert {name: value_of(c, name) for name in options} == changed
        assert c.ask(b"config reset *") == b"OK"
        assert {name: value_of(c, name) for name in options} == given


def test_texts():
    """They are set with blanks in them, unset, refused where they are wrong, and as they were after a reset."""
    with Daemon("-t", "1", "-o", "replicaof=a:1") as d, d.operator() as c:
        assert value_of(c, "replicaof") == "a:1"
        for typed, value in ((b"b 2", "b 2"), (b"\"c 3\"", "c 3"), (b"[::1]:4", "[::1]:4"), (b"::1 5", "::1 5")):
            assert c.ask(b"config set replicaof %s replica_user u hz 20" % typed) == b"OK", typed
            assert value_of(c, "replicaof") == value
            assert c.stats(b"settings")["replicaof"] == value
        assert value_of(c, "replica_user") == "u" and value_of(c, "hz") == "20"
        for typed in (b"\"\"", b"no", b"no one", b"NO ONE"):
            assert c.ask(b"config set replicaof x 1") == b"OK"
            assert c.ask(b"config set hz 30 replicaof %s replica_password_file \"/a b\"" % typed) == b"OK", typed
            assert value_of(c, "replicaof") == "" and value_of(c, "replica_password_file") == '/a b'
            assert c.stats(b"settings")["replicaof"] == "NULL"
        assert d.says("replicaof is unset now")
        for typed, why in ((b"h", b"the port is missing (HOST PORT)"), (b"h 0", b"the port is not a number from 1 to 65535"),
                           (b"x" * 256 + b" 1", b"the host is longer than 255 bytes")):
            assert c.ask(b"config set hz 40 replicaof " + typed).endswith(b"is not an address: " + why), typed
        assert c.ask(b"config set replica_user " + b"x" * 512) == \
            b"CLIENT_ERROR replica_user: the value is too long (at most 511 bytes)"
        assert c.ask(b"config set replicaof h 1 2").startswith(b"CLIENT_ERROR usage: "), "two words, no more"
        assert value_of(c, "hz") == "30" and value_of(c, "replica_user") == "u"
        assert c.ask(b"config reset replicaof replica_user replica_password_file") == b"OK"
        assert value_of(c, "replicaof") == "a:1" and value_of(c, "replica_user") == ""


def test_a_text_is_read_while_it_is_set():
    """By clients of all workers; nobody sees a part of one."""
    texts = [b"%s %d" % (bytes([97 + i]) * (i * 30 + 1), i + 1) for i in range(8)]
    with Daemon("-t", "4") as d:
        clients = [d.operator() for _ in range(8)]
        for _ in range(100):
            for c, text in zip(clients, texts):
                c.send(b"config set replicaof %s\r\nconfig get replicaof\r\n" % text)
        for c in clients:
            for _ in range(100):
                assert c.line() == b"OK"
                assert c.line()[len(b"CONFIG replicaof "):] in texts
                assert c.line() == b"END"


# ---- the rest -------------------------------------------------------------------------------------

def test_detail_enabled():
    with Daemon("-t", "1") as d, d.operator() as c:
        def dump():
            c.send(b"stats detail dump\r\n")
            return c.line()
        assert c.set(b"a:b", b"x") == b"STORED"
        assert dump() == b"END"
        change(c, detail_enabled="yes")
        assert c.set(b"a:b", b"x") == b"STORED"
        assert dump() == b"PREFIX a get 0 hit 0 set 1 del 0"


def test_prefix_delimiter():
    with Daemon("-t", "1", "-D", "/") as d, d.operator() as c:
        assert c.set(b"a/b", b"x") == b"STORED" and c.set(b"c:d", b"x") == b"STORED"
        c.send(b"stats detail dump\r\n")
        assert [c.line(), c.line()] == [b"PREFIX a get 0 hit 0 set 1 del 0", b"END"]


def test_verbose():
    with Daemon("-t", "1") as d, d.operator() as c:
        change(c, verbose=2)
        with d.operator() as other:
            assert other.ask(b"mn") == b"MN"
            wait_for(lambda: len(d.log()) > 0, "more is logged")


def test_from_all_workers_at_once():
    """Each change is applied as a whole, by whichever connection."""
    with Daemon("-t", "4") as d:
        clients = [d.operator() for _ in range(8)]
        for n in range(200):
            for i, c in enumerate(clients):
                c.send(b"config set expire_effort %d\r\nconfig get expire_effort\r\n" % (i + 1))
        for c in clients:
            for _ in range(200):
                assert c.line() == b"OK"
                name, value = c.line().rsplit(b" ", 1)
                assert name == b"CONFIG expire_effort" and 1 <= int(value) <= 8
                assert c.line() == b"END"


if __name__ == "__main__":
    mayfly.main(globals(), beside=("test_idle_timeout",))
