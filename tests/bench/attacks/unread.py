# SPDX-License-Identifier: BSD-3-Clause
import time

import attack

DEAF = 1000
BIG = b"b" * 100000


class Attack(attack.Attack):
    """A thousand clients that ask for 400 KB each and never read."""

    # There the kernel keeps little of what is not read: all else is the server's.
    unix = True
    honest_clients = 4

    def prepare(self, server):
        with server.client() as c:
            assert c.set(b"small", b"s" * 150) == b"STORED"
            for i in range(4):
                assert c.set(b"big%d" % i, BIG) == b"STORED"

    def attack(self, server, number):
        held = []
        while True:
            try:
                c = server.client()
                c.send(b"get" + b" small" * 2000 + b"\r\nget big0 big1 big2\r\n")
                held.append(c)
            except OSError:
                time.sleep(.01)
            if len(held) > DEAF:
                held.pop(0).close()
                time.sleep(.005)

    def honest(self, client, number):
        """Two pipeline, two read at about 100 KB a second."""
        if number < 2:
            client.send(b"get big1\r\n" * 4)
            for _ in range(4):
                assert client.get_reply() == {b"big1": BIG}
            time.sleep(.01)
            return
        client.send(b"get big2 big3\r\n")
        want = b"VALUE big2 0 %d\r\n%s\r\nVALUE big3 0 %d\r\n%s\r\nEND\r\n" % (len(BIG), BIG, len(BIG), BIG)
        got = b""
        while len(got) < len(want):
            more = client.exactly(min(2000, len(want) - len(got)))
            got += more
            time.sleep(.02)
        assert got == want
