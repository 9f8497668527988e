# SPDX-License-Identifier: BSD-3-Clause
import os

import attack

USER, PASSWORD = b"honest", b"a password"
GUESSES = 1000


class Attack(attack.Attack):
    """Floods of password guesses, pipelined, over ever new connections."""

    attackers = 4

    def options(self, server):
        path = os.path.join(server.folder, "users")
        with open(path, "wb") as f:
            f.write(b"%s:%s\n" % (USER, PASSWORD))
        return ["-Y", path]

    def login(self, client):
        assert client.set(b"login", USER + b" " + PASSWORD) == b"STORED"

    def attack(self, server, number):
        guess = b"set login 0 0 %d\r\n%s %s\r\n"
        while True:
            try:
                with attack.Client(server, timeout=1) as c:
                    c.send(b"".join(guess % (len(USER) + 7, USER, b"%06d" % i) for i in range(GUESSES)))
                    c.rest()
            except (OSError, EOFError):
                pass

    def honest(self, client, number):
        """Every client logs in again now and then."""
        with client.server.client() as c:
            key = b"honest%d" % number
            assert c.set(key, b"v" * 1000) == b"STORED"
            for _ in range(100):
                assert c.get(key) == b"v" * 1000

    def judge(self, run):
        reasons = super().judge(run)
        if "failed logins" not in run.server.log():
            reasons.append("nobody is told")
        return reasons
