#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Connections. Limits: -c serves exactly this number, refuses the rest as memcached does, and recovers; when
descriptors run out, accepting pauses without spinning, and resumes. Idle: many connections and items with long times
to live use almost no CPU, and workers wake up for due items. Ends: RST in the middle of a reply, half-close with
pending replies, quit after a pipeline; other clients are not affected, and nothing is leaked."""
import contextlib
import os
import resource
import tempfile
import time

import binary
import mayfly
from mayfly import best_of, Daemon, wait_for


def is_served(client):
    """Does this connection get a reply, or the refusal? None: neither yet."""
    try:
        client.send(b"version\r\n")
        line = client.line()
    except OSError:
        return False
    return line is not None and line.startswith(b"VERSION")


def test_exactly_so_many_are_served():
    with Daemon("-c", "50", "-t", "2") as d:
        # The connection that waited for the start has to be gone before anything is counted.
        first = d.client()
        wait_for(lambda: first.stat("curr_connections") == 1, "the first connection is alone")
        clients = [first] + [d.client() for _ in range(69)]
        served = sum(is_served(c) for c in clients)
        assert served == 50, "%d of 70 are served" % served
        for c in clients[:20]:
            c.close()

        def one_more():
            c = d.client()
            if is_served(c):
                return c
            c.close()
            return None
        # It stays connected: the next client might still find the places of leaving ones taken.
        with wait_for(one_more, "there is room again") as c:
            for left in clients:
                left.close()
            wait_for(lambda: c.stat("curr_connections") < 5, "all are gone")
            assert c.stat("rejected_connections") >= 20


def test_refused_as_memcached_does():
    with Daemon("-c", "10", "-t", "1") as d:
        held = [d.client()]
        wait_for(lambda: held[0].stat("curr_connections") == 1, "the first connection is alone")
        for _ in range(9):
            held.append(d.client())
            assert is_served(held[-1])
        with d.client() as c:       # which asks for nothing
            assert c.line() == b"ERROR Too many open connections"
            assert c.line() is None
        for c in held:
            assert is_served(c)
            c.close()


def test_who_comes_too_late_waits():
    """Without maxconns_fast no client is refused: accepting pauses at -c, and resumes with every client
    that leaves."""
    with Daemon("-c", "5", "-t", "2", "-o", "no_maxconns_fast") as d:
        keep = d.client()
        wait_for(lambda: keep.stat("curr_connections") == 1, "the first connection is alone")
        assert keep.stat("accepting_conns") == 1
        held = [d.client() for _ in range(4)]
        assert all(is_served(c) for c in held)
        wait_for(lambda: keep.stat("accepting_conns") == 0, "accepting pauses")
        late = [d.client() for _ in range(4)]
        for c in late:
            c.send(b"version\r\n")
        assert keep.stat("listen_disabled_num") == 1
        assert keep.stat("curr_connections") == 5
        for n, c in enumerate(held):
            c.close()
            assert late[n].line().startswith(b"VERSION"), n
            assert keep.stat("curr_connections") <= 5
        # As many as before; the next client waits again, and a stop leaves none waiting.
        last = d.client()
        last.send(b"version\r\n")
        wait_for(lambda: keep.stat("accepting_conns") == 0, "accepting pauses again")
        late.pop().close()
        assert last.line().startswith(b"VERSION")
        now = keep.stats()
        assert now["rejected_connections"] == "0", now["rejected_connections"]
        assert int(now["listen_disabled_num"]) >= 2 and int(now["time_in_listen_disabled_us"]) > 0
        assert int(now["max_connections"]) == 5
        never = d.client()
        wait_for(lambda: keep.stat("accepting_conns") == 0, "accepting pauses at the end")
        assert d.stop() == 0
        with contextlib.suppress(ConnectionError):
            assert never.line() is None


class Both(Daemon):
    """A daemon with TCP and a unix socket."""

    def __init__(self, *args):
        self.socket_folder = tempfile.TemporaryDirectory(prefix="mayfly-admin.")
        self.admin_path = os.path.join(self.socket_folder.name, "socket")
        super().__init__("-s", self.admin_path, *args, tcp=True)

    def admin(self):
        return mayfly.Client(self.admin_path)

    def kill(self):
        super().kill()
        self.socket_folder.cleanup()


def test_administrator_comes_in_when_all_places_are_taken():
    """Connections over the unix socket have places beyond -c; TCP has all of -c, in any order of connecting."""
    for option in ("maxconns_fast", "no_maxconns_fast"):
        with Both("-c", "5", "-A", "-t", "2", "-o", "listen_both,admin_conns=2," + option) as d:
            with d.admin() as first:
                wait_for(lambda: first.stat("curr_connections") == 1, "the first connection is alone")
                held = [d.client() for _ in range(5)]
                assert all(is_served(c) for c in held)
                late = d.client()
                if option == "maxconns_fast":
                    assert late.line() == b"ERROR Too many open connections"
                else:
                    wait_for(lambda: first.stat("accepting_conns") == 0, "accepting pauses")
                with d.admin() as second:
                    wait_for(lambda: second.stat("curr_connections") == 7, "the one that was refused has left")
                    if option == "maxconns_fast":
                        with d.admin() as third:        # only so many are beyond -c
                            assert third.line() == b"ERROR Too many open connections"
                wait_for(lambda: first.stat("curr_connections") == 6, "the second has left")
                for _ in range(3):                      # and its place is free again
                    with d.admin() as c:
                        assert c.stat("curr_connections") == 7
                    wait_for(lambda: first.stat("curr_connections") == 6, "it has left")
            held[0].close()
            if option == "maxconns_fast":
                late.close()
                wait_for(lambda: is_served_once(d), "the place is free")
            else:
                assert is_served(late)
            with d.admin() as c:
                c.send(b"shutdown\r\n")
                assert d.process.wait(mayfly.PATIENCE) == 0
            for c in held + [late]:
                c.close()


def is_served_once(d):
    with d.client() as c:
        return (c.ask(b"version") or b"").startswith(b"VERSION")


def test_unix_sockets_alone_have_no_places_of_their_own():
    with Daemon("-c", "2", "-t", "1") as d, d.client() as a:
        wait_for(lambda: a.stat("curr_connections") == 1, "the first connection is alone")
        with d.client() as b:
            assert is_served(b)
            with d.client() as c:
                assert c.line() == b"ERROR Too many open connections"


def test_workers_take_turns():
    """Connections are distributed evenly, whatever their address and listener."""
    with Daemon("-t", "4") as d, d.client() as c:
        before = [int(c.stats(b"shards")["%d:total_connections" % i]) for i in range(4)]
        clients = [d.client() for _ in range(40)]
        assert all(is_served(other) for other in clients)
        after = [int(c.stats(b"shards")["%d:total_connections" % i]) for i in range(4)]
        assert [b - a for a, b in zip(before, after)] == [10] * 4, (before, after)


def test_descriptors_run_out():
    with Daemon("-c", "200", "-t", "2", is_visible=True) as d:
        keep = d.client()
        assert keep.set(b"k", b"v") == b"STORED"
        used = len(os.listdir("/proc/%d/fd" % d.pid))
        limits = resource.prlimit(d.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(d.pid, resource.RLIMIT_NOFILE, (used + 5, limits[1]))
        waiting = [d.client() for _ in range(30)]
        for c in waiting:
            c.send(b"get k\r\n")
        # As many as fit are served; the others wait in the kernel's queue, none is cut off.
        wait_for(lambda: len(os.listdir("/proc/%d/fd" % d.pid)) >= used + 4, "descriptors are used up")

        def spent():
            began, cpu = time.monotonic(), d.cpu()
            while time.monotonic() < began + 0.5:
                assert keep.get(b"k") == b"v"
                time.sleep(0.02)
            return d.cpu() - cpu
        best = best_of(spent, 0.3)
        assert best < 0.3, "%.2f s of CPU in half a second without descriptors" % best
        resource.prlimit(d.pid, resource.RLIMIT_NOFILE, limits)
        for c in waiting:
            assert c.get_reply() == {b"k": b"v"}
            c.close()
        assert keep.stat("listen_disabled_num") >= 1
        keep.close()


def test_recovers_when_clients_leave():
    """The same, but room comes from clients that leave."""
    with Daemon("-c", "200", "-t", "2", is_visible=True) as d:
        keep = d.client()
        first = [d.client() for _ in range(4)]
        assert all(is_served(c) for c in first)
        used = len(os.listdir("/proc/%d/fd" % d.pid))
        hard = resource.prlimit(d.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(d.pid, resource.RLIMIT_NOFILE, (used, hard))
        late = [d.client() for _ in range(3)]
        for c in late:
            c.send(b"version\r\n")
        assert is_served(keep)
        for c in first:
            c.close()
        for c in late:
            assert c.line().startswith(b"VERSION")
            c.close()
        keep.close()


# ---- idle connections ----

WINDOW = 2.0


def wakeups(d):
    """Number of times that its workers went to sleep."""
    total = 0
    for task in os.listdir("/proc/%d/task" % d.pid):
        with open("/proc/%d/task/%s/status" % (d.pid, task)) as f:
            status = dict(line.split(":", 1) for line in f)
        if status["Name"].strip().startswith("mayfly-w"):
            total += int(status["voluntary_ctxt_switches"])
    return total


def test_idle_costs_nothing():
    with Daemon("-m", "64", "-t", "4", "-c", "1000") as d:
        clients = [d.client() for _ in range(300)]
        c = clients[0]
        for start in range(0, 20000, 1000):
            c.send(b"".join(b"set k%d 0 %d 5 noreply\r\nhello\r\n" % (i, 100000 + i)
                            for i in range(start, start + 1000)))
        assert c.get(b"k19999") == b"hello"

        def spent():
            """CPU seconds; more than the limit if workers woke up."""
            cpu, before = d.cpu(), wakeups(d)
            time.sleep(WINDOW)
            return d.cpu() - cpu + max(wakeups(d) - before - 3, 0)
        # Work left over from the load may take a moment; after that, one window must be quiet.
        limit = (0.10 if mayfly.is_sanitized() else 0.02) * WINDOW
        best = best_of(spent, limit)
        assert best < limit, "CPU or wake-ups while idle: %.3f" % best


KEYS = range(64)    # some of them in the shard of each worker

# How one key each gets a deadline a second ahead; b"%d" is the number of the key.
NEARER = {
    "mg N": b"mg k%d N1 s q k\r\n",
    "ma N": b"ma k%d N1 q\r\n",
    "ms T": b"ms k%d 1 T1 q\r\nx\r\n",
    "set": b"set k%d 0 1 1 noreply\r\nx\r\n",
    "mg T": b"mg far%d T1 q\r\n",
    "gat": b"gat 1 far%d\r\n",
    "touch": b"touch far%d 1 noreply\r\n",
    "md I T": b"md far%d I T1 q\r\n",
    "expire": b"expire far%d 1 noreply\r\n",
    "binary incr": lambda i: binary.arith(binary.INCRQ, b"k%d" % i, exptime=1),
}


def volatile(c):
    return int(c.stats(b"expire")["expire_keys_volatile"])


def make_nearer(c, d, request):
    """One client is served by one worker. The others sleep, and some of the keys are theirs."""
    if callable(request):
        c.close()
        with d.client() as b:
            b.send(b"".join(request(i) for i in KEYS) + binary.pack(binary.NOOP))
            b.exactly(binary.HEADER)
        return d.client()
    if b"far" in request:
        c.send(b"".join(b"set far%d 0 100000 1 noreply\r\n1\r\n" % i for i in KEYS))
    c.send(b"".join(request % i for i in KEYS) + b"mn\r\n")
    while c.line() != b"MN":
        pass
    return c


def test_a_nearer_deadline_wakes_the_home_worker_whatever_command_set_it():
    with contextlib.ExitStack() as stack:
        daemons = {how: stack.enter_context(Daemon("-m", "64", "-t", "4")) for how in NEARER}
        clients = {how: make_nearer(d.client(), d, NEARER[how]) for how, d in daemons.items()}
        for how, c in clients.items():
            wait_for(lambda: volatile(c) == 0, "keys of %s expire by themselves" % how, 30)
            c.close()


def test_sleeping_workers_expire_when_it_is_due_and_not_hz_times_a_second():
    """Nobody reads: with hz 1 a worker that waits for its next tick is half a second late."""
    def median_lag():
        with Daemon("-m", "64", "-t", "4", "-o", "hz=1,no_dynamic_hz") as d, d.client() as c:
            c.send(b"".join(b"ms k%d 1 p%d q\r\nx\r\n" % (i, 50 + i) for i in range(1500)) + b"mn\r\n")
            assert c.line() == b"MN"
            wait_for(lambda: volatile(c) == 0, "all keys expire")
            return int(c.stats(b"expire")["expire_lag_p50_ms"])
    best = best_of(median_lag, 100)
    assert best < 100, "half of the keys expired %d ms late" % best


# ---- how connections end ----

def test_reset_in_mid_reply():
    with Daemon("-m", "64", "-t", "2", tcp=True) as d, d.client() as c:
        big = mayfly.pattern(b"big", 900000)
        assert c.set(b"big", big) == b"STORED"
        for i in range(60):
            r = d.client(rcvbuf=4096)
            r.send(b"get big\r\n" * (1 + i % 7))
            if i % 3:
                r.exactly(50)
            r.reset()
            if i % 10 == 0:
                assert c.get(b"big") == big
        wait_for(lambda: c.stat("curr_connections") == 1, "all that were reset are gone")
        wait_for(lambda: c.shard_sum("mayfly_out_pending_bytes") == 0, "no answer is pending")
        assert c.get(b"big") == big


mayfly.main(globals())
