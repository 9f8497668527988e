# SPDX-License-Identifier: BSD-3-Clause
"""What tests/bench/expiry and tests/bench/replication measure and demand, and how their runs become tables of medians. A run
whose load left late is left out of what depends on that.

A file of runs is JSON: {"machine", "scale", "late_ms", "versions": {server: text}, "commands": [text],
"runs": [{"experiment", "case", "server", "late_ms", "figures": {name: number or null}, "series"}]}.
A figure that is null did not happen within the run, such as a time until all is gone.
"""
import math

SERVERS = ["mayflyd", "memcached", "redis", "valkey"]

# name of a figure -> heading of its column, form
FIGURES = {
    "before_p99_ms": ("p99 before, ms", "%.2f"), "p99_ms": ("p99 during, ms", "%.2f"),
    "before_p999_ms": ("p99.9 before, ms", "%.2f"), "p999_ms": ("p99.9 during, ms", "%.2f"),
    "max_ms": ("max during, ms", "%.1f"), "gone99_s": ("99 % gone after, s", "%.2f"),
    "gone_s": ("gone after, s", "%.2f"), "rss_back_s": ("90 % of memory back after, s", "%.2f"),
    "rss_left_pct": ("memory left at the end, %", "%.0f"), "cpu_ms": ("CPU until 99 % gone, ms", "%.0f"),
    "stale_pct": ("stale, mean %", "%.2f"), "stale_worst_pct": ("stale, worst %", "%.2f"),
    "set_us": ("CPU a set, us", "%.3f"), "probe_gone_s": ("gone after, s", "%.3f"),
    "probe_left": ("left at the end, of 1000", "%.0f"), "early_ms": ("earliest, ms early", "%.1f"),
    "early_median_ms": ("median, ms early", "%.1f"), "late_ms": ("latest, ms late", "%.1f"),
    "refused": ("refused", "%.0f"), "item_bytes": ("bytes an item", "%.1f"), "overhead_bytes": ("beyond key and value", "%.1f"),
    "hit_pct": ("hits, %", "%.2f"), "miss_pct": ("misses, %", "%.2f"), "limit_mb": ("limit, MiB", "%.0f"),
    "rss_mb": ("resident at the end, MiB", "%.0f"), "min_pct": ("ideal MIN", "%.2f"), "ideal_lru_pct": ("ideal LRU", "%.2f"),
    "s3fifo_pct": ("ideal S3-FIFO", "%.2f"), "density_pct": ("density", "%.2f"), "lru_pct": ("allkeys-lru", "%.2f"),
    "lfu_pct": ("allkeys-lfu", "%.2f"), "random_pct": ("allkeys-random", "%.2f"),
    "instructions": ("instructions", "%.0f"), "instructions_before": ("without replication", "%.0f"),
    "instructions_more": ("more", "%.0f"), "set0_us": ("CPU a set without replicas, us", "%.2f"),
    "first_us": ("more with one, us", "%.2f"), "further_us": ("more with another, us", "%.2f"),
    "replica_us": ("at a replica, us", "%.2f"), "both_us": ("more and at the replica, us", "%.2f"),
    "sync_s": ("synced after, s", "%.2f"), "sync_more_mb": ("more resident meanwhile, MiB", "%.1f"),
    "rate_k": ("sets/s, thousand", "%.0f"), "lag_p50_ms": ("lag, median ms", "%.2f"), "lag_p99_ms": ("lag, p99 ms", "%.2f"),
    "stream_kb": ("stream, KiB", "%.0f"), "after_s": ("replica after that, s", "%.2f"), "level_s": ("level after, s", "%.2f"),
    "syncs_full": ("full syncs", "%.0f"), "wait_p50_ms": ("longest wait, median ms", "%.1f"),
    "wait_p99_ms": ("longest wait, p99 ms", "%.1f"), "lost": ("lost", "%.0f"), "writes_k": ("writes, thousand", "%.0f"),
    "age_p50_ms": ("age, median ms", "%.1f"), "age_max_ms": ("age, most ms", "%.1f"), "hits": ("hits after it", "%.0f"),
    "requests_k": ("requests, thousand", "%.0f"), "cuts": ("cuts", "%.0f"), "looks": ("comparisons", "%.0f"),
    "items": ("items", "%.0f"), "deadline_ms": ("deadlines differ by, ms", "%.0f"), "changes_k": ("changes, thousand", "%.0f"),
}


