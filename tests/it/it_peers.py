#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Limits per address, and clients of a balancer: the PROXY header identifies them for limits, statistics and
watchers."""
import contextlib
import os
import select
import shutil
import socket
import struct
import subprocess
import tempfile

import mayfly
import tls
from mayfly import Client, Daemon, wait_for

REFUSED = b"ERROR Too many open connections of this address"
FAILURE = b"CLIENT_ERROR authentication failure"


def change(d, name, value):
    with d.operator() as c:
        assert c.ask(b"config set %s %d" % (name, value)) == b"OK"


# ---- connections of an address --------------------------------------------------------------------

def refused(client):
    """Is the connection refused, with the reason?"""
    with client:
        return client.line() == REFUSED and client.line() is None


def test_an_address_has_so_many_connections():
    with Daemon("-t", "2", "-o", "conns_per_address=3,listen_both", "-l", "127.0.0.1", "-p", "-1", control=True) as d, \
            d.client() as operator:
        d.find_port()
        tcp = ("127.0.0.1", d.port)
        with Client(tcp) as a, Client(tcp) as b:
            assert a.ask(b"mn") == b"MN" and b.ask(b"mn") == b"MN"
            third = Client(tcp)
            assert third.ask(b"mn") == b"MN"
            assert refused(Client(tcp)) and refused(Client(tcp))
            assert operator.stat("mayfly_address_refused") == 2
            # Unix sockets do not count.
            with d.client() as local:
                assert local.ask(b"mn") == b"MN"
            third.close()

            def gets_in():
                with Client(tcp) as c:
                    return c.ask(b"mn") == b"MN"
            wait_for(gets_in, "the place is free again")
            change(d, b"conns_per_address", 0)
            with Client(tcp) as c, Client(tcp) as e, Client(tcp) as f:
                assert all(x.ask(b"mn") == b"MN" for x in (c, e, f))
                change(d, b"conns_per_address", 4)
                # Those that are in stay, and count.
                assert c.ask(b"mn") == b"MN" and refused(Client(tcp))


# ---- logins of an address -------------------------------------------------------------------------

def test_an_address_may_fail_so_often():
    with mayfly.place("users", b"u:p\n") as users, \
            Daemon("-Y", users, "-o", "auth_failures_per_address=4", control=True) as d, d.client() as known:
        assert known.set(b"x", b"u p") == b"STORED"
        for _ in range(4):
            with d.client() as c:
                assert c.set(b"x", b"u wrong") == FAILURE
        for password in (b"u wrong", b"u p"):
            with d.client() as c:
                assert c.set(b"x", password) == FAILURE and c.line() is None
        assert known.stat("mayfly_auth_barred") == 2 and known.stat("auth_errors") == 4
        change(d, b"auth_failures_per_address", 5)
        with d.client() as c:
            assert c.set(b"x", b"u p") == b"STORED"


# ---- behind a balancer ----------------------------------------------------------------------------

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def header(command, family, body=b""):
    return SIGNATURE + bytes([0x20 | command, family]) + struct.pack(">H", len(body)) + body


def v4(address, port=4711):
    return header(1, 0x11, socket.inet_aton(address) + bytes(4) + struct.pack(">HH", port, 1))


def v6(address, port=4711):
    return header(1, 0x21, socket.inet_pton(socket.AF_INET6, address) + bytes(16) + struct.pack(">HH", port, 1))


class Behind(Daemon):
    """A daemon with a listener for balancers, which are on this machine."""

    def __init__(self, *args, balancers="127.0.0.1", **kw):
        super().__init__("-v", "-o", "listen_both", "-l", "proxied:127.0.0.1", "-p", "-1",
                         "--proxy-from", balancers, *args, **kw)
        wait_for(self.find_port, "the port is known")

    def connect(self, first, timeout=mayfly.PATIENCE):
        c = Client(("127.0.0.1", self.port), timeout)
        c.send(first)
        return c


def peers(c):
    return [v for k, v in c.stats(b"conns").items() if k.endswith(":addr")]


def test_a_header_says_who_it_is():
    with Behind("-t", "1") as d, d.client() as operator, d.client() as watcher:
        assert watcher.ask(b"watch connevents") == b"OK"
        for first, shown in ((v4("192.0.2.1"), "tcp:192.0.2.1:4711"),
                             (v6("2001:db8::5", 7), "tcp6:[2001:db8::5]:7"),
                             (v6("::ffff:192.0.2.9"), "tcp:192.0.2.9:4711"),
                             (b"PROXY TCP4 192.0.2.3 192.0.2.4 55 11211\r\n", "tcp:192.0.2.3:55"),
                             (b"PROXY TCP6 2001:db8::6 ::1 56 11211\r\n", "tcp6:[2001:db8::6]:56")):
            with d.connect(first + b"set k 0 0 1\r\nx\r\n") as c:
                assert c.line() == b"STORED"
                assert shown in peers(operator), (shown, peers(operator))
        wait_for(lambda: watcher.more() and b"rip=192.0.2.1 " in watcher.buf, "the watcher sees who it is")
        # Without a client of its own the balancer is shown.
        for first in (header(0, 0), header(1, 0), header(1, 0x31, bytes(216)), b"PROXY UNKNOWN\r\n"):
            with d.connect(first) as c:
                assert c.ask(b"mn") == b"MN"
                assert any(p.startswith("tcp:127.0.0.1:") for p in peers(operator)), peers(operator)
        assert operator.stat("mayfly_proxy_errors") == 0


def test_a_header_may_come_byte_by_byte():
    with Behind("-t", "1") as d, d.client() as operator:
        for first in (v4("192.0.2.1"), b"PROXY TCP4 192.0.2.1 192.0.2.4 4711 11211\r\n"):
            with d.connect(b"") as c:
                c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for i in range(len(first)):
                    c.send(first[i:i + 1])
                    assert operator.ask(b"mn") == b"MN"     # it is read in between
                assert c.ask(b"mn") == b"MN"
                assert "tcp:192.0.2.1:4711" in peers(operator)


def test_malformed_headers_are_closed():
    with Behind("-t", "1") as d, d.client() as operator:
        errors = 0
        for first in (b"get a\r\n", b"PROXY TCP4 x y 1 2\r\n", b"PROXY " + b"x" * 200, header(2, 0x11, bytes(12)),
                      header(1, 0x11, bytes(4)), header(1, 0x12, bytes(12)),
                      SIGNATURE + b"\x21\x11\xff\xff", b"\x16\x03\x01"):
            with d.connect(first) as c, contextlib.suppress(ConnectionResetError):
                assert c.line() is None
            errors += 1
            wait_for(lambda n=errors: operator.stat("mayfly_proxy_errors") == n, "it is counted")
        with d.connect(v4("192.0.2.1")[:20]) as c:
            c.sock.shutdown(socket.SHUT_WR)
            assert c.line() is None
        wait_for(lambda: operator.stat("mayfly_proxy_errors") == errors + 1, "it is counted")
        wait_for(lambda: "malformed header" in d.log(), "it is logged")
        assert operator.stat("curr_connections") == 1


def test_who_sends_no_header_does_not_stay():
    with Behind("-t", "1") as d, d.client() as operator, d.connect(b"PROXY ") as c:
        assert c.line() is None
        wait_for(lambda: operator.stat("mayfly_proxy_errors") == 1, "it is counted")


def test_others_cannot_say_who_they_are():
    """From an address that is no balancer's a header is no header, and none is needed."""
    with Behind("-t", "1", balancers="192.0.2.0/24") as d, d.client() as operator:
        with d.connect(b"") as c:
            assert c.ask(b"mn") == b"MN"
        with d.connect(b"PROXY TCP4 192.0.2.1 192.0.2.4 4711 11211\r\nmn\r\n") as c:
            assert c.line() == b"ERROR" and c.line() == b"MN"
            assert not any("192.0.2.1:" in p for p in peers(operator)), peers(operator)


