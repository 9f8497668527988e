# SPDX-License-Identifier: BSD-3-Clause
"""The experiments of tests/bench/replication that compare with redis what replication costs: each starts a
primary and its replicas, does something to them, and returns its figures. What is measured, and in which
unit, is in tests/bench/figures.py."""
import contextlib
import os
import re
import subprocess
import tempfile
import threading
import time

import expiry_cases
from expiry_cases import PATIENCE_S, Client, Failed, bench
import proxy as proxies      # tests/common

KEYS = 1000000          # of the loads, of 20 bytes
VALUE = 100
PIPELINE = 16


def wait_for(condition, what, step_s=.0005, patience_s=PATIENCE_S):
    """The seconds that it took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > patience_s:
            raise AssertionError("never happened: " + what)
        time.sleep(step_s)
    return time.monotonic() - began


class Node(expiry_cases.Server):
    """A server of a pair, with a connection that asks for its state."""

    def __init__(self, rig, name, folder, cpus, **options):
        super().__init__(name, rig.programs[name], tempfile.mkdtemp(dir=folder), cpus, **options)
        self.c = None
        wait_for(self.connect, name + " serves", .01, 10)

    def connect(self):
        with contextlib.suppress(OSError):
            self.c = Client(self.port if self.is_resp else self.control())
        return self.c

    def control(self):
        return os.path.join(self.folder, "control")

    def command(self):
        if self.is_resp:
            # The backlog is as large as mayflyd's may be, and a full sync begins at once.
            return super().command() + ["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb",
                                        "--repl-timeout", "600"]
        return super().command() + ["-o", "save_on_stop=no", "--control", self.control()]

    def stop(self):
        if self.c:
            self.c.close()
        super().stop()

    def cpu(self):
        """CPU seconds used, by the clock of the process, as clock_getcpuclockid() finds it."""
        return time.clock_gettime(~self.process.pid << 3 | 2)

    def yield_cpu(self):
        """Take only what others leave of the CPU, so that a load beside it is not late."""
        for task in os.listdir("/proc/%d/task" % self.process.pid):
            os.sched_setscheduler(int(task), os.SCHED_IDLE, os.sched_param(0))

    def follow(self, port):
        if not self.c.ask("replicaof 127.0.0.1 %d" % port).endswith("OK"):
            raise Failed(self.name + " does not follow")

    def stand_alone(self):
        if not self.c.ask("replicaof no one").endswith("OK"):
            raise Failed(self.name + " goes on following")

    def info(self, name):
        """A line of redis's INFO."""
        found = re.search("^%s:(.*?)\r?$" % name, self.c.bulk("INFO replication") + self.c.bulk("INFO stats"), re.M)
        return found.group(1) if found else ""

    def stats(self, section=""):
        self.c.sock.sendall(("stats %s" % section).strip().encode() + b"\r\n")
        return {words[1]: words[2] for words in (line.decode().split() for line in iter(
            self.c.file.readline, b"END\r\n")) if len(words) == 3}

    def is_online(self):
        if self.is_resp:
            return self.info("master_link_status") == "up"
        return self.c.ask("role").split()[1:3] == ["replica", "online"]

    def offset(self):
        """The end of the stream, as far as it is known here."""
        return int(self.info("master_repl_offset") if self.is_resp else self.c.ask("role").split()[5])

    def items(self):
        return int(self.c.ask("DBSIZE")[1:] if self.is_resp else self.stats()["curr_items"])

    def syncs(self):
        """Full and partial ones that it gave to its replicas."""
        if self.is_resp:
            return int(self.info("sync_full")), int(self.info("sync_partial_ok"))
        stats = self.stats("replication")
        return int(stats["sync_full"]), int(stats["sync_partial_ok"])


