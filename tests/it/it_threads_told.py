#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Events for all connections while these continuously move between workers: changed rules and options, a failover,
limits and counts, stats conns, stops and upgrades. No connection may miss an event because it is in transit, and none
may be counted twice or not at all when it arrives."""
import contextlib
import signal
import threading

import mayfly
from checked import Load, meta, text
from mayfly import Daemon, wait_for
from replicas import Node, level

SANITIZED = mayfly.is_sanitized()
CLIENTS = 40
ROUNDS = 3 if SANITIZED else 8


class Changes:
    """An operator that changes the number of threads repeatedly. Counts the changes."""

    def __init__(self, d):
        self.d, self.is_over, self.count, self.errors = d, False, 0, []
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            with self.d.operator() as o:
                while not self.is_over:
                    for n in (1, 4, 2, 7):
                        assert o.ask(b"config set threads %d" % n) == b"OK"
                        self.count += 1
        except Exception as error:      # raised by the thread of the test
            self.errors.append(error)

    def go_on(self, count=4):
        until = self.count + count
        wait_for(lambda: self.count >= until or self.errors, "the number of threads changes")
        assert not self.errors, self.errors

    def __enter__(self):
        self.thread.start()
        self.go_on()
        return self

    def __exit__(self, kind, *_):
        self.is_over = True
        self.thread.join()
        assert kind or not self.errors, self.errors


@contextlib.contextmanager
def several(d, count, **kw):
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(d.client(**kw)) for _ in range(count)]
        assert all(one.ask(b"mn") == b"MN" for one in clients)
        yield clients


# ---- messages to all connections --------------------------------------------------------------

def test_each_connection_goes_by_the_newest_rules():
    with mayfly.place("access") as path:
        def write(rights):
            mayfly.replace(path, "default %s\n" % rights)
        write("all")
        with Daemon("-t", "2", "--access", path, control=True) as d, d.operator() as o, several(d, CLIENTS) as clients:
            with Changes(d) as changes:
                for turn in range(ROUNDS):
                    for rights, answer in (("read", b"CLIENT_ERROR"), ("all", b"STORED")):
                        write(rights)
                        assert o.ask(b"config reload") == b"OK"
                        changes.go_on(turn % 3)
                        for one in clients:
                            got = one.set(b"k", b"x")
                            assert got.startswith(answer), (rights, got)


def test_idle_connections_are_closed_wherever_they_are():
    with Daemon("-t", "2", control=True) as d, d.operator() as o, several(d, CLIENTS) as clients, Changes(d) as changes:
        assert o.ask(b"config set idle_timeout 1") == b"OK"
        wait_for(lambda: o.stat("curr_connections") == 2, "nobody is left but the two who ask")
        changes.go_on()
        assert o.stat("idle_kicks") == CLIENTS
        assert all(one.rest() == b"" for one in clients)


def test_a_failover_closes_all_clients():
    """Clients must look for the new primary; one whose connection is moving learns this when it has arrived."""
    with Node("-t", "2") as a, Node("-t", "2", of=a.port) as b:
        for turn in range(ROUNDS):
            one, other = (a, b) if turn % 2 == 0 else (b, a)
            level(one, other)
            with several(one, CLIENTS) as clients, Changes(one) as changes:
                assert one.c.ask(b"failover") == b"OK"
                changes.go_on()
                assert all(c.rest() == b"" for c in clients)
            other.wait_for_state("primary")
            one.online()


# ---- what all count for ----------------------------------------------------------------------

def test_limits_count_each_connection_once():
    """-c and conns_per_address, after many moves: the limits are the same as before, and all places are free when
    clients have disconnected."""
    with Daemon("-t", "2", "-c", "30", "-o", "conns_per_address=20", "-l", "127.0.0.1", tcp=True, control=True) as d, \
            d.operator() as o:
        for _ in range(ROUNDS):
            with several(d, 20) as clients, Changes(d) as changes:
                for _ in range(3):
                    changes.go_on(3)
                    with d.client() as more:
                        assert more.rest().startswith(b"ERROR Too many"), "its address has as many as it may"
                    for one in clients[:5]:
                        one.close()
                    clients[:5] = []
                    wait_for(lambda: o.stat("curr_connections") == len(clients) + 2, "they have gone")
                    while len(clients) < 20:
                        clients.append(d.client())
                        assert clients[-1].ask(b"mn") == b"MN"
                for one in clients:
                    one.close()
            wait_for(lambda: o.stat("curr_connections") == 1, "all have gone")
        got = o.stats(b"shards")
        assert sum(int(got["%d:curr_connections" % i]) for i in range(7)) == 1


def test_what_is_kept_is_bounded_and_accounted():
    """Endless input and unread replies, while the limit for both falls and rises."""
    part = b"get " + b" ".join(b"k%0200d" % i for i in range(150))
    value = mayfly.pattern(b"v", 500000)
    with Daemon("-t", "2", "-m", "128", "-o", "read_buf_mem_limit=64", control=True) as d, d.operator() as o:
        assert o.set(b"value", value) == b"STORED"
        for _ in range(ROUNDS):
            with several(d, 50) as senders, several(d, 10, rcvbuf=4096) as readers, Changes(d) as changes:
                for one in senders:
                    one.send(part)
                for one in readers:
                    one.send(b"get" + b" value" * 20 + b"\r\n")
                wait_for(lambda: o.shard_sum("mayfly_in_pending_bytes") >= 50 * len(part), "input is kept")
                wait_for(lambda: o.shard_sum("mayfly_out_pending_bytes") > 0, "output is kept")
                changes.go_on()
                assert o.ask(b"config set read_buf_mem_limit 1") == b"OK"
                wait_for(lambda: o.shard_sum("mayfly_in_pending_bytes") + o.shard_sum("mayfly_out_pending_bytes") <= 1 << 20,
                         "it keeps less")
                changes.go_on()
                assert o.ask(b"config set read_buf_mem_limit 64") == b"OK"
            wait_for(lambda: o.stat("curr_connections") == 1, "all have gone")
            assert o.shard_sum("mayfly_in_pending_bytes") == 0 and o.shard_sum("mayfly_out_pending_bytes") == 0


def test_stats_conns_meanwhile():
    with Daemon("-t", "2", control=True) as d, d.operator() as o, several(d, CLIENTS):
        with Changes(d):
            for _ in range(10 * ROUNDS):
                conns = o.stats(b"conns")       # each line is whole, and there is an end
                assert all(key.split(":")[0].isdigit() for key in conns), conns

        def all_are_shown():    # those on their way to another worker are not, though curr_connections counts them
            states = [state for key, state in o.stats(b"conns").items() if key.endswith(":state")]
            return len(states) - states.count("conn_listening") == CLIENTS + 1
        wait_for(all_are_shown, "all connections are shown")


# ---- the end ---------------------------------------------------------------------------------

def test_a_graceful_stop_serves_all_until_they_leave():
    for _ in range(ROUNDS):
        with Daemon("-t", "2", control=True) as d, several(d, CLIENTS) as clients:
            with Changes(d) as changes:
                d.process.send_signal(signal.SIGUSR1)
                wait_for(lambda: "is stopping" in d.log(), "it was told")
                changes.go_on()
                assert all(one.set(b"k", b"x") == b"STORED" and one.get(b"k") == b"x" for one in clients)
            for one in clients:
                one.close()
            assert d.process.wait(mayfly.PATIENCE) == 0, d.log()


def test_upgrades_meanwhile_take_all_along():
    with Daemon("-t", "2", "-e", "fdstore", control=True) as d, several(d, CLIENTS) as clients:
        for turn in range(ROUNDS):
            with d.operator() as o:
                for i, one in enumerate(clients):       # some are in the middle of a request
                    one.send(b"set k%d 0 0 3\r\na" % i if i % 2 else b"mn\r\n")
                o.send(b"".join(b"config set threads %d\r\n" % n for n in (1, 4, 2, 7, 3)))
                d.process.send_signal(signal.SIGUSR2)
                wait_for(lambda: d.log().count("connections continue") > turn, "the next program serves")
                for i, one in enumerate(clients):
                    if i % 2:
                        one.send(b"bc\r\n")
                    assert one.line() == (b"STORED" if i % 2 else b"MN")
            assert all(one.get(b"k%d" % (i | 1)) == b"abc" for i, one in enumerate(clients))


def test_load_goes_on_through_all_of_it():
    """Options, a cleared log of slow requests, logins that are looked at again, and figures, at once."""
    with Daemon("-t", "2", control=True) as d, d.operator() as o, Load(d, 6, text, meta) as load, Changes(d):
        for turn in range(ROUNDS):
            assert o.ask(b"config set idle_timeout %d" % (0, 100)[turn % 2]) == b"OK"
            assert o.ask(b"config set slowlog_ms %d" % (0, 1)[turn % 2]).startswith((b"OK", b"CLIENT_ERROR"))
            d.process.send_signal(signal.SIGHUP)
            o.stats(b"conns")
            load.goes_on()


if "drop_privileges" in " ".join(mayfly.MORE_ARGS):
    mayfly.skip_all(mayfly.Inapplicable("with drop_privileges no thread can be made"))
mayfly.main(globals())