LATENCIES = ["before_p99_ms", "p99_ms", "before_p999_ms", "p999_ms", "max_ms"]
# What a run whose load was late says nothing of; requests that come in crowds also cost less.
TIMED = LATENCIES + ["cpu_ms", "set_us", "lag_p50_ms", "lag_p99_ms"]


class Experiment:
    """name, title, what a case is, columns, cases, fewer cases for --quick, bars, explanation; the
    servers that take part, the bench that measures it."""

    def __init__(self, name, title, case_is, columns, cases, quick, bars, text, servers=SERVERS, bench="expiry"):
        self.name, self.title, self.case_is, self.columns = name, title, case_is, columns
        self.cases, self.quick, self.bars, self.text = cases, quick, bars, text
        self.servers, self.bench = servers, bench


class Bar:
    """A required figure of mayflyd. value: medians of the experiment -> number, or None if it is
    unknown."""

    def __init__(self, text, value, limit, at_least=False):
        self.text, self.value, self.limit, self.at_least = text, value, limit, at_least

    def holds(self, medians):
        value = self.value(medians)
        if value is None:
            return None
        return value >= self.limit if self.at_least else value <= self.limit


def own(medians, figure):
    """The figure of mayflyd for each case that has it; an event that did not happen counts as infinite."""
    return [math.inf if m["mayflyd"][figure] is None else m["mayflyd"][figure]
            for m in medians.values() if figure in m.get("mayflyd", {})]


def worst(figure):
    return lambda medians: max(own(medians, figure), default=None)


def worst_of(case, figure):
    """Of the cases whose names begin so."""
    return lambda medians: worst(figure)({c: m for c, m in medians.items() if c.startswith(case)})


def beyond_twice(figure, before):
    """How far it is above twice what it was before."""
    def value(medians):
        return max((a - 2 * b for a, b in zip(own(medians, figure), own(medians, before))), default=None)
    return value


def worst_ratio(figure, to):
    def value(medians):
        return max((a / max(b, .05) for a, b in zip(own(medians, figure), own(medians, to))), default=None)
    return value


def peers_of(by_server, figure):
    return [f[figure] for s, f in by_server.items() if s != "mayflyd" and f.get(figure) is not None]


def to_cheaper_peer(figure):
    def value(medians):
        ratios = [m["mayflyd"][figure] / min(peers_of(m, figure)) for m in medians.values()
                  if "mayflyd" in m and peers_of(m, figure)]
        return max(ratios, default=None)
    return value


def volatile_costs(medians):
    """Bytes that a deadline adds to an item."""
    plain, ttl = medians.get("100 B", {}), medians.get("100 B, TTL", {})
    if "mayflyd" not in plain or "mayflyd" not in ttl:
        return None
    return ttl["mayflyd"]["item_bytes"] - plain["mayflyd"]["item_bytes"]


def gains_of(medians):
    """{case: points of hit ratio over the better peer}, at 10 and 30 % of the footprint"""
    return {case: m["mayflyd"]["hit_pct"] - max(peers_of(m, "hit_pct")) for case, m in medians.items()
            if case.endswith((" 10 %", " 30 %")) and "mayflyd" in m and peers_of(m, "hit_pct")}


def mean_of(values):
    return sum(values) / len(values) if values else None


def gain(kind):
    """The mean over one kind of traces."""
    return lambda medians: mean_of([g for case, g in gains_of(medians).items() if is_made(case) == (kind == "made")])


def behind(medians):
    gains = gains_of(medians)
    return sum(g < -.5 for g in gains.values()) if gains else None


def gains_table(data):
    """Rows of cells that are side by side here, and below one another in the table of runs."""
    medians = medians_of(data, "hits")
    gains = gains_of(medians)
    rows = [["trace, size of the cache", "mayflyd", "memcached", "redis LRU", "redis LFU", "points over the better"]]
    for case, gain_of_case in gains.items():
        m = medians[case]
        cells = [m["mayflyd"].get("hit_pct"), m.get("memcached", {}).get("hit_pct"), m.get("redis", {}).get("lru_pct"),
                 m.get("redis", {}).get("lfu_pct")]
        rows.append([case] + ["-" if c is None else "%.2f" % c for c in cells] + ["%+.2f" % gain_of_case])
    for kind, name in (("recorded", "mean of the recorded"), ("made", "mean of the made")):
        mean = gain(kind)(medians)
        rows += [[name, "", "", "", "", "%+.2f" % mean]] if mean is not None else []
    return rows if len(rows) > 1 else []


TRACES = ["web12", "orm-night", "zipf 0.8", "zipf 1.0", "scans", "loops"]


