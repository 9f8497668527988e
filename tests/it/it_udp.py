#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The UDP protocol: frames, replies of one and of many datagrams, refusals, and what a
stranger could do with it."""
import contextlib
import random
import socket
import struct

import mayfly
from mayfly import Daemon, wait_for

PATIENCE = mayfly.PATIENCE


class Datagrams:
    """A UDP client. Loopback loses nothing, so a reply that does not come is a failure."""

    def __init__(self, port, host):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # Room for the longest reply, however much the kernel charges for a datagram.
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.sock.connect((host, port))
        self.sock.settimeout(PATIENCE)
        self.id = random.randrange(1 << 16)

    def send(self, payload, seq=0, total=1):
        self.id = (self.id + 1) & 0xffff
        self.sock.send(struct.pack(">HHHH", self.id, seq, total, 0) + payload)

    def receive(self):
        """One reply, put together from its datagrams."""
        parts = {}
        while True:
            data = self.sock.recv(1 << 16)
            assert 8 < len(data) <= 1400, len(data)
            number, seq, total, reserved = struct.unpack(">HHHH", data[:8])
            assert number == self.id and reserved == 0 and seq < total, (number, seq, total)
            parts[seq] = data[8:]
            if len(parts) == total:
                return b"".join(parts[i] for i in range(total))

    def ask(self, payload, **kw):
        self.send(payload, **kw)
        return self.receive()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()


class UdpDaemon(Daemon):
    def __init__(self, *args, **kw):
        super().__init__("-U", "-1", *args, tcp=True, **kw)

    @property
    def udp_port(self):
        return self.ports("UDP INET")[0]

    def datagrams(self, host="127.0.0.1"):
        return Datagrams(self.ports("UDP INET")[host != "127.0.0.1"], host)


def test_requests_side_by_side_are_answered_one_by_one():
    with UdpDaemon() as d, d.datagrams() as u:
        u.send(b"set a 0 0 1\r\n1\r\nset b 0 0 1 noreply\r\n2\r\nget a b\r\nget c\r\n")
        assert u.receive() == b"STORED\r\n"
        assert u.receive() == b"VALUE a 0 1\r\n1\r\nVALUE b 0 1\r\n2\r\nEND\r\n"
        assert u.receive() == b"END\r\n"


def test_a_reply_of_many_datagrams():
    with UdpDaemon() as d, d.datagrams() as u, d.client() as c:
        for n in (1380, 1392, 5000, 30000, 100000):
            value = mayfly.pattern(b"v%d" % n, n)
            assert c.set(b"v", value) == b"STORED"
            assert u.ask(b"get v\r\n") == b"VALUE v 0 %d\r\n%s\r\nEND\r\n" % (n, value), n
        keys = [b"key%d" % i for i in range(300)]
        assert all(c.set(key, mayfly.pattern(key, 200)) == b"STORED" for key in keys)
        reply = u.ask(b"get " + b" ".join(keys) + b"\r\n")
        assert reply == b"".join(b"VALUE %s 0 200\r\n%s\r\n" % (k, mayfly.pattern(k, 200)) for k in keys) + b"END\r\n"


def test_a_reply_beyond_the_bound_is_an_error():
    with UdpDaemon() as d, d.datagrams() as u, d.client() as c:
        assert c.set(b"big", b"x" * 200000) == b"STORED"
        assert c.set(b"half", b"x" * 70000) == b"STORED"
        too_long = b"SERVER_ERROR reply too long for UDP\r\n"
        assert u.ask(b"get big\r\n") == too_long
        assert u.ask(b"get half half\r\n") == too_long
        assert u.ask(b"get half absent\r\n").startswith(b"VALUE half 0 70000\r\n")
        assert u.ask(b"get absent\r\n") == b"END\r\n"


def test_the_work_of_a_datagram_is_bounded():
    too_many = b"SERVER_ERROR too many requests in one datagram\r\n"
    with UdpDaemon() as d, d.datagrams() as u, d.client() as c:
        assert c.set(b"k", b"v") == b"STORED"
        assert u.ask(b"get" + b" a" * 1000 + b" k\r\n") == b"VALUE k 0 1\r\nv\r\nEND\r\n"
        before = int(c.stats()["cmd_get"])
        assert u.ask(b"get k" + b" a" * 30000 + b"\r\n") == too_many
        gets = int(c.stats()["cmd_get"]) - before
        assert 1000 < gets <= 1100, gets
        # Quiet requests, and such that are answered: one error, and no request after it.
        u.send(b"set n 0 0 1 noreply\r\n0\r\n" + b"incr n 1 noreply\r\n" * 3000)
        assert u.receive() == too_many
        assert 1000 < int(c.get(b"n")) < 1100
        u.send(b"mn\r\n" * 3000)
        replies = [u.receive()]
        while replies[-1] != too_many:
            replies.append(u.receive())
        assert set(replies[:-1]) == {b"MN\r\n"} and 300 < len(replies) < 400, len(replies)
        assert u.ask(b"get k\r\n") == b"VALUE k 0 1\r\nv\r\nEND\r\n"
        # The keys of an unlink count as well.
        assert u.ask(b"unlink a k" + b" a" * 2000 + b"\r\n") == too_many
        assert u.ask(b"get k\r\n") == b"VALUE k 0 1\r\nv\r\nEND\r\n"
        assert u.ask(b"unlink" + b" a" * 1000 + b" k\r\n") == b"1\r\n"
        assert u.ask(b"pttl k\r\n") == b"-2\r\n"


def other_address():
    """An address of this machine that is not loopback."""
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        probe.connect(("192.0.2.1", 9))     # sends nothing, only asks for the route
        return probe.getsockname()[0]
    except OSError:
        raise mayfly.Inapplicable("this machine has loopback only")
    finally:
        probe.close()


def test_replies_to_other_machines_are_small():
    """CVE-2018-1000115: a forged sender must not get much more than was sent."""
    host = other_address()
    with UdpDaemon("-l", host) as d, d.client() as c:
        assert c.set(b"small", b"s" * 200) == b"STORED"
        assert c.set(b"large", b"l" * 300) == b"STORED"
        with d.datagrams(host=host) as u:
            assert u.ask(b"get small\r\n").startswith(b"VALUE small 0 200\r\n")
            assert u.ask(b"get large\r\n") == b"SERVER_ERROR reply too long for UDP\r\n"
            assert u.ask(b"get small small\r\n") == b"SERVER_ERROR reply too long for UDP\r\n"
    with UdpDaemon("-l", host, "-o", "udp_reply_max=1k") as d, d.client() as c:
        assert c.set(b"large", b"l" * 900) == b"STORED"
        with d.datagrams(host=host) as u:
            assert u.ask(b"get large\r\n").startswith(b"VALUE large 0 900\r\n")


def replies_to(sock, payload):
    """All datagrams that answer this one, up to the reply to a request that is sent after it:
    the socket has one worker, which answers in order."""
    sock.send(struct.pack(">HHHH", 1, 0, 1, 0) + payload)
    sock.send(struct.pack(">HHHH", 2, 0, 1, 0) + b"mn\r\n")
    got = []
    while True:
        data = sock.recv(1 << 16)
        if data[:2] == b"\0\2":
            return got
        got.append(data)


def test_requests_of_one_datagram_do_not_add_up():
    """The bound holds for a whole datagram, not for each of the many small requests in it."""
    host = other_address()
    with UdpDaemon("-l", host, "-t", "1") as d, d.client() as c:
        assert c.set(b"k", b"s" * 200) == b"STORED"
        with d.datagrams(host=host) as u:
            for payload in (b"get k\r\n" * 190, b"\n" * 1300, b"get x\r\n" * 190, frame(0x00, b"k") * 50,
                            frame(0x0a) * 50, frame(0x7f) * 50):
                sent = len(payload) + 36
                got = replies_to(u.sock, payload)
                assert got, payload[:10]
                assert sum(len(data) + 28 for data in got) <= sent, (payload[:10], got)
            # A reply that does not fit is reported, once.
            got = replies_to(u.sock, b"get k\r\n" * 3)
            assert [data[8:20] for data in got] == [b"VALUE k 0 20", b"SERVER_ERROR"], got
    # Nobody can forge a sender on loopback.
    with UdpDaemon("-t", "1") as d, d.client() as c, d.datagrams() as u:
        assert c.set(b"k", b"s" * 200) == b"STORED"
        assert len(replies_to(u.sock, b"get k\r\n" * 50)) == 50


def frame(opcode, key=b"", value=b"", extras=b"", opaque=7):
    body = extras + key + value
    return struct.pack(">BBHBBHIIQ", 0x80, opcode, len(key), len(extras), 0, 0, len(body), opaque, 0) + body


def status_of(reply):
    return struct.unpack(">BBHBBHIIQ", reply[:24])[5]


def test_the_other_protocols():
    with UdpDaemon() as d, d.datagrams() as u, d.client() as c:
        assert u.ask(b"ms m 5 T100\r\nhello\r\n") == b"HD\r\n"
        assert u.ask(b"mg m v k\r\n") == b"VA 5 km\r\nhello\r\n"
        u.send(b"mg absent v q\r\nmn\n")
        assert u.receive() == b"MN\r\n"
        assert status_of(u.ask(frame(0x01, b"b", b"value", b"\0\0\0\5\0\0\0\0"))) == 0
        got = u.ask(frame(0x00, b"b"))
        assert status_of(got) == 0 and got[24:] == b"\0\0\0\5value"
        u.send(frame(0x09, b"absent") + frame(0x0a))        # getq says nothing of a miss
        assert u.receive()[:2] == b"\x81\x0a"
        assert c.set(b"big", b"x" * 100000) == b"STORED"
        assert u.ask(frame(0x00, b"big"))[28:] == b"x" * 100000
        assert c.set(b"big", b"x" * 200000) == b"STORED"
        assert status_of(u.ask(frame(0x00, b"big"))) == 3
        assert status_of(u.ask(frame(0x10))) == 0x81, "stat is not served"
        assert status_of(u.ask(frame(0x08))) == 0x81, "flush is not served"
        assert u.ask(frame(0x0b))[24:].startswith(b"1.6.")
        assert status_of(u.ask(frame(0x01, b"b", b"cut short", b"\0" * 8)[:-3])) == 4


def test_what_is_not_served():
    with UdpDaemon() as d, d.datagrams() as u, d.client() as c:
        for line in (b"stats", b"flush_all", b"verbosity 1", b"shutdown", b"lru_crawler metadump all",
                     b"watch", b"cache_memlimit 100", b"quit", b"slabs automove 0"):
            assert u.ask(line + b"\r\n") == b"SERVER_ERROR not served over UDP\r\n", line
        assert u.ask(b"get a\r\n", total=2) == b"SERVER_ERROR multi-packet request not supported\r\n"
        incomplete = b"CLIENT_ERROR request does not end in its datagram\r\n"
        assert u.ask(b"get a") == incomplete
        assert u.ask(b"set a 0 0 10\r\nabc\r\n") == incomplete
        assert u.ask(b"set a 0 0 2000000\r\nabc\r\n") == b"SERVER_ERROR object too large for cache\r\n"
        assert u.ask(b"set a 0 0 3\r\nabcd\r\n") == b"CLIENT_ERROR bad data chunk\r\n"
        assert u.ask(b"get %s\r\n" % (b"k" * 251)).startswith(b"CLIENT_ERROR ")
        assert u.ask(b"get a\r\n") == b"END\r\n"
        assert c.ask(b"version") is not None


def test_random_datagrams_are_harmless():
    with UdpDaemon("-t", "2") as d, d.datagrams() as u, d.client() as c:
        rng = random.Random(7)
        for i in range(3000):
            n = rng.choice((0, 1, 7, 8, 9, 30, 200, 1400))
            data = bytearray(rng.randbytes(n))
            if i % 2 and n >= 8:
                data[:8] = b"\0\1\0\0\0\1\0\0"
            if i % 4 == 3 and n > 12:
                data[8:12] = rng.choice((b"get ", b"set ", b"\x80\0\0\1", b"mg k", b"gat "))
            u.sock.send(bytes(data))
            if i % 100 == 99:       # so that the kernel drops none
                wait_for(lambda i=i: c.stat("mayfly_udp_datagrams") >= i + 1, "all are received")
        u.sock.close()
        with d.datagrams() as fresh:
            assert fresh.ask(b"get a\r\n") == b"END\r\n"


def check_not_answered(d, c, own):
    """A datagram from that socket is dropped and counted."""
    before = c.stat("mayfly_udp_errors")
    own.sendto(b"\0\1\0\0\0\1\0\0get a\r\n", ("127.0.0.1", d.udp_port))
    wait_for(lambda: c.stat("mayfly_udp_errors") == before + 1, "it is dropped")
    own.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        raise AssertionError("answered: %r" % own.recv(2000))


def test_replies_are_not_answered():
    """Two servers must not be made to talk to each other: the daemon's own port gets no reply."""
    with UdpDaemon() as d, d.client() as c, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        try:
            # Another address with the same port number as the daemon's.
            own.bind(("127.0.0.2", d.udp_port))
        except OSError:
            raise mayfly.Inapplicable("the port is taken on 127.0.0.2")
        check_not_answered(d, c, own)


