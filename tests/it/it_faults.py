#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Faults known from similar caches that no other script covers: colliding keys, uploads that break off in meta and
binary requests, endless reloads under load, and input that is not a request."""
import os
import random
import signal
import struct
import tempfile
import threading

import mayfly
from mayfly import Client, Daemon, best_of, pattern, wait_for

MASK = 0xffffffff
SEED = int(os.environ.get("MAYFLY_SEED", "1"), 0)


# ---- keys that collide ---------------------------------------------------------------------------

def rotate(x, n):
    return (x << n | x >> 32 - n) & MASK


def murmur3(key):
    """MurmurHash3 of 32 bits without a seed, memcached's default, of whole blocks of four bytes."""
    h = 0
    for (k,) in struct.iter_unpack("<I", key):
        h = rotate(h ^ rotate(k * 0xcc9e2d51 & MASK, 15) * 0x1b873593 & MASK, 13)
        h = (h * 5 + 0xe6546b64) & MASK
    h ^= len(key)
    h = (h ^ h >> 16) * 0x85ebca6b & MASK
    h = (h ^ h >> 13) * 0xc2b2ae35 & MASK
    return h ^ h >> 16


def colliding(count):
    """Keys of eight bytes that all have one hash. A block is mixed in by steps that can be undone, so
    for any first block there is a second one that leads to the wanted state."""
    wanted = rotate((0x12345678 - 0xe6546b64) * pow(5, -1, 1 << 32) & MASK, 32 - 13)
    undo1, undo2 = pow(0xcc9e2d51, -1, 1 << 32), pow(0x1b873593, -1, 1 << 32)
    keys = []
    first = 0
    while len(keys) < count:
        head = b"%04x" % first
        first += 1
        k = rotate(struct.unpack("<I", head)[0] * 0xcc9e2d51 & MASK, 15) * 0x1b873593 & MASK
        state = (rotate(k, 13) * 5 + 0xe6546b64) & MASK
        k = rotate((wanted ^ state) * undo2 & MASK, 32 - 15) * undo1 & MASK
        key = head + struct.pack("<I", k)
        if all(byte > 32 and byte != 127 for byte in key):
            keys.append(key)
    assert len({murmur3(key) for key in keys}) == 1
    return keys


def cost_of(keys):
    """CPU seconds of a daemon that stores these keys and reads them, several times."""
    with Daemon("-t", "1") as d, d.client() as c:
        began = d.cpu()
        c.send(b"".join(b"set %s 0 0 1 noreply\r\nx\r\n" % key for key in keys) + b"mn\r\n")
        assert c.line() == b"MN"
        for _ in range(4):
            for at in range(0, len(keys), 100):
                some = keys[at:at + 100]
                c.send(b"get " + b" ".join(some) + b"\r\n")
                assert len(c.get_reply()) == len(some)
        return d.cpu() - began


def test_keys_that_collide_cost_no_more():
    """An attacker who knows memcached's hash must not be able to put all keys into one chain."""
    count = 20000
    bad = colliding(count)
    rng = random.Random(SEED)
    good = [b"%08x" % rng.getrandbits(32) for _ in range(count)]
    good = list(dict.fromkeys(good))
    ratio = best_of(lambda: cost_of(bad) / cost_of(good), 5)
    assert ratio < 5, ratio


# ---- uploads that break off ----------------------------------------------------------------------

def bin_set(key, length):
    return struct.pack(">BBHBBHIIQ", 0x80, 0x01, len(key), 8, 0, 0, length + 8 + len(key), 7, 0) + bytes(8) + key


def test_uploads_that_break_off():
    """A value of ms or of a binary set that stops in the middle leaves nothing, and harms
    neither the old value nor the keys and flags of others."""
    size = 700000
    rng = random.Random(SEED)
    with Daemon("-m", "64", "-t", "2") as d, d.client() as c:
        old = pattern(b"old", size)
        assert c.set(b"there", old) == b"STORED"
        for i in range(40):
            head = [b"ms there %d T30 F5 k Oabc\r\n" % size, bin_set(b"there", size),
                    b"ms dGhlcmU= %d b MS I C1\r\n" % size, b"ms there %d MA N30\r\n" % size][i % 4]
            u = d.client()
            u.send(head + pattern(b"new", rng.randrange(size)))
            if i % 3 == 0:
                u.reset()
            else:
                u.close()
        wait_for(lambda: c.stat("curr_connections") == 1, "all are gone")
        assert c.get(b"there") == old
        assert c.stat("curr_items") == 1
        wait_for(lambda: c.shard_sum("mayfly_body_pending_bytes") == 0, "nothing is held for them")
        # An upload that stops, and goes on after others have used the memory of its line.
        with d.client() as u:
            new = pattern(b"slow", size)
            u.send(b"ms %s %d T100 F77 k Oopaque c s\r\n" % (b"k" * 250, size) + new[:300000])
            c.fill(b"other", 200, b"x" * 5000)
            u.send(new[300000:] + b"\r\n")
            words = u.line().split()
            assert words[:3] == [b"HD", b"k" + b"k" * 250, b"Oopaque"] and words[4] == b"s%d" % size, words
            assert c.ask(b"mg %s f s" % (b"k" * 250)) == b"HD f77 s%d" % size


# ---- reloads under load --------------------------------------------------------------------------

def test_hups_without_end():
    """The users are read again hundreds of times while clients come, authenticate and read."""
    folder = tempfile.mkdtemp(prefix="mayfly-faults.")
    path = os.path.join(folder, "users")
    mayfly.write(path, "me:secret\n")
    value = pattern(b"value", 100000)
    failures = []
    rounds = [0]
    is_over = threading.Event()

    def use(address):
        try:
            while not is_over.is_set():
                with Client(address) as c:
                    assert c.set(b"auth", b"me wrong") == b"CLIENT_ERROR authentication failure"
                    assert c.ask(b"mg k v") == b"CLIENT_ERROR unauthenticated"
                    assert c.set(b"auth", b"me secret") == b"STORED"
                    for _ in range(20):
                        assert c.get(b"k") == value
                rounds[0] += 1
        except Exception as e:      # raised by the main thread
            failures.append(e)

    try:
        with Daemon("-Y", path) as d, d.client() as c:
            assert c.set(b"auth", b"me secret") == b"STORED"
            assert c.set(b"k", value) == b"STORED"
            users = [threading.Thread(target=use, args=(d.address,)) for _ in range(4)]
            for user in users:
                user.start()
            sent = 0
            while sent < 300 or (rounds[0] < 20 and not failures):
                os.kill(d.pid, signal.SIGHUP)
                sent += 1
                c.ask(b"mn")
            is_over.set()
            for user in users:
                user.join()
            assert not failures, failures[0]
            wait_for(lambda: "reloaded" in d.log(), "the file was read again")
    finally:
        os.unlink(path)
        os.rmdir(folder)


# ---- what is no request -------------------------------------------------------------------------

def test_watchers_see_why_a_connection_was_closed():
    """A browser, or a line too long, is an error; quit is none."""
    with Daemon("-t", "1", tcp=True) as d, d.client() as w:
        assert w.ask(b"watch connevents") == b"OK"
        for sent, reason in ((b"GET / HTTP/1.1\r\n", b"error"), (b"x" * 70000, b"error"), (b"quit\r\n", b"normal")):
            with d.client() as c:
                c.send(sent)
                c.rest()
            while b"type=conn_close" not in w.buf or not w.buf.endswith(b"\n"):
                assert w.more()
            assert b" reason=%s " % reason in w.buf, (sent[:20], w.buf)
            w.buf = b""


if __name__ == "__main__":
    mayfly.main(globals())
