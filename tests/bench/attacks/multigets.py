# SPDX-License-Identifier: BSD-3-Clause
import attack


class Attack(attack.Attack):
    """Lines of 60 000 keys, half of them there, without end."""

    attackers = 2

    def prepare(self, server):
        with server.client() as c:
            c.send(b"".join(b"set mg%d 0 0 20 noreply\r\n%s\r\n" % (i, b"v" * 20) for i in range(0, 60000, 2)))
            assert c.ask(b"version")

    def attack(self, server, number):
        line = b"get " + b" ".join(b"mg%d" % i for i in range(60000)) + b"\r\n"
        with server.client() as c:
            c.sock.settimeout(3600)
            while True:
                c.send(line)
                while not c.buf.endswith(b"END\r\n"):
                    c.buf = c.buf[-5:]
                    c.more()
                c.buf = b""