def is_made(case):
    """Is the trace of this case made, or recorded?"""
    return case.startswith(("zipf", "scans", "loops"))


EXPERIMENTS = [
    Experiment(
        "storm", "A storm: many keys of one deadline", "keys", LATENCIES + [
            "gone99_s", "rss_back_s", "rss_left_pct", "cpu_ms"], ["1000000"], ["200000"],
        [Bar("99 % gone after, s", worst("gone99_s"), .5),
         Bar("p99.9 of gets during, to that before", worst_ratio("p999_ms", "before_p999_ms"), 2)],
        "Values have 100 bytes. 200 000 keys that stay are read at a steady rate, while the others reach their common "
        "deadline. *During* is the time until 99.9 % of these are gone, and at least a second. CPU is the time of the "
        "server beyond that of the gets before."),
    Experiment(
        "steady", "Steady state: dead keys that are still resident", "long-lived keys beside", [
            "stale_pct", "stale_worst_pct", "set_us"], ["0", "1000000"], ["0"],
        [Bar("stale, mean %", worst("stale_pct"), 1)],
        "New keys are set at a steady rate with times to live of 1 to 10 s, and are never read. *Stale* is the share of "
        "those past their deadline among those that are resident. A key counts as dead one time to live after "
        "its set was answered."),
    Experiment(
        "probe", "A thousand dead keys among the living", "live keys", ["probe_gone_s", "probe_left"],
        ["10000", "100000", "1000000", "10000000"], ["10000", "100000"],
        [Bar("gone after, s", worst("probe_gone_s"), .2)],
        "1000 keys reach their deadline beside keys that have hours to live."),
    Experiment(
        "bigfree", "Removing 256 values of 1 MB at once", "removed by", LATENCIES + [
            "gone_s", "rss_back_s", "rss_left_pct"], ["expire", "delete", "overwrite", "flush"], None,
        [Bar("p99.9 of gets during, to that before", worst_ratio("p999_ms", "before_p999_ms"), 2)],
        "Meanwhile 20 000 small keys are read at a steady rate. *Overwrite* sets the same keys to small values. *Flush* "
        "also removes the small keys."),
    Experiment(
        "exact", "How exact a time to live is", "TTL, s", ["early_ms", "early_median_ms", "late_ms"], ["1", "2"], ["1"],
        [Bar("earliest, ms early", worst("early_ms"), 0), Bar("latest, ms late", worst("late_ms"), 2)],
        "Each key is requested about once a millisecond. *Early* means that an answer without the key arrived before its "
        "deadline, and *late* that a request sent after the deadline was answered with it, so both are certain."),
    Experiment(
        "memory", "Memory of an item", "value", ["item_bytes", "overhead_bytes"],
        ["32 B", "100 B", "100 B, TTL", "1000 B"], ["100 B", "100 B, TTL"],
        [Bar("bytes that a deadline adds", volatile_costs, 12)],
        "Growth of the resident set by a million sets, for each item. Keys have 20 bytes."),
    Experiment(
        "evict", "Sets that each evict", "value, B", ["set_us", "refused"], ["100", "1000"], ["100"],
        [Bar("CPU a set, to the cheaper peer", to_cheaper_peer("set_us"), .6)],
        "A cache of 64 MiB is full, keys are new, and 16 requests are pipelined on each of 50 connections. "
        "*Refused* are sets that were answered with an error for lack of memory."),
    Experiment(
        "hits", "Hit ratios", "trace, size of the cache", ["limit_mb", "hit_pct", "rss_mb"],
        ["%s %d %%" % (t, p) for t in TRACES for p in ((5, 10, 20, 30, 50) if t == "web12" else (10, 30))],
        ["web12 10 %", "web12 30 %"],
        [Bar("points of hit ratio over the better peer, mean of the recorded at 10 and 30 %", gain("recorded"), 3, True),
         Bar("the same of the made", gain("made"), 3, True),
         Bar("cells more than half a point below the better peer", behind, 0)],
        "Each request is a get, and a set after a miss, starting with an empty cache. The size is in percent of the total "
        "size of keys and values of the trace, and is given to `-m` or `maxmemory`; the resident memory at the end is shown, too. "
        "For redis the better one of its LRU and its LFU is shown. web12 and orm-night are [recorded](../tests/bench/traces/README.md), "
        "and so are those of BENCH_TRACES: orm-night long (700 000 requests), arc-oltp, cloudphysics-io and sprite. "
        "The others are synthetic: zipf follows Zipf's law with that exponent, scans has scans of keys that are never "
        "requested again, and loops has a loop through half of the keys."),
    Experiment(
        "policies", "Hit ratios of the policies", "trace, size of the cache", [
            "limit_mb", "min_pct", "ideal_lru_pct", "s3fifo_pct", "density_pct", "lru_pct", "lfu_pct", "random_pct"],
        ["%s %d %%" % (t, p) for t in TRACES for p in (10, 30)], ["web12 10 %"],
        [],
        "Hit ratios of the same requests, simulated and live, in percent. *Ideal* caches are simulated: an item takes "
        "its key, its value and 48 bytes, and nothing else takes memory. MIN knows the future. The others are mayflyd with that "
        "maxmemory_policy, whose limit includes its other data. noeviction keeps the items that were stored "
        "first. No key has a deadline; if all have one, the volatile policies evict like those for all keys.",
        ["mayflyd"]),
]


