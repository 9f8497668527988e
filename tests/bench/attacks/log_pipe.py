# SPDX-License-Identifier: BSD-3-Clause
import contextlib
import fcntl
import os
import socket
import time

import attack


class Attack(attack.Attack):
    """Messages to a standard error that nobody reads: verbosity 3, commands, failed handshakes."""

    tls = True
    attackers = 2
    pipes = []          # open for as long as the runner lives

    def stderr(self, server):
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        self.pipes += [reader, writer]
        return writer

    def attack(self, server, number):
        with server.client() as c:
            assert c.ask(b"verbosity 3") == b"OK"
        while True:
            # A server that hangs answers nothing: the attacker continues with new connections.
            with contextlib.suppress(OSError, EOFError), server.client(timeout=1) as c:
                for i in range(100):
                    c.get(b"key%d" % i)
            for _ in range(20):
                with socket.socket() as s, contextlib.suppress(OSError):
                    s.settimeout(1)
                    s.connect(server.address)
                    s.sendall(b"this is no handshake\r\n")
                    s.recv(100)
            time.sleep(.2)      # messages shall hold the server up, not handshakes
