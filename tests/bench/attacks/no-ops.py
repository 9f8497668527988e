# SPDX-License-Identifier: BSD-3-Clause
import attack


class Attack(attack.Attack):
    """Pipelines of mn, the shortest request with an answer, without end."""

    attackers = 4

    def attack(self, server, number):
        with server.client() as c:
            c.sock.settimeout(3600)
            while True:
                c.send(b"mn\r\n" * 50000)
                got = 0
                while got < 200000:
                    got += len(c.sock.recv(1 << 18))
