#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""SASL in the binary protocol (-S): users of the library and users of a plain file, what is served
before, how little a client costs that never authenticates, and a password check that hangs."""
import contextlib
import os
import select
import signal
import shutil
import socket
import struct
import subprocess
import tempfile
import threading

import mayfly
from mayfly import Client, Daemon, Skip, wait_for

GET, SET, QUIT, NOOP, VERSION, STAT = 0x00, 0x01, 0x07, 0x0a, 0x0b, 0x10
LIST, AUTH, STEP = 0x20, 0x21, 0x22
OK, NOT_FOUND, INVALID, AUTH_FAILURE, CONTINUE, UNKNOWN, BUSY = 0x00, 0x01, 0x04, 0x20, 0x21, 0x81, 0x85
FAILED = (AUTH_FAILURE, b"Auth failure.")
GOOD = (OK, b"Authenticated")


def frame(opcode, key=b"", value=b"", extras=b"", key_len=None, body_len=None):
    body = extras + key + value
    return struct.pack(">BBHBBHIIQ", 0x80, opcode, len(key) if key_len is None else key_len, len(extras), 0, 0,
                       len(body) if body_len is None else body_len, 0x0a0d, 0) + body


def plain(user, password, authzid=b""):
    return frame(AUTH, b"PLAIN", authzid + b"\0" + user + b"\0" + password)


class Binary(Client):
    def frame(self):
        """The next answer: status and body; None at the end of the stream."""
        try:
            head = self.exactly(24)
        except (EOFError, ConnectionError):
            return None
        magic, self.opcode, _, _, _, status, body_len, _, _ = struct.unpack(">BBHBBHIIQ", head)
        assert magic == 0x81, head
        return status, self.exactly(body_len)

    def ask_frame(self, data):
        self.send(data)
        return self.frame()

    def is_at_end(self):
        try:
            return self.rest() == b""
        except ConnectionError:
            return True

    def stats_frames(self, key=b""):
        self.send(frame(STAT, key))
        found = {}
        while True:
            head = self.exactly(24)
            _, _, key_len, _, _, status, body_len, _, _ = struct.unpack(">BBHBBHIIQ", head)
            body = self.exactly(body_len)
            assert status == OK, status
            if body_len == 0:
                return found
            found[body[:key_len].decode()] = body[key_len:].decode()


class Guarded:
    """A daemon with -S. users: of a plain file; else conf and a sasldb with user@realm."""

    def __init__(self, *args, users=None, conf="mech_list: plain login\n", tcp=False, control=False):
        self.folder = tempfile.TemporaryDirectory(prefix="mayfly-sasl.")
        environment = {"SASL_CONF_PATH": self.folder.name}
        self.pwdb = os.path.join(self.folder.name, "pwdb")
        if users is not None:
            self.write(users)
            environment["MEMCACHED_SASL_PWDB"] = self.pwdb
        db = os.path.join(self.folder.name, "sasldb2")
        with open(os.path.join(self.folder.name, "memcached.conf"), "w") as f:
            f.write(conf if "pwcheck_method" in conf else
                    conf + "pwcheck_method: auxprop\nauxprop_plugin: sasldb\nsasldb_path: %s\n" % db)
        if users is None and "pwcheck_method" not in conf:
            tool = shutil.which("saslpasswd2") or "/usr/sbin/saslpasswd2"
            if not os.access(tool, os.X_OK):
                self.folder.cleanup()
                raise Skip("saslpasswd2 is not here")
            subprocess.run([tool, "-p", "-c", "-a", "memcached", "-f", db, "-u", "realm", "user"], input=b"pass",
                           check=True)
        try:
            self.daemon = Daemon("-S", *args, env=environment, wait=False, tcp=tcp, control=control)
            self.wait_until_it_serves()
        except BaseException:
            self.folder.cleanup()
            raise

    def wait_until_it_serves(self):
        d = self.daemon

        def serves():
            if d.process.poll() is not None:
                raise AssertionError("the daemon ended with %d: %s" % (d.process.returncode, d.log()))
            if d.tcp and not d.find_port():
                return False
            try:
                with self.client() as c:
                    return c.ask_frame(frame(VERSION)) is not None
            except OSError:
                return False
        try:
            wait_for(serves, "the daemon serves")
        except BaseException:
            d.kill()
            raise

    def write(self, users):
        mayfly.write(self.pwdb, users)

    def client(self, **kw):
        return Binary(self.daemon.address, **kw)

    def known(self, user=b"user@realm", password=b"pass"):
        c = self.client()
        got = c.ask_frame(plain(user, password))
        assert got == GOOD, got
        return c

    def fails(self, data):
        """Does that fail, in a connection of its own?"""
        with self.client() as c:
            return c.ask_frame(data) == FAILED

    def __enter__(self):
        self.daemon.__enter__()
        return self

    def __exit__(self, *what):
        try:
            self.daemon.__exit__(*what)
        finally:
            self.folder.cleanup()


def start_status(*args, env=None):
    with mayfly.place("socket") as path:
        return mayfly.run("-s", path, "-S", *args, env=env)


def test_start_wants_users():
    status, said = start_status(env={"MEMCACHED_SASL_PWDB": "/no/such/file"})
    assert status == 1 and "could not read authfile" in said, (status, said)
    if not any(os.path.exists(p) for p in ("/etc/sasl", "/etc/sasl2")) and "SASL_CONF_PATH" not in os.environ:
        status, said = start_status()
        assert status == 1 and "no configuration" in said, (status, said)


def test_plain():
    with Guarded() as g:
        assert g.fails(plain(b"nobody@realm", b"pass"))
        assert g.fails(plain(b"user@realm", b"pass", b"other"))
        assert g.fails(frame(AUTH, b"PLAIN", b"garbage"))
        with g.client() as c:
            assert c.ask_frame(plain(b"user@realm", b"wrong")) == FAILED
            assert c.ask_frame(frame(AUTH, b"CRAM-MD5")) == FAILED
            assert c.ask_frame(frame(AUTH, b"PLAIN\0", b"\0user@realm\0pass")) == FAILED
            assert c.ask_frame(frame(STEP, b"PLAIN", b"\0user@realm\0pass")) == FAILED
            assert c.ask_frame(plain(b"user@realm", b"pass")) == GOOD
            assert c.ask_frame(frame(GET, b"k"))[0] == NOT_FOUND
            assert c.ask_frame(frame(SET, b"k", b"v", b"\0" * 8))[0] == OK
            assert c.ask_frame(frame(LIST))[0] == OK
            assert c.ask_frame(frame(GET, b"k"))[0] == OK
            assert c.ask_frame(plain(b"user@realm", b"pass")) == GOOD      # again
            assert c.ask_frame(frame(GET, b"k"))[0] == OK
        with g.client() as c:
            assert c.ask_frame(frame(AUTH, b"PLAIN")) == (CONTINUE, b"")
            assert c.ask_frame(frame(STEP, b"PLAIN", b"\0user@realm\0pass")) == GOOD


def test_hashed_passwords():
    """A file of users may have hashes: they are computed in the pool, and accepted pairs are cached."""
    bcrypt = b"$2b$04$KBCwKxOzLha2MUDgW0PjXe/hE/UCO9qF89dOydoHjSwxcHev5LRn."
    md5 = b"$1$aaaaaaaa$"
    host = socket.gethostname().encode()
    with Guarded(users=b"u:" + bcrypt + b":rest\nplain:word\nbroken:" + md5 + b"\nat@" + host + b":" + bcrypt + b"\n") as g, \
            g.known(b"u", b"secret") as known:
        def hashes():
            return int(known.stats_frames()["mayfly_auth_hashes"])
        assert hashes() == 1
        g.known(b"u", b"secret").close()
        g.known(b"plain", b"word").close()
        g.known(b"broken", md5).close()
        assert hashes() == 1
        g.known(b"at", b"secret").close()
        assert hashes() == 2
        assert g.fails(plain(b"u", b"wrong")) and hashes() == 3
        # Sessions stay when the file is read again with the same hash.
        g.daemon.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "reloaded authfile" in g.daemon.log(), "it is read again")
        assert known.ask_frame(frame(NOOP)) == (OK, b"")
        g.known(b"u", b"secret").close()
        assert hashes() == 4


def test_rules_of_users():
    """A rule names a user alone, also where the library adds this host."""
    host = socket.gethostname().encode()
    with mayfly.place("rules", "user reader read\nuser nobody none\ndefault read,write\n") as rules, \
            Guarded("--access", rules, "-o", "audit_log", users=b"reader:p\nwriter:p\nnobody:p\n") as g:
        get, put = frame(GET, b"k"), frame(SET, b"k", b"v", extras=bytes(8))
        for name in (b"reader", b"reader@" + host):
            with g.known(name, b"p") as c:
                assert c.ask_frame(get)[0] == NOT_FOUND and c.ask_frame(put) == FAILED, name
        with g.known(b"nobody", b"p") as c:
            assert c.ask_frame(get) == FAILED and c.ask_frame(put) == FAILED
            # Another login is another user.
            assert c.ask_frame(plain(b"writer", b"p")) == GOOD
            assert c.ask_frame(get)[0] == NOT_FOUND and c.ask_frame(put)[0] == OK
        wait_for(lambda: 'audit, login user="writer" peer=unix listener=unix method=sasl outcome=accepted'
                 in g.daemon.log(), "it is logged")


def test_steps_belong_to_a_connection():
    with Guarded("-t", "1") as g, g.client() as a, g.client() as b:
        assert all(c.ask_frame(frame(AUTH, b"LOGIN")) == (CONTINUE, b"Username:") for c in (a, b))
        assert a.ask_frame(frame(STEP, b"LOGIN", b"user@realm")) == (CONTINUE, b"Password:")
        assert b.ask_frame(frame(STEP, b"LOGIN", b"nobody")) == (CONTINUE, b"Password:")
        assert a.ask_frame(frame(STEP, b"LOGIN", b"pass")) == GOOD
        assert b.ask_frame(frame(STEP, b"LOGIN", b"pass")) == FAILED
        assert b.ask_frame(frame(STEP, b"LOGIN", b"pass")) == FAILED        # it is over
        with g.client() as c:               # left in the middle
            assert c.ask_frame(frame(AUTH, b"LOGIN"))[0] == CONTINUE
        with g.client() as c:               # started over
            assert c.ask_frame(frame(AUTH, b"LOGIN"))[0] == CONTINUE
            assert c.ask_frame(plain(b"user@realm", b"pass")) == GOOD


def test_steps_go_from_worker_to_worker():
    """In the middle of an exchange: where nothing limits its time it moves, else it stays until that is over."""
    for limit in (0, 100):
        with Guarded("-t", "4", "-o", "auth_timeout=%d,max_threads=4" % limit, control=True) as g, g.daemon.operator() as o:
            clients = [g.client() for _ in range(12)]

            def turn(n):
                assert o.ask(b"config set threads %d" % n) == b"OK"
                if limit == 0:
                    wait_for(lambda: o.stat("mayfly_threads_leaving") == 0, "the others are parked")
            assert all(c.ask_frame(frame(AUTH, b"LOGIN")) == (CONTINUE, b"Username:") for c in clients)
            turn(1)
            for i, c in enumerate(clients):
                name = b"nobody" if i % 3 == 0 else b"user@realm"
                assert c.ask_frame(frame(STEP, b"LOGIN", name)) == (CONTINUE, b"Password:")
            turn(4)
            turn(1)
            if limit != 0:
                wait_for(lambda: o.stat("mayfly_threads_leaving") == 3, "they wait where they are")
            for i, c in enumerate(clients):
                assert c.ask_frame(frame(STEP, b"LOGIN", b"pass")) == (FAILED if i % 3 == 0 else GOOD)
                if i % 3 == 0:
                    c.close()
            wait_for(lambda: o.stat("mayfly_threads_leaving") == 0, "the others are parked")
            assert all(c.ask_frame(frame(GET, b"k"))[0] == NOT_FOUND for i, c in enumerate(clients) if i % 3 != 0)


def test_who_fails_is_not_known_any_more():
    for again in (plain(b"user@realm", b"wrong"), frame(STEP, b"PLAIN", b"\0user@realm\0pass"),
                  frame(AUTH, b"PLAIN\0", b"\0user@realm\0pass")):
        with Guarded() as g:
            with g.known() as c:
                c.send(again + frame(GET, b"k"))
                assert c.frame() == FAILED
                assert c.frame() == FAILED
                assert c.is_at_end()
            with g.known() as c:
                c.send(again + plain(b"user@realm", b"pass") + frame(GET, b"k"))
                assert [c.frame()[0] for _ in range(3)] == [AUTH_FAILURE, OK, NOT_FOUND]


def test_pipeline_and_cuts():
    sent = plain(b"user@realm", b"no") + frame(VERSION) + plain(b"user@realm", b"pass") + frame(GET, b"k")
    wanted = [AUTH_FAILURE, OK, OK, NOT_FOUND]
    with Guarded("-t", "1") as g:
        for cut in range(len(sent)):
            with g.client() as c:
                c.send(sent[:cut])
                with g.client() as n:       # one worker: the first piece was taken before this is answered
                    assert n.ask_frame(frame(VERSION))[0] == OK
                c.send(sent[cut:])
                assert [c.frame()[0] for _ in wanted] == wanted, cut
        with g.client() as c:
            for i in range(len(sent)):
                c.send(sent[i:i + 1])
            assert [c.frame()[0] for _ in wanted] == wanted


def test_nothing_before_authentication():
    with Guarded("-A", "-t", "1") as g, g.known() as known:
        assert known.ask_frame(frame(SET, b"k", b"v", b"\0" * 8))[0] == OK
        before = known.stats_frames()
        for opcode in range(0x100):
            if opcode in (LIST, AUTH, STEP, VERSION):
                continue
            for data in (frame(opcode, b"k", b"v", b"\0" * 8), frame(opcode), frame(opcode, b"k", b"v" * 300000)):
                with g.client() as c:
                    try:
                        c.send(data + frame(VERSION))
                    except ConnectionError:
                        pass                # closed while we still sent
                    got = c.frame()
                    assert got in (FAILED, None), (opcode, got)
                    assert c.is_at_end(), opcode
        for text in (b"get k\r\n", b"stats\r\n" * 10, b"set a 0 0 1\r\n1\r\n", b"mg k v\r\n"):
            with g.client() as c:
                c.send(text)
                assert c.is_at_end(), text
        after = known.stats_frames()
        for name in ("cmd_get", "cmd_set", "cmd_flush", "cmd_touch", "curr_items", "auth_cmds", "auth_errors"):
            assert after[name] == before[name], name


def test_lengths():
    with Guarded() as g:
        for data, status in (
                (frame(AUTH, b"PLAIN", key_len=10, body_len=5), UNKNOWN),
                (frame(AUTH, b"", key_len=32, body_len=1) + b"A" * 1000, UNKNOWN),
                (frame(AUTH, b"PLAIN", b"x", key_len=65535), UNKNOWN),
                (frame(AUTH, b"M" * 251, b"x"), INVALID),
                (frame(AUTH, b"", b"x"), INVALID),
                (frame(STEP, b"", b"x"), INVALID),
                (frame(AUTH, b"PLAIN", b"\0u\0p", b"abcd"), INVALID),
                (frame(LIST, b"k"), INVALID), (frame(LIST, b"", b"v"), INVALID)):
            with g.client() as c:
                c.send(data)
                got = c.frame()
                assert got is not None and got[0] == status, (data[:40], got)
                assert c.is_at_end()
        with g.client() as c:               # in step afterwards
            assert c.ask_frame(frame(AUTH, b"M" * 32, b"x")) == FAILED
            assert c.ask_frame(frame(AUTH, b"M" * 33, b"x"))[0] == INVALID
            for n in (8191, 8192, 8193, 100000, 2000000):
                assert g.fails(plain(b"user@realm", b"p" * n)), n
            assert c.ask_frame(plain(b"user@realm", b"pass")) == GOOD
        for n in (512, 513, 1024, 2000, 8000):      # long names, which the library would leak
            assert g.fails(plain(b"u" * n, b"pass")), n
            assert g.fails(plain(b"user@" + b"r" * n, b"pass")), n
            assert g.fails(plain(b"user@realm", b"pass", b"z" * n)), n
            with g.client() as c:
                assert c.ask_frame(frame(AUTH, b"LOGIN"))[0] == CONTINUE
                assert c.ask_frame(frame(STEP, b"LOGIN", b"u" * n))[0] in (CONTINUE, AUTH_FAILURE), n
                c.ask_frame(frame(STEP, b"LOGIN", b"pass"))
                assert c.ask_frame(plain(b"user@realm", b"pass")) == GOOD
        for n in (0x7fffffff, 0x80000000, 0xffffffff):
            with g.client() as c:
                assert c.ask_frame(frame(AUTH, b"PLAIN", b"x", body_len=n)) == FAILED, n


def test_settings_and_counters():
    with Guarded() as g, g.known() as c:
        settings = c.stats_frames(b"settings")
        assert settings["auth_enabled_sasl"] == "yes" and settings["binding_protocol"] == "binary"
        before = c.stats_frames()
        with g.client() as n:
            n.ask_frame(frame(AUTH, b"LOGIN"))
            n.ask_frame(plain(b"user@realm", b"wrong"))
            n.ask_frame(plain(b"user@realm", b"pass"))
        after = c.stats_frames()
        assert int(after["auth_cmds"]) - int(before["auth_cmds"]) == 2
        assert int(after["auth_errors"]) - int(before["auth_errors"]) == 1


def test_guesses_end_the_connection():
    """As it_auth.py has it for the text protocol; a good login afterwards is not looked at."""
    with Guarded(users=b"u:p\n") as g, g.known(b"u", b"p") as c:
        with g.client() as guesser:
            guesser.send(plain(b"name", b"guess") * 7 + plain(b"u", b"p"))
            assert [guesser.frame() for _ in range(5)] == [FAILED] * 5
            assert guesser.is_at_end()
        stats = c.stats_frames()
        assert stats["auth_errors"] == "5" and stats["mayfly_auth_kicks"] == "1", stats
        wait_for(lambda: "5 failed logins" in g.daemon.log(), "the warning is written")
        log = g.daemon.log()
        assert "auth, 5 failed logins from unix (the last as \"name" in log and "guess" not in log, log


def test_quick_failures_are_answered_late():
    """As in it_peers.py for the text protocol: requests sent after a failure wait in order."""
    with Guarded("-o", "auth_delay=20", users=b"u:p\n", tcp=True) as g, g.known(b"u", b"p") as c:
        for throttled in (0, 5):
            for _ in range(2 if throttled == 0 else 1):
                with g.client() as guesser:
                    guesser.send(plain(b"u", b"guess") * 6)
                    assert [guesser.frame() for _ in range(5)] == [FAILED] * 5
                    assert guesser.is_at_end()
            assert c.stats_frames()["mayfly_auth_throttled"] == str(throttled)
        with g.client() as late:
            late.send(plain(b"u", b"guess") + plain(b"u", b"p") + frame(NOOP))
            assert [late.frame() for _ in range(3)] == [FAILED, GOOD, (OK, b"")]
        assert c.stats_frames()["mayfly_auth_throttled"] == "6"


def test_nobody_comes_in_without_a_name():
    """Without a mech_list the library would offer ANONYMOUS."""
    with Guarded(conf="") as g, g.client() as c:
        status, names = c.ask_frame(frame(LIST))
        assert status == OK and b"PLAIN" in names.split() and b"ANONYMOUS" not in names.split(), names
        assert c.ask_frame(frame(AUTH, b"ANONYMOUS", b"me")) == FAILED
        assert c.ask_frame(frame(GET, b"k")) == FAILED
        assert c.is_at_end()


def test_off_without_the_option():
    with Daemon() as d, Binary(d.address) as c:
        for opcode in (LIST, AUTH, STEP):
            assert c.ask_frame(frame(opcode, b"PLAIN" if opcode != LIST else b"", b""))[0] == UNKNOWN
        assert c.ask_frame(frame(GET, b"k"))[0] == NOT_FOUND


def test_relative_configuration_in_the_background():
    """-d leaves the folder; the configuration is still that of the folder it was started in."""
    with mayfly.folder() as folder:
        os.mkdir(os.path.join(folder, "conf"))
        mayfly.write(os.path.join(folder, "conf", "memcached.conf"),
                     "mech_list: login\npwcheck_method: saslauthd\nsaslauthd_path: /no/such\n")
        with mayfly.background(folder, "-S", env={"SASL_CONF_PATH": "none:conf"}) as (path, _), Binary(path) as c:
            assert c.ask_frame(frame(LIST)) == (OK, b"LOGIN")


# ---- users of a plain file -----------------------------------------------------------------------

def test_own_users():
    host = socket.gethostname().encode()
    with Guarded(users=b"# users\nu:p\nv:q:more\r\nsp ace:pass word\nw@%s:r\n" % host) as g:
        with g.client() as c:
            assert c.ask_frame(frame(LIST)) == (OK, b"PLAIN")
        for user, password in ((b"u", b"p"), (b"v", b"q"), (b"sp ace", b"pass word"), (b"w", b"r"),
                               (b"w@" + host, b"r"), (b"u@" + host, b"p")):
            g.known(user, password).close()
        for user, password in ((b"u", b"q"), (b"u", b"pp"), (b"u", b""), (b"# users", b""), (b"u@other", b"p"),
                               (b"root", b""), (b"user@realm", b"pass")):
            with g.client() as c:
                assert c.ask_frame(plain(user, password)) == FAILED, user
                assert c.ask_frame(frame(GET, b"k")) == FAILED


def test_own_users_are_read_again():
    with Guarded(users=b"u:p\n") as g, g.known(b"u", b"p") as old:
        g.write(b"v:q\n")
        g.daemon.reload("(1 users)")
        g.known(b"v", b"q").close()
        with g.client() as c:
            assert c.ask_frame(plain(b"u", b"p")) == FAILED
        with g.known(b"v", b"q") as known:
            g.daemon.reload("(1 users)")
            assert known.ask_frame(frame(GET, b"k"))[0] == NOT_FOUND
            assert old.ask_frame(frame(GET, b"k")) == FAILED        # its user is gone
            assert old.is_at_end()
            assert known.stats_frames()["mayfly_auth_revoked"] == "1"
        os.unlink(g.pwdb)
        g.daemon.reload("kept the users in use")
        g.known(b"v", b"q").close()


# ---- what others must not notice ------------------------------------------------------------------

class Authd:
    """A stand-in for saslauthd: accepts requests, and answers when the test decides, if ever."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "mux")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.bind(self.path)
        self.sock.listen(64)
        self.waiting = []
        self.answers = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            self.waiting.append(conn)
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        self.answers.wait()
        words = []
        for _ in range(4):
            (n,) = struct.unpack(">H", conn.recv(2, socket.MSG_WAITALL))
            words.append(conn.recv(n, socket.MSG_WAITALL) if n else b"")
        verdict = b"OK" if words[1] == b"pass" else b"NO"
        conn.sendall(struct.pack(">H", len(verdict)) + verdict)
        conn.close()

    def close(self):
        self.sock.close()
        for conn in self.waiting:
            conn.close()