def test_limits_count_clients_and_not_the_balancer():
    with Behind("-t", "2", "-o", "conns_per_address=2") as d, d.client() as operator:
        kept = []
        for address in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
            for _ in range(2):
                kept.append(d.connect(v4(address)))
                assert kept[-1].ask(b"mn") == b"MN"
            assert refused(d.connect(v4(address)))
        # Of IPv6 a network counts.
        for address in ("2001:db8::1", "2001:db8::2"):
            kept.append(d.connect(v6(address)))
            assert kept[-1].ask(b"mn") == b"MN"
        assert refused(d.connect(v6("2001:db8::3")))
        kept.append(d.connect(v6("2001:db8:0:1::1")))
        assert kept[-1].ask(b"mn") == b"MN"
        assert operator.stat("mayfly_address_refused") == 4


def test_a_header_comes_before_tls():
    made = tls.Certificates()
    with Behind("-t", "1", *made.serve("x")) as d, d.client() as operator:
        raw = socket.create_connection(("127.0.0.1", d.port), timeout=mayfly.PATIENCE)
        raw.sendall(v4("192.0.2.1"))
        with made.context(authority=None).wrap_socket(raw) as s:
            s.sendall(b"mn\r\n")
            assert s.recv(100) == b"MN\r\n"
            assert "tcp:192.0.2.1:4711" in peers(operator)


