# SPDX-License-Identifier: BSD-3-Clause
"""The experiments of tests/bench/replication that take mayflyd's roles, links and processes away from it: what is
lost, what comes back that must not, and how long clients wait. Each ends with a failed assertion if a value is wrong."""
import contextlib
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import crash                                            # noqa: E402
import mayfly                                           # noqa: E402
import proxy as proxies                                 # noqa: E402
from replicas import Node, differences, dump, level     # noqa: E402

import replication_cases                                # noqa: E402

READ_ONLY = b"SERVER_ERROR read-only replica"


# ---- planned failovers ---------------------------------------------------------------------------

class Writer:
    """Stores ever higher versions of its keys, at whichever of two servers takes them."""

    def __init__(self, name, ports, keys=500):
        self.ports, self.keys = ports, [b"%s%d" % (name, n) for n in range(keys)]
        self.stored, self.waits, self.error = {}, [], None
        self.is_over, self.c, self.at = False, None, 0
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def store(self, key, version):
        """False: not here, or not now."""
        try:
            self.c = self.c or mayfly.Client(("127.0.0.1", self.ports[self.at]))
            answer = self.c.set(key, b"%d" % version)
        except OSError:
            answer = None
        if answer == b"STORED":
            return True
        if answer not in (None, b"") and not answer.startswith(READ_ONLY):
            raise AssertionError("a set was answered %r" % answer)
        if self.c:
            self.c.close()
        self.c, self.at = None, 1 - self.at
        return False

    def run(self):
        version = 0
        try:
            while not self.is_over:
                version += 1
                for key in self.keys:
                    began = time.monotonic()
                    while not self.store(key, version):
                        assert time.monotonic() < began + mayfly.PATIENCE, "nobody takes writes"
                        time.sleep(.0005)
                    self.stored[key] = version
                    self.waits.append((began, time.monotonic() - began))
                    if self.is_over:
                        break
        except AssertionError as error:
            self.error = error

    def end(self):
        self.is_over = True
        self.thread.join()
        if self.c:
            self.c.close()
        if self.error:
            raise self.error


def lost_at(node, stored):
    """Of these versions, those that a server has not, nor higher ones."""
    lost = []
    for some in range(0, len(stored), 100):
        keys = list(stored)[some:some + 100]
        found = node.c.get(*keys)
        lost += [key for key in keys if int(found.get(key, b"0")) < stored[key]]
    return lost


def failover(rig, _, case):
    count = int(case.split()[0])
    longest, lost, refused = [], 0, 0
    with Node() as a, Node(of=a.port) as b:
        level(a, b)
        writers = [Writer(name, (a.port, b.port)) for name in (b"a", b"b")]
        primary, replica = a, b
        try:
            for n in range(count):
                time.sleep(.05)
                before = [dict(w.stored) for w in writers]
                began = time.monotonic()
                answer = replica.c.ask(b"promote 1000") if n % 2 else primary.c.ask(b"failover")
                if answer != b"OK":
                    refused += 1
                    continue
                primary, replica = replica, primary
                lost += sum(len(lost_at(primary, stored)) for stored in before)
                replica.online()
                longest.append(max([took for w in writers for at, took in list(w.waits)[-20000:]
                                    if at + took > began] or [0]))
        finally:
            for w in writers:
                w.end()
        level(primary, replica)
        for w in writers:
            lost += len(lost_at(primary, w.stored)) + len(lost_at(replica, w.stored))
        writes = sum(len(w.waits) for w in writers)
    assert lost == 0, "%d versions were lost" % lost
    assert refused < count / 2, "%d failovers were refused: %r" % (refused, answer)
    return {"wait_p50_ms": replication_cases.percentile(longest, .5) * 1e3,
            "wait_p99_ms": replication_cases.percentile(longest, .99) * 1e3, "lost": lost, "refused": refused,
            "writes_k": writes / 1e3}, 0


