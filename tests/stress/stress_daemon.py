#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A daemon whose threads, shards and limit change at random, while clients of each protocol, also over
TLS, send in lumps and check the order and the content of each reply. At the same time it is flushed, at
once and later, expired items are held, files are saved and dumps are read.

MAYFLY_STRESS_SECONDS sets how long it runs (default 3), MAYFLY_SEED the random numbers: what each client
sends, and the changes and their order. Names of tests on the command line choose some of them.
"""
import atexit
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time

import mayfly
import tls
from mayfly import Daemon, wait_for

SECONDS = float(os.environ.get("MAYFLY_STRESS_SECONDS", "3"))
SEED = int(os.environ.get("MAYFLY_SEED", "1"), 0)
CLIENTS = 12
KEYS = 60           # of each client
LUMP = 40           # requests at once
HANDSHAKE_S = 10    # TLS_HANDSHAKE_MS of daemon/conn/conn_steps.h
SLACK = 1.5         # seconds: a server counts those of deadlines and flushes by a clock of its own
FOLDER = tempfile.mkdtemp(prefix="mayfly-stress.")
atexit.register(shutil.rmtree, FOLDER, True)
CERTIFICATES = None if mayfly.has_text(b"built without OpenSSL") else tls.Certificates()


# ---- what may be lost ----------------------------------------------------------------------------

class Losses:
    """The spans of time in which a flush may have come, and whether anything may be evicted."""

    def __init__(self, evicts):
        self.evicts, self.spans, self.lock = evicts, [], threading.Lock()

    def flush(self, c, seconds):
        span = [time.monotonic(), float("inf")]
        with self.lock:
            self.spans.append(span)
        assert c.ask(b"flush_all %d" % seconds if seconds else b"flush_all") == b"OK"
        span[1] = time.monotonic() + (seconds + SLACK if seconds else 0)

    def must_be(self, replied, sent):
        """Has a flush come between? A later command replaces one that is still to come."""
        with self.lock:
            return any(first > replied and last < sent and (i + 1 == len(self.spans) or self.spans[i + 1][0] > last)
                       for i, (first, last) in enumerate(self.spans))

    def may_be(self, stored, now):
        """May what was stored after `stored` be gone by now?"""
        with self.lock:
            return self.evicts or any(first <= now and last >= stored for first, last in self.spans)


class Key:
    """What a key may have: a value, or nothing."""

    def __init__(self):
        self.value, self.stored, self.replied, self.ttl = None, 0, 0, 0

    def put(self, value, ttl, sent, now):
        self.value, self.stored, self.replied, self.ttl = value, sent, now, ttl

    def may_be_gone(self, losses, now):
        return self.value is None or losses.may_be(self.stored, now) or \
            (self.ttl and now >= self.stored + self.ttl - SLACK)

    def must_be_gone(self, losses, sent):
        return self.value is None or losses.must_be(self.replied, sent) or \
            (self.ttl and sent > self.replied + self.ttl + SLACK)


class Op:
    """A request: set, add, get or delete."""

    def __init__(self, what, key, value, ttl):
        self.what, self.key, self.value, self.ttl = what, key, value, ttl


def judge(op, key, got, value, sent, now, losses):
    """Does the reply fit what is known of the key? Then know more."""
    gone = key.may_be_gone(losses, now)
    if got == "no room":        # some policies have nothing to evict: the key has what it had, or nothing
        assert losses.evicts and op.what in ("set", "add"), op.what
    elif op.what == "set":
        assert got == "stored"
        key.put(op.value, op.ttl, sent, now)
    elif got in ("stored", "missing"):
        assert gone and (got == "stored") == (op.what == "add"), (got, key.value and key.value[:50])
        key.value = None
        if op.what == "add":
            key.put(op.value, op.ttl, sent, now)
    else:
        assert not key.must_be_gone(losses, sent), "it is there again"
        assert got == {"get": "hit", "add": "refused", "delete": "deleted"}[op.what]
        assert got != "hit" or value == key.value, (value[:50], key.value[:50])
        if got == "deleted":
            key.value = None


# ---- protocols -----------------------------------------------------------------------------------

NO_ROOM = b"SERVER_ERROR out of memory storing object"


class Text:
    WORDS = {b"STORED": "stored", b"NOT_STORED": "refused", b"DELETED": "deleted", b"NOT_FOUND": "missing", NO_ROOM: "no room"}

    @staticmethod
    def request(op, n):
        if op.what in ("set", "add"):
            return b"%s %s 7 %d %d\r\n%s\r\n" % (op.what.encode(), op.key, op.ttl, len(op.value), op.value)
        return b"%s %s\r\n" % (op.what.encode(), op.key)

    @classmethod
    def reply(cls, c, op, n):
        line = c.line()
        if op.what != "get":
            return cls.WORDS[line], None
        if line == b"END":
            return "missing", None
        words = line.split()
        assert words[:3] == [b"VALUE", op.key, b"7"], line
        value = c.exactly(int(words[3]))
        assert c.exactly(7) == b"\r\nEND\r\n"
        return "hit", value


class Meta:
    @staticmethod
    def request(op, n):
        if op.what in ("set", "add"):
            mode = b"S" if op.what == "set" else b"E"
            return b"ms %s %d T%d M%s O%d\r\n%s\r\n" % (op.key, len(op.value), op.ttl, mode, n, op.value)
        if op.what == "get":
            return b"mg %s v k O%d\r\n" % (op.key, n)
        return b"md %s O%d\r\n" % (op.key, n)

    @staticmethod
    def reply(c, op, n):
        line = c.line()
        if line == NO_ROOM:
            return "no room", None
        words = line.split()
        assert words[-1] == b"O%d" % n, (words, n)
        if words[0] == b"EN":
            assert op.what == "get"
            return "missing", None
        if words[0] == b"VA":
            assert op.what == "get" and words[2] == b"k" + op.key, words
            value = c.exactly(int(words[1]) + 2)
            assert value[-2:] == b"\r\n"
            return "hit", value[:-2]
        if op.what == "delete":
            return {b"HD": "deleted", b"NF": "missing"}[words[0]], None
        return {b"HD": "stored", b"NS": "refused"}[words[0]], None


class Binary:
    CODES = {"get": 0x00, "set": 0x01, "add": 0x02, "delete": 0x04}

    @classmethod
    def request(cls, op, n):
        extras = struct.pack(">II", 7, op.ttl) if op.what in ("set", "add") else b""
        body = extras + op.key + (op.value if extras else b"")
        return struct.pack(">BBHBBHIIQ", 0x80, cls.CODES[op.what], len(op.key), len(extras), 0, 0, len(body), n, 0) + body

    @classmethod
    def reply(cls, c, op, n):
        magic, code, _, _, _, status, length, opaque, _ = struct.unpack(">BBHBBHIIQ", c.exactly(24))
        body = c.exactly(length)
        assert (magic, code, opaque) == (0x81, cls.CODES[op.what], n), (magic, code, opaque, n)
        if status == 0 and op.what == "get":
            assert body[:4] == struct.pack(">I", 7)
            return "hit", body[4:]
        return {(0, "set"): "stored", (0, "add"): "stored", (0, "delete"): "deleted", (1, "get"): "missing",
                (1, "delete"): "missing", (2, "add"): "refused", (0x82, "set"): "no room", (0x82, "add"): "no room"}[status, op.what], None


# ---- clients -------------------------------------------------------------------------------------

class Checker:
    """A client with keys of its own."""

    def __init__(self, run, number, protocol, connect, is_duplex):
        self.run, self.name, self.protocol, self.connect, self.is_duplex = run, b"%d" % number, protocol, connect, is_duplex
        self.rng, self.n = random.Random("%d %d" % (SEED, number)), 0
        self.keys = [Key() for _ in range(KEYS)]
        self.thread = threading.Thread(target=self.work)

    def draw(self):
        i = self.rng.randrange(KEYS)
        what = self.rng.choice(("set", "set", "add", "get", "get", "get", "delete"))
        size = self.rng.choice((4, 30, 30, 200, 200, 200, 3000, 200000) if self.is_duplex else (4, 30, 200))
        ttl = self.rng.choice((0, 0, 0, 0, 3))
        value = b"%s.%d." % (self.name, self.n)     # no other has it
        value = mayfly.pattern(value, max(len(value), self.rng.randrange(size))) if what in ("set", "add") else None
        return i, Op(what, b"c%s.%d" % (self.name, i), value, ttl)

    def lump(self, c, ops):
        """Send requests, read all replies."""
        data = b"".join(self.protocol.request(op, n) for n, (_, op) in enumerate(ops, self.n))
        sender = None
        sent = time.monotonic()
        if self.is_duplex:      # the replies may be more than the sockets hold
            sender = threading.Thread(target=c.send, args=(data,))
            sender.start()
        else:
            c.send(data)
        if self.rng.randrange(50) == 0:
            time.sleep(0.05 * self.rng.random())        # it stalls; no verdict rests on it
        for i, op in ops:
            got, value = self.protocol.reply(c, op, self.n)
            judge(op, self.keys[i], got, value, sent, time.monotonic(), self.run.losses)
            self.n += 1
        if sender is not None:
            sender.join()

    def work(self):
        try:
            with self.connect() as c:
                while not self.run.is_over:
                    self.lump(c, [self.draw() for _ in range(self.rng.randint(1, LUMP))])
                    self.run.lumps += 1
                self.lump(c, [(i, Op("get", b"c%s.%d" % (self.name, i), None, 0)) for i in range(KEYS)])
        except Exception as error:      # the report must not end the others
            self.run.errors.append("client %s (%s), request %d: %r" % (self.name.decode(), self.protocol.__name__, self.n, error))


class Dumper:
    """Reads dumps of all keys. Those that stay are in each, unless they may be lost."""

    def __init__(self, run, number, count):
        self.run, self.rng = run, random.Random("%d dump %d" % (SEED, number))
        self.stay = {b"stay%d.%d" % (number, i) for i in range(count)}
        self.thread = threading.Thread(target=self.work)

    def dump(self, c):
        c.send(b"lru_crawler mgdump all\r\n")
        assert c.line() == b"OK"
        found, line = set(), c.line()
        while line != b"EN":
            words = line.split()
            assert words[0] == b"mg" and len(words) == 2, line
            found.add(words[1])
            if self.rng.randrange(2000) == 0:
                time.sleep(0.05)        # a slow reader; no verdict rests on it
            line = c.line()
        return found

    def work(self):
        try:
            with self.run.d.client(rcvbuf=4096) as c:
                while not self.run.is_over:
                    sent = time.monotonic()
                    c.send(b"".join(b"ms %s 1 q\r\nx\r\n" % key for key in self.stay) + b"mn\r\n")
                    while (line := c.line()) != b"MN":
                        assert line == NO_ROOM and self.run.losses.evicts, line
                    missing = self.stay - self.dump(c)
                    assert not missing or self.run.losses.may_be(sent, time.monotonic()), (len(missing), sorted(missing)[:3])
                    self.run.dumps += 1
        except Exception as error:      # the report must not end the others
            self.run.errors.append("dumps: %r" % error)


# ---- changes -------------------------------------------------------------------------------------

def policies():
    """Every policy that the server knows, as its help lists them."""
    text = subprocess.run([mayfly.PROGRAM, "--help"], check=True, capture_output=True, text=True).stdout
    return re.search(r"--maxmemory-policy=(\S+)", text).group(1).split("|")


class Run:
    """All of it, for a while."""

    def __init__(self, d, limits, losses, seconds):
        self.d, self.limits, self.losses, self.seconds = d, limits, losses, seconds
        self.is_over, self.errors, self.lumps, self.dumps, self.changes = False, [], 0, 0, 0
        self.policies, self.policy_changes = [], 0
        protocols, ways = (Text, Meta, Binary), d.connects()
        self.clients = [Checker(self, i, protocols[i % 3], *ways[i // 3 % len(ways)]) for i in range(CLIENTS)]
        self.clients += [Dumper(self, i, 2000) for i in range(2)]

    def ask(self, c, line, *others):
        """OK, or one of these beginnings of an answer."""
        got = c.ask(line)
        assert got == b"OK" or got.startswith(others), (line, got)

    def change(self, c, rng):
        threads, shards = rng.choice((1, 2, 3, 4, 7)), rng.choice((0, 1, 2, 3, 5, 9, 16))
        dice = rng.randrange(17)
        if dice < 3:
            self.ask(c, b"config set threads %d" % threads)
        elif dice < 6:
            self.ask(c, b"config set shards %d" % shards, b"CLIENT_ERROR shards: a limit of ")
        elif dice == 6:
            self.ask(c, b"config set threads %d shards %d memory_limit %d" % (threads, shards, rng.choice(self.limits)),
                     b"CLIENT_ERROR shards: a limit of ")
        elif dice < 9:
            self.ask(c, b"config set memory_limit %d" % rng.choice(self.limits), b"CLIENT_ERROR memory_limit: out of bounds")
        elif dice == 9:
            self.losses.flush(c, rng.choice((0, 0, 1)))
        elif dice == 10:
            self.ask(c, b"expire_hold %d" % rng.choice((0, 2)))
        elif dice == 11:
            self.ask(c, rng.choice((b"save", b"bgsave")), b"BUSY", b"SERVER_ERROR flushed")
        elif dice == 12:
            self.ask(c, b"moves cancel", b"NOT_FOUND", b"CLIENT_ERROR the limit on memory")
        elif dice == 13:
            self.ask(c, b"config set move_cpu_pct %d balance %s" % (rng.choice((1, 20, 100)), rng.choice((b"yes", b"no"))))
        elif dice == 14:
            for what in (b"", b"shards", b"conns", b"moves", b"expire", b"settings"):
                assert c.stats(what), what
        elif dice == 15:
            if self.losses.evicts:
                if not self.policies:       # each has its turn, in another order each time
                    self.policies = rng.sample(policies(), len(policies()))
                self.ask(c, b"config set maxmemory_policy %s" % self.policies.pop().encode())
                self.policy_changes += 1
        else:
            self.d.process.send_signal(signal.SIGHUP)
        self.changes += 1

    def go(self):
        for client in self.clients:
            client.thread.start()
        rng, end = random.Random("%d changes" % SEED), time.monotonic() + self.seconds
        with self.d.operator() as c:
            c.sock.settimeout(10 * mayfly.PATIENCE)
            try:
                while time.monotonic() < end and not self.errors and self.d.is_alive():
                    self.change(c, rng)
                    time.sleep(rng.choice((0, 0.01, 0.05, 0.3)))    # how often; no verdict rests on it
                if self.losses.evicts:      # with some policies nothing may be evicted for items that move
                    self.ask(c, b"config set maxmemory_policy density")
                self.ask(c, b"config set threads 2 shards 3 memory_limit %d move_cpu_pct 100" % max(self.limits))
                wait_for(lambda: c.stats(b"moves")["move_state"] == "idle" or self.errors, "all items are in 3 shards")
            finally:
                self.is_over = True
                for client in self.clients:
                    client.thread.join()
            assert not self.errors, self.errors
            got = c.stats(b"moves")
            assert (got["shards_wanted"], got["shards_active"], got["threads_active"]) == ("3", "3", "2"), got
            print("# %d changes, %d of the policy, %d lumps, %d dumps, %s connections and %s items of the last move moved" % (
                self.changes, self.policy_changes, self.lumps, self.dumps, got["conns_moved"], got["move_items_done"]), flush=True)


class Tls(mayfly.Client):
    def __init__(self, address):
        super().__init__(address)
        self.sock = CERTIFICATES.context(authority=None).wrap_socket(self.sock)


def shake_hands(address):
    """The server closes a client whose handshake has taken ten seconds. A busy machine may need them, so it tries again."""
    while True:
        began = time.monotonic()
        try:
            return Tls(address)
        except OSError:
            if time.monotonic() - began < HANDSHAKE_S:
                raise


class Server(Daemon):
    """One that speaks TLS on one port, if it is built, and plain protocols on another."""

    def __init__(self, *args):
        self.listeners = 2 if CERTIFICATES else 1
        both = ("-l", "notls:127.0.0.1:0", *CERTIFICATES.serve("stress")) if CERTIFICATES else ()
        super().__init__(*both, *args, tcp=True, control=True)

    def ports(self):
        try:
            return super().ports()
        except OSError:
            return []

    def wait_until_it_serves(self):
        wait_for(lambda: not self.is_alive() or len(self.ports()) == self.listeners, "it listens")
        assert self.is_alive(), self.log()
        self.port = self.ports()[-1]
        with self.client() as c:
            assert c.ask(b"version").startswith(b"VERSION ")

    def connects(self):
        """Ways to connect, each with whether a client may send while it reads."""
        ways = [(self.client, True)]
        if self.listeners == 2:
            ways.append((lambda: shake_hands(("127.0.0.1", self.ports()[0])), False))
        return ways


def run(limits, losses, *args):
    print("# again with MAYFLY_SEED=%d" % SEED, flush=True)
    folder = tempfile.mkdtemp(dir=FOLDER)
    with Server("-t", "2", "-m", str(limits[0]), "-o", "dir=%s,shards=2" % folder, *args) as d:
        Run(d, limits, losses, SECONDS / 2).go()


# ---- tests ---------------------------------------------------------------------------------------

def test_with_room_for_everything():
    run((256, 128, 512), Losses(False), "-M")


def test_in_little_room():
    run((24, 20, 48), Losses(True))


mayfly.main(globals())