def replication(name, title, case_is, columns, cases, quick, bars, text, servers=("mayflyd",)):
    return Experiment("repl-" + name, "Replication: " + title, case_is, columns, cases, quick, bars, text,
                      list(servers), "replication")


PEERS = ("mayflyd", "redis")

EXPERIMENTS += [
    replication(
        "off", "a server without a replica", "operation", ["instructions", "instructions_before", "instructions_more"],
        ["get", "set"], None, [Bar("instructions more than before", worst("instructions_more"), 0)],
        "Instructions of the server's own code for each operation, 16 pipelined, counted by callgrind as the difference "
        "of runs of 60 000 and 20 000, compared with the version before replication."),
    replication(
        "set", "what a set costs", "sets", ["set0_us", "first_us", "further_us", "replica_us", "both_us"],
        ["16 pipelined"], None,
        [Bar("more with one replica, us", worst("first_us"), .3), Bar("more with another, us", worst("further_us"), .08),
         Bar("at a replica, us", worst("replica_us"), .4), Bar("more and at the replica, to redis", to_cheaper_peer("both_us"), .5)],
        "CPU time of the whole processes for each set of 100 bytes, a million keys, until the replicas have everything. "
        "Primary without replicas, then with one, then with two.", PEERS),
    replication(
        "sync", "a full sync", "items", ["sync_s", "sync_more_mb", "before_p999_ms", "p999_ms"],
        ["4000000 items"], ["400000 items"],
        [Bar("synced after, s", worst("sync_s"), 3), Bar("synced, to redis", to_cheaper_peer("sync_s"), .29),
         Bar("p99.9 of gets beyond twice that before, ms", beyond_twice("p999_ms", "before_p999_ms"), .5),
         Bar("more resident at the primary, MiB", worst("sync_more_mb"), 90)],
        "Values of 100 bytes. *Synced* is the time from `replicaof` until the replica is online, without other "
        "load. Then the primary gets requests at a steady rate, without and with full syncs that follow one another. "
        "Resident is the memory of the server's process; redis has a child process in addition.", PEERS),
    replication(
        "lag", "how late a replica has a change", "sets beside", ["rate_k", "lag_p50_ms", "lag_p99_ms"],
        ["1000 sets/s", "half of the highest rate"], None,
        [Bar("p99 at 1000 sets/s, ms", worst_of("1000", "lag_p99_ms"), 3),
         Bar("p99 at half of the highest rate, ms", worst_of("half", "lag_p99_ms"), 10)],
        "Time from the answer to a set at the primary until a read of the replica finds it, measured repeatedly beside sets "
        "at a steady rate. The highest rate is the maximum that reaches the replica, 16 pipelined.",
        PEERS),
    replication(
        "expiry", "many keys of one deadline", "keys", ["stream_kb", "gone_s", "after_s"], ["1000000"], ["100000"],
        [Bar("stream, KiB", worst("stream_kb"), 4), Bar("replica empty after the primary, s", worst("after_s"), .5)],
        "Growth of the stream while they expire, and the time until neither side has any.", PEERS),
    replication(
        "cut", "a link that was cut", "cut for", ["level_s", "syncs_full"], ["1 s", "10 s"], ["1 s"],
        [Bar("level after 1 s, s", worst_of("1 s", "level_s"), .2), Bar("level after 10 s, s", worst_of("10 s", "level_s"), 2),
         Bar("full syncs", worst("syncs_full"), 0)],
        "20 000 sets a second run meanwhile. *Level* is the time from when connections are possible again until the replica "
        "has all earlier changes. redis has a backlog of 64 MiB.", PEERS),
    replication(
        "failover", "planned failovers", "failovers", ["wait_p50_ms", "wait_p99_ms", "lost", "refused", "writes_k"],
        ["200 failovers"], ["10 failovers"], [Bar("longest wait of a write, p99 ms", worst("wait_p99_ms"), 100),
                                              Bar("lost versions", worst("lost"), 0)],
        "Two clients store increasing versions of their keys, and follow the primary. The wait is the longest time of a "
        "write in each failover. *Refused* are failovers that did not complete, after which the primary continued."),
    replication(
        "kill", "primaries that are killed", "kills", ["age_p50_ms", "age_max_ms", "hits", "requests_k"],
        ["200 kills"], ["10 kills"], [Bar("age, most ms", worst("age_max_ms"), 100)],
        "`kill -9` during sets, deletes, touches, deadlines and flushes, after which the replica is promoted. *Age* is the "
        "time before the kill up to which the replica has everything. The run fails if something is older than a `wait 1`, or "
        "if a deleted, flushed or expired item is served."),
    replication(
        "proxy", "through a proxy that cuts links", "time", ["cuts", "looks", "items", "deadline_ms", "syncs_full", "changes_k"],
        ["30 minutes"], ["0.2 minutes"], [Bar("deadlines differ by, ms", worst("deadline_ms"), 1)],
        "One worker against four for half of the time, then four against one. At each comparison all keys, values, flags, "
        "cas and deadlines must be the same. The first full sync of each half is counted."),
]
BY_NAME = {e.name: e for e in EXPERIMENTS}


