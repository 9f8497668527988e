#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the bench works: its paced load and its look-aside client count correctly, and the page of figures
matches the recorded runs. No measured figure is judged here."""
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
sys.path.insert(0, os.path.join(HERE, "..", "bench"))
import expiry_cases                                                     # noqa: E402
import figures                                                          # noqa: E402
import mayfly                                                           # noqa: E402
from mayfly import Daemon                                               # noqa: E402

TOP = os.environ.get("MAYFLY_SRCDIR", os.path.join(HERE, "..", ".."))
TOOLS = os.path.join(mayfly.BUILD, "tests", "bench")
REPORT = os.path.join(HERE, "..", "bench", "report")


def tool(name, port, *options, proto="text", data=None, tries=1):
    """Run a load program; status 2 says that it could not work, such as to store keys in time."""
    command = [os.path.join(TOOLS, name)] + [str(o) for o in options]
    if port is not None:
        command += ["--port", str(port), "--proto", proto]
    for left in range(tries, 0, -1):
        done = subprocess.run(command, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=mayfly.PATIENCE)
        if done.returncode != 2 or left == 1:
            break
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


def pace(port, *options, **kwargs):
    return tool("bench_pace", port, "--conns", 2, "--sample", .02, *options, **kwargs)


def answered(got, stream):
    return sum(got[stream][phase]["n"] for phase in ("before", "during", "after"))


def check_events(port, proto="text"):
    """Each event takes the dying keys, and no other unless it is a flush."""
    for event in ("deadline", "delete", "overwrite", "flush"):
        got = pace(port, "--live", 300, "--dying", 200, "--dying-size", 5000, "--event", event, "--get-rate", 500,
                   "--before", .1, "--after", ".2-60", proto=proto, tries=5)
        assert got["wrong"] == 0 and got["gone_s"] >= 0, (event, got)
        added, left = got["full"][1] - got["base"][1], got["samples"][-1][1]
        assert got["base"][1] == 300 and added == 200, (event, got["base"], got["full"])
        assert left == {"overwrite": 500, "flush": 0}.get(event, 300), (event, left)
        assert got["hits"] + got["misses"] == answered(got, "get") > 0, event
        assert event == "flush" or got["misses"] == 0, event
        if event == "overwrite":
            pace(port, "--dying", 200, "--event", "delete", "--before", 0, "--after", "0-60", proto=proto)


def test_the_paced_load_takes_the_keys_that_shall_go():
    with Daemon("-t", "1", tcp=True) as d:
        check_events(d.port)


def test_the_paced_load_counts_what_it_set():
    with Daemon("-t", "1", tcp=True) as d:
        got = pace(d.port, "--set-rate", 1000, "--ttl", "3600-7200", "--before", .1, "--after", ".2-.2")
        assert got["wrong"] == 0 and got["sets"] == answered(got, "set") > 0
        with d.client() as c:
            assert int(c.stats()["curr_items"]) == got["sets"] == got["samples"][-1][5]


class Redis:
    """redis-server, which the bench compares with, in RESP."""

    def __init__(self):
        program = shutil.which("redis-server")
        if program is None:
            raise mayfly.Skip("redis-server is not installed")
        self.folder = tempfile.mkdtemp(prefix="mayfly-it.")
        self.server = expiry_cases.Server("redis", program, self.folder, None)

    def __enter__(self):
        return self.server

    def __exit__(self, *_):
        self.server.stop()
        shutil.rmtree(self.folder)


def test_the_paced_load_speaks_to_redis():
    with Redis() as server:
        check_events(server.port, "resp")


def trace_lines(count):
    with gzip.open(os.path.join(TOP, "tests", "bench", "traces", "web12.gz")) as f:
        return [next(f) for _ in range(count)]


def check_aside(port, proto):
    """In a cache without evictions, every key stored before is a hit."""
    requests = trace_lines(2000)
    data, keys = b"".join(requests), len(set(requests))
    options = ["--tenants", 2, "--conns", 1, "--size", "10-300"]
    got = tool("bench_aside", port, *options, "--pipeline", 16, data=data, proto=proto)
    assert got["gets"] == 4000 and got["stores"] == 2 * keys, got
    assert got["hit_ratio"] == round(1 - 2 * keys / 4000, 4), got
    foot = tool("bench_aside", None, "--footprint", *options, data=data)
    assert foot["objects"] == 2 * keys and foot["objects"] * 32 <= foot["bytes"] <= foot["objects"] * 322, foot


def test_a_trace_hits_what_was_there():
    with Daemon("-t", "1", "-m", "64", tcp=True) as d:
        check_aside(d.port, "text")


def test_a_trace_is_played_to_ideal_caches():
    requests = trace_lines(4000)
    data, keys = b"".join(requests), len(set(requests))
    def ideal(*options):
        return tool("bench_aside", None, "--tenants", 1, "--size", 100, *options, data=data)
    few = ideal("--sim", 100)
    assert few == ideal("--sim-bytes", 100 * (22 + 100 + 48)) == ideal("--sim-bytes", 101 * (22 + 100 + 48) - 1)
    assert 0 < few["lru"] < few["min"] and few["s3fifo_1"] < few["min"] and few["s3fifo_2"] < few["min"], few
    for caches in (ideal("--sim", keys), ideal("--sim-bytes", keys * 170)):
        assert {caches[c] for c in ("min", "lru", "s3fifo_1", "s3fifo_2")} == {round(1 - keys / 4000, 4)}, caches
    none = ideal("--sim-bytes", 169)        # not one of them has room
    assert {none[c] for c in ("min", "lru", "s3fifo_1", "s3fifo_2")} == {0}, none


def test_a_trace_is_played_to_redis():
    with Redis() as server:
        check_aside(server.port, "resp")


# ---- tables and pictures -------------------------------------------------------------------------

def run(experiment, case, server, late_ms=0, **values):
    return {"experiment": experiment, "case": case, "server": server, "late_ms": late_ms, "figures": values}


def test_medians_are_held_against_bars():
    runs = [run("evict", "100", "mayflyd", set_us=us) for us in (1., 9., 2.)]
    runs += [run("evict", "100", "memcached", set_us=4.), run("evict", "100", "redis", set_us=5.)]
    data = {"late_ms": 1, "runs": runs}
    assert figures.medians_of(data, "evict")["100"]["mayflyd"] == {"set_us": 2.}
    assert figures.bars(data, "evict") == [("CPU a set, to the cheaper peer", .5, "at most 0.6", True)]
    runs += [run("evict", "100", "redis", set_us=1.)] * 2
    assert figures.bars(data, "evict") == [("CPU a set, to the cheaper peer", 2., "at most 0.6", False)]


def test_late_runs_say_nothing_of_latencies():
    def of(us, gone, **late):
        return run("bigfree", "flush", "mayflyd", gone_s=gone, rss_back_s=1., rss_left_pct=0., **late,
                   **{f: us for f in figures.LATENCIES})
    data = {"late_ms": 1, "runs": [of(9., 1., late_ms=2), of(7., 2., late_ms=5)]}
    medians = figures.medians_of(data, "bigfree")["flush"]["mayflyd"]
    assert medians == {"gone_s": 1.5, "rss_back_s": 1., "rss_left_pct": 0.}
    assert figures.table(data, "bigfree")[1][2:] == ["-"] * 5 + ["1.50", "1.00", "0", "2", "0"]
    assert figures.bars(data, "bigfree") == []
    data["runs"].append(of(3., 8.))
    medians = figures.medians_of(data, "bigfree")["flush"]["mayflyd"]
    assert medians["p999_ms"] == 3. and medians["gone_s"] == 2.
    assert [bar[3] for bar in figures.bars(data, "bigfree")] == [True]


def test_what_did_not_happen_is_never_and_holds_no_bar():
    data = {"late_ms": 1, "runs": [run("probe", "10", "mayflyd", probe_gone_s=None, probe_left=7)]}
    assert figures.table(data, "probe")[1] == ["10", "mayflyd", "never", "7", "1"]
    assert [bar[3] for bar in figures.bars(data, "probe")] == [False]


def test_hit_ratios_stand_beside_the_peers():
    cells = {"web12 10 %": (60., 58., 55., 57.), "sprite 30 %": (90., 91., 80., 70.), "loops 10 %": (30., 20., 10., 24.)}
    runs = []
    for case, (mine, memcached, lru, lfu) in cells.items():
        runs += [run("hits", case, "mayflyd", hit_pct=mine), run("hits", case, "memcached", hit_pct=memcached),
                 run("hits", case, "redis", hit_pct=max(lru, lfu), lru_pct=lru, lfu_pct=lfu)]
    data = {"late_ms": 1, "runs": runs}
    assert figures.gains_table(data)[1:] == [
        ["web12 10 %", "60.00", "58.00", "55.00", "57.00", "+2.00"],
        ["loops 10 %", "30.00", "20.00", "10.00", "24.00", "+6.00"],
        ["sprite 30 %", "90.00", "91.00", "80.00", "70.00", "-1.00"],
        ["mean of the recorded", "", "", "", "", "+0.50"], ["mean of the made", "", "", "", "", "+6.00"]]
    assert [bar[1] for bar in figures.bars(data, "hits")] == [.5, 6., 1]
    assert [bar[3] for bar in figures.bars(data, "hits")] == [False, True, False]


def test_traces_of_a_folder_have_names_of_their_own():
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        shutil.copy(expiry_cases.SHIPPED["web12"][0], os.path.join(folder, "web.gz"))
        with open(os.path.join(folder, "traces.tsv"), "w") as f:
            f.write("# a comment\nweb12\tweb.gz\t-V 3000-5000 -R 6\norm-night\tweb.gz\t-V kv\nother\tweb.gz\n")
        path = os.path.join(folder, "web.gz")
        assert expiry_cases.traces_in(folder) == {
            "web12": (path, "3000-5000", "6"), "orm-night long": (path, "skewed", "1"), "other": (path, "3000-5000", "1")}


def make_report(folder, *options):
    subprocess.run([sys.executable, REPORT, "--json", os.path.join(TOP, "docs", "figures.json"), "--docs", folder] +
                   list(options), check=True, timeout=mayfly.PATIENCE)


PICTURES = ["storm-latency", "storm-memory", "hits", "misses"]


def pictures_of(folder):
    """Those that the page in the folder shows."""
    page = mayfly.read(os.path.join(folder, "figures.md"))
    return [name for name in PICTURES if "(%s.svg)" % name in page]


def test_the_page_is_what_the_report_makes():
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        make_report(folder, "--scripts", folder)
        with open(os.path.join(folder, "figures.md")) as new, open(os.path.join(TOP, "docs", "figures.md")) as old:
            assert new.read() == old.read(), "make bench-report"
        assert "hits" in pictures_of(folder)
        assert sorted(f for f in os.listdir(folder) if f != "figures.md") == \
            sorted(name + ".gp" for name in pictures_of(folder))
        for name in pictures_of(folder):
            script = mayfly.read(os.path.join(folder, name + ".gp"))
            assert "\nplot " in script and "mayflyd" in script, script


def check_picture(path):
    text = mayfly.read_bytes(path)
    xml.etree.ElementTree.fromstring(text)
    assert len(text) < 100000 and os.uname().nodename.encode() not in text and os.getcwd().encode() not in text


def test_pictures_are_small_and_say_nothing_of_the_machine():
    docs = os.path.join(TOP, "docs")
    for name in pictures_of(docs):
        check_picture(os.path.join(docs, name + ".svg"))


def test_pictures_are_drawn():
    mayfly.skip_if(shutil.which("gnuplot") is None, "gnuplot is not installed, which only the pictures need")
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        make_report(folder)
        subprocess.run([sys.executable, os.path.join(HERE, "..", "bench", "soak"), "--redraw", "--csv",
                        os.path.join(TOP, "docs", "soak.csv"), "--svg", os.path.join(folder, "soak.svg")], check=True)
        for name in pictures_of(folder) + ["soak"]:
            check_picture(os.path.join(folder, name + ".svg"))


def test_every_picture_has_a_title_and_a_text_alternative():
    docs = os.path.join(TOP, "docs")
    names = [name for name in os.listdir(docs) if name.endswith(".svg")]
    assert len(names) > 5, names
    for name in names:
        root = xml.etree.ElementTree.parse(os.path.join(docs, name)).getroot()
        for tag in ("title", "desc"):
            first = root.find("{http://www.w3.org/2000/svg}" + tag)
            assert first is not None and first.get("id") == tag, (name, tag)
            assert len(first.text) > 20 and "gnuplot" not in first.text.lower(), (name, first.text)
        for other in root.iter("{http://www.w3.org/2000/svg}title"):
            assert not re.search(r"gnuplot|\$|using ", other.text.lower()), (name, other.text)
        assert root.get("role") == "img" and root.get("aria-labelledby") == "title desc", name


def test_without_gnuplot_the_report_says_so():
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        done = subprocess.run([sys.executable, REPORT, "--json", os.path.join(TOP, "docs", "figures.json"), "--docs",
                               folder], env={**os.environ, "GNUPLOT": "no-such-program"}, stderr=subprocess.PIPE)
        assert done.returncode == 2 and b"gnuplot is not installed" in done.stderr and not os.listdir(folder)


# ---- replication ----------------------------------------------------------------------------------

def test_replication_loses_nothing():
    """A short form of make bench-replication."""
    with mayfly.place("runs.json") as runs:
        done = subprocess.run([sys.executable, os.path.join(HERE, "..", "bench", "replication"), "--rounds", "1", "--json",
                               runs, "--servers", "mayflyd", "--only", "expiry,failover,kill,proxy", "--expiries", "1000",
                               "--failovers", "2", "--kills", "2", "--minutes", ".01"], timeout=10 * mayfly.PATIENCE,
                              env={**os.environ, "BENCH_DIR": TOOLS, "MAYFLYD": mayfly.PROGRAM},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode in (0, 1) and os.path.exists(runs), done.stdout  # 1: a time that this machine cannot keep
        with open(runs) as f:
            got = {run["experiment"]: run["figures"] for run in json.load(f)["runs"]}
        assert set(got) == {"repl-expiry", "repl-failover", "repl-kill", "repl-proxy"}, done.stdout
        assert got["repl-expiry"]["stream_kb"] < 4 and got["repl-failover"]["lost"] == 0, got


# ---- policies -------------------------------------------------------------------------------------

def test_policies_keep_what_they_promise():
    """A quarter of a minute of `make bench-policies`, which runs for a quarter of an hour."""
    done = subprocess.run([sys.executable, os.path.join(HERE, "..", "bench", "policies"), "--mayflyd", mayfly.PROGRAM,
                           "--seconds", "12", "--every", "4", "--limit", "8",
                           "--only", "noeviction,density,allkeys-lru,volatile-lfu,volatile-ttl"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20 * mayfly.PATIENCE)
    assert done.returncode == 0, done.stderr + done.stdout
    rows = [line.split(b"|")[1:-1] for line in done.stdout.splitlines() if line.startswith(b"|")]
    assert len(rows) == 7, done.stdout
    for row in rows[2:]:
        compared = int(row[8])
        assert compared > 0, done.stdout


if __name__ == "__main__":
    mayfly.main(globals(), beside=("test_policies_keep_what_they_promise",))
