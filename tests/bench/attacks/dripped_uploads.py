# SPDX-License-Identifier: BSD-3-Clause
import time

import attack


class Attack(attack.Attack):
    """Values of 1 MB of which each client sends 70 KB, and then a byte every 0.3 s."""

    clients = 300
    connections = 2048

    def attack(self, server, number):
        held = []
        for i in range(self.clients):
            c = server.client()
            c.sock.setblocking(False)
            c.left = b"set drip%d 0 0 1000000\r\n" % i + b"x" * 70000
            held.append(c)
        while True:
            for c in held:
                try:
                    c.left = c.left[c.sock.send(c.left):] if c.left else b""
                    if not c.left:
                        c.sock.send(b"x")
                except OSError:
                    pass
            time.sleep(.3)

    def honest(self, client, number):
        began = time.monotonic()
        got = client.set(b"honest%d" % number, b"v" * 400000)
        assert got == b"STORED", got
        took = time.monotonic() - began
        assert took < 1, "a set took %.1f s" % took
        time.sleep(.01)
