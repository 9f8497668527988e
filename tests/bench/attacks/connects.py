# SPDX-License-Identifier: BSD-3-Clause
import socket
import time

import attack


class Attack(attack.Attack):
    """Connections opened and held far beyond -c, again and again."""

    attackers = 4
    connections = 256

    def attack(self, server, number):
        held = []
        while True:
            try:
                s = socket.create_connection(server.address, 1)
                s.setblocking(False)
                held.append(s)
            except OSError:
                time.sleep(.01)
            if len(held) > 400:
                for s in held:
                    s.close()
                held.clear()