# ---- primaries that are killed -------------------------------------------------------------------

class Takeover(crash.Crash):
    """The load of tests/common/crash.py, and the moments at which its states were so."""

    def __init__(self, seed):
        super().__init__("snapshot", seed)
        self.marks = []     # when, the mark, whether a replica had said that it has that

    def load(self, primary):
        self.marks = [(time.monotonic(), self.model.mark(), True)]
        with primary.operator() as c:
            while True:
                self.batch(c)
                kind, waited = self.rng.random(), False
                mark = self.model.mark()
                if kind < .002:
                    self.model.flush_may_come()
                    if c.ask(b"flush_all") != b"OK":
                        raise ConnectionError
                    mark = self.model.mark()
                elif kind < .05:
                    answer = c.ask(b"wait 1 1000")
                    if not answer:
                        raise ConnectionError
                    waited = int(answer.split()[1]) >= 1
                self.marks.append((time.monotonic(), mark, waited))

    def found_at(self, c):
        found = {}
        for key in self.model.may:
            asked = time.time() - .05
            value = c.get(key)
            assert value is None or crash.is_whole(key, value), (key, value)
            found[key] = (value, asked)
            self.hits += value is not None
        return found

    def is_as_of(self, mark, found):
        """Is all that was found of that moment, or later?"""
        return all(crash.allowed(self.model.may[key][mark[key] - 1:], *found[key]) for key in found)

    def age(self, c, killed_at):
        """Seconds before the kill, of the moment that the replica is as of. Nothing may be older than what was waited
        for, and nothing of no moment at all."""
        found = self.found_at(c)
        for at, mark, waited in reversed(self.marks):
            if self.is_as_of(mark, found):
                break
            assert not waited, "after kill %d: older than what was waited for: %r" % (self.kills, [
                (key, found[key], self.model.may[key][mark[key] - 1:]) for key in found
                if not crash.allowed(self.model.may[key][mark[key] - 1:], *found[key])][:3])
        else:
            raise AssertionError("after kill %d: what was found is of no moment" % self.kills)
        for key, (value, asked) in found.items():
            self.model.may[key] = crash.left_of(value, crash.allowed(self.model.may[key][mark[key] - 1:], value, asked))
        return killed_at - at if at < killed_at else 0.


def kill_under_load(run, primary):
    """Returns when it was killed."""
    killed = []

    def strike():
        killed.append(time.monotonic())
        primary.process.kill()
    killer = threading.Timer(run.rng.uniform(.05, .5), strike)
    killer.start()
    try:
        run.load(primary)
    except (OSError, EOFError, ConnectionError, AssertionError) as why:
        killer.join()
        primary.process.wait(mayfly.PATIENCE)
        assert not isinstance(why, AssertionError) or primary.process.returncode == -9, why
    return killed[0]


def kill(rig, _, case):
    seed = int(time.time())
    print("seed %d" % seed)
    run, ages = Takeover(seed), []
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(Node())
        for run.kills in range(int(case.split()[0])):
            replica = stack.enter_context(Node(of=primary.port))
            level(primary, replica)
            at = kill_under_load(run, primary)
            replica.stand_alone()
            ages.append(run.age(replica.c, at))
            primary.kill()
            primary = replica
    return {"age_p50_ms": replication_cases.percentile(ages, .5) * 1e3, "age_max_ms": max(ages) * 1e3,
            "hits": run.hits, "requests_k": run.requests / 1e3}, 0


# ---- a link that is cut at random ----------------------------------------------------------------