# ---- failed logins that come quickly --------------------------------------------------------------

WRONG, RIGHT = (b"set x 0 0 %d\r\n%s\r\n" % (len(offer), offer) for offer in (b"u wrong", b"u p"))
# `p` by SHA-512; a hash takes the way through the pool.
HASHED = subprocess.run(["openssl", "passwd", "-6", "-salt", "salt", "p"], stdout=subprocess.PIPE,
                        check=False).stdout.strip() if shutil.which("openssl") else b""


class Slowed(Behind):
    """With users, and failures that wait until the test says so."""

    def __init__(self, *args, users=b"u:p\n", delay=60000):
        with tempfile.NamedTemporaryFile(prefix="mayfly-it.", delete=False) as f:
            f.write(users)
        os.chmod(f.name, 0o644)
        self.users = f.name
        super().__init__("-Y", f.name, "-o", "auth_timeout=0,auth_delay=%d" % delay, *args, control=True)

    def fail_ten_times(self, addresses):
        """Answered at once; after five a connection is closed."""
        for i in range(2):
            with self.connect(addresses[i % len(addresses)] + WRONG * 5) as c:
                assert [c.line() for _ in range(6)] == [FAILURE] * 5 + [None]

    def waiting(self, first, operator):
        """A connection whose failure is not answered yet."""
        before = operator.stat("mayfly_auth_throttled")
        c = self.connect(first)
        wait_for(lambda: operator.stat("mayfly_auth_throttled") == before + 1, "it failed")
        return c

    def __exit__(self, *what):
        try:
            super().__exit__(*what)
        finally:
            os.unlink(self.users)


def has_nothing(c):
    """Has the server sent nothing yet?"""
    return c.buf == b"" and select.select([c.sock], [], [], 0)[0] == []


def test_quick_failures_are_answered_late():
    for users in (b"u:p\n", b"u:" + HASHED + b"\n"):
        if users == b"u:\n":
            continue
        with Slowed("-t", "1", users=users) as d, d.operator() as operator:
            a = v4("192.0.2.1")
            d.fail_ten_times([a])
            assert operator.stat("mayfly_auth_throttled") == 0
            with d.waiting(a + WRONG + RIGHT + b"get x\r\n" + WRONG, operator) as c:
                # A client that knows the password is let in, also from there; others, and unix sockets, do not wait.
                with d.connect(a + RIGHT) as known:
                    assert known.line() == b"STORED"
                with d.connect(v4("192.0.2.2") + WRONG) as other:
                    assert other.line() == FAILURE
                for _ in range(3):
                    with d.client() as local:
                        local.send(WRONG * 5)
                        assert [local.line() for _ in range(6)] == [FAILURE] * 5 + [None]
                assert has_nothing(c) and operator.stat("mayfly_auth_throttled") == 1
                with d.waiting(a + WRONG, operator) as second:
                    change(d, b"auth_delay", 0)
                    assert second.line() == FAILURE
                assert [c.line() for _ in range(4)] == [FAILURE, b"STORED", b"END", b"STORED"]
            wait_for(lambda: "failed logins from 192.0.2.1 are answered after 60000 ms" in d.log(), "it is logged")
            with d.connect(a + WRONG * 5) as c:
                assert [c.line() for _ in range(6)] == [FAILURE] * 5 + [None]
            assert operator.stat("mayfly_auth_throttled") == 2
            assert d.log().count("failed logins from 192.0.2.1 are answered after 60000 ms") == 1, d.log()


