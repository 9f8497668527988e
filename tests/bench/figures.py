# SPDX-License-Identifier: BSD-3-Clause
"""What tests/bench/expiry measures and demands, and how its runs become tables of medians. A run
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
}


LATENCIES = ["before_p99_ms", "p99_ms", "before_p999_ms", "p999_ms", "max_ms"]
# What a run whose load was late says nothing of; requests that come in crowds also cost less.
TIMED = LATENCIES + ["cpu_ms", "set_us"]


class Experiment:
    """name, title, what a case is, columns, cases, fewer cases for --quick, bars, explanation; the
    servers that take part."""

    def __init__(self, name, title, case_is, columns, cases, quick, bars, text, servers=SERVERS):
        self.name, self.title, self.case_is, self.columns = name, title, case_is, columns
        self.cases, self.quick, self.bars, self.text = cases, quick, bars, text
        self.servers = servers


class Bar:
    """A figure that mayflyd owes. value: medians of the experiment -> number, or None if it cannot
    be told."""

    def __init__(self, text, value, limit, at_least=False):
        self.text, self.value, self.limit, self.at_least = text, value, limit, at_least

    def holds(self, medians):
        value = self.value(medians)
        if value is None:
            return None
        return value >= self.limit if self.at_least else value <= self.limit


def own(medians, figure):
    """That figure of mayflyd for each case that has it; what did not happen counts as infinite."""
    return [math.inf if m["mayflyd"][figure] is None else m["mayflyd"][figure]
            for m in medians.values() if figure in m.get("mayflyd", {})]


def worst(figure):
    return lambda medians: max(own(medians, figure), default=None)


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
    """Rows of cells, beside one another what stands below one another in the table of runs."""
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
        "200 000 keys that stay are read at a steady rate, while keys of 100 bytes, which all have the same deadline, "
        "reach it. *During* is the time until 99.9 % of them are gone, and at least a second. CPU is what the server "
        "took beyond what the gets cost it before."),
    Experiment(
        "steady", "Steady state: what is dead and still resident", "long-lived keys beside", [
            "stale_pct", "stale_worst_pct", "set_us"], ["0", "1000000"], ["0"],
        [Bar("stale, mean %", worst("stale_pct"), 1)],
        "New keys are set at a steady rate with times to live of 1 to 10 s, and nobody reads them. *Stale* are those "
        "past their deadline, among those of them that are resident; a key counts as dead its time to live after "
        "its set was answered."),
    Experiment(
        "probe", "A thousand dead keys among the living", "live keys", ["probe_gone_s", "probe_left"],
        ["10000", "100000", "1000000", "10000000"], ["10000", "100000"],
        [Bar("gone after, s", worst("probe_gone_s"), .2)],
        "1000 keys reach their deadline beside keys that have hours to live."),
    Experiment(
        "bigfree", "256 values of 1 MB go at once", "they go by", LATENCIES + [
            "gone_s", "rss_back_s", "rss_left_pct"], ["expire", "delete", "overwrite", "flush"], None,
        [Bar("p99.9 of gets during, to that before", worst_ratio("p999_ms", "before_p999_ms"), 2)],
        "20 000 small keys are read at a steady rate meanwhile. *Overwrite* sets the same keys to small values; *flush* "
        "drops the small keys as well."),
    Experiment(
        "exact", "How exact a time to live is", "TTL, s", ["early_ms", "early_median_ms", "late_ms"], ["1", "2"], ["1"],
        [Bar("earliest, ms early", worst("early_ms"), 0), Bar("latest, ms late", worst("late_ms"), 2)],
        "Each key is asked for about once a millisecond. What is said is proven: early, when an answer without the key "
        "had come before its deadline; late, when a request that left after the deadline was answered with it."),
    Experiment(
        "memory", "Memory of an item", "value", ["item_bytes", "overhead_bytes"],
        ["32 B", "100 B", "100 B, TTL", "1000 B"], ["100 B", "100 B, TTL"],
        [Bar("bytes that a deadline adds", volatile_costs, 12)],
        "The resident set after a million sets, less that before, for each item; keys have 20 bytes."),
    Experiment(
        "evict", "Sets that each evict", "value, B", ["set_us", "refused"], ["100", "1000"], ["100"],
        [Bar("CPU a set, to the cheaper peer", to_cheaper_peer("set_us"), .6)],
        "A cache of 64 MiB is full, keys are new, and 16 requests are pipelined on each of 50 connections. "
        "*Refused* are sets that were answered with an error, for want of memory."),
    Experiment(
        "hits", "Hit ratios", "trace, size of the cache", ["limit_mb", "hit_pct", "rss_mb"],
        ["%s %d %%" % (t, p) for t in TRACES for p in ((5, 10, 20, 30, 50) if t == "web12" else (10, 30))],
        ["web12 10 %", "web12 30 %"],
        [Bar("points of hit ratio over the better peer, mean of the recorded at 10 and 30 %", gain("recorded"), 3, True),
         Bar("the same of the made", gain("made"), 3, True),
         Bar("cells more than half a point behind the better peer", behind, 0)],
        "Each request is a get, and a set after a miss, from an empty cache. The size is in percent of what all keys "
        "and values of the trace take, and is given to `-m` or `maxmemory`; what was resident at the end is told beside. "
        "redis is the better one of its LRU and its LFU. web12 and orm-night are [recorded](../tests/bench/traces/README.md), "
        "and so are those that BENCH_TRACES named: orm-night long (700 000 requests), arc-oltp, cloudphysics-io and sprite. "
        "The others are made: zipf by Zipf's law with that exponent, scans with scans of keys that never come back, "
        "loops with a loop through half of the keys."),
    Experiment(
        "policies", "Hit ratios of the policies", "trace, size of the cache", [
            "limit_mb", "min_pct", "ideal_lru_pct", "s3fifo_pct", "density_pct", "lru_pct", "lfu_pct", "random_pct"],
        ["%s %d %%" % (t, p) for t in TRACES for p in (10, 30)], ["web12 10 %"],
        [],
        "The same requests, simulated and live, in percent of hits. *Ideal* caches are simulated: what they hold takes "
        "its key, its value and 48 bytes, and nothing else. MIN knows what is to come. The others are mayflyd with that "
        "maxmemory_policy, and all that it takes beside the items comes out of the same limit. noeviction keeps what came "
        "first. Here no key has a deadline; where all have one, the volatile policies choose as those of all keys do.",
        ["mayflyd"]),
]
BY_NAME = {e.name: e for e in EXPERIMENTS}


def median_of(values):
    """The median, where None stands for never."""
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
    """[(text, value, limit, holds)]; only of what can be told."""
    medians = medians_of(data, experiment)
    out = []
    for bar in BY_NAME[experiment].bars:
        value = bar.value(medians)
        if value is not None:
            sign = "at least" if bar.at_least else "at most"
            out.append((bar.text, value, "%s %g" % (sign, bar.limit), bar.holds(medians)))
    return out


def median_run(data, experiment, case, server, figure):
    """The run that stands for the others in a picture, by its place among them."""
    runs = runs_of(data, experiment, case, server, figure)
    runs.sort(key=lambda r: math.inf if r["figures"][figure] is None else r["figures"][figure])
    return runs[(len(runs) - 1) // 2] if runs else None