@contextlib.contextmanager
def checked_by_authd(*args, **more):
    """A server whose checks hang while authd.answers is not set."""
    with tempfile.TemporaryDirectory(prefix="mayfly-authd.") as folder, contextlib.closing(Authd(folder)) as authd:
        conf = "mech_list: plain\npwcheck_method: saslauthd\nsaslauthd_path: %s\n" % os.path.join(folder, "mux")
        with Guarded(*args, conf=conf, **more) as g:
            yield g, authd


def known_before_checks_hang(g, authd):
    authd.answers.set()
    known = g.known(b"user", b"pass")
    authd.answers.clear()
    return known


def test_a_slow_check_does_not_keep_its_client():
    """A login that is not over in time ends the connection, also one that was known before."""
    with checked_by_authd("-t", "1", control=True) as (g, authd), g.daemon.operator() as o:
        def allow(seconds):
            assert o.ask(b"config set auth_timeout %d" % seconds) == b"OK"
        allow(0)
        authd.answers.set()
        again, known = g.known(b"user", b"pass"), g.known(b"user", b"pass")
        authd.answers.clear()
        allow(1)
        late = [again] + [g.client() for _ in range(9)]
        for client in late:
            client.send(plain(b"user", b"pass"))
        for client in late:
            assert client.is_at_end()
            client.close()
        assert known.stats_frames()["mayfly_auth_timeouts"] == "10"
        authd.answers.set()
        allow(0)
        g.known(b"user", b"pass").close()
        # Nobody asked about those whose turn had not come when they were closed.
        assert len(authd.waiting) <= 2 + 3 + 1, len(authd.waiting)
        known.close()


