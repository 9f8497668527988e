# SPDX-License-Identifier: BSD-3-Clause
import attack


class Attack(attack.Attack):
    """Pipelines of 16 MB of small stores without replies."""

    attackers = 2

    def attack(self, server, number):
        batch = b"".join(b"set nr%d 0 0 100 noreply\r\n%s\r\n" % (i, b"v" * 100) for i in range(120000))
        with server.client() as c:
            c.sock.settimeout(3600)
            while True:
                c.send(batch)