def median_of(values):
    """The median, where None means never."""
    v = sorted(math.inf if x is None else x for x in values)
    n = len(v)
    middle = v[n // 2] if n % 2 else (v[n // 2 - 1] + v[n // 2]) / 2
    return None if math.isinf(middle) else middle


def is_late(data, run):
    return run["late_ms"] > data["late_ms"]


def runs_of(data, experiment, case=None, server=None, figure=None):
    """Those that say something of the figure, if one is given."""
    return [r for r in data["runs"] if r["experiment"] == experiment and case in (None, r["case"]) and
            server in (None, r["server"]) and not (figure in TIMED and is_late(data, r))]


def cases_of(data, experiment):
    """Those that were run, in the order of the table, others after them."""
    order = BY_NAME[experiment].cases
    there = list(dict.fromkeys(r["case"] for r in data["runs"] if r["experiment"] == experiment))
    return sorted(there, key=lambda c: order.index(c) if c in order else len(order))


def medians_of(data, experiment):
    """case -> server -> figure -> median; without the figures of which no run says anything"""
    out = {}
    for case in cases_of(data, experiment):
        out[case] = {}
        for server in SERVERS:
            runs = runs_of(data, experiment, case, server)
            names = runs[0]["figures"] if runs else []
            values = {f: [r["figures"][f] for r in runs_of(data, experiment, case, server, f)] for f in names}
            if runs:
                out[case][server] = {f: median_of(v) for f, v in values.items() if v}
    return out


def cell(figure, values):
    """Of the figures of a run, or their medians."""
    if figure not in values:
        return "-"
    return "never" if values[figure] is None else FIGURES[figure][1] % values[figure]


def table(data, experiment):
    """Rows of cells; the first is the heading."""
    e, medians = BY_NAME[experiment], medians_of(data, experiment)
    timed = any(r["late_ms"] for r in runs_of(data, experiment))
    rows = [[e.case_is, "server"] + [FIGURES[f][0] for f in e.columns] + ["runs"] + ["on time"] * timed]
    for case, by_server in medians.items():
        for server, values in by_server.items():
            runs = runs_of(data, experiment, case, server)
            counts = [len(runs)] + [sum(not is_late(data, r) for r in runs)] * timed
            rows.append([case, server] + [cell(f, values) for f in e.columns] + [str(n) for n in counts])
    return rows


def bars(data, experiment):
    """[(text, value, limit, holds)]; only of known figures."""
    medians = medians_of(data, experiment)
    out = []
    for bar in BY_NAME[experiment].bars:
        value = bar.value(medians)
        if value is not None:
            sign = "at least" if bar.at_least else "at most"
            out.append((bar.text, value, "%s %g" % (sign, bar.limit), bar.holds(medians)))
    return out


def median_run(data, experiment, case, server, figure):
    """The run that represents the others in a picture, by its place among them."""
    runs = runs_of(data, experiment, case, server, figure)
    runs.sort(key=lambda r: math.inf if r["figures"][figure] is None else r["figures"][figure])
    return runs[(len(runs) - 1) // 2] if runs else None