def test_logins_are_fair_and_bounded():
    """While checks hang, one peer can neither occupy all threads nor grow its queue without bound."""
    with checked_by_authd("-t", "2", "-o", "auth_timeout=0", tcp=True) as (g, authd):
        known = known_before_checks_hang(g, authd)
        held = [g.client() for _ in range(300)]
        for c in held[:3]:
            c.send(plain(b"user", b"pass"))
        # Only then is it known how many of the others find a place.
        wait_for(lambda: len(authd.waiting) == 1 + 3, "three checks run")
        for c in held[3:]:
            c.send(plain(b"user", b"pass"))
        busy = []

        def refused():
            ready = select.select([c.sock for c in held], [], [], 0)[0]
            for c in [c for c in held if c.sock in ready]:
                assert c.frame() == (BUSY, b"Busy") and c.is_at_end()
                held.remove(c)
                busy.append(c)
            return len(busy) == 300 - 3 - 256
        wait_for(refused, "those that find no place are told")
        assert len(authd.waiting) == 1 + 3, len(authd.waiting)
        other = Binary.__new__(Binary)
        other.sock, other.buf = socket.create_connection(g.daemon.address, mayfly.PATIENCE, ("127.0.0.2", 0)), b""
        other.send(plain(b"user", b"pass"))
        wait_for(lambda: len(authd.waiting) == 1 + 4, "another peer has its turn")
        authd.answers.set()
        assert all(c.frame() == GOOD for c in held + [other])
        assert known.stats_frames()["mayfly_auth_busy"] == str(len(busy))
        for c in held + busy + [other, known]:
            c.close()


