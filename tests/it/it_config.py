#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`config set` on a running server: each option changes what the server does from then on. What
expire_effort changes can only be told by time, so tests/daemon/worker/test_cron.c looks at it."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import mayfly                                                           # noqa: E402
from mayfly import Daemon, wait_for                                     # noqa: E402

MIB = 1 << 20
BIG = b"x" * MIB


def change(c, **options):
    for name, value in options.items():
        answer = c.ask(b"config set %s %s" % (name.encode(), str(value).encode()))
        assert answer == b"OK", (name, value, answer)


def expire(c, name):
    return int(c.stats(b"expire")[name])


def store_dying(c, prefix, ttls_ms):
    """Items that live as many milliseconds; nobody asks for them again."""
    lines = [b"ms %s%d 1 p%d q\r\nx\r\n" % (prefix, i, ttl) for i, ttl in enumerate(ttls_ms)]
    for i in range(0, len(lines), 500):
        c.send(b"".join(lines[i:i + 500]))
    assert c.ask(b"mn") == b"MN"


def wait_until_gone(c):
    wait_for(lambda: expire(c, "expire_keys_volatile") == 0, "all items with a deadline are gone")


def test_active_expire():
    with Daemon("-t", "1") as d, d.client() as c:
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
    with Daemon("-t", "1", "-o", "hz=1,no_dynamic_hz") as d, d.client() as c:
        few = slow_cycles(c)
        change(c, hz=500)
        assert expire(c, "hz_current") == 500
        for _ in range(20):
            many = slow_cycles(c)
            if many > 5 * few:
                return
        raise AssertionError("%d slow cycles at hz=1, %d at hz=500" % (few, many))


def test_dynamic_hz():
    with Daemon("-t", "1", "-o", "hz=1,no_dynamic_hz") as d, d.client() as c:
        clients = [d.client() for _ in range(250)]
        try:
            for one in clients:
                assert one.ask(b"mn") == b"MN"
            assert expire(c, "hz_current") == 1
            change(c, dynamic_hz="yes")
            assert expire(c, "hz_current") == 2
            change(c, dynamic_hz="no")
            assert expire(c, "hz_current") == 1
        finally:
            for one in clients:
                one.close()


def hold_storm(c, count):
    """So many items that are due, and not collected before active_expire is on again."""
    change(c, active_expire="no")
    store_dying(c, b"k", [1] * count)
    wait_for(lambda: expire(c, "expire_debt_keys") == count, "all are due")


def slices_of_a_storm(c):
    hold_storm(c, 60000)
    before = expire(c, "expire_slices")
    change(c, active_expire="yes")
    wait_until_gone(c)
    return expire(c, "expire_slices") - before


def test_expire_slice_us():
    with Daemon("-t", "1", "-m", "64", "-o", "expire_effort=10,expire_cpu_pct=100") as d, \
            d.client() as c:
        for _ in range(20):
            change(c, expire_slice_us=50)
            many = slices_of_a_storm(c)
            change(c, expire_slice_us=25000)
            few = slices_of_a_storm(c)
            if many > 3 * few:
                return
        raise AssertionError("%d short slices, %d long ones" % (many, few))


def test_expire_cpu_pct():
    with Daemon("-t", "1", "-m", "256", "-o", "hz=500,expire_cpu_pct=100") as d, d.client() as c:
        change(c, expire_cpu_pct=1)     # 10 ms of each second; the storm takes some 35 in all
        hold_storm(c, 500000)
        spent, began = expire(c, "expire_cycle_us"), c.stat("uptime")
        change(c, active_expire="yes")
        wait_for(lambda: expire(c, "expire_debt_keys") == 0 or c.stat("uptime") > began + 1,
                 "all are collected, or the cap has been reached")
        spent, seconds = expire(c, "expire_cycle_us") - spent, c.stat("uptime") - began
        # The first and the last second count in part, and a slice is not cut off.
        assert spent <= (seconds + 2) * 10000 + 2000, (spent, seconds)


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
    """With the option the reclaimer releases values of this death, without it whoever drops them."""
    with Daemon("-t", "1", "-m", "16", "-I", "2m") as d, d.client() as c:
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
    with Daemon("-t", "1", "-m", "16", "-I", "2m") as d, d.client() as c:
        change(c, lazyfree_threshold="2m")
        die_by_delete(c, 0)
        assert expire(c, "lazyfree_freed_objects") == 0
        change(c, lazyfree_threshold="1m")
        die_by_delete(c, 1)
        wait_for(lambda: expire(c, "lazyfree_freed_objects") == 1, "the reclaimer releases it")


