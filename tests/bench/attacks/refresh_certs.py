# SPDX-License-Identifier: BSD-3-Clause
import attack


class Attack(attack.Attack):
    """Twenty clients ask for refresh_certs without end."""

    honest_clients = 0
    tls = True
    flags = ("-t", "2")

    def attack(self, server, number):
        clients = [server.client(timeout=3600) for _ in range(20)]
        while True:
            for c in clients:
                c.send(b"refresh_certs\r\n")
            for c in clients:
                c.line()
