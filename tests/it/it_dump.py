#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Dumps of all keys: the forms of their lines; every key that stays is shown; readers that stall
or leave cost others nothing."""
import base64
import contextlib
import re
import select
import time
import urllib.parse

import binary
import mayfly
from binary import BinaryClient
from mayfly import Daemon, wait_for

MIB = 1 << 20
LINE = re.compile(rb"key=([A-Za-z0-9._~%-]+) exp=(-1|\d+) la=(\d+) cas=(\d+) fetch=(yes|no) cls=1 "
                  rb"size=(\d+) flags=(\d+) $")


def store(client, keys, value=b"v", exptime=0):
    """Store many keys, pipelined."""
    keys = list(keys)
    for at in range(0, len(keys), 1000):
        part = keys[at:at + 1000]
        client.send(b"".join(b"set %s 0 %d %d\r\n%s\r\n" % (k, exptime, len(value), value) for k in part))
        assert all(client.line() == b"STORED" for _ in part)


def feed_line(client):
    """Lines of metadump end with a line feed alone."""
    while b"\n" not in client.buf:
        assert client.more(), "the stream ended within a dump"
    line, client.buf = client.buf.split(b"\n", 1)
    return line


def read_metadump(client, ask=True, what=b"all"):
    """All lines of one dump, as matches of LINE."""
    if ask:
        client.send(b"lru_crawler metadump " + what + b"\r\n")
        assert client.line() == b"OK"
    found = []
    while True:
        line = feed_line(client)
        if line == b"END\r":
            return found
        match = LINE.match(line)
        assert match, line
        found.append(match)


def keys_of(lines):
    return [urllib.parse.unquote_to_bytes(m.group(1)) for m in lines]


def test_form_of_metadump():
    with Daemon("-m", "64") as d, d.client() as c:
        began = int(time.time())
        odd = b"o%d:" + bytes([0xff, 1]) + b"!*'()/,"
        assert c.set(b"plain", b"abc", flags=4294967295) == b"STORED"
        assert c.set(odd, b"x" * 1000, exptime=500) == b"STORED"
        assert c.get(b"plain") == b"abc"
        lines = {m.group(1): m for m in read_metadump(c)}
        assert len(lines) == 2, lines
        plain, other = lines.pop(b"plain"), lines.popitem()[1]
        assert keys_of([other]) == [odd]
        assert plain.group(2) == b"-1" and plain.group(5) == b"yes"
        assert plain.group(7) == b"4294967295"
        # The daemon's clock may be up to a millisecond slower than ours when a second begins.
        assert began + 499 <= int(other.group(2)) <= time.time() + 501
        assert began - 1 <= int(other.group(3)) <= time.time() + 1
        assert other.group(5) == b"no" and 1000 < int(other.group(6)) < 1100
        c.send(b"gets plain\r\n")
        assert c.line().split()[4] == plain.group(4), "cas of the dump and of gets"


def test_classes_and_errors():
    with Daemon("-m", "64") as d, d.client() as c:
        assert c.set(b"k", b"v") == b"STORED"
        for what in (b"all", b"hash", b"1", b"5,1,7"):
            assert keys_of(read_metadump(c, what=what)) == [b"k"], what
        assert read_metadump(c, what=b"2,63") == []
        for what in (b"0", b"64", b"x", b"1,64"):
            assert c.ask(b"lru_crawler metadump " + what) == b"BADCLASS invalid class id"
        assert c.ask(b"lru_crawler metadump ,") == b"NOTSTARTED no items to crawl"
        for line in (b"lru_crawler metadump", b"lru_crawler metadump all all", b"lru_crawler mgdump"):
            assert c.ask(line) == b"ERROR"
        assert c.ask(b"lru_crawler disable") == b"OK"
        for kind in (b"metadump", b"mgdump"):
            assert c.ask(b"lru_crawler " + kind + b" all") == b"CLIENT_ERROR lru crawler disabled"


def test_dumps_switched_off():
    with Daemon("-m", "64", "-X") as d, d.client() as c:
        assert c.set(b"k", b"v") == b"STORED"
        assert c.ask(b"lru_crawler metadump all") == b"ERROR metadump not allowed"
        assert c.ask(b"lru_crawler mgdump all") == b"ERROR key dump not allowed"
        assert c.ask(b"stats cachedump 1 0") == b"CLIENT_ERROR stats cachedump not allowed"


def test_mgdump_lines_are_commands():
    with Daemon("-m", "64") as d, d.client() as c:
        keys = {b"plain", b"colon:%25", b"high\xff", b"control\x01"}
        store(c, keys)
        c.send(b"lru_crawler mgdump all\r\n")
        assert c.line() == b"OK"
        found = set()
        while True:
            line = c.line()
            if line == b"EN":
                break
            words = line.split(b" ")
            assert words[0] == b"mg" and len(words) in (2, 3), line
            if len(words) == 3:
                assert words[2] == b"b", line
            found.add(base64.b64decode(words[1]) if len(words) == 3 else words[1])
        assert found == keys
        assert c.ask(b"version").startswith(b"VERSION"), "nothing after EN"


def test_requests_behind_a_dump_wait_for_it():
    with Daemon("-m", "64", "-t", "1") as d, d.client() as c:
        store(c, (b"k%d" % i for i in range(20000)))
        c.send(b"get k1\r\nmn\r\nlru_crawler metadump all\r\n"
               b"get k2\r\nmn\r\nlru_crawler metadump all\r\nversion\r\n")
        assert c.get_reply() == {b"k1": b"v"}
        assert c.line() == b"MN"
        assert c.line() == b"OK"
        assert len(read_metadump(c, ask=False)) == 20000
        assert c.get_reply() == {b"k2": b"v"}
        assert c.line() == b"MN"
        assert c.line() == b"OK"
        assert len(read_metadump(c, ask=False)) == 20000
        assert c.line().startswith(b"VERSION")


def test_quiet_table_is_shown_exactly_once():
    with Daemon("-m", "256", "-t", "2") as d, d.client() as c:
        keys = [b"key:%d" % i for i in range(200000)]
        store(c, keys)
        wait_for(lambda: c.stats()["hash_is_expanding"] == "0", "the index is at rest")
        got = keys_of(read_metadump(c))
        assert len(got) == len(keys) and set(got) == set(keys)


def test_untouched_keys_survive_writes_deletes_and_resizes():
    """During a dump other clients store, delete and grow the index: what stays is shown."""
    with Daemon("-m", "256", "-t", "2") as d, d.client() as c, d.client(rcvbuf=4096) as reader:
        keys = [b"stay:%d" % i for i in range(30000)]
        store(c, keys)
        reader.send(b"lru_crawler metadump all\r\n")
        assert reader.line() == b"OK"
        shown = []
        buckets = c.stats()["hash_bytes"]
        for round_ in range(40):
            for _ in range(200):
                shown.append(feed_line(reader))
            fresh = [b"go:%d:%d" % (round_, i) for i in range(4000)]
            store(c, fresh)
            for k in fresh[::2]:
                c.send(b"delete %s noreply\r\n" % k)
        wait_for(lambda: c.stats()["hash_bytes"] != buckets, "the index grows")
        assert b"END\r" not in shown, "the dump was over before anything changed"
        got = [LINE.match(line) for line in shown]
        assert all(got)
        got = keys_of(got + read_metadump(reader, ask=False))
        missing = set(keys) - set(got)
        assert not missing, "%d keys are missing" % len(missing)
        assert len(got) < 3 * (len(keys) + 160000), "shown again and again"


def test_stalled_dumps_cost_little_and_delay_nobody():
    with Daemon("-m", "256", "-t", "1") as d, d.client() as c:
        store(c, (b"some-key-of-usual-length:%08d" % i for i in range(100000)))
        before = d.rss()
        deaf = [d.client(rcvbuf=4096) for _ in range(50)]
        for s in deaf:
            s.send(b"lru_crawler metadump all\r\n" * 10)
        seen = []

        def all_stand():
            for i in range(200):        # the one worker serves others meanwhile
                assert c.get(b"some-key-of-usual-length:%08d" % i) == b"v"
            seen.append(c.shard_sum("mayfly_out_pending_bytes"))
            return len(seen) > 3 and seen[-1] > 0 and len(set(seen[-3:])) == 1

        wait_for(all_stand, "all dumps wait for their readers")
        pending = seen[-1]
        assert 0 < pending < 50 * 256 * 1024, pending
        assert mayfly.is_sanitized() or d.rss() - before < 40 * MIB, "%d MiB" % ((d.rss() - before) // MIB)
        for i, s in enumerate(deaf):    # all leave midway, half of them rudely
            s.reset() if i % 2 else s.close()
        wait_for(lambda: c.stat("curr_connections") == 1, "stalled dumps are gone")
        wait_for(lambda: c.shard_sum("mayfly_out_pending_bytes") == 0, "they leave nothing behind")
        assert len(read_metadump(c)) == 100000


def test_others_are_served_between_slices():
    """A dump does not occupy the only worker: requests on another connection are answered meanwhile. Most keys have
    expired, so the output is small and a full socket never ends its turns."""
    with Daemon("-m", "256", "-t", "1", "-o", "no_lru_crawler") as d, d.client() as c:
        assert c.set(b"stays", b"v") == b"STORED"
        store(c, (b"k%d" % i for i in range(200000)), exptime=1)
        wait_for(lambda: c.get(b"k199999") is None, "they expire")

        def answers_amid_a_dump():
            answered = 0
            with d.client() as reader:
                # A dump begins while the search for expired keys is on; it then ends without it.
                assert reader.ask(b"lru_crawler enable") == b"OK"
                reader.send(b"lru_crawler metadump all\r\n")
                assert reader.line() == b"OK"
                assert c.ask(b"lru_crawler disable") == b"OK"
                while not reader.buf.endswith(b"END\r\n"):
                    assert c.get(b"stays") == b"v"
                    if select.select([reader.sock], [], [], 0)[0]:
                        assert reader.more()
                    answered += not reader.buf.endswith(b"END\r\n")
                assert reader.buf.count(b"\n") == 2, "one key, and the end"
            return answered
        # How many there are depends on this test, too.
        wait_for(lambda: answers_amid_a_dump() >= 3, "requests are answered amid a dump")


def test_cachedump():
    with Daemon("-m", "256", "-t", "2") as d, d.client() as c:
        began = int(time.time())
        assert c.set(b"a", b"abc", exptime=100) == b"STORED"
        c.send(b"stats cachedump 1 0\r\n")
        match = re.match(rb"ITEM a \[3 b; (\d+) s\]$", c.line())
        assert match and began + 99 <= int(match.group(1)) <= time.time() + 101
        assert c.line() == b"END"
        store(c, (b"k%0200d" % i for i in range(30000)))
        for limit, want in ((b"10", 10), (b"1", 1)):
            c.send(b"stats cachedump 1 %s\r\n" % limit)
            lines = []
            while (line := c.line()) != b"END":
                lines.append(line)
            assert len(lines) == want
        c.send(b"stats cachedump 1 0\r\n")
        size = 0
        while (line := c.line()) != b"END":
            assert line.startswith(b"ITEM "), line
            size += len(line) + 2
        assert 1.9 * MIB < size <= 2 * MIB, "its answer is bounded by 2 MiB: %d" % size
        assert c.ask(b"stats cachedump 2 0") == b"END"
        assert c.ask(b"stats cachedump 0 1") == b"END"
        assert c.ask(b"stats cachedump 64 0") == b"CLIENT_ERROR Illegal slab id"
        assert c.ask(b"stats cachedump 1") == b"CLIENT_ERROR bad command line"


def test_every_key_while_slots_move():
    """A client reads a part of the dump, then items move to shards that the dump has passed; all keys are still
    listed. If slots keep moving during the rest of the dump, it ends nevertheless."""
    keys = {b"%0150d" % i for i in range(20000)}
    for slowly in (False, True):
        with Daemon("-t", "2", "-m", "64", "-M", "-o", "shards=4", control=True) as d, d.operator() as o, \
                d.client(rcvbuf=4096) as c:
            store(o, keys)
            c.send(b"lru_crawler mgdump all\r\n")
            assert c.line() == b"OK"
            found = [c.line() for _ in range(len(keys) // 3)]
            assert o.ask(b"config set move_cpu_pct %d shards 1" % (1 if slowly else 100)) == b"OK"
            wait_for(lambda: int(o.stats(b"moves")["move_slots_done"]) > 0, "some slots have moved")
            if not slowly:
                wait_for(lambda: o.stats(b"moves")["move_state"] == "idle", "all of them have")
            while (line := c.line()) != b"EN":
                found.append(line)
            missing = keys - {line.split()[1] for line in found}
            assert not missing, len(missing)


def test_keys_cannot_break_the_lines_of_cachedump_and_detail():
    """Keys of the binary protocol are any bytes."""
    evil = b"p\r\nEND\r\n \0:x"
    encoded = b"p%0D%0AEND%0D%0A%20%00"
    with Daemon() as d, d.client() as c, BinaryClient(d.address) as b:
        assert c.ask(b"stats detail on") == b"OK"
        b.call(binary.store(binary.SET, evil, b"abc"))
        assert c.set(b"100%:\tx", b"as it is") == b"STORED"
        c.send(b"stats cachedump 1 0\r\n")
        assert sorted(c.line() for _ in range(2)) == [
            b"ITEM 100%:\tx [8 b; 0 s]", b"ITEM " + encoded + b"%3Ax [3 b; 0 s]"]
        assert c.line() == b"END"
        c.send(b"stats detail dump\r\n")
        assert sorted(c.line() for _ in range(2)) == [
            b"PREFIX 100% get 0 hit 0 set 1 del 0", b"PREFIX " + encoded + b" get 0 hit 0 set 1 del 0"]
        assert c.line() == b"END"


def test_answers_to_clients_that_do_not_read_hold_little():
    """The next part is composed when the previous one was sent."""
    with Daemon("-m", "64", "-t", "2") as d, d.client() as c:
        assert c.ask(b"stats detail on") == b"OK"
        store(c, (b"p%0100d:%d" % (i // 2, i) for i in range(20000)))
        asks = (b"stats cachedump 1 0", b"lru_crawler metadump all", b"lru_crawler mgdump all", b"stats detail dump")
        with contextlib.ExitStack() as stack:
            readers = [stack.enter_context(d.client(rcvbuf=4096)) for _ in range(60)]
            for i, reader in enumerate(readers):
                reader.send(asks[i % len(asks)] + b"\r\n")
            wait_for(lambda: sum(state == "conn_mwrite" for name, state in c.stats(b"conns").items()
                                 if name.endswith(":state")) == len(readers),
                     "all wait for their readers")
            pending = sum(int(n) for name, n in c.stats(b"shards").items() if name.endswith("out_pending_bytes"))
            # Each of them asked for megabytes.
            assert pending <= len(readers) * 64 * 1024, pending
            for reader in readers[:len(asks)]:
                lines = 0
                while not reader.buf.endswith((b"\nEND\r\n", b"\nEN\r\n")):
                    assert reader.more(), "an answer goes on when its reader does"
                    lines += reader.buf.count(b"\n", 0, -6)
                    reader.buf = reader.buf[-6:]
                assert lines >= 9990, lines
        # By the binary protocol the whole is one statistic, of which few are made at a time.
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(BinaryClient(d.address)) for _ in range(12)]
            for b in clients:
                b.send(binary.pack(binary.STAT, b"detail dump"))
            for b in clients:
                frame = b.frame()
                assert frame.key == b"detailed" and frame.value.count(b"PREFIX ") == 10000
                assert frame.value.endswith(b"END\r\n") and not b.frame().key
        # The others left in the middle.
        wait_for(lambda: c.stat("curr_connections") == 1, "their connections are closed")


def test_stats_conns_of_many_in_portions():
    with Daemon("-t", "2") as d, d.client() as c, contextlib.ExitStack() as stack:
        held = [stack.enter_context(d.client()) for _ in range(300)]
        assert all(one.ask(b"mn") == b"MN" for one in held)
        deaf = stack.enter_context(d.client(rcvbuf=4096))
        deaf.send(b"stats conns\r\n" * 20)
        for left in (302, 152):
            rows = [name for name in c.stats(b"conns") if name.endswith(":state")]
            assert left <= len(rows) <= left + 2, rows
            for one in held[:150]:
                one.close()
            wait_for(lambda: c.stat("curr_connections") <= 153, "half of them are closed")
        b = stack.enter_context(BinaryClient(d.address))
        rows = [name for name in b.statistics(b"conns") if name.endswith(":state")]
        assert len(rows) >= 153, len(rows)
        # It asked when all were there, and reads while they go.
        answers = 0
        while answers < 20:
            assert deaf.more()
            answers += deaf.buf.count(b"END\r\n")
            deaf.buf = deaf.buf[deaf.buf.rfind(b"\n") + 1:]


mayfly.main(globals())