def test_lazyfree_backlog():
    with Daemon("-t", "1", "-m", "64", "-I", "2m") as d, d.client() as c:
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
    with Daemon("-t", "1", "-m", "64", "-o", "idle_trim_ms=3600000") as d, d.client() as c:
        for i in range(20000):
            c.send(b"set k%d 0 0 1000 noreply\r\n%s\r\n" % (i, b"x" * 1000))
        assert c.ask(b"flush_all") == b"OK"
        wait_for(lambda: c.shard_sum("segments_quarantined") == 0, "what was flushed is free")
        assert c.shard_sum("mayfly_segments_discarded") == 0
        # The reclaimer sleeps for an hour; it has to be woken for this.
        change(c, idle_trim_ms=0)
        wait_for(lambda: c.shard_sum("mayfly_segments_discarded") > 100, "memory is given back")


def test_memory_limit():
    with Daemon("-t", "1", "-m", "64") as d, d.client() as c:
        for i in range(40000):
            c.send(b"set k%d 0 0 1000 noreply\r\n%s\r\n" % (i, b"x" * 1000))
        assert c.stat("evictions") == 0
        change(c, memory_limit=16)
        assert c.stat("limit_maxbytes") == 16 * MIB
        wait_for(lambda: c.stat("bytes") < 16 * MIB, "the lower limit is taken up")
        assert c.stat("evictions") > 0


def test_ttl_jitter():
    with Daemon("-t", "1") as d, d.client() as c:
        def left_ms():
            return {int(c.ask(b"pttl k%d" % i)) for i in range(100)
                    if c.set(b"k%d" % i, b"x", exptime=100000) == b"STORED"}
        assert min(left_ms()) > 99900000        # some milliseconds may have passed
        change(c, ttl_jitter=50)
        spread = left_ms()
        assert len(spread) > 50 and 49900000 < min(spread) < max(spread) <= 100000000, spread
        assert max(spread) - min(spread) > 20000000, spread


# ---- the rest -------------------------------------------------------------------------------------

def test_detail_enabled():
    with Daemon("-t", "1") as d, d.client() as c:
        def dump():
            c.send(b"stats detail dump\r\n")
            return c.line()
        assert c.set(b"a:b", b"x") == b"STORED"
        assert dump() == b"END"
        change(c, detail_enabled="yes")
        assert c.set(b"a:b", b"x") == b"STORED"
        assert dump() == b"PREFIX a get 0 hit 0 set 1 del 0"


def test_verbose():
    with Daemon("-t", "1") as d, d.client() as c:
        change(c, verbose=2)
        with d.client() as other:
            assert other.ask(b"mn") == b"MN"
            wait_for(lambda: len(d.log()) > 0, "more is logged")


def test_from_all_workers_at_once():
    """Each change is whole, whoever makes it."""
    with Daemon("-t", "4") as d:
        clients = [d.client() for _ in range(8)]
        try:
            for n in range(200):
                for i, c in enumerate(clients):
                    c.send(b"config set expire_effort %d\r\nconfig get expire_effort\r\n" % (i + 1))
            for c in clients:
                for _ in range(200):
                    assert c.line() == b"OK"
                    name, value = c.line().rsplit(b" ", 1)
                    assert name == b"CONFIG expire_effort" and 1 <= int(value) <= 8
                    assert c.line() == b"END"
        finally:
            for c in clients:
                c.close()


if __name__ == "__main__":
    mayfly.main(globals())
