#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The binary protocol, by a client of our own: quiet runs, large values in pieces, wrong lengths, statistics,
counters. What each opcode does is compared with memcached: tests/differ/binary_streams.py."""
import shutil

import binary as b
import mayfly
from binary import BinaryClient, arith, pack, store, timed
from mayfly import Client, Daemon, Skip, pattern

MIB = 1 << 20


def connect(daemon, **more):
    return BinaryClient(daemon.address, **more)


def is_error(frame, opcode, status):
    """An error has a text, and neither cas nor extras."""
    assert frame is not None, "closed, instead of status %d" % status
    assert (frame.opcode, frame.status) == (opcode, status), frame
    assert frame.value == b.TEXTS[status] and frame.cas == 0 and not frame.extras, frame
    return True


def test_flush_that_is_off():
    with Daemon("-F") as d, connect(d) as c:
        assert c.call(store(b.SET, b"k")).status == b.OK
        assert is_error(c.call(pack(b.FLUSH)), b.FLUSH, b.AUTH_ERROR)
        assert is_error(c.call(pack(b.FLUSHQ)), b.FLUSHQ, b.AUTH_ERROR)
        assert c.call(pack(b.GET, b"k")).status == b.OK


# ---- order ---------------------------------------------------------------------------------------

def test_quiet_run():
    """Hits and errors are answered in order, successes and misses not at all."""
    with Daemon() as d, connect(d) as c:
        run, wanted = b"", []
        for i in range(500):
            key = b"k%d" % i
            run += store(b.SETQ, key, b"v%d" % i, opaque=4 * i)
            run += store(b.ADDQ, key, b"w", opaque=4 * i + 1)
            wanted.append((b.ADDQ, 4 * i + 1, b.EXISTS, b.TEXTS[b.EXISTS]))
            run += pack(b.GETKQ if i % 2 else b.GETQ, key, opaque=4 * i + 2)
            wanted.append((b.GETKQ if i % 2 else b.GETQ, 4 * i + 2, b.OK, b"v%d" % i))
            run += pack(b.GETQ, b"no%d" % i, opaque=4 * i + 3) + pack(b.DELETEQ, key)
        got = [(f.opcode, f.opaque, f.status, f.value) for f in c.until_noop(run)]
        assert got == wanted
        assert c.until_noop(b"".join(pack(b.GETQ, b"k%d" % i) for i in range(500))) == []


def cut_into(data, step):
    return [data[i:i + step] for i in range(0, len(data), step)]


def test_large_values_in_pieces():
    """A value may end where a read ends, or not: nothing follows it that has to be waited for."""
    with Daemon("-m", "128", "-t", "1", "-I", "4m") as d, connect(d) as c:
        value = pattern(b"large", 1400000)
        frame = store(b.SET, b"k", value)
        for step in (10000, 65536, 262144, 350000, len(frame) - 1, len(frame)):
            for behind in (b"", pack(b.GET, b"k")):
                for piece in cut_into(frame, step)[:-1]:
                    c.send(piece)
                    mayfly.time.sleep(0.002)        # so that pieces are read apart; no verdict hangs on it
                c.send(cut_into(frame, step)[-1] + behind)
                assert c.frame().status == b.OK
                assert (c.frame() if behind else c.call(pack(b.GET, b"k"))).value == value
        extended = pattern(b"more", 250000)
        assert c.call(pack(b.APPEND, b"k", value=extended)).status == b.OK
        assert c.call(pack(b.GET, b"k")).value == value + extended


def test_slow_reader_gets_all_in_order():
    with Daemon("-m", "64", "-t", "1") as d, connect(d, rcvbuf=8192) as c:
        for i in range(8):
            assert c.call(store(b.SET, b"k%d" % i, pattern(b"k%d" % i, 400000))).status == b.OK
        c.send(b"".join(pack(b.GETKQ, b"k%d" % (i % 8), opaque=i) for i in range(50)) + pack(b.NOOP, opaque=50))
        for i in range(50):
            frame = c.frame()
            assert (frame.opaque, frame.key) == (i, b"k%d" % (i % 8))
            assert frame.value == pattern(frame.key, 400000), "answer %d" % i
        assert c.frame().opcode == b.NOOP


# ---- wrong frames --------------------------------------------------------------------------------

class Intact:
    """Put around a bad frame: checks that nothing was stored and the daemon serves as before."""

    def __init__(self, daemon):
        self.daemon = daemon

    def __enter__(self):
        with self.daemon.client() as c:
            assert c.set(b"canary", b"sings") == b"STORED"
            self.items, self.total = c.stat("curr_items"), c.stat("total_items")
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            assert self.daemon.is_alive()
            with self.daemon.client() as c:
                assert c.get(b"canary") == b"sings"
                assert (c.stat("curr_items"), c.stat("total_items")) == (self.items, self.total)


def closes(daemon, frame, status):
    """The frame gets this status, and is the last of its connection."""
    with Intact(daemon), connect(daemon) as c:
        c.send(frame + store(b.SET, b"behind", b"x"))
        assert is_error(c.frame(), frame[1], status)
        assert c.frame() is None


def test_cve_2009_2415_length_beyond_2_31():
    """A value as long as a signed length can say: refused, swallowed, in sync."""
    with Daemon() as d, Intact(d), connect(d) as c:
        body = pack(b.SET, b"x", b"\0" * 8, b"y") * 40000
        for opcode in (b.SET, b.ADD, b.REPLACE, b.SETQ):
            frame = pack(opcode, b"k", b"\0" * 8, body)
            assert len(body) > MIB
            assert is_error(c.call(frame), opcode, b.TOO_LARGE)
            assert c.until_noop(b"") == []


def test_cve_2011_4971_negative_body():
    """Bodies of 2 GiB and more are announced; others are served meanwhile."""
    with Daemon("-m", "64") as d:
        before = d.rss()
        for body_len in (0x7FFFFFFF, 0x80000000, 0xFFFFFFF0, 0xFFFFFFFF):
            for frame in (store(b.SET, b"k", body_len=body_len), store(b.ADDQ, b"k", body_len=body_len),
                          pack(b.APPEND, b"k", body_len=body_len), pack(b.PREPENDQ, b"k", body_len=body_len)):
                with Intact(d), connect(d) as c:
                    assert is_error(c.call(frame), frame[1], b.TOO_LARGE)
                    c.send(store(b.SET, b"x", b"y") * 1000)     # belongs to the value
            with connect(d) as c:
                assert is_error(c.call(pack(0x66, body_len=body_len)), 0x66, b.UNKNOWN)
            for frame in (pack(b.GET, b"k", body_len=body_len), pack(b.TOUCH, b"k", b"\0" * 4, body_len=body_len),
                          pack(b.STAT, b"reset", body_len=body_len), pack(b.NOOP, body_len=body_len),
                          arith(b.INCR, b"k", body_len=body_len), pack(b.DELETE, b"k", body_len=body_len)):
                closes(d, frame, b.INVALID)
        assert mayfly.is_sanitized() or d.rss() - before < 8 * MIB


def test_cve_2016_8704_append_key_beyond_its_body():
    with Daemon() as d:
        for opcode in (b.APPEND, b.PREPEND, b.APPENDQ, b.PREPENDQ):
            closes(d, pack(opcode, b"key", value=b"value", body_len=2), b.UNKNOWN)
            closes(d, pack(opcode, b"k" * 250, body_len=0), b.UNKNOWN)
            closes(d, pack(opcode, b"k", key_len=0xFFFF, body_len=0xFFFE), b.UNKNOWN)


def test_cve_2016_8705_update_key_beyond_its_body():
    with Daemon() as d:
        for opcode in (b.SET, b.ADD, b.REPLACE, b.SETQ, b.ADDQ, b.REPLACEQ):
            closes(d, store(opcode, b"key", b"value", body_len=10), b.UNKNOWN)
            closes(d, store(opcode, b"k" * 250, body_len=8), b.UNKNOWN)
            closes(d, store(opcode, b"k", extras_len=255), b.UNKNOWN)
            closes(d, store(opcode, b"", b"value"), b.INVALID)
            closes(d, pack(opcode, b"k", b"\0" * 7, b"v"), b.INVALID)


def test_cve_2016_8706_sasl_value_before_its_mechanism():
    with Daemon() as d:
        for opcode in (b.SASL_AUTH, b.SASL_STEP):
            closes(d, pack(opcode, b"PLAIN", body_len=0), b.UNKNOWN)
            closes(d, pack(opcode, b"m" * 200, body_len=199), b.UNKNOWN)
            closes(d, pack(opcode, b"", value=b"\0u\0p"), b.INVALID)


def test_cve_2017_9951_get_of_a_length_that_is_not_there():
    """Keys of gets whose announced length exceeds the body, the received bytes, or the maximum of a key."""
    with Daemon() as d:
        for opcode in (b.GET, b.GETQ, b.GETK, b.GETKQ):
            closes(d, pack(opcode, b"k", body_len=0), b.UNKNOWN)
            closes(d, pack(opcode, b"k" * 251), b.INVALID)
            closes(d, pack(opcode, b"k", key_len=0xFFFF, body_len=0xFFFF), b.INVALID)
            closes(d, pack(opcode, b"k", value=b"v"), b.INVALID)
            with Intact(d), connect(d) as c:
                c.send(pack(opcode, b"k" * 20, key_len=100, body_len=100))
                c.sock.shutdown(mayfly.socket.SHUT_WR)
                assert c.frame() is None


def test_cve_2020_10931_extras_beyond_their_room():
    with Daemon() as d:
        for opcode in (b.GET, b.SET, b.APPEND, b.INCR, b.TOUCH, b.GAT, b.FLUSH, b.NOOP, b.STAT, b.VERSION,
                       b.QUIT, b.DELETE, b.SASL_LIST, b.SASL_AUTH):
            closes(d, pack(opcode, b"k", b"\xff" * 255), b.INVALID)
            closes(d, pack(opcode, b"k", b"\xff" * 60), b.INVALID)


def test_unknown_opcodes_stay_in_sync():
    with Daemon() as d, Intact(d), connect(d) as c:
        for opcode in list(range(0x25, 0x100)) + [0x1B, 0x1F]:
            frame = pack(opcode, b"key", b"extras", store(b.SET, b"x", b"y"))
            assert is_error(c.call(frame), opcode, b.UNKNOWN)
        assert c.until_noop(b"") == []


def test_bodies_that_never_come():
    """Announced values cost little until their bytes come; others can store."""
    with Daemon("-m", "64", "-t", "2") as d:
        with connect(d) as c:
            assert c.call(store(b.SET, b"k", b"v")).status == b.OK
        before = d.rss()
        silent = [connect(d) for _ in range(200)]
        for s in silent:
            s.send(store(b.SET, b"s", b"x" * 100, body_len=9 + 1000000))
        with connect(d) as c:
            for i in range(200):
                assert c.call(store(b.SET, b"k%d" % i, pattern(b"k", 100000))).status == b.OK
            assert c.call(pack(b.GET, b"k199")).value == pattern(b"k", 100000)
        assert mayfly.is_sanitized() or d.rss() - before < 40 * MIB


# ---- options -------------------------------------------------------------------------------------

def test_protocol_option():
    with Daemon("-B", "auto") as d, connect(d) as c, d.client() as text:
        assert c.call(pack(b.NOOP)).opcode == b.NOOP
        assert text.ask(b"version").startswith(b"VERSION ")
        assert text.ask(b"\x80 x") == b"ERROR"
    with Daemon("-B", "ascii") as d, d.client() as text:
        assert text.ask(pack(b.VERSION)) == b"ERROR"
        assert text.ask(b"version").startswith(b"VERSION ")
    with Daemon("-B", "binary", wait=False) as d:
        def listens():          # a while after the file is there
            try:
                return connect(d)
            except OSError:
                return None
        with mayfly.wait_for(listens, "it listens") as c:
            assert c.call(pack(b.NOOP)).opcode == b.NOOP
        with Client(d.address) as text:
            assert text.ask(b"version") is None


def test_without_cas():
    """-C: no answer shows one; stores do not compare it, a delete or incr never matches."""
    with Daemon("-C") as d, connect(d) as c:
        assert c.call(store(b.SET, b"k", b"1", cas=77))[3:6] == (b.OK, 0, 0)
        assert c.call(store(b.ADD, b"l", b"1", cas=77)).status == b.OK
        assert c.call(pack(b.APPEND, b"k", value=b"2", cas=77)).status == b.OK
        assert c.call(pack(b.GETK, b"k"))[3:] == (b.OK, 0, 0, b"\0\0\0\0", b"k", b"12")
        assert c.call(timed(b.TOUCH, b"k", 900)).cas == 0
        assert is_error(c.call(pack(b.DELETE, b"k", cas=77)), b.DELETE, b.EXISTS)
        assert is_error(c.call(arith(b.INCR, b"k", cas=77)), b.INCR, b.EXISTS)
        assert c.call(arith(b.INCR, b"k")).cas == 0


def test_no_room():
    """-M: an error, the stream goes on, and a failed set drops the old value."""
    with Daemon("-m", "32", "-M", "-t", "1") as d, connect(d) as c:
        assert c.call(store(b.SET, b"old", b"x" * 1000)).status == b.OK
        for size in (300000, 900):
            for i in range(32 * MIB // size * 2):
                last = c.call(store(b.SET, b"k%d-%d" % (size, i), b"x" * size))
                if last.status != b.OK:
                    break
            assert is_error(last, b.SET, b.NO_MEMORY), size
        assert c.call(pack(b.GET, b"old")).status == b.OK
        assert is_error(c.call(store(b.SET, b"old", b"x" * 300000)), b.SET, b.NO_MEMORY)
        assert is_error(c.call(pack(b.GET, b"old")), b.GET, b.NOT_FOUND)
        assert is_error(c.until_noop(store(b.SETQ, b"q", b"x" * 300000))[0], b.SETQ, b.NO_MEMORY)


# ---- statistics and counters ---------------------------------------------------------------------

def test_statistics_are_those_of_text():
    with Daemon("-o", "track_sizes") as d, connect(d) as c, d.client() as text:
        assert c.call(store(b.SET, b"k", b"v")).status == b.OK
        for what in (b"", b"settings", b"items", b"slabs", b"sizes", b"conns", b"expire", b"shards"):
            found, wanted = c.statistics(what), text.stats(what)
            assert list(found) == list(wanted), what
            assert found or what == b"sizes", what
        assert c.statistics(b"settings") == text.stats(b"settings")
        for what in (b"nothing", b"detail", b"detail x", b"cachedump 1 1", b"s", b"\0", b" "):
            assert is_error(c.call(pack(b.STAT, what, opaque=3)), b.STAT, b.NOT_FOUND), what
        assert int(c.statistics()["cmd_set"]) == 1
        assert c.statistics(b"reset") == {}
        assert int(c.statistics()["cmd_set"]) == 0


def test_detail():
    with Daemon() as d, connect(d) as c:
        assert c.statistics(b"detail dump") == {"detailed": "END\r\n"}
        assert c.statistics(b"detail on") == {}
        c.until_noop(store(b.SET, b"a:1") + pack(b.GET, b"a:1") + pack(b.GETQ, b"a:2")
                     + timed(b.GAT, b"a:1", 0) + pack(b.DELETE, b"a:1"))
        assert c.statistics(b"detail dump") == {"detailed": "PREFIX a get 3 hit 2 set 1 del 1\r\nEND\r\n"}
        assert c.statistics(b"detail off") == {}


def test_statistics_amid_a_pipeline():
    with Daemon("-t", "2") as d, connect(d) as c:
        frames = c.until_noop(store(b.SET, b"k", b"v") + pack(b.STAT, b"conns", opaque=1)
                              + pack(b.GET, b"k", opaque=2) + pack(b.STAT, b"detail dump", opaque=3)
                              + pack(b.GETQ, b"k", opaque=4))
        order = [f.opaque for f in frames]
        assert order == sorted(order) and set(order) == {0, 1, 2, 3, 4}
        assert frames[-1].value == b"v"


# What one request adds to the counters that memcached has. Only intended differences are
# marked: memcached does not count binary stores over the size limit.
COUNTS = [
    (pack(b.GET, b"k"), "cmd_get get_hits"),
    (pack(b.GETQ, b"k"), "cmd_get get_hits"),
    (pack(b.GETK, b"no"), "cmd_get get_misses"),
    (pack(b.GETKQ, b"no"), "cmd_get get_misses"),
    (timed(b.TOUCH, b"k", 900), "cmd_touch touch_hits"),
    (timed(b.TOUCH, b"no", 900), "cmd_touch touch_misses"),
    (timed(b.GAT, b"k", 900), "cmd_touch touch_hits"),
    (timed(b.GATKQ, b"no", 900), "cmd_touch touch_misses"),
    (store(b.SET, b"j"), "cmd_set"),
    (store(b.SETQ, b"j"), "cmd_set"),
    (store(b.SET, b"j", cas=1 << 60), "cmd_set cas_badval"),
    (store(b.SET, b"no", cas=5), "cmd_set cas_misses"),
    (store(b.ADD, b"j"), "cmd_set"),
    (store(b.REPLACE, b"no"), "cmd_set"),
    (pack(b.APPEND, b"j", value=b"x"), "cmd_set"),
    (pack(b.APPEND, b"no", value=b"x"), "cmd_set"),
    (pack(b.APPEND, b"j", value=b"x", cas=1 << 60), "cmd_set"),
    (pack(b.DELETE, b"j", cas=1 << 60), ""),
    (pack(b.DELETE, b"j"), "delete_hits"),
    (pack(b.DELETE, b"j"), "delete_misses"),
    (arith(b.INCR, b"n"), "incr_hits"),
    (arith(b.DECRQ, b"n"), "decr_hits"),
    (arith(b.INCR, b"no"), "incr_misses"),
    (arith(b.DECR, b"no"), "decr_misses"),
    (arith(b.INCR, b"made", 1, 1, 0), ""),
    (arith(b.INCR, b"k"), ""),
    (arith(b.INCR, b"n", cas=1 << 60), ""),
    (pack(b.FLUSH), "cmd_flush"),
    (pack(b.NOOP), ""),
    (pack(0x77), ""),
    (pack(b.SASL_LIST), ""),
]
COUNTERS = """cmd_get cmd_set cmd_flush cmd_touch get_hits get_misses get_expired delete_misses delete_hits
incr_misses incr_hits decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses
store_too_large store_no_memory auth_cmds auth_errors""".split()


def count(daemon):
    with connect(daemon) as c, daemon.client() as text:
        c.until_noop(store(b.SET, b"k", b"abc") + store(b.SET, b"n", b"5"))
        before = text.stats()
        for request, wanted in COUNTS:
            c.until_noop(request)
            after = text.stats()
            added = {k: int(after[k]) - int(before[k]) for k in COUNTERS if after[k] != before[k]}
            assert added == dict.fromkeys(wanted.split(), 1), (request, added)
            before = after
        cas = c.call(store(b.SET, b"k", b"x")).cas
        c.until_noop(store(b.SET, b"k", b"x", cas=cas))
        after = text.stats()
        assert int(after["cas_hits"]) - int(before["cas_hits"]) == 1


def test_counters():
    with Daemon() as d:
        count(d)
        with connect(d) as c, d.client() as text:
            assert is_error(c.call(store(b.SET, b"k", b"x" * 2 * MIB)), b.SET, b.TOO_LARGE)
            assert text.stat("store_too_large") == 1


def test_counters_are_memcacheds():
    program = shutil.which("memcached")
    if program is None:
        raise Skip("memcached is not installed")
    with Daemon("-U", "0", program=program) as d:
        count(d)


mayfly.main(globals())