class Pair:
    """A primary, and those that are made to follow it. Primaries have one core, replicas and load the other."""

    def __init__(self, rig, name, limit_mb=4096):
        self.rig, self.name, self.limit_mb = rig, name, limit_mb
        self.folder = tempfile.mkdtemp(dir=rig.folder)
        self.primary = Node(rig, name, self.folder, rig.server_cpus, limit_mb=limit_mb)
        self.replicas = []

    def add_replica(self, of=None, yields=False):
        """One more, as soon as it has everything; of: the port that it follows. Returns the seconds that took."""
        replica = Node(self.rig, self.name, self.folder, self.rig.client_cpus, limit_mb=self.limit_mb)
        self.replicas.append(replica)
        if yields:
            replica.yield_cpu()
        replica.follow(of or self.primary.port)
        return wait_for(replica.is_online, "a replica of %s is online" % self.name, .002)

    def level(self):
        """Wait until the replicas have everything."""
        primary = self.primary
        if not primary.is_resp:
            primary.c.ask("wait %d %d" % (len(self.replicas), PATIENCE_S * 1000))
        wait_for(lambda: len({n.offset() for n in [primary] + self.replicas}) == 1, self.name + " is level", .002)

    def fill(self, keys=KEYS, prefix="k"):
        self.rig.tool("bench_load", self.primary, ["--fill", "--prefix", prefix, "--keys", keys, "--size", VALUE,
                                                   "--ops", 1, "--pipeline", PIPELINE])

    def check_same(self):
        """Nothing is lost: as many items here as there."""
        counts = [n.items() for n in [self.primary] + self.replicas]
        if len(set(counts)) != 1:
            raise AssertionError("%s: primary and replicas have %s items" % (self.name, counts))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.replicas + [self.primary]:
            node.stop()


def median_of(values):
    return bench.median(values)


def percentile(values, share):
    v = sorted(values)
    return v[min(len(v) - 1, int(len(v) * share))]


# ---- what a set costs ----------------------------------------------------------------------------

def cost_of_sets(pair, sets, tries=5):
    """CPU us a set of each node, the median of some tries; until all have everything."""
    nodes = [pair.primary] + pair.replicas
    got = []
    for n in range(tries):
        before = [node.cpu() for node in nodes]
        pair.rig.tool("bench_load", pair.primary, ["--op", "set", "--keys", KEYS, "--size", VALUE, "--ops", sets,
                                                   "--warmup", 0, "--pipeline", PIPELINE, "--seed", 7 + n])
        if pair.replicas:
            pair.level()
        got.append([(node.cpu() - b) / sets * 1e6 for node, b in zip(nodes, before)])
    return [median_of(values) for values in zip(*got)]


def sets(rig, name, _):
    count = rig.size(400000, 100000)
    with Pair(rig, name) as pair:
        pair.fill()
        none = cost_of_sets(pair, count)
        pair.add_replica()
        one = cost_of_sets(pair, count)
        pair.add_replica()
        two = cost_of_sets(pair, count)
        pair.check_same()
    first, further, replica = one[0] - none[0], two[0] - one[0], one[1]
    return {"set0_us": none[0], "first_us": first, "further_us": further, "replica_us": replica,
            "both_us": first + replica}, 0


# ---- cost for a server without a replica ----------------------------------------------------------

