# SPDX-License-Identifier: BSD-3-Clause
import os
import socket
import struct
import time

import attack


class Attack(attack.Attack):
    """A thousand datagrams a second of 60 KB, which name 30 000 absent keys each."""

    honest_clients = 0
    flags = ("-t", "1", "-U", "-1")

    def attack(self, server, number):
        with open(os.path.join(server.folder, "port")) as f:
            port = next(int(x.split()[2]) for x in f if x.startswith("UDP INET: "))
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.connect(("127.0.0.1", port))
        datagram = struct.pack(">HHHH", 1, 0, 1, 0) + b"get" + b" a" * 30000 + b"\r\n"
        while True:
            try:
                sock.send(datagram)
            except OSError:
                pass
            time.sleep(.001)