def check_those_that_leave(tcp):
    with checked_by_authd("-t", "1", "-o", "auth_timeout=0", tcp=tcp) as (g, authd):
        known = known_before_checks_hang(g, authd)
        waiting = [g.client() for _ in range(20)]
        for c in waiting:
            c.send(plain(b"user", b"pass"))
        wait_for(lambda: len(authd.waiting) == 1 + 3, "three checks run")
        count = int(known.stats_frames()["curr_connections"])
        waiting[15].sock.shutdown(socket.SHUT_WR)       # wants the answer all the same
        for c in waiting[:15]:
            c.reset()
        wait_for(lambda: known.stats_frames()["curr_connections"] == str(count - 15),
                 "they are gone before their answers are")
        authd.answers.set()
        for c in waiting[15:]:
            assert c.frame() == GOOD
            c.close()
        assert len(authd.waiting) <= 1 + 3 + 5, len(authd.waiting)
        known.close()


def test_who_resets_while_its_login_waits_is_gone():
    check_those_that_leave(tcp=False)
    check_those_that_leave(tcp=True)


def test_a_slow_check_blocks_nobody_else():
    with checked_by_authd("-t", "1") as (g, authd):
        known = known_before_checks_hang(g, authd)
        waiting = [g.client() for _ in range(20)]
        for i, c in enumerate(waiting):
            c.send(plain(b"user", b"pass" if i % 2 else b"wrong") + frame(GET, b"k"))
        wait_for(lambda: len(authd.waiting) >= 3, "some checks hang")
        for _ in range(100):        # on the same worker
            assert known.ask_frame(frame(SET, b"k", b"v", b"\0" * 8))[0] == OK
            assert known.ask_frame(frame(GET, b"k"))[0] == OK
        for c in waiting[:6]:
            c.reset()               # gone before its answer is
        authd.answers.set()
        for i, c in enumerate(waiting[6:], 6):
            if i % 2:
                assert c.frame() == GOOD and c.frame()[0] == OK
            else:
                assert c.frame() == FAILED and c.frame() == FAILED
            c.close()
        known.close()


