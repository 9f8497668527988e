#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Authentication by a file of users (-Y): accepted files, accepted logins, commands that are refused before a login,
reloads, and the small cost of clients that never authenticate."""
import contextlib
import os
import signal
import socket
import struct
import tempfile

import mayfly
from mayfly import Client, Daemon, wait_for

UNAUTHENTICATED = b"CLIENT_ERROR unauthenticated"
FAILURE = b"CLIENT_ERROR authentication failure"
BAD_FORMAT = b"CLIENT_ERROR bad authentication token format"


def offer(user, password):
    value = user + b" " + password
    return b"set any 0 0 %d\r\n%s\r\n" % (len(value), value)


class Guarded:
    """A daemon with a file of users."""

    def __init__(self, *args, users=b"user:pass\n", **kw):
        self.folder = tempfile.TemporaryDirectory(prefix="mayfly-auth.")
        self.file = os.path.join(self.folder.name, "users")
        self.write(users)
        self.daemon = Daemon("-Y", self.file, *args, **kw)

    def write(self, users):
        mayfly.write(self.file, users)

    def known(self, user=b"user", password=b"pass"):
        c = self.daemon.client()
        c.send(offer(user, password))
        got = c.line()
        assert got == b"STORED", got
        return c

    def __enter__(self):
        self.daemon.__enter__()
        return self

    def __exit__(self, *what):
        try:
            self.daemon.__exit__(*what)
        finally:
            self.folder.cleanup()


def start_status(*args):
    with mayfly.folder() as folder:
        return mayfly.run("-s", os.path.join(folder, "socket"), *args, user=() if "-u" in args else mayfly.ROOT, cwd=folder)


def test_start_wants_a_good_file():
    with tempfile.TemporaryDirectory(prefix="mayfly-auth.") as folder:
        path = os.path.join(folder, "users")
        assert start_status("-Y", path)[0] == 1
        assert start_status("-Y", folder)[0] == 1
        for text in (b"user\n", b"u:p\n\n", b"u:p\rv:q\n", b"u:p\nno colon\nv:q\n"):
            mayfly.write(path, text)
            status, said = start_status("-Y", path)
            assert status == 1 and "malformed" in said, (text, status, said)


def test_start_reads_with_the_rights_that_stay():
    """A file that only root can read could not be read again, so it is refused at once."""
    mayfly.skip_if(os.geteuid() != 0, "not root")
    with mayfly.place("users", "u:p\n", 0o600) as path:
        status, said = start_status("-Y", path, "-u", "nobody")
        assert status == 1 and "could not read authfile" in said, (status, said)


def test_other_ways_in_are_refused():
    for args in (("-B", "auto"), ("-B", "binary"), ("-U", "11211"), ("-S",)):
        status, said = start_status("-Y", "users", *args)
        assert status == 64, (args, status, said)
    assert "mayflyd: -S: cannot be used with -Y" in said, said


def test_settings_and_counters():
    with Guarded() as g, g.known() as c:
        settings = c.stats(b"settings")
        assert settings["auth_enabled_ascii"] == g.file
        assert settings["binding_protocol"] == "ascii"
        before = c.stats()
        with g.daemon.client() as n:
            n.send(offer(b"user", b"wrong") + offer(b"user", b"pass") + b"get a\r\n" + offer(b"x", b"y"))
            assert [n.line() for _ in range(4)] == [FAILURE, b"STORED", b"END", b"STORED"]
        after = c.stats()
        assert int(after["auth_cmds"]) - int(before["auth_cmds"]) == 2
        assert int(after["auth_errors"]) - int(before["auth_errors"]) == 1
        # Once known, a set is a set.
        wait_for(lambda: c.stat("cmd_set") == int(before["cmd_set"]) + 1, "the set is counted")
    with Daemon() as d, d.client() as c:
        assert c.stats(b"settings")["auth_enabled_ascii"] == "no"


TEXT_BEFORE = [
    b"get a", b"gets a b c", b"gat 0 a", b"delete a", b"incr a 1", b"touch a 0", b"flush_all", b"version",
    b"verbosity 2", b"stats", b"stats settings", b"stats detail on", b"cache_memlimit 64", b"shutdown",
    b"slabs automove 1", b"lru_crawler metadump all", b"lru_crawler enable", b"watch fetchers",
    b"refresh_certs", b"debugtime p", b"mg a v", b"SET a 0 0 1",
]

# Less than six bytes: closed without a word.
SHORT_BEFORE = [b"quit", b"mn", b"me a", b"ma a", b"md a", b" "]


def test_nothing_before_authentication_on_text_and_meta():
    with Guarded("-A", "-t", "1") as g, g.known() as c:
        assert c.set(b"a", b"secret") == b"STORED"
        before = c.stats()
        for line in TEXT_BEFORE:
            with g.daemon.client() as n:
                assert n.ask(line) == UNAUTHENTICATED, line
                assert n.ask(b"get a") == UNAUTHENTICATED, line
        for line in SHORT_BEFORE:
            with g.daemon.client() as n:
                n.send(line + b"\r\n" + offer(b"user", b"pass"))
                assert n.rest() == b"", line
        with g.daemon.client() as n:        # all in one write, then the way in
            n.send(b"".join(line + b"\r\n" for line in TEXT_BEFORE) + offer(b"user", b"pass") + b"get a\r\n")
            assert [n.line(), n.line()] == [UNAUTHENTICATED, b"STORED"], "one refusal for each read"
            assert n.get_reply() == {b"a": b"secret"}
        with g.daemon.client() as n:        # stores, whose values are no commands and no offers
            for verb in (b"add", b"replace", b"append", b"prepend", b"cas", b"ms"):
                assert n.ask(verb + b" a 0 0 9 1") == UNAUTHENTICATED, verb
            n.send(b"set a 0 0 3\r\nabc\r\nset a 0 0 7\r\nget a b\r\nget a\r\n")
            assert [n.line() for _ in range(3)] == [BAD_FORMAT, FAILURE, UNAUTHENTICATED]
        after = c.stats()
        for name in ("cmd_set", "cmd_flush", "cmd_touch", "cmd_meta", "delete_misses", "incr_misses", "curr_items"):
            assert after[name] == before[name], name
        assert int(after["cmd_get"]) == int(before["cmd_get"]) + 1
        assert c.get(b"a") == b"secret"


def binary(opcode, key=b"", extras=b"", value=b""):
    body = extras + key + value
    return struct.pack(">BBHBBHIIQ", 0x80, opcode, len(key), len(extras), 0, 0, len(body), 0x0a0d0a0d, 0) + body


def test_nothing_before_authentication_on_binary():
    with Guarded("-A", "-t", "1") as g, g.known() as c:
        assert c.set(b"a", b"secret") == b"STORED"
        before = c.stats()
        for opcode in range(0x100):
            with g.daemon.client() as n:
                n.send(binary(opcode, b"a", struct.pack(">IIQ", 0, 0, 0), b"value") + b"\r\n" + b"quit\r\n")
                n.sock.shutdown(socket.SHUT_WR)
                for line in n.rest().split(b"\r\n")[:-1]:
                    assert line == UNAUTHENTICATED, (opcode, line)
        after = c.stats()
        for name in ("cmd_get", "cmd_set", "cmd_flush", "cmd_touch", "curr_items", "auth_cmds"):
            assert after[name] == before[name], name
        assert c.get(b"a") == b"secret"


def test_offer_byte_by_byte():
    sent = offer(b"user", b"wrong") + b"get a\r\n" + offer(b"user", b"pass") + b"get a\r\n"
    wanted = FAILURE + b"\r\n" + UNAUTHENTICATED + b"\r\nSTORED\r\nEND\r\n"
    with Guarded("-t", "1") as g, g.daemon.client() as c:
        for i in range(len(sent)):
            c.send(sent[i:i + 1])
        assert c.exactly(len(wanted)) == wanted


def test_lengths():
    """Whatever is announced, the stream stays in step and nothing is stored."""
    with Guarded() as g, g.known() as known:
        for n in (4096, 4097, 8192, 100000, 1 << 20):
            with g.daemon.client() as c:
                value = (b"set a 0 0 9\r\nuser pass\r\n" * (n // 24 + 1))[:n]
                c.send(b"set a 0 0 %d\r\n%s\r\n" % (n, value) + offer(b"user", b"pass") + b"get a\r\n")
                assert c.line() == (UNAUTHENTICATED if n > 4096 else FAILURE), n
                assert [c.line(), c.line()] == [b"STORED", b"END"], n
        assert known.stat("curr_items") == 0
        with g.daemon.client() as c:        # a line without end
            c.send(b"x" * 3000)
            assert c.rest() == b""


def test_guesses_end_the_connection():
    """The fifth wrong password is the last one of a connection; what was sent after it is not looked at.
    The log names peer and user, however often the peer reconnects, and never the password."""
    with Guarded("-t", "2") as g, g.known() as c:
        for _ in range(4):
            with g.daemon.client() as guesser:
                guesser.send(offer(b"us\"er", b"guess") * 150 + offer(b"user", b"pass"))
                assert guesser.rest() == (FAILURE + b"\r\n") * 5
        with g.daemon.client() as n:        # what is no guess does not count
            for _ in range(20):
                assert n.ask(b"get a") == UNAUTHENTICATED
            n.send(offer(b"user", b"guess") * 4 + offer(b"user", b"pass") + b"get a\r\n")
            assert [n.line() for _ in range(6)] == [FAILURE] * 4 + [b"STORED", b"END"]
        stats = c.stats()
        assert int(stats["auth_errors"]) == 24 and int(stats["mayfly_auth_kicks"]) == 4, stats
        wait_for(lambda: "20 failed logins" in g.daemon.log(), "the last warning is written")
        log = g.daemon.log()
        for n in (5, 10, 20):
            assert "auth, %d failed logins from unix (the last as \"us?er\")" % n in log, log
        assert log.count("failed logins") == 3 and "guess" not in log, log


def known_in_the_end(guarded):
    """A client that has logged in; where the machine is slow it may be too late for that at times."""
    clients = []

    def is_in():
        with contextlib.suppress(AssertionError, EOFError, OSError):
            clients.append(guarded.known())
        return clients != []
    wait_for(is_in, "a client logs in in time")
    return clients[0]


def test_silent_clients_leave_room():
    """Clients that do not log in are closed in time, however they pass it, and others get their places."""
    ways = [b"", b"x", b"get a\r\n", b"set any 0 0 100\r\nuser ", offer(b"user", b"wrong")]
    with Guarded("-c", "12", "-o", "auth_timeout=1") as g, known_in_the_end(g) as known:
        wait_for(lambda: known.stat("curr_connections") == 1, "it is alone")
        late = known.stat("mayfly_auth_timeouts")
        held = [mayfly.hold(g.daemon, 1, ways[i % len(ways)])[0] for i in range(11)]
        wait_for(lambda: known.stat("mayfly_auth_timeouts") == late + 11, "they are closed")
        assert known.stat("curr_connections") == 1      # and logged-in clients stay
        for c in held:
            c.sock.setblocking(True)
            c.rest()
            c.close()
    with Guarded("-o", "auth_timeout=0") as g, g.known() as known:
        assert known.stats(b"settings")["auth_timeout"] == "0"
        with g.daemon.client() as c:
            assert c.ask(b"get a") == UNAUTHENTICATED
        assert known.stat("mayfly_auth_timeouts") == 0
    with Daemon() as d, d.client() as c:
        assert "mayfly_auth_timeouts" not in c.stats()


def test_reload():
    with Guarded(users=b"u:p\n") as g:
        old = g.known(b"u", b"p")
        assert old.set(b"k", b"v") == b"STORED"
        g.write(b"v:q\nw:r\n")
        g.daemon.reload("(2 users)")
        g.known(b"v", b"q").close()
        g.known(b"w", b"r").close()
        with g.daemon.client() as c:
            c.send(offer(b"u", b"p"))
            assert c.line() == FAILURE
        for cut in (b"", b"v:q\nw:longe"):      # as a reader sees it while it is written
            g.write(cut)
            g.daemon.reload("seems to be cut off")
            g.known(b"v", b"q").close()
        g.write(b"-:\n")       # nobody, and that is meant
        g.daemon.reload("nobody can authenticate with them")
        with g.daemon.client() as c:
            c.send(offer(b"v", b"q") + offer(b"-", b""))
            assert [c.line(), c.line()] == [FAILURE] * 2
        old.close()


def test_who_is_removed_has_to_leave():
    """At the next request, whatever the client is in the middle of; users still in the file stay."""
    with Guarded("-t", "1", users=b"u:p\nv:q\n") as g, g.known(b"v", b"q") as stays:
        idle, half, big, watches, asks, saves = (g.known(b"u", b"p") for _ in range(6))
        for n in range(20):
            assert stays.set(b"large%d" % n, os.urandom(500000)) == b"STORED"
        half.send(b"set k 0 0 5\r\nab")
        big.send(b"set l 0 0 500000\r\n" + b"x" * 300000)
        assert watches.ask(b"watch fetchers") == b"OK"
        assert saves.ask(b"save -").startswith(b"PART ")
        assert asks.set(b"k", b"v") == b"STORED"
        wait_for(lambda: stays.shard_sum("mayfly_body_pending_bytes") > 0, "the large value is under way")
        g.write(b"u:new\nv:q\n")
        g.daemon.reload("(2 users)")
        watches.rest()          # closed at once: they send no requests
        assert b"\r\nEND " not in saves.rest()
        for c, more, said in ((idle, b"get k\r\n", b""), (half, b"cde\r\n", b""), (asks, b"get k\r\n", b""),
                              (big, b"x" * 200000 + b"\r\nget k\r\n", b"STORED\r\n")):
            c.send(more)
            assert c.rest() == said + UNAUTHENTICATED + b"\r\n", more[:20]
            c.close()
        assert stays.get(b"k") == b"v" and stays.stat("mayfly_auth_revoked") == 6
        assert stays.stat("auth_errors") == 0
        g.known(b"u", b"new").close()


def test_reload_under_load():
    """Clients connect all the time while the file changes; a user of both versions always gets in."""
    with Guarded("-t", "2", users=b"u:p\n") as g:
        def knock(_, is_over):
            while not is_over.is_set():
                with g.daemon.client() as c:
                    c.send(offer(b"x", b"y") + offer(b"u", b"p") + b"get k\r\n")
                    assert [c.line() for _ in range(3)] == [FAILURE, b"STORED", b"END"]

        with mayfly.beside(knock, range(4)):
            for i in range(20):
                g.write(b"u:p\n" + b"n:m\n" * i)
                g.daemon.reload("(%d users)" % (i + 1))


def test_relative_path_in_the_background():
    """-d leaves the folder; the file is still found again."""
    with mayfly.place("users", b"u:p\n") as users, mayfly.background(os.path.dirname(users), "-Y", "users") as (path, pid):
        mayfly.write(users, b"v:q\n")
        os.kill(pid, signal.SIGHUP)

        def lets_in():
            with Client(path) as c:
                c.send(offer(b"v", b"q"))
                return c.line() == b"STORED"
        wait_for(lets_in, "the new user gets in")


# Hashes of "secret" with the least effort, and of "heavy" with an effort of seconds for a check.
YESCRYPT = (b"$y$j75$k2XAnEHBqQ1Ct2aMXFKNa/HAmA1BpMnBsYHMWB4NZN4$"
            b"HDtJcZhEDN4lYyPsFs6qifx7sabk8w1.1PAkGR8ixD6")
BCRYPT = b"$2b$04$KBCwKxOzLha2MUDgW0PjXe/hE/UCO9qF89dOydoHjSwxcHev5LRn."
SHA512 = (b"$6$rounds=1000$k2XAnEHBqQ1Ct2aM$"
          b"Kusx4StgTAJKgtQ8A1Ud4OEtpvLZ/2wzq/Tix/qeeqdrvuTHgR6KFuCyOP4TNp5lvuV.tmBxpDTp10bqrWJyv1")
HASHED = b"y:" + YESCRYPT + b"\nb:" + BCRYPT + b"\ns:" + SHA512 + b"\nplain:word\ndollar:$y$oung\n"
HEAVY = b"h:$6$rounds=20000000$k2XAnEHBqQ1Ct2aM$" + b"." * 86 + b"\n"


def test_hashed_passwords():
    with Guarded(users=HASHED) as g, g.known(b"y", b"secret") as known:
        wait_for(lambda: "1 passwords of authfile" in g.daemon.log(), "it is logged")   # $y$oung
        for user, password in ((b"b", b"secret"), (b"s", b"secret"), (b"plain", b"word"), (b"dollar", b"$y$oung")):
            with g.known(user, password) as c:
                assert c.set(b"k", user) == b"STORED" and c.get(b"k") == user
        assert known.stat("mayfly_auth_hashes") == 3
        # What was good is not hashed again, and is good for its user only.
        for user in (b"y", b"b", b"s"):
            g.known(user, b"secret").close()
        assert known.stat("mayfly_auth_hashes") == 3
        wrong = ((b"y", b"wrong"), (b"y", YESCRYPT), (b"plain", b"secret"), (b"nobody", b"secret"), (b"b", b"secret\0"))
        for user, password in wrong:
            with g.daemon.client() as c:
                c.send(offer(user, password) + b"get k\r\n")
                assert [c.line(), c.line()] == [FAILURE, UNAUTHENTICATED], (user, password)
        assert known.stat("mayfly_auth_hashes") == 3 + len(wrong)
        assert known.stat("auth_errors") == len(wrong)
        # Four more of one connection end it, as with plain passwords.
        with g.daemon.client() as c:
            c.send(offer(b"y", b"wrong") * 6)
            assert c.rest().count(FAILURE) == 5
        wait_for(lambda: known.stat("mayfly_auth_kicks") == 1, "it is closed")
        # What comes with the login is executed after it.
        with g.daemon.client() as c:
            c.send(offer(b"s", b"nope") + offer(b"s", b"secret") + b"set a 0 0 1\r\n1\r\nget a\r\n")
            assert [c.line() for _ in range(3)] == [FAILURE, b"STORED", b"STORED"]
            assert c.get_reply() == {b"a": b"1"}


def test_hashes_do_not_hold_up_others():
    """While hash checks take seconds, authenticated clients are served, and so are logins without a hash. Waiting
    logins are bounded, and dropped when their clients disconnect."""
    with Guarded("-t", "1", "-o", "auth_timeout=0", "-c", "2000", users=b"plain:word\n" + HEAVY) as g, \
            g.known(b"plain", b"word") as known:
        many = mayfly.hold(g.daemon, 300, offer(b"h", b"guess"))
        wait_for(lambda: known.stat("mayfly_auth_busy") > 0, "some are refused")
        assert known.set(b"a", b"1") == b"STORED" and known.get(b"a") == b"1"
        g.known(b"plain", b"word").close()
        for c in many:
            c.close()
        wait_for(lambda: known.stat("curr_connections") == 1, "they are gone")
        # The first of their hashes is still being made: a stop does not wait for it.
        g.daemon.stop()


def test_unauthenticated_clients_cost_little_memory():
    mayfly.skip_if(mayfly.is_sanitized(), "sanitizers keep memory of their own")
    ways = [
        b"set a 0 0 4096\r\n" + b"x" * 4000,            # an offer that is never whole
        b"x" * 2048,                                    # a line that never ends
        b"set a 0 0 1000000\r\n" + b"x" * 900000,       # a value of an unknown client
        b"\n" * (1 << 20),                              # answers that no client reads
        offer(b"user", b"wrong") * 20000,
        b"get " + b"k " * (1 << 19),                    # closed: its line is too long
    ]
    with Guarded("-t", "2", "-m", "64", "-c", "1000") as g, g.known() as c:
        assert c.set(b"k", b"v" * 100000) == b"STORED"
        for way in ways:            # buffers of workers and allocator have their size now
            for n in mayfly.hold(g.daemon, 2, way):
                n.close()
        before = g.daemon.rss()
        held = []
        for way in ways:
            held += mayfly.hold(g.daemon, 50, way)
        assert c.get(b"k") == b"v" * 100000     # and others are served meanwhile
        grown = g.daemon.rss() - before
        assert grown < 300 * 16 * 1024, "%d bytes" % grown
        for n in held:
            n.close()
        wait_for(lambda: c.stat("curr_connections") <= 2, "they are gone")


mayfly.main(globals())
