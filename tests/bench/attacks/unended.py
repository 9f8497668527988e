# SPDX-License-Identifier: BSD-3-Clause
import time

import attack

LINES = 1000


class Attack(attack.Attack):
    """A thousand clients that begin long gets and small values, and end neither."""

    honest_clients = 4

    def attack(self, server, number):
        line = b"get" + b" key" * 400000
        body = b"set half 0 0 190000\r\n" + b"h" * 180000
        held = []
        while True:
            try:
                c = server.client()
                c.sock.settimeout(.5)
                c.send(line if len(held) % 2 else body)
                held.append(c)
            except OSError:
                pass
            if len(held) > LINES:
                held.pop(0).close()
                time.sleep(.005)

    def honest(self, client, number):
        """Values of 150 KB, which come in several parts."""
        key = b"honest%d" % number
        client.send(b"set %s 0 0 150000\r\n" % key)
        for _ in range(15):
            client.send(b"v" * 10000)
            time.sleep(.001)
        client.send(b"\r\n")
        assert client.line() == b"STORED"
        assert client.get(key) == b"v" * 150000