def test_stop_while_a_check_hangs():
    with checked_by_authd("-t", "2") as (g, authd):
        held = [g.client() for _ in range(10)]
        for c in held:
            c.send(plain(b"user", b"pass"))
        wait_for(lambda: len(authd.waiting) >= 3, "some checks hang")
        assert g.daemon.stop() == 0, g.daemon.log()
        assert "abandoned an authentication" in g.daemon.log()


def test_unauthenticated_clients_cost_little_memory():
    mayfly.skip_if(mayfly.is_sanitized(), "sanitizers keep memory of their own")
    ways = [
        frame(AUTH, b"PLAIN", b"\0user@realm\0" + b"p" * 5000, body_len=8000),     # never whole
        frame(AUTH, b"LOGIN"),                                                      # in the middle
        frame(AUTH, b"PLAIN", b"x", body_len=1 << 30) + b"x" * (1 << 20),           # swallowed
        frame(SET, b"k", b"v" * 1000, b"\0" * 8, body_len=1000000),                 # refused
        frame(VERSION) * 40000,                                                     # unread answers
    ]

    with Guarded("-t", "2", "-m", "64", "-c", "1000") as g, g.known() as known:
        for way in ways:
            for c in mayfly.hold(g, 2, way):
                c.close()
        before = g.daemon.rss()
        held = []
        for way in ways:
            held += mayfly.hold(g, 60, way)
        assert known.ask_frame(frame(GET, b"k"))[0] == NOT_FOUND
        grown = g.daemon.rss() - before
        assert grown < 300 * 32 * 1024, "%d bytes" % grown      # what the library keeps is part of it


