# SPDX-License-Identifier: BSD-3-Clause
import time

import attack


class Attack(attack.Attack):
    """Twenty clients that watch everything and read nothing, and writers that keep them busy."""

    attackers = 3

    def attack(self, server, number):
        if number == 0:
            held = [server.client() for _ in range(20)]
            for c in held:
                c.send(b"watch fetchers mutations evictions connevents deletions\r\n")
            time.sleep(3600)
        batch = b"".join(b"set w%d 0 0 50 noreply\r\n%s\r\ndelete w%d noreply\r\n" % (i, b"v" * 50, i)
                         for i in range(1000))
        with server.client() as c:
            c.sock.settimeout(3600)
            while True:
                c.send(batch)
