#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Rounds: many connections that are ready at once are read in sequence and served in one turn. Each
gets its own answers, whatever other connections of the round send.

The daemon is stopped (SIGSTOP) while inputs are sent, so that all of them have arrived when it
continues, and are processed in rounds."""
import base64
import contextlib
import random
import socket
import struct

import mayfly
from mayfly import Daemon, wait_for


# ---- what clients send, and the replies they must get -------------------------------------------------

class TextClient:
    """A client with keys of its own, so that no other client changes its replies."""

    def __init__(self, name, rng):
        self.name, self.rng, self.values = name, rng, {}

    def key(self):
        return b"%s-%d" % (self.name, self.rng.randrange(4))

    def do_set(self, size):
        key = self.key()
        self.values[key] = value = mayfly.pattern(b"%s.%d" % (key, self.rng.randrange(1000)), size)
        return b"set %s 0 0 %d\r\n%s\r\n" % (key, size, value), b"STORED\r\n"

    def do_get(self):
        key = self.key()
        request, value = b"get %s\r\n" % key, self.values.get(key)
        if value is None:
            return request, b"END\r\n"
        return request, b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(value), value)

    def do_multiget(self):
        request, answer = b"get", b""
        for _ in range(self.rng.randrange(1, 90)):
            key = self.key()
            request += b" " + key
            value = self.values.get(key)
            if value is not None and len(value) < 1000:
                answer += b"VALUE %s 0 %d\r\n%s\r\n" % (key, len(value), value)
            elif value is not None:
                return self.do_get()
        return request + b"\r\n", answer + b"END\r\n"

    def do_meta(self):
        key = self.key()
        value = self.values.get(key)
        if value is None:
            return b"mg %s v k O1\r\n" % key, b"EN k%s O1\r\n" % key
        return b"mg %s v k O1\r\n" % key, b"VA %d k%s O1\r\n%s\r\n" % (len(value), key, value)

    def do_arith(self):
        key = b"%s-n" % self.name
        number = int(self.values[key]) if key in self.values else None
        if number is None:
            self.values[key] = b"41"
            return b"set %s 0 0 2\r\n41\r\n" % key, b"STORED\r\n"
        self.values[key] = b"%d" % (number + 1)
        return b"incr %s 1\r\n" % key, b"%d\r\n" % (number + 1)

    def do_delete(self):
        key = self.key()
        return b"delete %s\r\n" % key, b"DELETED\r\n" if self.values.pop(key, None) is not None else b"NOT_FOUND\r\n"

    def do_quiet(self):
        request, _ = self.do_set(self.rng.randrange(100))
        line, value = request.split(b"\r\n", 1)
        return line + b" noreply\r\n" + value, b""

    def do_too_large(self):
        key = self.key()
        self.values.pop(key, None)
        return (b"set %s 0 0 1500000\r\n" % key + b"x" * 1500000 + b"\r\n",
                b"SERVER_ERROR object too large for cache\r\n")

    def do_bad(self):
        return self.rng.choice([(b"bogus\r\n", b"ERROR\r\n"), (b"version\r\n", b"VERSION 1.6.45\r\n"),
                                (b"set x\r\n", b"CLIENT_ERROR bad command line format\r\n"),
                                (b"get\r\n", b"CLIENT_ERROR bad command line format\r\n"),
                                (b"incr nobody-has-this one\r\n",
                                 b"CLIENT_ERROR invalid numeric delta argument\r\n")])

    def do_base64(self):
        """A key as long as a key in base64 can be."""
        key = (b"%s-%d-" % (self.name, self.rng.randrange(4))).ljust(180, b"\xff")
        coded, value = base64.b64encode(key), self.values.get(key)
        if self.rng.random() < 0.5:
            self.values[key] = value = mayfly.pattern(self.name, self.rng.choice([0, 10, 700]))
            return b"ms %s %d b\r\n%s\r\n" % (coded, len(value), value), b"HD\r\n"
        return b"mg %s b v\r\n" % coded, b"EN\r\n" if value is None else b"VA %d\r\n%s\r\n" % (len(value), value)

    def do_line_of_keys(self):
        """Longer than what is kept of other lines, and than a fair share of a turn."""
        key = b"%s-long" % self.name
        if key not in self.values:
            self.values[key] = b"zz"
            return b"set %s 0 0 2\r\nzz\r\n" % key, b"STORED\r\n"
        n = self.rng.choice([1000, 2500, 9000])
        return b"get" + (b" " + key) * n + b"\r\n", (b"VALUE %s 0 2\r\nzz\r\n" % key) * n + b"END\r\n"

    def do_long_pipeline(self):
        n = self.rng.choice([450, 900, 2000])
        return b"mn\r\n" * n, b"MN\r\n" * n

    def say(self):
        """One request, or a pipeline of them, and the reply."""
        kind = self.rng.random()
        if kind < 0.02:
            return self.do_too_large()
        if kind < 0.06:
            return self.do_set(self.rng.choice([20000, 70000, 200000, 700000]))
        if kind < 0.08:
            return self.rng.choice([self.do_line_of_keys, self.do_long_pipeline])()
        if kind < 0.14:
            parts = [self.say_small() for _ in range(self.rng.randrange(2, 150))]
            return b"".join(p[0] for p in parts), b"".join(p[1] for p in parts)
        return self.say_small()

    def say_small(self):
        return self.rng.choice([self.do_get, self.do_get, self.do_multiget, self.do_meta, self.do_arith,
                                self.do_delete, self.do_quiet, self.do_bad, self.do_base64,
                                lambda: self.do_set(self.rng.randrange(300))])()


def pieces(request, rng):
    """A request is sent as a whole, or cut in two or three anywhere."""
    cuts = sorted(rng.randrange(len(request)) for _ in range(rng.choice([0, 0, 0, 1, 2])))
    return [request[a:b] for a, b in zip([0] + cuts, cuts + [len(request)]) if a < b]


# ---- tests ---------------------------------------------------------------------------------------

def push(daemon, inputs):
    """Send to all of them while the daemon is stopped, as much as their sockets take, and the rest after."""
    rest = []
    with daemon.paused():
        for client, data in inputs:
            client.sock.setblocking(False)
            try:
                sent = client.sock.send(data)
            except BlockingIOError:
                sent = 0
            client.sock.setblocking(True)
            client.sock.settimeout(mayfly.PATIENCE)
            if sent < len(data):
                rest.append((client, data[sent:]))
    for client, data in rest:
        client.send(data)


def play(seed, args, many=60, rounds=25, **kw):
    rng = random.Random(seed)
    with Daemon("-m", "256", *args, **kw) as d:
        talks = [(d.client(), TextClient(b"c%d" % i, rng)) for i in range(many)]
        for _ in range(rounds):
            said = [talk.say() for _, talk in talks]
            cut = [pieces(request, rng) for request, _ in said]
            while any(cut):
                turn = [(i, cut[i].pop(0)) for i in range(many) if cut[i]]
                rng.shuffle(turn)
                push(d, [(talks[i][0], data) for i, data in turn])
            for (client, talk), (request, answer) in zip(talks, said):
                heard = client.exactly(len(answer))
                assert heard == answer, "%r: %r, not %r" % (request[:80], heard[:200], answer[:200])
        for client, _ in talks:     # and nothing more than that
            assert client.ask(b"mn") == b"MN"
            client.close()


def test_everybody_gets_his_own():
    play(1, ["-t", "1"])


def test_everybody_gets_his_own_over_tcp():
    play(3, ["-t", "1", "-R", "2"], tcp=True, rounds=12)


def test_neighbours_that_leave():
    """Some clients of a round close, reset, half-close or quit after their requests."""
    rng = random.Random(4)
    with Daemon("-m", "64", "-t", "1", tcp=True) as d:
        with d.client() as c:
            assert c.set(b"k", b"v") == b"STORED"
        hit = b"VALUE k 0 1\r\nv\r\nEND\r\n"
        for _ in range(20):
            clients = [d.client() for _ in range(40)]
            ways = [rng.choice(["stay", "stay", "close", "reset", "half", "quit", "junk"]) for _ in clients]
            with d.paused():
                for client, way in zip(clients, ways):
                    client.send(b"get k\r\n" + {"quit": b"quit\r\nget k\r\n", "junk": b"\x80\x7f"}.get(way, b""))
                    if way == "close":
                        client.close()
                    elif way == "reset":
                        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        client.close()
                    elif way == "half":
                        client.sock.shutdown(socket.SHUT_WR)
            for client, way in zip(clients, ways):
                if way in ("stay", "junk", "half", "quit"):
                    assert client.exactly(len(hit)) == hit, way
                if way in ("half", "quit"):
                    assert client.rest() == b"", way
                if way == "stay":
                    assert client.get(b"k") == b"v"
                client.close()
        with d.client() as c:
            wait_for(lambda: c.stat("curr_connections") == 1, "all others are gone")


def test_what_nobody_reads_is_nobody_s_request():
    """A connection ends, and its input is dropped, while the input of another one waits."""
    ask, junk = b"get victim        \r\n", b"delete victim     \r\n"
    with Daemon("-m", "64", "-t", "1") as d, d.client() as c:
        assert c.set(b"victim", b"precious") == b"STORED"
        assert c.set(b"big", b"x" * 350000) == b"STORED"
        for _ in range(10):
            with d.client() as a, d.client() as b:
                assert a.ask(b"mn") == b"MN"
                b.send(b"get big\r\nquit\r\n")
                wait_for(lambda: "conn_mwrite" in c.stats(b"conns").values(), "its socket is full")
                with d.paused():
                    b.send(junk)
                    a.send(ask)
                    b.sock.setblocking(False)
                    with contextlib.suppress(BlockingIOError):
                        while b.more():
                            pass
                assert a.get_reply() == {b"victim": b"precious"}
                b.sock.settimeout(mayfly.PATIENCE)
                assert len(b.rest()) > 350000
        assert c.get(b"victim") == b"precious"


if __name__ == "__main__":
    mayfly.main(globals())
