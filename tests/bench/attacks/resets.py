# SPDX-License-Identifier: BSD-3-Clause
import attack


class Attack(attack.Attack):
    """Connections that ask for 1 MB and reset at once, as fast as they can."""

    attackers = 4

    def prepare(self, server):
        with server.client() as c:
            assert c.set(b"big", b"b" * 1000000) == b"STORED"

    def attack(self, server, number):
        while True:
            with server.client() as c:
                c.send(b"get big\r\n" * 10)
                c.reset()
