# SPDX-License-Identifier: BSD-3-Clause
"""The experiments of tests/bench/expiry: each starts one server, does something to it, and returns
its figures. What is measured, and in which unit, is in tests/bench/figures.py."""
import bisect
import gzip
import importlib.machinery
import importlib.util
import itertools
import json
import os
import random
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE_S = 600


def load_bench():
    loader = importlib.machinery.SourceFileLoader("bench", os.path.join(HERE, "bench"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


bench = load_bench()

# Redis and Valkey with what frees in the background, as Valkey's defaults are.
LAZY = ["--lazyfree-lazy-expire", "yes", "--lazyfree-lazy-eviction", "yes", "--lazyfree-lazy-server-del", "yes",
        "--lazyfree-lazy-user-del", "yes", "--lazyfree-lazy-user-flush", "yes"]


class Failed(Exception):
    """A run that says nothing: its load came too late, or its tool ended early."""


class Server(bench.Server):
    """A server of one worker and a limit."""

    def __init__(self, name, path, folder, cpus, limit_mb=4096, policy=""):
        self.limit_mb, self.policy = limit_mb, policy
        self.is_resp = name in ("redis", "valkey")
        super().__init__(name, path, folder, 1, cpus)
        self.proto = "resp" if self.is_resp else "text"

    def command(self):
        if self.is_resp:
            return [self.path, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                    "--dir", self.folder, "--maxmemory", "%dmb" % self.limit_mb, "--maxmemory-policy",
                    self.policy or "allkeys-lru"] + LAZY
        command = super().command()
        command[command.index("-m") + 1] = str(self.limit_mb)
        return command + (["-o", "maxmemory_policy=" + self.policy] if self.policy else [])

    def resident(self):
        with open("/proc/%d/statm" % self.process.pid) as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Client:
    """One connection that asks for a line; address: a port of this host, or the path of a socket."""

    def __init__(self, address):
        if isinstance(address, str):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(PATIENCE_S)
            self.sock.connect(address)
        else:
            self.sock = socket.create_connection(("127.0.0.1", address), PATIENCE_S)
        self.file = self.sock.makefile("rb")

    def ask(self, line):
        self.sock.sendall(line.encode() + b"\r\n")
        return self.file.readline().decode().rstrip()

    def bulk(self, line):
        """The reply of redis, of that many bytes."""
        head = self.ask(line)
        return self.file.read(int(head[1:]) + 2).decode() if head.startswith("$") and head != "$-1" else head

    def close(self):
        self.file.close()
        self.sock.close()


class Rig:
    """The programs, where they run, and how large experiments are."""

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.traces = traces_in(args.traces) if args.traces else {}
        self.tools = {n: bench.find(n) for n in ("bench_pace", "bench_load", "bench_aside")}
        missing = [n for n, p in self.tools.items() if not p]
        if missing:
            sys.exit("expiry: not built: " + ", ".join(missing))
        found = {"mayflyd": args.mayflyd or bench.find("mayflyd", "MAYFLYD"),
                 "memcached": bench.find("memcached", "MEMCACHED"),
                 "redis": bench.find("redis-server", "REDIS"), "valkey": bench.find("valkey-server", "VALKEY")}
        wanted = args.servers.split(",") if args.servers else list(found)
        self.programs = {n: p for n, p in found.items() if p and n in wanted}
        cores = sorted(os.sched_getaffinity(0))
        self.server_cpus = {cores[0]} if len(cores) > 1 else None
        self.client_cpus = {cores[1]} if len(cores) > 1 else None

    def server(self, name, **options):
        return Server(name, self.programs[name], self.folder, self.server_cpus, **options)

    def size(self, normal, quick):
        return quick if self.args.quick else normal

    def tool(self, name, server, options, data=None, may_refuse=False):
        """Run a load program; returns what it printed. may_refuse: stores may find no memory."""
        command = [self.tools[name]] + [str(o) for o in options]
        if server is not None:
            command += ["--port", str(server.port), "--pid", str(server.process.pid), "--proto", server.proto]
        done = subprocess.run(command, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=900,
                              preexec_fn=lambda: bench.place(self.client_cpus))
        if done.returncode == 2 or not done.stdout:
            raise Failed(done.stderr.decode().strip() or "%s ended with %d" % (name, done.returncode))
        got = json.loads(done.stdout)
        if got.get("wrong") and not (may_refuse and "out of memory" in got["first_wrong"]):
            raise Failed("%s: %d wrong answers: %s" % (server.name, got["wrong"], got["first_wrong"]))
        return got

    def pace(self, name, options, **server_options):
        with self.server(name, **server_options) as server:
            return self.tool("bench_pace", server, options)


# ---- what a run of bench_pace comes to -----------------------------------------------------------

def time_until(got, column, share, left_of=None):
    """Seconds from the event until this share of what the dying keys added is gone; None if
    that did not happen."""
    base = 0 if left_of == "all" else got["base"][column]
    full = got["full"][column]
    for sample in got["samples"]:
        if sample[0] > 0 and sample[column] <= base + (full - base) * (1 - share):
            return sample[0]
    return None


def left_pct(got, column, base=None):
    base = got["base"][column] if base is None else base
    full = got["full"][column]
    last = got["samples"][-1][column]
    return max(0., 100. * (last - base) / (full - base)) if full > base else 0.


def latencies(got):
    before, during = got["get"]["before"], got["get"]["during"]
    return {"before_p99_ms": before["p99"] / 1e3, "p99_ms": during["p99"] / 1e3,
            "before_p999_ms": before["p999"] / 1e3, "p999_ms": during["p999"] / 1e3, "max_ms": during["max"] / 1e3}


def lateness(got):
    return max(got[s]["late"]["p99"] for s in ("get", "set")) / 1e3


def extra_cpu_ms(got, until):
    """CPU time that the server took until then beyond its rate before the event."""
    def at(t):
        return next((s for s in got["samples"] if s[0] >= t), got["samples"][-1])
    first, event, last = got["samples"][0], at(0), at(until)
    rate = (event[4] - first[4]) / max(event[0] - first[0], .001)
    return max(0., ((last[4] - event[4]) - rate * (last[0] - event[0])) * 1e3)


# ---- the experiments -----------------------------------------------------------------------------

def storm(rig, name, case):
    dying = int(case)
    got = rig.pace(name, ["--live", rig.size(200000, 50000), "--dying", dying, "--event", "deadline", "--get-rate",
                          rig.args.rate, "--before", rig.size(3, 1.5), "--after", rig.size("8-30", "3-8")])
    figures = latencies(got)
    gone = time_until(got, 1, .99)
    figures.update(gone99_s=gone, rss_back_s=time_until(got, 3, .9), rss_left_pct=left_pct(got, 3),
                   cpu_ms=extra_cpu_ms(got, gone) if gone is not None else None)
    series = {"windows": [[w[0], w[3], w[4]] for w in got["windows"] if w[0] < 10],
              "samples": [[round(s[0], 2), s[1], round(s[3] / 1048576, 1)] for s in got["samples"] if s[0] < 10]}
    return figures, lateness(got), series


def steady(rig, name, case):
    beside = int(case)
    run, warm = rig.size(28, 12), rig.size(14, 6)
    ttl = rig.size("1-10", "1-4")
    options = ["--set-rate", rig.args.rate, "--ttl", ttl, "--before", 0, "--after", "%d-%d" % (run, run)]
    if beside:
        options += ["--live", beside, "--live-ttl", "3600-7200"]
    got = rig.pace(name, options)
    shares, base = [], got["base"][1]
    for sample in got["samples"]:
        if warm <= sample[0] <= run:
            resident, living = sample[1] - base, sample[5]
            shares.append(100. * max(0, resident - living) / max(resident, 1))
    cpu = [s for s in got["samples"] if warm <= s[0] <= run]
    per_set = (cpu[-1][4] - cpu[0][4]) / ((cpu[-1][0] - cpu[0][0]) * rig.args.rate) * 1e6
    return {"stale_pct": sum(shares) / len(shares), "stale_worst_pct": max(shares), "set_us": per_set}, \
        lateness(got), None


def probe(rig, name, case):
    patience = rig.size(20, 4)
    got = rig.pace(name, ["--live", case, "--live-ttl", "3600-7200", "--dying", 1000, "--event", "deadline",
                          "--get-rate", 1000, "--before", .5, "--after", "1-%d" % patience, "--sample", .01])
    gone = got["gone_s"] if got["gone_s"] >= 0 else None
    return {"probe_gone_s": gone, "probe_left": max(0, got["samples"][-1][1] - got["base"][1])}, lateness(got), None


def bigfree(rig, name, case):
    event = {"expire": "deadline"}.get(case, case)
    got = rig.pace(name, ["--live", 20000, "--dying", rig.size(256, 64), "--dying-size", 1000000, "--event", event,
                          "--get-rate", rig.args.rate, "--before", rig.size(2, 1), "--after", rig.size("5-12", "2-5")])
    figures = latencies(got)
    flush = case == "flush"
    gone = got["gone_s"] if got["gone_s"] >= 0 else None
    figures.update(gone_s=gone, rss_back_s=time_until(got, 3, .9), rss_left_pct=left_pct(got, 3))
    if flush:
        figures["gone_s"] = time_until(got, 1, .99, "all")
    return figures, lateness(got), None


class Asker:
    """A plain client that keeps some keys and asks which are there."""

    def __init__(self, server, count):
        self.server, self.count = server, count
        self.sock = socket.create_connection(("127.0.0.1", server.port), 10)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.sock.makefile("rb")

    def set(self, i, ttl_s):
        if self.server.is_resp:
            self.sock.sendall(b"SET t%03d v EX %d\r\n" % (i, ttl_s))
        else:
            self.sock.sendall(b"set t%03d 0 %d 1\r\nv\r\n" % (i, ttl_s))
        assert self.file.readline() in (b"STORED\r\n", b"+OK\r\n")

    def there(self):
        keys = b" ".join(b"t%03d" % i for i in range(self.count))
        found = set()
        if self.server.is_resp:
            self.sock.sendall(b"MGET %s\r\n" % keys)
            assert self.file.readline().startswith(b"*")
            for i in range(self.count):
                if self.file.readline() != b"$-1\r\n":
                    self.file.readline()
                    found.add(i)
            return found
        self.sock.sendall(b"get %s\r\n" % keys)
        while True:
            line = self.file.readline()
            if line == b"END\r\n":
                return found
            found.add(int(line.split()[1][1:]))
            self.file.readline()

    def close(self):
        self.file.close()
        self.sock.close()


def exact(rig, name, case):
    """Each key is asked for about once a millisecond; a key is early if an answer without it is in
    before its deadline, and late if it was asked for after the deadline and is in the answer."""
    ttl_s, count = int(case), rig.size(40, 15)
    with rig.server(name) as server:
        asker = Asker(server, count)
        earliest, latest, early, late = {}, {}, {}, {}
        began, stored = time.monotonic(), 0
        while len(early) < count and time.monotonic() - began < 3 * ttl_s + 3:
            if stored < count and time.monotonic() >= began + stored * 1.05 / count:
                sent = time.monotonic()
                asker.set(stored, ttl_s)
                earliest[stored], latest[stored] = sent + ttl_s, time.monotonic() + ttl_s
                stored += 1
            sent = time.monotonic()
            found = asker.there()
            came = time.monotonic()
            for i in range(stored):
                if i in found:
                    late[i] = max(0., sent - latest[i])
                elif i not in early:
                    early[i] = max(0., earliest[i] - came)
            time.sleep(.0005)
        asker.close()
    if len(early) < count:
        raise Failed("%s: %d keys did not end" % (name, count - len(early)))
    middle = bench.median(list(early.values()))
    return {"early_ms": max(early.values()) * 1e3, "early_median_ms": middle * 1e3,
            "late_ms": max(late.get(i, 0.) for i in range(count)) * 1e3}, 0, None


def memory(rig, name, case):
    keys, size = rig.size(1000000, 200000), int(case.split()[0])
    options = ["--prefix", "m", "--keys", keys, "--size", size, "--fill", "--pipeline", 64, "--conns", 4]
    if "TTL" in case:
        options += ["--ttl", 3600]
    with rig.server(name) as server:
        before = server.resident()
        rig.tool("bench_load", server, options)
        each = (server.resident() - before) / keys
    return {"item_bytes": each, "overhead_bytes": each - 20 - size}, 0, None


def evict(rig, name, case):
    """Sets of keys that were hardly ever there before, at the limit: each has to evict."""
    size, limit = int(case), 64
    fits = limit * 1048576 // (size + 60)
    options = ["--prefix", "e", "--keys", 10 ** 9, "--size", size, "--op", "set", "--pipeline", 16, "--conns", 50]
    with rig.server(name, limit_mb=limit) as server:
        options += ["--warmup", 2 * fits, "--ops", rig.size(fits, fits // 4)]
        got = rig.tool("bench_load", server, options, may_refuse=True)
    return {"set_us": got["server_us_per_op"], "refused": got["wrong"]}, 0, None


# ---- hit ratios ----------------------------------------------------------------------------------

def zipf_picks(theta, keys, rng):
    sums = list(itertools.accumulate((i + 1) ** -theta for i in range(keys)))
    order = list(range(keys))
    rng.shuffle(order)
    while True:
        yield order[bisect.bisect_left(sums, rng.random() * sums[-1])]


def scans(keys, requests):
    """Zipf's law, and every 20 000 requests a scan of 10 000 keys that never come back."""
    picks, fresh = zipf_picks(.9, keys, random.Random(7)), itertools.count(keys)
    for i in range(requests):
        yield next(fresh) if i % 30000 >= 20000 else next(picks)


def loops(keys, requests):
    """Half of the requests by Zipf's law, half go round and round through as many keys."""
    picks = zipf_picks(.9, keys, random.Random(8))
    for i in range(requests):
        yield keys + (i // 2) % keys if i % 2 else next(picks)


def lines(numbers):
    return "".join("%d\n" % n for n in numbers).encode()


SHIPPED = {"web12": (os.path.join(HERE, "traces", "web12.gz"), "3000-5000", "6"),
           "orm-night": (os.path.join(HERE, "traces", "orm-night.gz"), "3000-5000", "6")}


def content(path):
    with open(path, "rb") as f:
        return f.read()


def traces_in(folder):
    """The traces that the table traces.tsv of a folder names: {name: (file, sizes, tenants)}. Its
    lines are name, file, and -V SIZES and -R TENANTS. One of ours keeps its name if it is the
    same, and has another one if it is not."""
    found = {}
    with open(os.path.join(folder, "traces.tsv")) as f:
        rows = [line.split() for line in f if line.strip() and not line.startswith("#")]
    for name, file, *scale in rows:
        options = dict(zip(scale[::2], scale[1::2]))
        sizes = options.get("-V", "3000-5000")
        trace = (os.path.join(folder, file), "skewed" if sizes == "kv" else sizes, options.get("-R", "1"))
        ours = SHIPPED.get(name)
        is_same = ours and ours[1:] == trace[1:] and content(ours[0]) == content(trace[0])
        found[name if is_same or not ours else name + " long"] = trace
    return found


def trace_of(rig, text):
    """What bench_aside needs to play a trace: a name of ours or of traces_in(), or
    FILE[:SIZES[:TENANTS]]."""
    known = dict(SHIPPED, **rig.traces)
    if text.startswith("zipf"):
        requests = rig.size(1000000, 300000)
        return None, ["--keys", rig.size(100000, 30000), "--theta", text[4:].strip(), "--size", "3000-5000", "--ops",
                      requests]
    if text == "scans":
        return lines(scans(rig.size(50000, 20000), rig.size(500000, 200000))), ["--size", "3000-5000", "--tenants", 1]
    if text == "loops":
        return lines(loops(rig.size(40000, 15000), rig.size(500000, 200000))), ["--size", "3000-5000", "--tenants", 1]
    if text in known:
        file, sizes, tenants = known[text]
    else:
        file, sizes, tenants = (text.split(":") + ["3000-5000", "1"][len(text.split(":")) - 1:])[:3]
    with gzip.open(file) as f:
        return f.read(), ["--size", sizes, "--tenants", tenants]


def trace_name(text):
    return os.path.basename(text.split(":")[0]).split(".gz")[0] if "/" in text or ".gz" in text else text


def played(rig, server, options, data):
    """Percent of hits."""
    return 100 * rig.tool("bench_aside", server, options + ["--conns", 1, "--pipeline", 16], data)["hit_ratio"]


def limit_of(rig, options, data, percent):
    """MiB of this share of the footprint."""
    footprint = rig.tool("bench_aside", None, options + ["--footprint"], data)["bytes"]
    return max(8, round(footprint * percent / 100 / 1048576))


def hits(rig, name, case):
    """case: (trace, percent of the footprint). Redis takes the better of its LRU and its LFU."""
    data, options = trace_of(rig, case[0])
    limit = limit_of(rig, options, data, case[1])
    best, by_policy = None, {}
    for policy in ("allkeys-lru", "allkeys-lfu") if name in ("redis", "valkey") else ("",):
        with rig.server(name, limit_mb=limit, policy=policy) as server:
            hit_pct = played(rig, server, options, data)
            figures = {"hit_pct": hit_pct, "miss_pct": 100 - hit_pct, "limit_mb": limit, "rss_mb": server.resident() / 1048576}
        by_policy.update({policy[-3:] + "_pct": figures["hit_pct"]} if policy else {})
        best = figures if best is None or figures["hit_pct"] > best["hit_pct"] else best
    return dict(best, **by_policy), 0, None


def policies(rig, name, case):
    """case: (trace, percent of the footprint). What can be had by an ideal cache, and by each policy."""
    data, options = trace_of(rig, case[0])
    limit = limit_of(rig, options, data, case[1])
    ideal = rig.tool("bench_aside", None, options + ["--sim-bytes", limit * 1048576], data)
    got = {"limit_mb": limit, "min_pct": ideal["min"] * 100, "ideal_lru_pct": ideal["lru"] * 100,
           "s3fifo_pct": ideal["s3fifo_1"] * 100}
    for policy in ("density", "allkeys-lru", "allkeys-lfu", "allkeys-random"):
        with rig.server(name, limit_mb=limit, policy=policy) as server:
            got[policy.split("-")[-1] + "_pct"] = played(rig, server, options, data)
    return got, 0, None
