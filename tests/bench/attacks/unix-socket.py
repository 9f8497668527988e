# SPDX-License-Identifier: BSD-3-Clause
import attack


class Attack(attack.Attack):
    """The same as no-ops over a unix socket, with connections that come and go."""

    attackers = 4
    unix = True

    def attack(self, server, number):
        while True:
            with server.client() as c:
                for _ in range(20):
                    c.send(b"mn\r\n" * 10000)
                    got = 0
                    while got < 40000:
                        got += len(c.sock.recv(1 << 18))
