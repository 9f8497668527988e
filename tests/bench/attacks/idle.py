# SPDX-License-Identifier: BSD-3-Clause
import time

import attack


class Attack(attack.Attack):
    """A thousand connections that send nothing."""

    def attack(self, server, number):
        held = [server.client() for _ in range(1000)]
        time.sleep(3600)
        del held