def test_pylibmc():
    try:
        import pylibmc
    except ImportError:
        raise Skip("pylibmc is not installed")
    if not pylibmc.support_sasl:
        raise Skip("pylibmc is built without SASL")
    with Guarded(users=b"u:p\n", tcp=True) as g:
        where = ["127.0.0.1:%d" % g.daemon.port]
        c = pylibmc.Client(where, binary=True, username="u", password="p")
        for i in range(100):
            assert c.set("k%d" % i, "v%d" % i)
        assert c.get_multi(["k1", "k2", "none"]) == {"k1": "v1", "k2": "v2"}
        wrong = pylibmc.Client(where, binary=True, username="u", password="q")
        try:
            wrong.set("k", "v")
        except pylibmc.Error:
            pass
        else:
            raise AssertionError("let in with a wrong password")


def test_tools_of_libmemcached():
    if shutil.which("memccp") is None or shutil.which("memccat") is None:
        raise Skip("memccp and memccat are not here")
    with Guarded(users=b"u:p\n", tcp=True) as g:      # its SASL needs addresses
        where = ["--binary", "--servers=127.0.0.1:%d" % g.daemon.port, "--username=u"]
        path = os.path.join(g.folder.name, "greeting")
        mayfly.write(path, "hello")
        subprocess.run(["memccp"] + where + ["--password=p", path], check=True, timeout=mayfly.PATIENCE)
        got = subprocess.run(["memccat"] + where + ["--password=p", "greeting"], check=True, timeout=mayfly.PATIENCE,
                             stdout=subprocess.PIPE)
        assert got.stdout.strip() == b"hello", got
        got = subprocess.run(["memccat"] + where + ["--password=q", "greeting"], timeout=mayfly.PATIENCE,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert got.returncode != 0 and b"hello" not in got.stdout, got


mayfly.use_python_of_debian()       # for pylibmc
if start_status("-V")[0] == 0 and "not built with SASL" in start_status("-B", "binary")[1]:
    mayfly.skip_all(mayfly.Inapplicable("mayflyd is built without SASL"))
mayfly.main(globals(), beside=("test_a_slow_check_does_not_keep_its_client", "test_stop_while_a_check_hangs"))
