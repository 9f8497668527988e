# SPDX-License-Identifier: BSD-3-Clause
import itertools
import select
import time

import attack

SIZE, OWN, KEYS = 1000000, 200000, 40


def value(key, size):
    return attack.mayfly.pattern(key, size)


class Attack(attack.Attack):
    """A hundred readers of large values that are overwritten all the time, a byte a second each."""

    honest_clients = 3
    seconds = 15
    connections = 1024
    unix = True             # a TCP socket might take a whole value

    def options(self, server):
        return ["-t", "2"]

    def prepare(self, server):
        with server.client() as c:
            for i in range(KEYS):
                key = b"big%d" % i
                assert c.set(key, value(key, SIZE)) == b"STORED"
            assert c.set(b"slowly", value(b"slowly", SIZE)) == b"STORED"

    def attack(self, server, number):
        held = []
        writer = server.client()
        for i in itertools.count():
            key = b"big%d" % (i % KEYS)
            if i < 100:
                c = server.client(rcvbuf=4096)
                c.send(b"get %s\r\n" % key)
                select.select([c.sock], [], [], 5)
                c.sock.setblocking(False)
                held.append(c)
            try:
                writer.set(key, value(key, SIZE))
            except (OSError, EOFError):
                writer = server.client()
            if i >= 100:
                time.sleep(.025)
            if i >= 100 and i % 40 == 0:
                for c in held:
                    try:
                        c.sock.recv(1)
                    except OSError:
                        pass

    def honest(self, client, number):
        if number == 0:     # reads a value slowly while it is overwritten
            self.read_slowly(client)
        elif number == 1:   # overwrites that value
            assert client.set(b"slowly", value(b"slowly", SIZE)) == b"STORED"
            time.sleep(.05)
        else:               # stores and reads values of its own
            assert client.set(b"own", value(b"own", OWN)) == b"STORED"
            time.sleep(.02)

    def read_slowly(self, client):
        with client.server.client(rcvbuf=4096) as c:
            c.send(b"get slowly\r\n")
            want = b"VALUE slowly 0 %d\r\n%s\r\nEND\r\n" % (SIZE, value(b"slowly", SIZE))
            at = 0
            while at < len(want):
                if at < 300000:
                    time.sleep(.1)      # 10 KB a second, and the rest sooner
                got = c.sock.recv(min(1000 if at < 300000 else 50000, len(want) - at))
                if got != want[at:at + len(got)] or not got:
                    raise EOFError("%d of %d bytes" % (at, len(want)))
                at += len(got)
