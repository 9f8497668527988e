# SPDX-License-Identifier: BSD-3-Clause
import attack


class Attack(attack.Attack):
    """Pipelines of gat and touch that change the deadlines of the same keys."""

    attackers = 2

    def prepare(self, server):
        with server.client() as c:
            c.send(b"".join(b"set t%d 0 600 20 noreply\r\n%s\r\n" % (i, b"v" * 20) for i in range(5000)))
            assert c.ask(b"version")

    def attack(self, server, number):
        batch = b"".join(b"gat %d t%d\r\ntouch t%d %d\r\n" % (1 + i % 900, i % 5000, i % 5000, 1 + i * 7 % 900)
                         for i in range(5000))
        with server.client() as c:
            c.sock.settimeout(3600)
            while True:
                c.send(batch)
                for _ in range(10):
                    c.more()
                    c.buf = b""