def test_services_are_not_answered():
    """Nor do the ports of services, up to the last of them."""
    with UdpDaemon() as d, d.client() as c:
        for wanted in (range(20, 1024), range(1023, 20, -1)):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
                for port in wanted:
                    try:
                        own.bind(("127.0.0.1", port))
                        break
                    except PermissionError:
                        raise mayfly.Inapplicable("not allowed to bind ports of services")
                    except OSError:
                        continue
                check_not_answered(d, c, own)


def test_off_unless_asked():
    with Daemon(tcp=True) as d, d.client() as c:
        assert "UDP" not in mayfly.read(d.port_file)
        assert c.stats(b"settings")["udpport"] == "0"
        assert not any("udp" in v for v in c.stats(b"conns").values())


def test_every_worker_has_its_socket_and_stats_conns_shows_them():
    with UdpDaemon("-t", "3") as d, d.client() as c:
        names = [v for k, v in c.stats(b"conns").items() if k.endswith(":addr") and v.startswith("udp:")]
        assert names == ["udp:127.0.0.1:%d" % d.udp_port] * 3, names
        # Many clients are dealt to all of them, and all see the same items.
        assert c.set(b"a", b"1") == b"STORED"
        for _ in range(50):
            with d.datagrams() as u:
                assert u.ask(b"get a\r\n") == b"VALUE a 0 1\r\n1\r\nEND\r\n"


def test_a_port_in_use_is_an_error():
    with UdpDaemon() as d:
        taken = str(d.udp_port)
        done = mayfly.run("-l", "127.0.0.1", "-p", "0", "-U", taken)
        assert done[0] == 71 and "UDP port " + taken in done[1], done


mayfly.main(globals())