def test_a_network_of_ipv6_is_one_address():
    with Slowed("-t", "1") as d, d.operator() as operator:
        d.fail_ten_times([v6("2001:db8::1"), v6("2001:db8::2")])
        with d.waiting(v6("2001:db8::3") + WRONG, operator) as c, d.connect(v6("2001:db8:0:1::1") + WRONG) as other:
            assert other.line() == FAILURE
            assert has_nothing(c)


def test_the_delay_ends_by_itself():
    with Slowed("-t", "1", delay=20) as d, d.operator() as operator:
        a = v4("192.0.2.1")
        d.fail_ten_times([a])
        with d.connect(a + WRONG * 2 + RIGHT + b"get x\r\n") as c, d.connect(a + WRONG * 5) as other:
            assert [c.line() for _ in range(4)] == [FAILURE, FAILURE, b"STORED", b"END"]
            assert [other.line() for _ in range(6)] == [FAILURE] * 5 + [None]
        assert operator.stat("mayfly_auth_throttled") == 7 and operator.stat("mayfly_auth_kicks") == 3


def test_who_waits_may_go():
    """By its own will, because it did not log in in time, or because the server stops."""
    with Slowed("-t", "1") as d, d.operator() as operator:
        a = v4("192.0.2.1")
        d.fail_ten_times([a])
        before = operator.stat("curr_connections")
        with d.waiting(a + WRONG, operator) as c:
            assert operator.stat("curr_connections") == before + 1
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_for(lambda: operator.stat("curr_connections") == before, "the one that was reset has left")
        # Also if its answer is to be the last one.
        b = v4("192.0.2.2")
        for n in (5, 1):
            with d.connect(b + WRONG * n) as c:
                assert [c.line() for _ in range(n)] == [FAILURE] * n
        with d.waiting(b + WRONG * 5, operator) as c:
            assert [c.line() for _ in range(4)] == [FAILURE] * 4 and has_nothing(c)
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_for(lambda: operator.stat("curr_connections") == before, "this one has left, too")
        with d.waiting(a + WRONG, operator) as c:
            c.sock.shutdown(socket.SHUT_WR)
            change(d, b"auth_delay", 0)
            assert c.line() == FAILURE and c.line() is None
            change(d, b"auth_delay", 60000)
        change(d, b"auth_timeout", 1)
        with d.waiting(a + WRONG, operator) as c:
            assert c.line() is None
        assert operator.stat("mayfly_auth_timeouts") >= 1
        change(d, b"auth_timeout", 0)
        change(d, b"auth_delay", 0)
        with d.connect(b + WRONG * 4) as last:
            assert [last.line() for _ in range(4)] == [FAILURE] * 4
            change(d, b"auth_delay", 60000)
            with d.waiting(a + WRONG + RIGHT + b"get x\r\n", operator) as c:
                kicks = operator.stat("mayfly_auth_kicks")
                last.send(WRONG)
                wait_for(lambda: operator.stat("mayfly_auth_kicks") == kicks + 1, "both wait")
                d.stop()
                assert [c.line() for _ in range(4)] == [FAILURE, b"STORED", b"END", None]
                assert [last.line(), last.line()] == [FAILURE, None]


def test_who_waits_is_no_obstacle():
    """It stays with its worker until it has its answer, and then moves to another."""
    with Slowed("-t", "4") as d, d.operator() as operator:
        a = v4("192.0.2.1")
        d.fail_ten_times([a])
        waiting = [d.waiting(a + WRONG, operator) for _ in range(8)]
        change(d, b"threads", 1)
        with d.connect(a + RIGHT) as known:
            assert known.line() == b"STORED"
        assert all(has_nothing(c) for c in waiting)
        change(d, b"auth_delay", 0)
        for c in waiting:
            assert c.line() == FAILURE
            c.send(RIGHT)
        assert all(c.line() == b"STORED" for c in waiting)
        for c in waiting:
            c.close()


def test_a_marked_listener_needs_balancers():
    for args, status, said in ((["-l", "proxied:127.0.0.1", "-p", "-1"], 71, "needs --proxy-from"),
                               (["--proxy-from", "10.0.0.0/33", "-l", "proxied:127.0.0.1", "-p", "-1"], 64,
                                "bits after /")):
        done = mayfly.run(*args)
        assert done[0] == status and said in done[1], done


mayfly.main(globals(), beside=("test_who_sends_no_header_does_not_stay",))
