# SPDX-License-Identifier: BSD-3-Clause
import attack


class Attack(attack.Attack):
    """Two hundred connections that send requests a byte at a time, each byte in a segment of its own."""

    attackers = 4

    def attack(self, server, number):
        held = [server.client() for _ in range(50)]
        request = b"set drip%d 0 0 10\r\n0123456789\r\nget drip%d\r\n" % (number, number)
        while True:
            for byte in request:
                for c in held:
                    c.sock.send(bytes([byte]))
            for c in held:
                assert c.line() == b"STORED"
                assert c.get_reply()
