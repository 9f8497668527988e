#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Eviction by the policies of Redis, changed on a running server: what each keeps when memory is full."""
import mayfly
from mayfly import Daemon

VALUE = b"v" * 500
PERSISTENT = 3000


def Controlled(*args):
    return Daemon(*args, control=True)


def store(c, prefix, count, ttl=0):
    """How many of this number of items are stored."""
    stored = 0
    for i in range(0, count, 50):
        c.send(b"".join(b"set %s%d 0 %d %d\r\n%s\r\n" % (prefix, i + n, ttl, len(VALUE), VALUE) for n in range(50)))
        stored += sum(c.line() == b"STORED" for _ in range(50))
    return stored


def gets(prefix, count):
    """Requests for this number of items, 100 in each. They fetch no values, so that they cost little."""
    lines = [b"mg %s%d q\r\n" % (prefix, i) for i in range(count)]
    return [b"".join(lines[i:i + 100]) + b"mn\r\n" for i in range(0, count, 100)]


def found_by(c, requests):
    """Send gets at once; how many items there are."""
    c.send(b"".join(requests))
    answer = bytearray()
    while answer.count(b"MN\r\n") < len(requests):
        answer += c.sock.recv(1 << 20)
    return answer.count(b"HD\r\n")


def present(c, prefix, count):
    return found_by(c, gets(prefix, count))


def choose(c, policy):
    assert c.ask(b"config set maxmemory_policy " + policy) == b"OK"
    assert c.stats(b"settings")["maxmemory_policy"] == policy.decode()


def test_volatile_policies_spare_what_has_no_deadline():
    with Controlled("-m", "8", "-t", "1", "-o", "maxmemory_policy=volatile-lru") as d, d.operator() as c:
        assert store(c, b"stays", PERSISTENT) == PERSISTENT
        for policy in (b"volatile-ttl", b"volatile-random", b"volatile-lfu", b"volatile-lru"):
            choose(c, policy)
            before = c.stat("evictions")
            assert store(c, policy, 15000, 1000) == 15000
            assert c.stat("evictions") > before + 1000
            assert present(c, b"stays", PERSISTENT) == PERSISTENT
        assert store(c, b"more", 20000) < 20000, "out of memory, once all is without a deadline"
        assert present(c, b"stays", PERSISTENT) == PERSISTENT


def test_allkeys_policies_evict_all():
    with Controlled("-m", "8", "-t", "1", "-o", "maxmemory_policy=allkeys-random") as d, d.operator() as c:
        for policy in (b"allkeys-random", b"allkeys-lru", b"allkeys-lfu", b"density"):
            choose(c, policy)
            assert store(c, b"stays" + policy, PERSISTENT) == PERSISTENT
            assert store(c, policy, 30000) == 30000
            assert present(c, b"stays" + policy, PERSISTENT) < PERSISTENT


def fetch(c, prefix, count, times):
    """Fetch this number of items this number of times, all of them in turn."""
    requests = gets(prefix, count)
    for _ in range(times):
        found_by(c, requests)


def lost(c, prefix, count=PERSISTENT):
    return count - present(c, prefix, count)


def push_out(c, tag, evictions):
    """Store keys that are fetched most, until this number of items was evicted."""
    until, n = c.stat("evictions") + evictions, 0
    while c.stat("evictions") < until:
        prefix = b"%s-%d-" % (tag, n)
        assert store(c, prefix, 50, 100000) == 50
        fetch(c, prefix, 50, 60)
        n += 1


# The groups are stored one after another, and a minute that begins in between would tell them apart.
NO_DECAY = "lfu_decay_time=0"


def test_lfu_keeps_what_is_fetched_often():
    for policy in ("allkeys-lfu", "volatile-lfu"):
        with Controlled("-m", "8", "-t", "1", "-o", NO_DECAY,
                        "-o", "maxmemory_samples=32,maxmemory_policy=" + policy) as d, d.operator() as c:
            # Of equal counters the older one goes first, so few of those fetched often may have that of the others.
            for prefix, times in ((b"most", 100), (b"often", 40), (b"once", 1)):
                assert store(c, prefix, PERSISTENT, 100000) == PERSISTENT
                fetch(c, prefix, PERSISTENT, times)
            push_out(c, b"new", 2000)
            once, often, most = (lost(c, prefix) for prefix in (b"once", b"often", b"most"))
            assert once > 800 and often < .65 * once and most < 30, (once, often, most)


