# SPDX-License-Identifier: BSD-3-Clause
import os
import socket
import time

import attack

USER, PASSWORD = b"honest", b"a password"
CONNECTIONS = 200
DEADLINE = 2        # seconds to log in; 10 by default


class Attack(attack.Attack):
    """As many connections as -c allows, which never log in."""

    connections = CONNECTIONS
    settles = DEADLINE + 1.5

    def options(self, server):
        path = os.path.join(server.folder, "users")
        with open(path, "wb") as f:
            f.write(b"%s:%s\n" % (USER, PASSWORD))
        return ["-Y", path] + (["-o", "auth_timeout=%d" % DEADLINE] if server.name == "mayflyd" else [])

    def login(self, client):
        assert client.set(b"login", USER + b" " + PASSWORD) == b"STORED"

    def attack(self, server, number):
        held = []
        while len(held) < 2 * CONNECTIONS:
            try:
                held.append(socket.create_connection(server.address, .1))
            except OSError:
                pass
        time.sleep(3600)

    def honest(self, client, number):
        """A client that connects while all places are taken retries until there is one."""
        end = time.monotonic() + DEADLINE + 2
        while True:
            try:
                with client.server.client(timeout=1) as c:
                    assert c.set(b"honest%d" % number, b"v" * 1000) == b"STORED"
                    return
            except (OSError, EOFError, AssertionError):
                if time.monotonic() > end:
                    raise AssertionError("no place for a client that logs in")
                time.sleep(.05)
