# SPDX-License-Identifier: BSD-3-Clause
import select
import time
import time

import attack

ASKS = (b"stats sizes", b"lru_crawler mgdump all", b"stats cachedump 1 0", b"stats", b"stats conns",
        b"stats detail dump")
KEYS = 200000


class Attack(attack.Attack):
    """300 connections that ask for dumps, sizes and statistics, read them, and ask again."""

    honest_clients = 0
    flags = ("-t", "1", "-o", "track_sizes")
    seconds = 5

    def prepare(self, server):
        with server.client() as c:
            for at in range(0, KEYS, 1000):
                c.send(b"".join(b"set p%d:key%d 0 0 %d noreply\r\n%s\r\n" %
                                (i % 1000, i, i % 97, b"v" * (i % 97)) for i in range(at, at + 1000)))
            c.send(b"stats detail on\r\n")
            assert c.line() == b"OK"
            assert c.get(attack.KEY) is not None

    def attack(self, server, number):
        asks = {}
        poll = select.epoll()
        for i in range(300):
            c = server.client()
            c.sock.setblocking(False)
            poll.register(c.sock, select.EPOLLIN)
            asks[c.sock.fileno()] = c
            ask = ASKS[i % len(ASKS)] + b"\r\n"
            # As many as a socket takes: none may be served beyond its share.
            c.sock.send(ask * 2000)
        while True:
            for fd, _ in poll.poll():
                try:
                    asks[fd].sock.recv(1 << 20)
                except BlockingIOError:
                    pass
            time.sleep(.002)