def share_of_the_rarer(c, tag):
    """Of two groups, fetched 40 and 10 times: how much of what is lost is of the second."""
    for prefix, times in ((b"more", 40), (b"less", 10)):
        assert store(c, prefix + tag, PERSISTENT) == PERSISTENT
        fetch(c, prefix + tag, PERSISTENT, times)
    push_out(c, tag, 1500)
    less, more = lost(c, b"less" + tag), lost(c, b"more" + tag)
    return less / (less + more)


def test_lfu_log_factor_is_followed_at_once():
    with Controlled("-m", "8", "-t", "1", "-o", NO_DECAY,
                    "-o", "maxmemory_policy=allkeys-lfu,lfu_log_factor=1000000,maxmemory_samples=32") as d, d.operator() as c:
        assert c.stats(b"settings")["lfu_log_factor"] == "1000000"
        assert share_of_the_rarer(c, b"a") < .8, "to such a factor they are the same"
        assert c.ask(b"config set lfu_log_factor 0") == b"OK"
        assert c.ask(b"flush_all") == b"OK"
        assert share_of_the_rarer(c, b"b") > .9


def test_maxmemory_samples_is_followed_at_once():
    with Controlled("-m", "8", "-t", "1", "-o", NO_DECAY,
                    "-o", "maxmemory_policy=allkeys-lfu,lfu_log_factor=0,maxmemory_samples=1") as d, d.operator() as c:
        few = share_of_the_rarer(c, b"a")
        assert c.ask(b"config set maxmemory_samples 64") == b"OK"
        assert c.ask(b"flush_all") == b"OK"
        many = share_of_the_rarer(c, b"b")
        assert many > .97 and few < many - .02, (few, many)


def test_eviction_tenacity_is_followed_at_once():
    """A store that finds no room keeps evicting, or waits at once."""
    with Controlled("-m", "8", "-t", "1", "-o", "maxmemory_policy=allkeys-random,eviction_tenacity=0") as d, d.operator() as c:
        assert store(c, b"a", 40000) == 40000
        assert c.stat("evictions") > 0 and c.shard_sum("direct_reclaims") == 0
        assert c.ask(b"config set eviction_tenacity 50") == b"OK"
        for i in range(20):
            assert store(c, b"b%d-" % i, 20000) == 20000
            if c.shard_sum("direct_reclaims") > 0:
                return
        raise AssertionError("no store went on")


def frequency(c, key):
    return int(c.ask(b"me " + key).rsplit(b" freq=", 1)[1])


def test_the_counter_of_an_item_is_shown():
    with Controlled("-t", "1", "-o", NO_DECAY, "-o", "maxmemory_policy=allkeys-lfu,lfu_log_factor=0") as d, d.operator() as c:
        for key in (b"used", b"unused"):
            assert c.set(key, b"v") == b"STORED"
            assert frequency(c, key) == 5
        for i in range(1, 8):
            assert c.get(b"used") == b"v"
            assert frequency(c, b"used") == 5 + i
        assert frequency(c, b"unused") == 5         # me is no use
    with mayfly.Daemon("-t", "1", "-o", "no_extensions") as d, d.client() as c:
        assert c.set(b"k", b"v") == b"STORED" and b"freq" not in c.ask(b"me k")


def test_noeviction_is_what_M_says():
    with Controlled("-m", "8", "-t", "1", "-M") as d, d.operator() as c:
        assert c.stats(b"settings")["maxmemory_policy"] == "noeviction"
        assert store(c, b"k", 20000) < 20000
        assert c.stat("evictions") == 0
        choose(c, b"allkeys-lru")
        assert store(c, b"l", 5000) == 5000
        assert c.stat("evictions") > 0


if __name__ == "__main__":
    mayfly.main(globals())
