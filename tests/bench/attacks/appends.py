# SPDX-License-Identifier: BSD-3-Clause
import attack


class Attack(attack.Attack):
    """One value grown to the largest size by appends of 500 bytes, again and again."""

    attackers = 2

    def attack(self, server, number):
        key = b"grow%d" % number
        line = b"append %s 0 0 500 noreply\r\n%s\r\n" % (key, b"a" * 500)
        with server.client() as c:
            c.sock.settimeout(3600)
            while True:
                assert c.set(key, b"a") == b"STORED"
                for _ in range(20):
                    c.send(line * 100)
                assert c.ask(b"version")
