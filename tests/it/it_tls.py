#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""TLS: small and large values, slow readers, records of odd sizes, client certificates, versions, new certificates while connections stay, resumption, plain listeners beside it, and peers
that never finish a handshake. Certificates are made by openssl in a temporary directory."""
import contextlib
import fcntl
import os
import select
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time

import mayfly
import tls
from checked import Load, binary, meta, text, upload
from mayfly import Daemon, wait_for

made = tls.make_or_skip_all(ca={}, foreign={}, server={"authority": "ca"}, renewed={"authority": "ca"},
                            client={"authority": "ca"}, stranger={"authority": "foreign"})
path, context = made.path, made.context
made.openssl("pkey", "-in", "server.key", "-outform", "DER", "-out", "server.der")
made.openssl("pkey", "-in", "server.key", "-aes256", "-passout", "pass:secret", "-out", "locked.key")
mayfly.write(path("both.pem"), mayfly.read(path("server.pem")) + mayfly.read(path("server.key")))
MIB = 1 << 20


class Client(mayfly.Client):
    """A connection of the text protocol over TLS."""

    def __init__(self, address, with_context=None, session=None, rcvbuf=None):
        super().__init__(address, rcvbuf=rcvbuf)
        plain = self.sock
        try:
            self.sock = (with_context or context()).wrap_socket(plain, session=session)
        except BaseException:
            plain.close()
            raise

    def subject(self):
        return dict(pair[0] for pair in self.sock.getpeercert()["subject"])["commonName"]


class Server(Daemon):
    """A daemon that speaks TLS on one port, and plain text on another."""

    def __init__(self, *args, options="", chain="server.pem", key="server.key", serves=True, listeners=2, **kw):
        self.listeners = listeners
        self.serves = serves                # does it answer clients that did not authenticate?
        # Files of its own, so that a test may replace them.
        self.files = tempfile.mkdtemp(prefix="files.", dir=made.folder)
        self.put(chain, "chain.pem")
        names = "ssl_chain_cert=" + self.file("chain.pem")
        if key:
            self.put(key, "key")
            names += ",ssl_key=" + self.file("key")
        super().__init__("-l", "notls:127.0.0.1:0", "-Z", "-o", names + (options and "," + options), *args,
                         tcp=True, **kw)

    def file(self, name):
        return os.path.join(self.files, name)

    def put(self, source, name):
        shutil.copy(path(source), self.file(name + ".new"))
        os.rename(self.file(name + ".new"), self.file(name))

    def wait_until_it_serves(self):
        def serves():
            if self.process.poll() is not None:
                raise AssertionError("the daemon ended with %d: %s" % (self.process.returncode, self.log()))
            return os.path.exists(self.port_file) and len(self.ports()) == self.listeners
        wait_for(serves, "the daemon listens")
        self.port = self.ports()[0]
        with self.plain() as c:
            assert (c.ask(b"version") or b"").startswith(b"VERSION" if self.serves else b"CLIENT_ERROR")

    def tls(self, *args, **kw):
        return Client(self.address, *args, **kw)

    def plain(self):
        return mayfly.Client(("127.0.0.1", self.ports()[1]))


def test_small_values():
    with Server("-t", "2") as d, d.tls() as c:
        assert c.sock.version() == "TLSv1.3", c.sock.version()
        assert c.ask(b"version").startswith(b"VERSION ")
        assert c.set(b"a", b"1") == b"STORED"
        assert c.set(b"b", b"two") == b"STORED"
        assert c.get(b"a", b"b", b"c") == {b"a": b"1", b"b": b"two"}
        assert c.ask(b"incr a 41") == b"42"
        # An item stored through the plain port is seen here: it is one cache.
        with d.plain() as p:
            assert p.get(b"b") == b"two"
            settings = p.stats(b"settings")
            assert settings["ssl_enabled"] == "yes" and settings["ssl_min_version"] == "tlsv1.2"
        # Statistics gathered from other workers arrive too.
        assert c.shard_sum("curr_items") == 2
        assert d.log().count("handshake failed") == 0


def test_datagrams_stay_plain_and_are_warned_of():
    with Server("-U", "-1") as d, d.tls() as c:
        wait_for(lambda: "UDP is not encrypted" in d.log(), "it is warned of")
        assert c.set(b"a", b"1") == b"STORED"
        port = d.ports("UDP INET")[0]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as u:
            u.settimeout(mayfly.PATIENCE)
            u.connect(("127.0.0.1", port))
            u.send(b"\0\1\0\0\0\1\0\0get a\r\n")
            assert u.recv(2000) == b"\0\1\0\0\0\1\0\0VALUE a 0 1\r\n1\r\nEND\r\n"


def test_watcher_and_dump():
    """Streams over TLS: input of a watcher is discarded, lines that it does not read are skipped."""
    with Server("-t", "2", options="watcher_logbuf_size=16") as d, d.plain() as c:
        with d.tls() as w, d.tls(rcvbuf=4096) as deaf, d.tls() as reader:
            assert all(x.ask(b"watch mutations") == b"OK" for x in (w, deaf))
            w.send(b"flush_all\r\n" * 5000)
            for i in range(5000):
                assert c.set(b"k%d" % i, b"v") == b"STORED"
                while b"\n" not in w.buf:
                    assert w.more()
                line, w.buf = w.buf.split(b"\n", 1)
                assert b" key=k%d status=stored " % i in line, line

            def skips():
                c.send(b"".join(b"set k%d 0 0 1\r\nv\r\n" % i for i in range(1000)))
                assert all(c.line() == b"STORED" for _ in range(1000))
                return c.stat("log_watcher_skipped") > 0

            wait_for(skips, "those who do not read skip lines")
            reader.send(b"lru_crawler mgdump all\r\nversion\r\n")
            assert reader.line() == b"OK"
            assert {reader.line() for _ in range(5000)} == {b"mg k%d" % i for i in range(5000)}
            assert reader.line() == b"EN"
            assert reader.line().startswith(b"VERSION")
        wait_for(lambda: c.stat("log_watchers") == 0, "both left")


def test_odd_records():
    """Requests cut into records at every place, and several requests in one record."""
    stream = (b"set a 0 0 10\r\n0123456789\r\nget a\r\nset b 0 0 3 noreply\r\nabc\r\nget a b\r\n"
              b"touch a 100\r\ndelete b\r\nget b\r\n")
    answer = (b"STORED\r\nVALUE a 0 10\r\n0123456789\r\nEND\r\nVALUE a 0 10\r\n0123456789\r\nVALUE b 0 3\r\n"
              b"abc\r\nEND\r\nTOUCHED\r\nDELETED\r\nEND\r\n")
    with Server("-t", "1") as d, d.tls() as c:
        for cut in range(1, len(stream)):
            c.send(stream[:cut])
            c.send(stream[cut:])
            assert c.exactly(len(answer)) == answer, cut
        for byte in stream:
            c.send(bytes([byte]))
        assert c.exactly(len(answer)) == answer
        value = mayfly.pattern(b"odd", 300000)
        request = b"set odd 0 0 %d\r\n" % len(value) + value + b"\r\nget odd\r\n"
        for step in (1, 777, 5000, 16384, 16385, 20001):
            at = 0
            while at < len(request):
                n = step if step > 1 or at < 40 else 16000
                c.send(request[at:at + n])
                at += n
            assert c.line() == b"STORED", step
            assert c.get_reply() == {b"odd": value}, step


def test_bytes_behind_the_handshake():
    """The first request comes with the last message of the handshake."""
    inbound, outbound = ssl.MemoryBIO(), ssl.MemoryBIO()
    with Server("-t", "1") as d:
        session = context().wrap_bio(inbound, outbound)
        sock = socket.create_connection(d.address, mayfly.PATIENCE)

        def step(call):
            while True:
                try:
                    return call()
                except ssl.SSLWantReadError:
                    if outbound.pending:
                        sock.sendall(outbound.read())
                    inbound.write(sock.recv(1 << 16))
        step(session.do_handshake)
        session.write(b"set k 0 0 5\r\nhello\r\nget k\r\n")
        sock.sendall(outbound.read())       # Finished and data in one segment
        got = b""
        while not got.endswith(b"END\r\n"):
            got += step(lambda: session.read(1 << 16))
        assert got == b"STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\n", got
        sock.close()


def test_less_read_than_a_record_holds():
    """Before a client has authenticated little is read at once: the rest of the record waits in
    the library, and no event of the socket reports it."""
    mayfly.write(path("users"), "me:secret\n")
    with Server("-t", "1", "-Y", path("users"), serves=False) as d, d.tls() as c:
        refusals = b"get k\r\n" * 2300          # of the 8 KiB that are read at once, nearly two
        assert len(refusals) < 16384
        c.send(refusals)
        for _ in range(2):                      # one for each read
            assert c.line() == b"CLIENT_ERROR unauthenticated"
        c.send(b"set auth 0 0 9\r\nme secret\r\n" + b"set k 0 0 1\r\nx\r\n" * 800)
        for _ in range(801):
            assert c.line() == b"STORED"
        assert c.get(b"k") == b"x"


def test_slow_reader():
    """Replies wait, are kept, and arrive whole; others are served meanwhile."""
    with Server("-t", "1", "-m", "128") as d, d.tls(rcvbuf=4096) as slow, d.tls() as other:
        value = mayfly.pattern(b"big", 900000)
        assert other.set(b"big", value) == b"STORED"
        small = mayfly.pattern(b"small", 900)
        assert other.set(b"small", small) == b"STORED"
        slow.send(b"get small\r\nget big\r\n" * 20 + b"get small\r\n")
        other.fill(b"k", 100, b"v")
        assert other.set(b"big", b"replaced") == b"STORED"
        time.sleep(0.2)     # no verdict: only lets answers pile up
        seen = []
        for _ in range(41):
            seen.append(slow.get_reply())
        assert seen[0::2] == [{b"small": small}] * 21
        bigs = [s[b"big"] for s in seen[1::2]]
        assert all(b in (value, b"replaced") for b in bigs)
        assert bigs[0] == value


def test_sessions_go_from_worker_to_worker():
    with Server("-t", "2", "-o", "max_threads=6", control=True) as d, d.operator() as c, \
            Load(d, 8, text, meta, binary, upload, connect=d.tls) as load:
        idle = [d.tls() for _ in range(20)]
        for n in (4, 1, 6, 2, 1, 5, 1):
            assert c.ask(b"config set threads %d" % n) == b"OK"
            load.goes_on()
            wait_for(lambda: c.stat("mayfly_threads_leaving") == 0, "the other workers are parked")
        assert c.stat("curr_connections") == 29 and c.stat("ssl_proto_errors") == 0
        assert all(one.ask(b"mn") == b"MN" for one in idle)


def moves(o):
    return o.stat("mayfly_conns_moved")


def move(o, count, load=None):
    """Move connections between workers and back, at least this often. Here that is one: the operator's, which is alone
    with a client, waits for answers most of the time, and what waits stays."""
    end = moves(o) + count
    while moves(o) < end and not (load and load.errors):
        o.send(b"config set threads 2\r\nconfig set threads 1\r\n" * 8)
        for _ in range(16):
            assert o.line() == b"OK"


def some_keys(c, name, n, rng):
    """As many_keys, but by one thread: a TLS session of Python is not for two. The line fits the buffers of the sockets."""
    assert c.set(b"l" + name, mayfly.pattern(name, 1000)) == b"STORED"
    keys = rng.randint(500, 2000)
    one = b"VALUE l%s 0 1000\r\n%s\r\n" % (name, mayfly.pattern(name, 1000))
    c.send(b"get" + b" l%s" % name * keys + b"\r\n")
    assert c.exactly(len(one) * keys + 5) == one * keys + b"END\r\n"
    return n + 1


def test_a_session_that_moves_all_the_time():
    with Server("-t", "1", "-o", "max_threads=2,balance=no", control=True) as d, d.operator() as o:
        for kinds in ((text,), (meta,), (binary,), (upload,), (some_keys,)):
            with Load(d, 1, *kinds, connect=d.tls) as load:
                move(o, 100, load)
                load.goes_on()
        # In the middle of a reply, which waits for its client at each move.
        value = mayfly.pattern(b"value", 1000000)
        with d.tls(rcvbuf=4096) as c:
            assert c.set(b"value", value) == b"STORED"
            for _ in range(3):
                c.send(b"get value" + b" value" * 4 + b"\r\nmn\r\n")
                for _ in range(5):
                    assert c.line() == b"VALUE value 0 %d" % len(value)
                    for at in range(0, len(value), 100000):
                        move(o, 2)
                        assert c.exactly(100000) == value[at:at + 100000]
                    assert c.exactly(2) == b"\r\n"
                assert c.line() == b"END" and c.line() == b"MN"
        assert o.stat("ssl_proto_errors") == 0 and o.stat("ssl_handshake_errors") == 0


def test_close_is_announced():
    """quit ends with close_notify, not with a bare end of the stream."""
    with Server("-t", "1") as d, d.tls() as c:
        c.send(b"set k 0 0 1\r\nx\r\nquit\r\nget k\r\n")
        c.sock.suppress_ragged_eofs = False
        assert c.rest() == b"STORED\r\n"


def test_stop_answers_what_was_received():
    value = mayfly.pattern(b"k", 20000)
    with Server("-m", "64", "-t", "2") as d:
        clients = [d.tls() for _ in range(4)]
        for c in clients:
            assert c.set(b"k", value) == b"STORED"
            c.send(b"get k\r\n" * 40)
            c.get_reply()
        d.process.send_signal(signal.SIGTERM)
        for c in clients:
            c.sock.suppress_ragged_eofs = False
            data = c.rest()
            answer = b"VALUE k 0 20000\r\n" + value + b"\r\nEND\r\n"
            assert data == answer * (len(data) // len(answer)), "a reply was cut: ...%r" % data[-80:]
            c.close()
        assert d.process.wait(mayfly.PATIENCE) == 0


def refused(connect):
    """True when the server ended it, during the handshake or after it (TLS 1.3)."""
    try:
        with connect() as c:
            return c.ask(b"version") is None
    except (ssl.SSLError, ConnectionError):
        return True


def test_client_certificates():
    cases = (       # mode, certificate, is it let in
        (0, None, True), (0, "stranger", True),
        (1, None, True), (1, "client", True), (1, "stranger", False),
        (2, None, False), (2, "client", True), (2, "stranger", False),
        (3, None, False), (3, "client", True), (3, "stranger", False))
    for newest in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        for mode in range(4):
            with Server("-t", "1", options="ssl_ca_cert=%s,ssl_verify_mode=%d" % (path("ca.pem"), mode)) as d:
                errors = 0
                for m, certificate, let_in in cases:
                    if m == mode:
                        got = refused(lambda: d.tls(context(certificate, newest)))
                        assert got != let_in, (newest, m, certificate)
                        errors += not let_in
                with d.plain() as p:
                    assert p.stat("ssl_handshake_errors") == errors


def test_listeners_that_want_certificates_or_none():
    options = "ssl_verify_mode=1,ssl_ca_cert=" + path("ca.pem")
    with Server("-t", "1", "-l", "mtls:127.0.0.1:0,btls:tag[b]:127.0.0.1:0", options=options, listeners=4) as d:
        plain, mtls, btls = d.ports()[1:]
        for newest in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            for port, certificate, let_in in (
                    (d.port, None, True), (d.port, "stranger", False),
                    (mtls, None, False), (mtls, "stranger", False), (mtls, "client", True),
                    (btls, None, True), (btls, "stranger", True)):
                got = refused(lambda: Client(("127.0.0.1", port), context(certificate, newest)))
                assert got != let_in, (newest, port, certificate)
            # A session that began where nobody was asked is worth nothing where everybody is.
            ctx = context(None, newest)
            with Client(("127.0.0.1", btls), ctx) as c:
                assert (c.ask(b"version") or b"").startswith(b"VERSION")
                session = c.sock.session
            with Client(("127.0.0.1", btls), ctx, session=session) as c:
                assert c.sock.session_reused
            assert refused(lambda: Client(("127.0.0.1", mtls), ctx, session=session))
        with d.plain() as p:
            assert p.stat("ssl_handshake_errors") == 2 * 4
    for address in ("mtls:127.0.0.1:0", "btls:127.0.0.1:0"):
        done = mayfly.run("-p", "-1", "-l", address)
        assert done[0] == 71 and "need TLS (-Z)" in done[1], done


def test_min_version():
    with Server("-t", "1", options="ssl_min_version=3") as d:
        assert refused(lambda: d.tls(context(newest=ssl.TLSVersion.TLSv1_2)))
        with d.tls() as c:
            assert c.sock.version() == "TLSv1.3"
        with d.plain() as p:
            assert p.stat("ssl_handshake_errors") == 1
            assert p.stats(b"settings")["ssl_min_version"] == "tlsv1.3"


def test_ciphers():
    name = "ECDHE-ECDSA-AES256-GCM-SHA384"
    with Server("-t", "1", options="ssl_ciphers=" + name) as d:
        with d.tls(context(newest=ssl.TLSVersion.TLSv1_2)) as c:
            assert c.sock.cipher()[0] == name
        only = context(newest=ssl.TLSVersion.TLSv1_2)
        only.set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305")
        assert refused(lambda: d.tls(only))


def test_refresh():
    """By command and by signal: new handshakes see the new certificate, old sessions stay, and a file that
    cannot be used changes nothing."""
    with Server("-t", "2") as d, d.tls() as old:
        assert old.subject() == "server"
        d.put("renewed.pem", "chain.pem")
        answer = old.ask(b"refresh_certs")          # the key is still the old one's
        assert answer.startswith(b"Error loading the key: ") and b"mismatch" in answer, answer
        with d.tls() as c:
            assert c.subject() == "server"
        d.put("renewed.key", "key")
        assert old.ask(b"refresh_certs") == b"OK"
        with d.tls() as c:
            assert c.subject() == "renewed"
        assert old.set(b"k", b"v") == b"STORED"
        d.put("server.pem", "chain.pem")
        d.put("server.key", "key")
        d.process.send_signal(signal.SIGHUP)

        def subject():
            with d.tls() as c:
                return c.subject()
        wait_for(lambda: subject() == "server", "the signal takes effect")
        os.unlink(d.file("chain.pem"))
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "kept the certificates in use (Error loading the certificate chain: " in d.log(),
                 "the failure is logged")
        assert subject() == "server"
        answer = old.ask(b"refresh_certs")
        assert answer.startswith(b"Error loading the certificate chain: "), answer
        assert answer.endswith(b"No such file or directory"), answer
        assert old.get(b"k") == b"v"


def test_refreshes_without_end_hold_nobody_up():
    """Refreshes run on a separate thread, one at a time and at most ten a second, for all requests: clients that
    pipeline them wait, others do not."""
    with Server("-t", "1") as d, d.plain() as c, contextlib.ExitStack() as stack:
        began = time.monotonic()
        asking = [stack.enter_context(d.plain()) for _ in range(20)]
        for a in asking:
            a.send(b"refresh_certs\r\n" * 3000)
        for _ in range(100):
            assert c.ask(b"mn") == b"MN"
        assert all(a.line() == b"OK" for a in asking)
        a = asking[0]
        for _ in range(3):
            assert a.line() == b"OK"
        most = 2 + 10 * (time.monotonic() - began)
        a.sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while a.more():
                pass
        assert a.buf.count(b"OK") <= most, (a.buf.count(b"OK"), most)
        assert d.log().count("reloaded the certificates") <= 2 + time.monotonic() - began


def test_a_refresh_that_hangs_does_not_hold_up_the_stop():
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    with Server() as d, d.plain() as c:
        d.put("renewed.pem", "chain.pem")
        fd = os.open(d.file("chain.pem"), os.O_RDONLY)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)    # who opens it waits for the end of the lease
        c.send(b"refresh_certs\r\n")
        wait_for(lambda: fcntl.fcntl(fd, fcntl.F_GETLEASE) != fcntl.F_WRLCK, "it is being opened")
        assert d.stop() == 0, d.log()
        os.close(fd)
        assert "abandoned a load of certificates" in d.log()


def test_age_of_certificates():
    with Server("-t", "1") as d, d.plain() as p:
        wait_for(lambda: p.stat("time_since_server_cert_refresh") >= 1, "it gets older")
        began = time.monotonic()
        assert p.ask(b"refresh_certs") == b"OK"
        age = p.stat("time_since_server_cert_refresh")
        assert age <= time.monotonic() - began, "%d s old" % age


def test_refresh_without_tls():
    with Daemon() as d, d.client() as c:
        assert c.ask(b"refresh_certs") == b"Error TLS not enabled"
        assert not [name for name in c.stats() if name.startswith("ssl_") or "cert" in name]


def test_resumption_by_ticket():
    for newest in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with Server("-t", "2") as d:
            mine = context(newest=newest)
            with d.tls(mine) as c:
                assert not c.sock.session_reused
                assert c.set(b"k", b"v") == b"STORED"
                session = c.sock.session
            for _ in range(4):      # any worker takes it
                with d.tls(mine, session=session) as c:
                    assert c.sock.session_reused, newest
                    assert c.get(b"k") == b"v"
                    session = c.sock.session
            with d.plain() as p:
                assert "ssl_new_sessions" not in p.stats()
                assert p.ask(b"refresh_certs") == b"OK"
            with d.tls(mine, session=session) as c:     # nothing has changed
                assert c.sock.session_reused
                assert c.get(b"k") == b"v"
            d.put("renewed.pem", "chain.pem")
            d.put("renewed.key", "key")
            with d.plain() as p:
                assert p.ask(b"refresh_certs") == b"OK"
            with d.tls(mine, session=session) as c:     # another key: start over
                assert not c.sock.session_reused
                assert c.get(b"k") == b"v"


def test_resumption_from_the_cache():
    for has_cache in (False, True):
        with Server("-t", "2", options="ssl_session_cache" if has_cache else "") as d:
            mine = context(newest=ssl.TLSVersion.TLSv1_2)
            mine.options |= ssl.OP_NO_TICKET
            with d.tls(mine) as c:
                assert c.set(b"k", b"v") == b"STORED"
                session = c.sock.session
            with d.tls(mine, session=session) as c:
                assert c.sock.session_reused == has_cache
                assert c.get(b"k") == b"v"
            if has_cache:
                with d.plain() as p:
                    assert p.stat("ssl_new_sessions") == 1


def test_client_certificate_and_resumption():
    """A resumed session keeps the certificate it began with; a session without one is refused."""
    with Server("-t", "1", options="ssl_verify_mode=2,ssl_ca_cert=" + path("ca.pem")) as d:
        mine = context("client")
        with d.tls(mine) as c:
            assert c.ask(b"version")
            session = c.sock.session
        with d.tls(mine, session=session) as c:
            assert c.sock.session_reused
            assert c.ask(b"version")


def test_broken_record():
    """Noise after the handshake ends the connection and is counted."""
    with Server("-t", "1") as d, d.plain() as p, d.tls() as c:
        assert c.set(b"k", b"v") == b"STORED"
        raw = socket.socket(fileno=os.dup(c.sock.fileno()))
        raw.sendall(b"\x17\x03\x03\x00\x40" + b"\x55" * 64)
        wait_for(lambda: p.stat("ssl_proto_errors") == 1, "it is counted")
        wait_for(lambda: p.stat("curr_connections") == 1, "it is closed")
        raw.close()


def test_half_a_handshake_holds_nobody_up():
    """Peers that stop during the handshake stay for ten seconds, and others do not notice."""
    with Server("-t", "1") as d:
        inbound, outbound = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = context().wrap_bio(inbound, outbound)
        with contextlib.suppress(ssl.SSLWantReadError):
            session.do_handshake()
        hello = outbound.read()
        stuck = []
        began = time.monotonic()
        for i in range(100):
            s = socket.create_connection(d.address, mayfly.PATIENCE)
            s.sendall(hello[:(i * 7) % len(hello)] if i % 3 else hello)
            stuck.append(s)
        with d.tls() as c, d.plain() as p:
            c.fill(b"k", 50, b"v")
            # Unless this has taken longer than the first of them live.
            assert p.stat("curr_connections") == 102 or time.monotonic() - began > 9
            # Without idle_timeout: the handshake has a limit of its own.
            wait_for(lambda: p.stat("curr_connections") == 2, "they are given up")
            assert p.stat("ssl_handshake_errors") == 100
            assert c.get(b"k1") == b"v"


def test_storm_of_handshakes():
    """Requests of an open connection are served while many handshakes wait."""
    with Server("-t", "1", "-c", "2000") as d, d.tls() as c, d.plain() as p:
        hello_in, hello_out = ssl.MemoryBIO(), ssl.MemoryBIO()
        with contextlib.suppress(ssl.SSLWantReadError):
            context().wrap_bio(hello_in, hello_out).do_handshake()
        hello = hello_out.read()

        def is_served_amid_them():
            wait_for(lambda: p.stat("curr_connections") == 2, "no other client is there")
            socks = [socket.create_connection(d.address, mayfly.PATIENCE) for _ in range(300)]
            wait_for(lambda: p.stat("curr_connections") == 302, "they are there")
            with d.paused():        # so that they all come at once
                for s in socks:
                    s.send(hello)
            for i in range(3):
                assert c.set(b"k", b"v%d" % i) == b"STORED"
            answered = len(select.select(socks, [], [], 0)[0])
            for s in socks:
                assert s.recv(1), "no answer to a hello"
                s.close()
            return answered < 300
        # Whether the three replies come during the storm depends on this test, too.
        wait_for(is_served_amid_them, "requests are served amid handshakes")


def test_limit_of_connections():
    with Server("-t", "1", "-c", "10") as d, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(d.tls()) for _ in range(10)]
        with d.tls() as late:       # it might be a replica
            assert late.ask(b"mn") == b"ERROR Too many open connections" and late.line() is None
        with mayfly.Client(d.address) as plain:
            try:
                said = plain.rest()
            except ConnectionError:
                said = b""
            assert said == b"", "words that its client could not read: %r" % said
        assert clients[0].set(b"k", b"v") == b"STORED"


def test_s_client():
    with Server("-t", "1", chain="both.pem", key=None) as d:
        done = subprocess.run(
            ["openssl", "s_client", "-connect", "127.0.0.1:%d" % d.port, "-CAfile", path("ca.pem"),
             "-verify_return_error", "-quiet"],
            input=b"set k 0 0 5\r\nhello\r\nget k\r\nquit\r\n", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=mayfly.PATIENCE, check=False)
        assert done.stdout == b"STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\n", (done.stdout, done.stderr)


def test_renegotiation_is_refused():
    """TLS 1.2 lets a client request renegotiations repeatedly; each would cost a signature."""
    with Server("-t", "1") as d:
        asking = subprocess.Popen(
            ["openssl", "s_client", "-connect", "127.0.0.1:%d" % d.port, "-CAfile", path("ca.pem"), "-tls1_2"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            with d.plain() as p:
                wait_for(lambda: p.stat("curr_connections") == 2, "it is connected")
            said = asking.communicate(b"R\n", mayfly.PATIENCE)[1]
        finally:
            asking.kill()
        assert b"no renegotiation" in said, said
        with d.tls() as c:
            assert c.set(b"k", b"v") == b"STORED"


def test_key_formats():
    with Server("-t", "1", key="server.der", options="ssl_keyformat=2") as d, d.tls() as c:
        assert c.subject() == "server"


def test_bad_files_end_the_start():
    fifo = path("fifo")     # nothing will ever write to it
    os.mkfifo(fifo)
    special = " : not a regular file"
    cases = (
        ("server.pem", "renewed.key", "", "Error loading the key: "),
        ("server.pem", "locked.key", "", "Error loading the key: "),
        ("server.pem", "server.der", "", "Error loading the key: "),
        ("server.pem", "server.pem", "", "Error loading the key: "),
        ("server.key", "server.key", "", "Error loading the certificate chain: "),
        ("server.pem", "server.key", "ssl_ca_cert=/no/such", "Error loading the CA certificate: /no/such : "),
        ("server.pem", "server.key", "ssl_chain_cert=" + fifo, "Error loading the certificate chain: " + fifo + special),
        ("server.pem", "server.key", "ssl_key=" + fifo, "Error loading the key: " + fifo + special),
        ("server.pem", "server.key", "ssl_ca_cert=" + fifo, "Error loading the CA certificate: " + fifo + special),
        ("server.pem", "server.key", "ssl_ciphers=NONSENSE", "Error setting the provided cipher(s): NONSENSE"),
    )
    for chain, key, options, message in cases:
        d = Server(chain=chain, key=key, options=options, wait=False)
        try:
            assert d.process.wait(mayfly.PATIENCE) == 64, (chain, key, options, d.log())
            assert d.says(message)
        finally:
            d.kill()


def records_of_replies(size_kib):
    """In how many records of TLS the replies to one batch come."""
    with Server("-t", "1", options="ssl_wbuf_size=%d" % size_kib) as d:
        with d.plain() as p:
            assert p.set(b"k", b"x" * 900) == b"STORED"
        come, gone = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context().wrap_bio(come, gone)
        with socket.create_connection(("127.0.0.1", d.port), mayfly.PATIENCE) as s:
            def until_done(step):
                """The result of the step, and the data received meanwhile."""
                raw = b""
                while True:
                    try:
                        got = step()
                        s.sendall(gone.read())
                        return got, raw
                    except ssl.SSLWantReadError:
                        s.sendall(gone.read())
                        more = s.recv(1 << 16)
                        assert more, "the connection ended"
                        raw += more
                        come.write(more)
            until_done(tls.do_handshake)
            tls.write(b"mn\r\n")
            assert until_done(lambda: tls.read(4))[0] == b"MN\r\n"
            tls.write(b"get k\r\n" * 60)
            raw, text = b"", b""
            while text.count(b"END\r\n") < 60:
                got, more = until_done(lambda: tls.read(1 << 16))
                text, raw = text + got, raw + more
            count = 0
            while raw:
                count, raw = count + 1, raw[5 + int.from_bytes(raw[3:5], "big"):]
            return count


def test_replies_are_gathered_before_they_are_encrypted():
    many, few = records_of_replies(1), records_of_replies(16)
    assert many >= 4 * few, (many, few)


def test_kernel_tls_if_it_can():
    with Server("-t", "1", options="ssl_kernel_tls,ssl_wbuf_size=64") as d, d.tls() as c:
        value = mayfly.pattern(b"v", 700000)
        assert c.set(b"k", value) == b"STORED"
        assert c.get(b"k") == value


def test_nothing_is_left_of_connections():
    """Many connections leave no more memory in use than some; the address sanitizer is exact."""
    mayfly.skip_if(mayfly.is_sanitized(), "a sanitizer keeps what is freed")
    with Server("-t", "1") as d:
        def round_of(n):
            for _ in range(n):
                with d.tls() as c:
                    c.set(b"k", b"v" * 20000)
                    c.get(b"k")
        def growth_of_a_round():
            before = d.rss()
            round_of(600)
            return d.rss() - before
        round_of(200)
        # A huge page that the kernel makes meanwhile spoils one round, a leak all.
        grown = mayfly.best_of(growth_of_a_round, 2 * MIB)
        assert grown < 2 * MIB, "%d bytes" % grown


mayfly.main(globals(), beside=(
    "test_half_a_handshake_holds_nobody_up", "test_refresh", "test_refreshes_without_end_hold_nobody_up",
    "test_age_of_certificates", "test_resumption_by_ticket"))