class Changes:
    """Changes of every kind, of values small and large, with deadlines that are far enough to be compared."""

    def __init__(self, rng, node):
        self.rng, self.c, self.is_resting = rng, node.operator(), threading.Event()
        self.rests, self.is_over, self.error, self.count = threading.Event(), False, None, 0
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def line(self):
        rng = self.rng
        key, kind = b"k%d" % (rng.random() ** 2 * 3000), rng.random()
        if kind < .6:
            size = rng.choice((1, 30, 100, 100, 1000, 5000, 40000))
            ttl = rng.choice((b"T0", b"T0", b"T600", b"p%d" % rng.randrange(1, 10 ** 6), b"p%d" % rng.randrange(1, 200)))
            return b"ms %s %d F%d %s\r\n%s\r\n" % (key, size, rng.randrange(1000), ttl, mayfly.pattern(key, size))
        if kind < .7:
            return b"md %s%s\r\n" % (key, rng.choice((b"", b"", b" I T30")))
        if kind < .8:
            return b"mg %s p%d\r\n" % (key, rng.randrange(1, 10 ** 6))
        if kind < .9:
            return b"ms %s 3 MA\r\nabc\r\n" % key
        return b"ma n%d N0 J%d\r\n" % (rng.randrange(100), rng.randrange(1000))

    def run(self):
        try:
            while not self.is_over:
                lines = [self.line() for _ in range(50)]
                self.c.send(b"".join(lines))
                for _ in lines:
                    assert self.c.line()
                self.count += len(lines)
                if self.rng.random() < .0005:
                    assert self.c.ask(b"flush_all") == b"OK"
                if self.is_resting.is_set():
                    self.rests.set()
                    while self.is_resting.is_set() and not self.is_over:
                        time.sleep(.005)
                    self.rests.clear()
                time.sleep(.002)
        except (AssertionError, OSError) as error:
            self.error = error

    @contextlib.contextmanager
    def rest(self):
        self.is_resting.set()
        mayfly.wait_for(lambda: self.rests.is_set() or self.error, "changes rest")
        if self.error:
            raise self.error
        yield
        self.is_resting.clear()

    def end(self):
        self.is_over = True
        self.thread.join()
        self.c.close()


def spoil(rng, link, until):
    """Cut the link at random moments, and next ones at random bytes, until that time. Returns how often."""
    cuts = 0
    while time.monotonic() < until:
        time.sleep(min(rng.expovariate(4), max(0, until - time.monotonic())))
        if rng.random() < .5:
            link.plans = [proxies.Plan(cut=rng.randrange(1, 3000)) for _ in range(rng.randrange(3))]
        link.cut()
        cuts += 1
    link.plans = []
    return cuts


def deadline_step(a, b):
    """The most that a deadline differs in two dumps of the same keys, milliseconds."""
    return max([abs(b[key][2] - item[2]) for key, item in a.items() if item is not None and
                not isinstance(item[2], bool)] or [0])


def proxy(rig, _, case):
    minutes = float(case.split()[0])
    rng = random.Random(int(time.time()))
    cuts = steps = looks = items = count = full = 0
    for threads, others in ((1, 4), (4, 1)):
        with Node("-t", str(threads), "-m", "256") as a, proxies.Proxy(a.port) as link, \
                Node("-t", str(others), "-m", "256", of=link.port) as b:
            level(a, b)
            changes = Changes(rng, a)
            end = time.monotonic() + minutes * 30
            try:
                while time.monotonic() < end:
                    cuts += spoil(rng, link, min(end, time.monotonic() + rig.args.rest))
                    with changes.rest():
                        level(a, b)
                        # Keys that end between the two dumps are in one of them only.
                        one, other, again = dump(a.c), dump(b.c), dump(a.c)
                        one = {key: item for key, item in one.items() if key in again}
                        other = {key: item for key, item in other.items() if key in one or key in again}
                        assert not differences(one, other), differences(one, other)
                        steps = max(steps, deadline_step(one, other))
                        looks, items = looks + 1, max(items, len(one))
            finally:
                changes.end()
            count += changes.count
            full += int(a.c.stats(b"replication")["sync_full"])
    return {"cuts": cuts, "looks": looks, "items": items, "deadline_ms": steps, "syncs_full": full,
            "changes_k": count / 1e3}, 0
