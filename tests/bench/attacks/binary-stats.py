# SPDX-License-Identifier: BSD-3-Clause
import struct
import time

import attack


class Attack(attack.Attack):
    """Pipelines of the binary stat command that read nothing, from many connections."""

    attackers = 2

    def attack(self, server, number):
        frame = struct.pack("!BBHBBHIIQ", 0x80, 0x10, 0, 0, 0, 0, 0, 0, 0)
        held = []
        while True:
            if len(held) < 100:
                c = server.client()
                c.sock.setblocking(False)
                held.append(c)
            for c in list(held):
                try:
                    c.sock.send(frame * 1000)
                except BlockingIOError:
                    pass
                except OSError:
                    held.remove(c)
                    c.close()
            time.sleep(.001)
