# SPDX-License-Identifier: BSD-3-Clause
import time

import attack


class Attack(attack.Attack):
    """A thousand connections that send nothing."""

    honest_clients = 2

    def attack(self, server, number):
        held = [server.client() for _ in range(1000)]
        time.sleep(3600)
        del held

    def honest(self, client, number):
        key = b"honest%d" % number
        assert client.set(key, b"v" * 1000) == b"STORED"
        assert client.get(key) == b"v" * 1000
        time.sleep(.001)