class Counted(expiry_cases.Server):
    """A mayflyd whose instructions are counted by callgrind: those of its own code, not the kernel's."""

    def __init__(self, path, folder, cpus):
        self.out = os.path.join(folder, "callgrind.out")
        super().__init__("mayflyd", path, folder, cpus, limit_mb=64)

    def command(self):
        return ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + self.out] + super().command()

    def instructions(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        with open(self.out) as f:
            return int(re.search(r"^(?:summary|totals): (\d+)", f.read(), re.M).group(1))


def instructions_of(rig, path, op):
    """Of one operation: a run of many less one of few, so that all else is in both."""
    few, many = rig.size(20000, 5000), rig.size(60000, 15000)
    total = {}
    for ops in few, many:
        with tempfile.TemporaryDirectory(dir=rig.folder) as folder, Counted(path, folder, rig.server_cpus) as server:
            load = ["--keys", 1000, "--size", VALUE, "--conns", 1, "--pipeline", PIPELINE]
            rig.tool("bench_load", server, load + ["--fill", "--ops", 1])
            rig.tool("bench_load", server, load + ["--op", op, "--ops", ops, "--warmup", 0])
            total[ops] = server.instructions()
    return (total[many] - total[few]) / (many - few)


def off(rig, name, case):
    now = instructions_of(rig, rig.programs[name], case)
    if not rig.args.before:
        return {"instructions": now}, 0
    before = instructions_of(rig, rig.args.before, case)
    return {"instructions": now, "instructions_before": before, "instructions_more": now - before}, 0


# ---- a full sync ---------------------------------------------------------------------------------

class Watch:
    """The most that a server has resident, looked at again and again."""

    def __init__(self, server):
        self.server, self.peak, self.is_over = server, 0, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.is_over.wait(.02):
            self.peak = max(self.peak, self.server.resident())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


class Syncs:
    """One full sync after the other, each of a fresh replica."""

    def __init__(self, pair):
        self.pair, self.is_over, self.count, self.why = pair, False, 0, None
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.is_over:
                self.pair.add_replica(yields=True)
                self.pair.replicas.pop().stop()
                self.count += 1
        except (AssertionError, Failed, OSError) as why:
            self.why = why

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()


def sync(rig, name, case):
    count = int(case.split()[0])
    load = ["--live", 100000, "--get-rate", rig.args.rate, "--before", rig.size(10, 2), "--after", "0-0"]
    with Pair(rig, name, limit_mb=1024 + count // 4000) as pair:
        pair.fill(count)
        before = pair.primary.resident()
        with Watch(pair.primary) as watch:
            took = pair.add_replica()
        pair.level()
        pair.check_same()
        pair.replicas.pop().stop()
        alone = rig.tool("bench_pace", pair.primary, load)
        syncs = Syncs(pair)
        with syncs:
            during = rig.tool("bench_pace", pair.primary, load)
        if syncs.why:
            raise AssertionError("a full sync: %s" % syncs.why)
    return {"sync_s": took, "sync_more_mb": (watch.peak - before) / 1048576,
            "before_p999_ms": alone["get"]["before"]["p999"] / 1e3,
            "p999_ms": during["get"]["before"]["p999"] / 1e3}, during["get"]["late"]["p99"] / 1e3


# ---- how late a replica has what was changed -----------------------------------------------------

class Probe:
    """A key that is set at the primary and read at a replica."""

    def __init__(self, pair):
        self.is_resp, self.number = pair.primary.is_resp, 0
        self.to, self.at = Client(pair.primary.port), Client(pair.replicas[0].port)

    def set(self):
        self.number += 1
        line = "SET probe %d" if self.is_resp else "ms probe %d T0\r\n%d"
        text = str(self.number)
        answer = self.to.ask(line % (self.number if self.is_resp else (len(text), self.number)))
        if answer not in ("+OK", "HD"):
            raise Failed("a probe was not stored: " + answer)

    def seen(self):
        """The number that the replica has; 0: none."""
        if self.is_resp:
            got = self.at.bulk("GET probe")
            return 0 if got.startswith(("$", "-")) else int(got)
        head = self.at.ask("mg probe v")
        return int(self.at.file.read(int(head.split()[1]) + 2)) if head.startswith("VA ") else 0

    def lag(self):
        """Seconds from the answer of a set until a read of the replica has found it."""
        self.set()
        return wait_for(lambda: self.seen() >= self.number, "a replica has a probe", .0001)

    def close(self):
        self.to.close()
        self.at.close()


class Load:
    """Paced sets in the background."""

    def __init__(self, rig, pair, rate, seconds):
        command = [rig.tools["bench_pace"], "--port", pair.primary.port, "--pid", pair.primary.process.pid, "--proto",
                   pair.primary.proto, "--live", 1000, "--set-rate", rate, "--size", VALUE, "--ttl", "1000-1000",
                   "--before", 0, "--after", "%g-%g" % (seconds, seconds)]
        self.process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, preexec_fn=lambda: bench.place(rig.client_cpus))

    def is_on(self):
        return self.process.poll() is None

    def end(self):
        """What it printed."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        if self.process.returncode == 2 or not out:
            raise Failed(err.strip() or "bench_pace ended with %d" % self.process.returncode)
        return expiry_cases.json.loads(out)


def highest_rate(rig, pair, count):
    """Sets a second that a primary takes while its replica keeps up."""
    began = time.monotonic()
    rig.tool("bench_load", pair.primary, ["--op", "set", "--keys", KEYS, "--size", VALUE, "--ops", count, "--warmup", 0,
                                          "--pipeline", PIPELINE])
    pair.level()
    return count / (time.monotonic() - began)


def lag(rig, name, case):
    with Pair(rig, name) as pair:
        pair.fill()
        pair.add_replica()
        rate = highest_rate(rig, pair, rig.size(2000000, 300000)) / 2 if case.startswith("half") else int(case.split()[0])
        load = Load(rig, pair, rate, rig.size(10, 3))
        probe, lags = Probe(pair), []
        while load.is_on():
            lags.append(probe.lag() * 1e3)
            time.sleep(.002)
        got = load.end()
        probe.close()
        pair.level()
        pair.check_same()
    middle = lags[len(lags) // 10: -len(lags) // 10]      # while the load was on
    return {"rate_k": rate / 1e3, "lag_p50_ms": percentile(middle, .5), "lag_p99_ms": percentile(middle, .99)}, \
        got["set"]["late"]["p99"] / 1e3


# ---- many keys expire ----------------------------------------------------------------------------

def store_dying(primary, count, deadline_s):
    """Keys that end at this second."""
    c = Client(primary.port)
    value = b"v" * VALUE
    for at in range(0, count, 10000):
        numbers = range(at, min(at + 10000, count))
        if primary.is_resp:
            c.sock.sendall(b"".join(b"SET d%019d %s EXAT %d\r\n" % (n, value, deadline_s) for n in numbers))
        else:
            c.sock.sendall(b"".join(b"set d%019d 0 %d %d\r\n%s\r\n" % (n, deadline_s, VALUE, value) for n in numbers))
        for _ in numbers:
            if c.file.readline() not in (b"STORED\r\n", b"+OK\r\n"):
                raise Failed("a key was not stored")
    c.close()


def expiry(rig, name, case):
    count = int(case)
    with Pair(rig, name) as pair:
        replica = pair.add_replica() and pair.replicas[0]
        for room in 4, 16, 64:      # seconds; a crowded machine needs more
            deadline = int(time.time()) + 1 + room + count // 50000
            store_dying(pair.primary, count, deadline)
            pair.level()
            if time.time() < deadline - 1 and replica.items() == count:
                break
        else:
            raise Failed("%s: %d of %d keys are there in time" % (name, replica.items(), count))
        before = pair.primary.offset()
        time.sleep(deadline - time.time())
        gone = {}
        while len(gone) < 2:
            for who in pair.primary, replica:
                if who not in gone and who.items() == 0:
                    gone[who] = time.time() - deadline
            if time.time() > deadline + 120:
                raise Failed("%s: %d keys are left at the replica" % (name, replica.items()))
            time.sleep(.002)
        pair.level()
        stream = pair.primary.offset() - before
    return {"stream_kb": stream / 1024, "gone_s": gone[pair.primary], "after_s": gone[replica] - gone[pair.primary]}, 0


# ---- a link that is cut --------------------------------------------------------------------------

def cut(rig, name, case):
    seconds = rig.size(float(case.split()[0]), 1)
    with Pair(rig, name) as pair, proxies.Proxy(pair.primary.port) as link:
        pair.fill(rig.size(100000, 10000))
        pair.add_replica(of=link.port)
        pair.level()
        full, _ = pair.primary.syncs()
        load = Load(rig, pair, rig.args.rate, seconds + 8)
        probe = Probe(pair)
        time.sleep(2)
        probe.lag()
        link.is_refusing = True
        link.cut()
        time.sleep(seconds)
        link.is_refusing = False
        took = probe.lag()
        full_after, _ = pair.primary.syncs()
        load.end()
        pair.level()
        pair.check_same()
        probe.close()
    return {"level_s": took, "syncs_full": full_after - full}, 0
