#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Replication over TLS: certificates of both sides, reasons that say what to do, links that are cut, certificates that
are replaced, roles that change, and chains. it_confined.py runs it with confined servers."""
import os
import shutil
import tempfile

import mayfly
import tls
from mayfly import wait_for
from proxy import Plan, Proxy
from replicas import Node, assert_equal, level

made = tls.make_or_skip_all(**{
    "ca": {}, "other-ca": {}, "node": {"authority": "ca", "names": "IP:127.0.0.1"},
    "named": {"authority": "ca", "names": "DNS:cache.example"}, "other": {"authority": "other-ca", "names": "IP:127.0.0.1"}})
FOLDER, path = made.folder, made.path


class TlsNode(Node):
    """A server that speaks TLS at its port, wants certificates of its clients (mutual), and follows others over TLS, with
    files in a folder of its own."""

    def __init__(self, *args, of=None, cert="node", mutual=True, ca="ca.pem", link=("cert", "key"), options=""):
        self.files = tempfile.mkdtemp(prefix="node.", dir=FOLDER)
        self.put(cert, "ca")
        shutil.copy(path(ca), self.file("link-ca.pem"))
        named = {"ssl_chain_cert": "cert.pem", "ssl_key": "cert.key", "ssl_ca_cert": "ca.pem",
                 "replica_tls_ca_cert": "link-ca.pem"}
        if "cert" in link:
            named["replica_tls_cert"] = "cert.pem"
        if "key" in link:
            named["replica_tls_key"] = "cert.key"
        text = ",".join("%s=%s" % (name, self.file(file)) for name, file in named.items())
        super().__init__("-Z", "-o", text, "-o", "replica_tls,ssl_verify_mode=%d%s" % (2 if mutual else 0, options), *args,
                         of=of, wait=False)

    def file(self, name):
        return os.path.join(self.files, name)

    def put(self, cert, ca):
        """Its certificate is this one from here on, and those that this authority has signed are trusted."""
        for source, name in ((cert + ".pem", "cert.pem"), (cert + ".key", "cert.key"), (ca + ".pem", "ca.pem"),
                             (ca + ".pem", "link-ca.pem")):
            shutil.copy(path(source), self.file(name + ".new"))
            os.rename(self.file(name + ".new"), self.file(name))

    def config(self, **options):
        for name, value in options.items():
            assert self.c.ask(b"config set %s %s" % (name.encode(), value.encode())) == b"OK", (name, value)


def reason(node):
    return node.c.stats(b"replication")["repl_state_reason"]


def wait_for_reason(node, *parts):
    """Statistics and log say why there is no link."""
    wait_for(lambda: all(part in reason(node) for part in parts), "%s is told, not %r" % (parts, reason(node)))
    wait_for(lambda: all(part in node.log() for part in parts), "the log has it too")


def fill(c, n=50, size=2000):
    for i in range(n):
        assert c.set(b"k%d" % i, b"%d " % i * size) == b"STORED"


def test_certificates_of_both_sides():
    with TlsNode() as a:
        fill(a.c)
        with TlsNode(of=a.port, link=()) as b:
            wait_for_reason(b, "the server wants another certificate: replica_tls_cert")
            assert b.state() == "connecting" and b.c.get(b"k1") is None
            b.config(replica_tls_cert=b.file("cert.pem"), replica_tls_key=b.file("cert.key"))
            level(a, b)
            assert_equal(a, b)
            a.c.set(b"large", b"x" * 900000)
            a.c.ask(b"delete k7")
            level(a, b)
            assert_equal(a, b)
            # A certificate of somebody else.
            for name in ("other.pem", "other.key"):
                shutil.copy(path(name), b.file(name))
            b.config(replica_tls_cert=b.file("other.pem"), replica_tls_key=b.file("other.key"))
            wait_for_reason(b, "the server wants another certificate")
            assert b.state() == "cut"
        # Key and certificate in one file.
        with TlsNode(link=()) as b:
            with open(b.file("both.pem"), "wb") as out:
                for name in ("cert.pem", "cert.key"):
                    out.write(mayfly.read_bytes(b.file(name)))
            b.config(replica_tls_cert=b.file("both.pem"))
            b.follow(a.port)
            level(a, b)


def test_a_primary_that_is_not_trusted():
    with TlsNode(mutual=False) as a:
        a.c.set(b"k", b"v")
        with TlsNode(of=a.port, ca="other-ca.pem") as b:
            wait_for_reason(b, "the certificate of the server", "(replica_tls_ca_cert)")
            assert b.c.get(b"k") is None
            os.rename(b.file("link-ca.pem"), b.file("away.pem"))
            wait_for_reason(b, "link-ca.pem: No such file or directory")
            # No option changes: the files are read by each new link.
            shutil.copy(path("ca.pem"), b.file("link-ca.pem"))
            level(a, b)
        # The system's authorities have not signed it either.
        with TlsNode() as b:
            assert b.c.ask(b"config set replica_tls_ca_cert \"\"") == b"OK"
            b.follow(a.port)
            wait_for_reason(b, "the certificate of the server", "(replica_tls_ca_cert)")
    with TlsNode(mutual=False, cert="named") as a, TlsNode(of=a.port) as b:
        wait_for_reason(b, "mismatch (replica_tls_name)")
        b.config(replica_tls_name="cache.example")
        level(a, b)


def test_one_side_without_tls():
    with TlsNode(mutual=False) as a, Node() as plain, TlsNode(of=plain.port) as b:
        wait_for_reason(b, "the server does not speak TLS at this port")
        plain.follow(a.port)
        wait_for_reason(plain, "does it want TLS? (replica_tls)")
        assert b.c.ask(b"config set replica_tls no") == b"OK"
        plain.stand_alone()
        level(plain, b)


def test_a_handshake_that_is_cut():
    """At bytes of the handshake and after it; the replica connects again each time, and is not confused."""
    with TlsNode() as a, Proxy(a.port) as p, TlsNode() as b:
        fill(a.c)
        p.only_planned = True
        spoilt = [Plan(cut=n) for n in (0, 1, 5, 6, 100, 800, 1500, 3000, 40000)] + \
            [Plan(cut_up=n) for n in (1, 5, 200, 600, 1200)] + [Plan(flip=n) for n in (3, 300, 1200, 20000)]
        for plan in spoilt:
            while not (p.links and p.links[-1].plan is plan and p.links[-1].was_spoilt):
                # A link that the replica had begun by itself is given up, unspoilt.
                before = len(p.links)
                p.plans = [plan]
                b.follow(p.port)
                wait_for(lambda: len(p.links) > before and p.links[-1].over.is_set(), vars(plan))
            assert b.c.get(b"k1") is None
        p.only_planned = False
        level(a, b)
        assert_equal(a, b)


def test_a_handshake_that_hangs():
    with TlsNode() as a, Proxy(a.port) as p:
        a.c.set(b"k", b"v")
        p.plans = [Plan(stall=50)]
        with TlsNode(of=p.port, options=",repl_timeout=1") as b:
            wait_for_reason(b, "silent for too long (repl_timeout)")
            level(a, b)
            assert b.c.get(b"k") == b"v"


def test_certificates_are_replaced():
    """Of both sides, by those of another authority, while both run."""
    with TlsNode() as a, TlsNode(of=a.port) as b:
        a.c.set(b"k", b"v")
        level(a, b)
        a.put("other", "other-ca")
        assert a.c.ask(b"refresh_certs") == b"OK"
        a.c.set(b"k", b"w")
        level(a, b)                 # the link stays
        assert b.c.get(b"k") == b"w"
        b.follow(a.port)            # a new link
        wait_for_reason(b, "the certificate of the server", "(replica_tls_ca_cert)")
        assert b.c.get(b"k") == b"w"
        b.put("other", "other-ca")
        a.c.set(b"k", b"x")
        level(a, b)
        assert b.c.get(b"k") == b"x" and b.log().count("a full sync is running") == 1


def test_roles_change():
    """The former primary follows its replica, over TLS as well: there is no other way in."""
    with TlsNode() as a, TlsNode(of=a.port) as b:
        fill(a.c)
        level(a, b)
        for n, (old, new) in enumerate(((a, b), (b, a), (a, b))):
            assert new.c.ask(b"promote 60000") == b"OK"
            assert new.c.set(b"turn", b"%d" % n) == b"STORED"
            level(new, old)
            assert old.c.get(b"turn") == b"%d" % n and old.state() == "online"
        assert b.c.ask(b"failover") == b"OK"
        level(a, b)
        assert_equal(a, b)
        assert b.log().count("a full sync is running") == 1 and a.log().count("a full sync is running") == 0


def test_the_port_that_is_told():
    """A server with plain and TLS listeners announces the one of the kind that it uses itself."""
    with Node() as a, Node("-Z", "-l", "notls:127.0.0.1:0", "-o", "ssl_chain_cert=%s,ssl_key=%s" % (
            path("node.pem"), path("node.key")), of=a.port, wait=False) as b:
        level(a, b)
        assert b.c.ask(b"promote 60000") == b"OK"
        level(b, a)
        assert b.c.stats(b"replication")["role"] == "primary" and a.state() == "online"


def test_a_certificate_instead_of_a_user():
    mayfly.write(path("access"), "certificate named replicate\ndefault read,write\n")
    with TlsNode("--access", path("access")) as a:
        fill(a.c, 5)
        with TlsNode(of=a.port) as b:
            wait_for_reason(b, "CLIENT_ERROR not allowed: for replicas")
            b.put("named", "ca")
            level(a, b)
            assert_equal(a, b)


def test_a_place_beyond_those_of_clients():
    def connect(node):
        c = node.client()
        c.sock = made.context().wrap_socket(c.sock)
        return c
    with TlsNode("-c", "2", mutual=False) as a:
        # Those that were closed may count a moment longer.
        wait_for(lambda: a.c.stat("curr_connections") == 1, "only the operator is left")
        with connect(a) as c, connect(a) as other:
            assert c.ask(b"mn") == b"MN" and other.ask(b"mn") == b"MN"
            with connect(a) as late:
                assert late.ask(b"mn") == b"ERROR Too many open connections" and late.line() is None
            with TlsNode(of=a.port) as b:
                level(a, b)


def test_a_fifo_instead_of_a_file():
    """Reading it would hold up every change of the role, and the stop."""
    fifo = path("fifo")
    os.mkfifo(fifo)
    with TlsNode() as a, TlsNode() as b:
        for option, before in (("replica_tls_ca_cert", "link-ca.pem"), ("replica_tls_cert", "cert.pem"),
                               ("replica_tls_key", "cert.key"), ("replica_password_file", None)):
            b.config(**{option: fifo})
            b.follow(a.port)
            wait_for_reason(b, "not a regular file: " + fifo)
            b.stand_alone()
            if before:
                b.config(**{option: b.file(before)})


def test_a_chain():
    with TlsNode() as a, TlsNode(of=a.port) as b, TlsNode(of=b.port) as c:
        fill(a.c, 20)
        level(a, b, c)
        assert_equal(a, b, c)
        a.crash()
        b.stand_alone()
        assert b.c.set(b"after", b"all") == b"STORED"
        level(b, c)
        assert_equal(b, c)
        assert c.log().count("a full sync is running") == 1


mayfly.main(globals(), beside=("test_a_primary_that_is_not_trusted", "test_roles_change", "test_a_handshake_that_hangs",
                               "test_a_handshake_that_is_cut"))
