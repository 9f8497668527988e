#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Places of replicas: those beyond -c, which clients cannot use, and conditions that must not close a replica's
link."""
import contextlib
import os
import signal
import tempfile

import mayfly
from mayfly import wait_for
from replicas import Node, level

TOO_MANY = b"ERROR Too many open connections"
FOLLOW = b"psync 1 0 - 0 %032x 0"


def count(node, name):
    return int(node.c.stats()[name])


def count_of_workers(node, name):
    return sum(int(value) for key, value in node.c.stats(b"shards").items() if key.endswith(":mayfly_" + name))


def replicas(node):
    return int(node.c.stats(b"replication")["connected_replicas"])


@contextlib.contextmanager
def served(node, n):
    """This number of clients that are in."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(wait_for_room(node)) for _ in range(n)]


def is_refused(node, command=b"mn"):
    with node.client() as c:
        try:
            first = c.ask(command)
            return first == TOO_MANY and c.rest() == b""
        except ConnectionError:
            return False


def wait_for_room(node):
    """Connections that were closed may count a moment longer. Returns one that is in."""
    found = []

    def comes_in():
        c = node.client()
        with contextlib.suppress(ConnectionError):
            if c.ask(b"mn") == b"MN":
                found.append(c)
                return True
        c.sock.close()
        return False
    wait_for(comes_in, "a client comes in")
    return found[0]


def test_a_replica_comes_in_when_clients_have_all_places():
    with Node("-c", "5") as a:
        a.c.set(b"k", b"v")
        with served(a, 5) as clients:
            before = count(a, "rejected_connections")
            for command in (b"mn", b"get k", b"version", b"stats", b"role", b"sync", b"replconf ack 0", b"set k 0 0 1\r\nx",
                            b"mg k v", b"wait 0 0"):
                assert is_refused(a, command), command
            with a.client() as silent:
                assert silent.line() == TOO_MANY and silent.rest() == b""
            assert count(a, "rejected_connections") == before + 11
            with Node(of=a.port) as b:
                level(a, b)
                assert b.c.get(b"k") == b"v" and is_refused(a)
                # It is one beyond the others: these are as many as before.
                clients.pop().sock.close()
                with wait_for_room(a):
                    assert is_refused(a) and b.state() == "online"
                a.c.set(b"k", b"w")
                level(a, b)
        assert a.c.get(b"k") == b"w"


def test_a_binary_client_is_refused_in_text():
    with Node("-c", "2") as a, served(a, 2), a.client() as c:
        c.send(b"\x80\x0a" + bytes(22))
        assert c.line() == TOO_MANY and c.rest() == b""


def test_a_replica_leaves_its_place_to_clients():
    with Node("-c", "3") as a, Node(of=a.port) as b:
        level(a, b)
        with served(a, 3) as clients:
            assert is_refused(a) and replicas(a) == 1
            b.stand_alone()
            wait_for(lambda: replicas(a) == 0, "it has gone")
            assert is_refused(a)
            b.follow(a.port)
            level(a, b)
            assert clients[0].ask(b"mn") == b"MN"


def test_places_of_replicas_are_bounded():
    with Node("-c", "3", "-o", "replica_conns=2") as a, contextlib.ExitStack() as stack:
        for n in range(3):
            c = stack.enter_context(a.client())
            assert c.ask(FOLLOW % (n + 1)).startswith(b"FULLSYNC ")
        # The third counts as a client.
        with served(a, 2):
            with a.client() as c:
                assert c.line() == TOO_MANY         # at once: nobody could follow
            assert replicas(a) == 3


def test_no_places_of_their_own():
    with Node("-c", "2", "-o", "replica_conns=0") as a, served(a, 2) as clients, Node(of=a.port) as b:
        wait_for(lambda: "Too many open connections" in b.log(), "it logs the reason")
        assert b.state() == "connecting"
        for c in clients:
            c.sock.close()
        level(a, b)


def test_one_that_does_not_follow_after_all_is_closed():
    with Node("-c", "1") as a, served(a, 1):
        with a.client() as c:
            assert c.ask(b"psync 1 99 - 0 %032x 0" % 1).startswith(b"SERVER_ERROR the epoch") and c.rest() == b""
        with a.client() as c:
            assert c.ask(b"psync").startswith(b"CLIENT_ERROR usage") and c.rest() == b""
        assert replicas(a) == 0 and is_refused(a)


def test_with_a_login():
    with tempfile.TemporaryDirectory(prefix="mayfly-repl.") as folder:
        for name, text in (("users", "copy:secret\n"), ("password", "secret\n")):
            mayfly.write(os.path.join(folder, name), text, 0o600)
        with Node("-c", "2", "-Y", os.path.join(folder, "users"), wait=False) as a, a.client() as c, a.client() as other:
            assert all(x.ask(b"set login 0 0 11\r\ncopy secret") == b"STORED" for x in (c, other))
            with a.client() as late:
                assert late.ask(b"set login 0 0 11\r\ncopy secret") == b"STORED"
                assert late.ask(b"mn") == TOO_MANY and late.rest() == b""
            with Node("-o", "replica_user=copy,replica_password_file=" + os.path.join(folder, "password"), of=a.port) as b:
                level(a, b)


def test_a_link_is_never_idle():
    """One that hangs is closed by repl_timeout, and not by the timeout of clients."""
    with Node("-o", "idle_timeout=1") as a, Node(of=a.port) as b:
        level(a, b)
        b.process.send_signal(signal.SIGSTOP)
        with a.client() as idle:
            assert idle.ask(b"mn") == b"MN" and idle.rest() == b""
        for n in (a, b):            # operators are idle as well
            n.c.close()
        b.process.send_signal(signal.SIGCONT)
        a.c, b.c = a.operator(), b.operator()
        assert count(a, "idle_kicks") >= 1 and replicas(a) == 1
        a.c.set(b"k", b"v")
        level(a, b)
        assert b.c.stats(b"replication")["primary_link_failures"] == "0"


def test_a_link_is_not_closed_for_what_clients_keep():
    """They keep too much, each less than the replica, which takes nothing."""
    with Node("-t", "1", "-o", "read_buf_mem_limit=1") as a:
        for i in range(40):
            assert a.c.set(b"k%d" % i, b"x" * 500000) == b"STORED"
        with a.client(rcvbuf=4096) as r, contextlib.ExitStack() as stack:
            assert r.ask(FOLLOW % 1).startswith(b"FULLSYNC ")
            r.send(b"sync\r\n")
            wait_for(lambda: count_of_workers(a, "out_pending_bytes") > 100000, "what it is sent waits")
            for n in range(200):
                c = stack.enter_context(a.client())
                c.send(b"set c%d 0 0 16000\r\n" % n + b"x" * 15000)
                if count_of_workers(a, "slow_drops") > 3:
                    break
            wait_for(lambda: count_of_workers(a, "slow_drops") > 3, "some are closed")
            assert replicas(a) == 1
            assert r.line().startswith(b"PART ")


mayfly.main(globals())
