# SPDX-License-Identifier: BSD-3-Clause
import socket
import time

import attack


class Attack(attack.Attack):
    """Connections that ask for 100 MB, send their end, and read nothing."""

    attackers = 4

    def prepare(self, server):
        with server.client() as c:
            assert c.set(b"big", b"b" * 1000000) == b"STORED"

    def attack(self, server, number):
        held = []
        for _ in range(250):
            c = server.client()
            c.send(b"get big\r\n" * 100)
            c.sock.shutdown(socket.SHUT_WR)
            held.append(c)
        time.sleep(3600)
