# SPDX-License-Identifier: BSD-3-Clause
import time

import attack

LARGE, MORE = 300 << 20, 1 << 20


class Attack(attack.Attack):
    """Appends of 1000 bytes and of 1 MiB to a value of 300 MiB; honest clients are those that append."""

    memory_mib = 1024
    seconds = 5

    def options(self, server):
        return ["-t", "2", "-I", "500m"]

    def prepare(self, server):
        with server.client(timeout=60) as c:
            assert c.set(b"large", bytes(LARGE)) == b"STORED"

    def attack(self, server, number):
        with server.client() as c:
            assert c.set(b"go", b"1") == b"STORED"
            time.sleep(3600)

    def honest(self, client, number):
        if client.get(b"go") is None:
            time.sleep(.05)
            return
        size = MORE if number else 1000
        client.send(b"append large 0 0 %d\r\n%s\r\n" % (size, bytes(size)))
        assert client.line() == b"STORED"
        time.sleep(.1 if number else .01)
