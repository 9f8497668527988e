#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""--metrics: what Prometheus scrapes, and probes. promtool judges the form, and a real Prometheus
scrapes a running daemon."""
import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading

import mayfly
from mayfly import Daemon, Inapplicable, wait_for
from prometheus import prometheus

ANY = "127.0.0.1:0"
ETC = os.path.join(os.environ.get("MAYFLY_SRCDIR", "."), "etc")
RULES = os.path.join(ETC, "prometheus", "mayfly.rules.yml")
DASHBOARD = os.path.join(ETC, "grafana", "mayfly.json")
OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}


def is_built_in():
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        return "not built with" not in refusal("--metrics", "127.0.0.1", "-s", os.path.join(folder, "s"))


def refusal(*args):
    """Its messages when it does not start."""
    status, said = mayfly.run(*args)
    assert status != 0, args
    return said


def ports(d):
    return [int(p) for p in re.findall(r"metrics, listens on tcp:127\.0\.0\.1:(\d+)", d.log())]


class Http:
    def __init__(self, port):
        self.port = port

    def ask(self, path, method="GET", headers=None, body=None):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=mayfly.PATIENCE)) as c:
            c.request(method, path, body=body, headers=headers or {})
            answer = c.getresponse()
            return answer.status, answer.headers["Content-Type"], answer.read().decode()


@contextlib.contextmanager
def served(*args, **kw):
    with Daemon("--metrics", ANY, *args, **kw) as d:
        yield d, Http(ports(d)[0])


def samples(text):
    """The samples by name and labels."""
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
            for line in text.splitlines() if line and not line.startswith("#")}


def total(found, name):
    return sum(v for k, v in found.items() if k == name or k.startswith(name + "{"))


def test_what_stats_counts_is_there():
    with served("-t", "2", "-m", "64") as (d, web), d.client() as c:
        for i in range(1000):
            assert c.set(b"k%d" % i, b"v" * 100, exptime=i % 2 * 1000) == b"STORED"
        assert c.get(b"k1") is not None and c.get(b"absent") is None
        status, kind, text = web.ask("/metrics")
        assert status == 200 and kind == "text/plain; version=0.0.4; charset=utf-8", (status, kind)
        found = samples(text)
        general = c.stats()
        for metric, line in (("mayfly_cmd_set_total", "cmd_set"), ("mayfly_get_hits_total", "get_hits"),
                             ("mayfly_get_misses_total", "get_misses"), ("mayfly_curr_items", "curr_items"),
                             ("mayfly_item_bytes", "bytes"), ("mayfly_memory_limit_bytes", "limit_maxbytes"),
                             ("mayfly_workers", "threads"), ("mayfly_index_bytes", "hash_bytes"),
                             ("mayfly_connection_limit", "max_connections")):
            assert total(found, metric) == float(general[line]), (metric, line)
        assert total(found, "mayfly_volatile_keys") == 500
        assert {k for k in found if k.startswith("mayfly_curr_items")} == {
            'mayfly_curr_items{shard="0"}', 'mayfly_curr_items{shard="1"}'}
        assert found["process_resident_memory_bytes"] > 1e6
        assert found["process_open_fds"] > 5
        assert c.ask(b"stats reset") == b"RESET"
        assert total(samples(web.ask("/metrics")[2]), "mayfly_cmd_set_total") == 1000


def need_promtool():
    mayfly.needs("promtool")


def test_promtool_finds_nothing():
    need_promtool()
    with served("-t", "3") as (_, web):
        done = subprocess.run(["promtool", "check", "metrics"], input=web.ask("/metrics")[2], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0 and done.stdout == "", done.stdout


def test_openmetrics():
    """The rules of OpenMetrics 1.0 that a scrape does not check."""
    with served() as (_, web):
        status, kind, text = web.ask("/metrics", headers=OPENMETRICS)
        assert status == 200 and kind.startswith("application/openmetrics-text; version=1.0.0"), kind
    assert text.endswith("\n# EOF\n") and "\r" not in text
    family, seen = None, {}
    for line in text.splitlines()[:-1]:
        words = line.split(" ")
        if line.startswith("# HELP "):
            family = words[2]
            assert family not in seen, family
            seen[family] = None
        elif line.startswith("# TYPE "):
            assert words[2] == family and words[3] in ("counter", "gauge", "histogram"), line
            seen[family] = words[3]
            assert not family.endswith("_total"), family
        elif line.startswith("# UNIT "):
            assert words[2] == family and family.endswith("_" + words[3]), line
        else:
            name = words[0].split("{")[0]
            ends = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
            assert name in [family + end for end in ends[seen[family]]], line
            assert re.fullmatch(r'[a-z][a-z0-9_]*(\{[a-z]+="[^"\\]*"(,le="[^"]+")?\})? [-+.e0-9]+', line), line


def test_latencies():
    """The histogram is cumulative, its buckets few, and it counts what stats latency counts."""
    with served("-t", "2", "-o", "latency_stats") as (d, web), d.client() as c:
        for i in range(100):
            assert c.set(b"k%d" % i, b"v") == b"STORED"
        # A request is counted when its reply was sent.
        mayfly.wait_for(lambda: c.stats(b"latency")["set:count"] == "100", "all are counted")
        found = samples(web.ask("/metrics")[2])
        name = "mayfly_request_duration_seconds"
        buckets = [(k, v) for k, v in found.items() if k.startswith(name + '_bucket{command="set"')]
        values = [v for _, v in buckets]
        assert values == sorted(values) and values[-1] == 100 and len(values) == 22, buckets
        assert 'le="+Inf"' in buckets[-1][0] and float(re.search('le="(.*)"', buckets[-2][0]).group(1)) > 4
        assert found[name + '_count{command="set"}'] == 100 == int(c.stats(b"latency")["set:count"])
        assert 0 < found[name + '_sum{command="set"}'] < 100 * mayfly.PATIENCE


def test_probes():
    with served("-c", "12", "-o", "no_maxconns_fast", tcp=True) as (d, web):
        assert web.ask("/healthz")[::2] == (200, "ok\n")
        assert web.ask("/readyz")[::2] == (200, "ready\n")
        full = [d.client() for _ in range(12)]
        assert all(c.ask(b"mn") == b"MN" for c in full)
        with socket.create_connection(("127.0.0.1", d.port)):   # one too many
            wait_for(lambda: web.ask("/readyz")[0] == 503, "it accepts no more")
        assert web.ask("/healthz")[0] == 200
        for c in full:
            c.close()
        wait_for(lambda: web.ask("/readyz")[0] == 200, "it accepts again")


def test_what_is_no_page():
    with served() as (d, web):
        assert web.ask("/")[0] == 404 and web.ask("/metrics/../etc/passwd")[0] == 404
        assert web.ask("/metrics", method="POST", body="x" * 100)[0] == 405
        assert web.ask("/metrics", method="DELETE")[0] == 405
        status, _, text = web.ask("/metrics", method="HEAD")
        assert (status, text) == (200, "")
        assert web.ask("/metrics")[0] == 200


def test_many_and_silent_clients_hold_up_nobody():
    with served("-t", "1") as (d, web), d.client() as c:
        silent = []
        for _ in range(40):
            s = socket.create_connection(("127.0.0.1", web.port))
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Filler: ")
            silent.append(s)
        for s in silent[:3]:
            with contextlib.suppress(OSError):
                s.sendall(b"x" * 200000)        # a header beyond what is taken
        assert c.set(b"k", b"v") == b"STORED"
        for s in silent:
            s.close()
        wait_for(lambda: web.ask("/metrics")[0] == 200, "it answers again")


def test_connections_that_trickle_keep_nobody_out():
    """A byte of a request now and then is no silence, and yet no reason to keep the place of a probe."""
    with served("-t", "1") as (d, web):
        stop, slow = threading.Event(), []
        for n in range(40):
            s = socket.create_connection(("127.0.0.1", web.port))
            # In a header, or before a body that never comes.
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + (b"X-Filler: " if n % 2 else b"Content-Length: 9\r\n\r\n"))
            slow.append(s)

        def trickle():
            while not stop.wait(0.2):
                for s in slow[1::2]:
                    with contextlib.suppress(OSError):
                        s.send(b"x")
        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            for _ in range(20):
                assert web.ask("/healthz")[0] == 200
        finally:
            stop.set()
            thread.join()
            for s in slow:
                s.close()


def test_bad_addresses():
    with socket.create_server(("127.0.0.1", 0)) as taken, mayfly.place("s") as path:
        for address, why in (("127.0.0.1", "the port is missing"), ("notls:127.0.0.1:1", "prefixes"),
                             ("127.0.0.1:99999", "Invalid port"), ("256.0.0.1:0", "getaddrinfo"),
                             ("127.0.0.1:%d" % taken.getsockname()[1], "in use")):
            said = refusal("--metrics", address, "-s", path)
            assert why in said, (address, said)


def test_two_sockets():
    with Daemon("--metrics", ANY + "," + ANY) as d:
        first, second = ports(d)
        assert first != second
        assert Http(first).ask("/readyz")[0] == Http(second).ask("/readyz")[0] == 200


# ---- a real Prometheus ----------------------------------------------------------------------------

def test_rules_are_valid():
    need_promtool()
    done = subprocess.run(["promtool", "check", "rules", RULES], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout


def compare(told, stats, least):
    """Each figure of these stats that is a number, as far as it is told. At least this number of them is."""
    compared = 0
    for name, value in stats.items():
        scale, name = (1e-3, name[:-3] + "_seconds") if name.endswith("_ms") else (1, name)
        for name in ("mayfly_" + name, "mayfly_" + name + "_total"):
            if name in told and re.fullmatch(r"[0-9]+", value):
                assert abs(told[name] - int(value) * scale) < 1e-9, (name, told[name], value)
                compared += 1
    assert compared >= least, (compared, told)


def test_the_snapshot_is_told_as_in_stats():
    """Each figure of stats persistence that is a number, and whether saves succeed, which an alert asks."""
    with mayfly.folder() as folder:
        with served("-o", "dir=" + folder, control=True) as (d, web), d.operator() as o:
            o.set(b"k", b"v" * 1000)
            assert o.ask(b"save") == b"OK"
            shutil.rmtree(folder)
            assert o.ask(b"save").startswith(b"SERVER_ERROR")
            told, stats = samples(web.ask("/metrics")[2]), o.stats(b"persistence")
            assert stats["rdb_last_bgsave_status"] == "err" and stats["rdb_save_failures"] == "1", stats
            assert told["mayfly_rdb_last_bgsave_status"] == 0 and told["mayfly_rdb_enabled"] == 1, told
            compare(told, stats, 15)


def test_replication_is_told_as_in_stats():
    """Each figure of stats replication that is a number, at a server with a replica that says nothing."""
    with served(control=True) as (d, web), d.client() as replica, d.client() as c, d.operator() as o:
        assert replica.ask(b"psync 1 0 - 0 %s 0" % (b"a" * 32)).startswith(b"FULLSYNC ")
        assert c.set(b"k", b"v" * 1000) == b"STORED"
        told, stats = samples(web.ask("/metrics")[2]), c.stats(b"replication")
        assert told["mayfly_role"] == 1 and told["mayfly_repl_state"] == 1, told
        assert told["mayfly_connected_replicas"] == 1 and told["mayfly_online_replicas"] == 0, told
        assert told["mayfly_sync_full_total"] == 1 and told["mayfly_repl_recording"] == 1, told
        compare(told, stats, 25)
        assert o.ask(b"replicaof 127.0.0.1 1") == b"OK"
        told = samples(web.ask("/metrics")[2])
        assert told["mayfly_role"] == 0 and told["mayfly_repl_state"] == 0, told
        assert c.set(b"k", b"v").startswith(b"SERVER_ERROR"), "it is a replica"
        assert samples(web.ask("/metrics")[2])["mayfly_repl_refused_total"] == 1


def test_moves_are_told_as_in_stats():
    with served("-t", "2", control=True) as (d, web), d.operator() as c:
        for i in range(1000):
            assert c.set(b"k%d" % i, b"v") == b"STORED"
        assert c.ask(b"config set shards 3") == b"OK"
        wait_for(lambda: c.stats(b"moves")["move_state"] == "idle", "it is done")
        told, stats = samples(web.ask("/metrics")[2]), c.stats(b"moves")
        assert told["mayfly_move_state"] == 0 and told["mayfly_move_items_done"] > 100, told
        compared = 0
        for name, value in stats.items():
            scale, name = (1e-3, name[:-3] + "_seconds") if name.endswith("_ms") else (1, name)
            if "mayfly_" + name in told and re.fullmatch(r"[0-9]+", value):
                assert abs(told["mayfly_" + name] - int(value) * scale) < 1e-9, (name, told, stats)
                compared += 1
        assert compared >= 12, (compared, told)
        assert c.ask(b"config set move_cpu_pct 1 shards 8") == b"OK"
        wait_for(lambda: c.stats(b"moves")["shards_wanted"] == "8", "it has begun")
        assert c.ask(b"moves cancel") in (b"OK", b"NOT_FOUND")     # it may be over


def names_of(text):
    return set(re.findall(r"\b(?:mayfly|process)_[a-z0-9_]+", text))


def test_rules_and_dashboard_name_what_there_is():
    with served() as (_, web):
        there = {k.split("{")[0] for k in samples(web.ask("/metrics")[2])}
    for path in (RULES, DASHBOARD):
        named = names_of(mayfly.read(path))
        assert len(named) > 8 and named <= there, (path, named - there)


def test_every_alert_has_a_row_in_the_guide():
    alerts = re.findall(r"^ +- alert: (\w+)$", mayfly.read(RULES), re.M)
    with open(os.path.join(os.path.dirname(RULES), "..", "..", "docs", "operating.md")) as f:
        rows = re.findall(r"^\| (Mayfly\w+) \|", f.read(), re.M)
    assert alerts == rows and len(alerts) > 8, (alerts, rows)


def check_alerts(tests):
    """Promtool plays these tests of rules."""
    need_promtool()
    with mayfly.place("test.yml") as path:
        with open(path, "w") as f:
            json.dump({"rule_files": [os.path.abspath(RULES)], "tests": [{"interval": "1m", **test} for test in tests]}, f)
        done = subprocess.run(["promtool", "test", "rules", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=mayfly.PATIENCE, check=False)
        assert done.returncode == 0, done.stdout


def series(name, values):
    name, labels = name.rstrip("}").split("{") if "{" in name else (name, "")
    return {"series": "%s{instance=\"a:1\"%s}" % (name, labels and "," + labels), "values": values}


def firing(alert, minutes):
    """Only this one fires after these minutes; None: none does."""
    return [{"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": "%dm" % minutes,
             "exp_samples": [{"labels": '{alertname="%s"}' % alert, "value": 1}] if alert else []}]


def test_the_alert_of_a_restart_tells_how_many_items_there_are():
    check_alerts([{
        "input_series": [series('up{job="mayfly"}', "1x3"), series('process_start_time_seconds{job="mayfly"}', "0x3"),
                         series('mayfly_curr_items{job="mayfly",shard="0"}', "%dx3" % items)],
        "alert_rule_test": [{"eval_time": "2m", "alertname": "MayflyRestarted", "exp_alerts": [{
            "exp_labels": {"severity": "info", "job": "mayfly", "instance": "a:1"},
            "exp_annotations": {
                "summary": "a:1 started 2m 0s ago, and has %s" % words,
                "description": "Few items: the cache is cold. mayfly_restart_state is 1 if memory_file restored "
                               "the items."}}]}]} for items, words in ((1500, "1.5k items"), (0, "0 items"))])


def test_alerts_on_replication_fire_when_they_should():
    """Each of them, and that it does not where all is well."""
    well = {"mayfly_role": 0, "mayfly_repl_state": 1, "mayfly_replicas_lag_bytes": 100, "mayfly_repl_backlog_size": 8388608,
            "mayfly_repl_too_few_replicas": 0, "mayfly_repl_clock_skew_seconds": 0.5,
            'mayfly_repl_evicted_total{shard="0"}': "7x30", "mayfly_sync_full_total": "1x30"}
    cases = [(None, {}), ("MayflyReplicaNotOnline", {"mayfly_repl_state": 0}), (None, {"mayfly_role": 1}),
             ("MayflyReplicaLags", {"mayfly_replicas_lag_bytes": 5000000}),
             (None, {"mayfly_replicas_lag_bytes": 0, "mayfly_repl_backlog_size": 0}),
             ("MayflyTooFewReplicas", {"mayfly_repl_too_few_replicas": 1}),
             ("MayflyClockSkew", {"mayfly_repl_clock_skew_seconds": -1.5}),
             ("MayflyReplicaEvicts", {'mayfly_repl_evicted_total{shard="0"}': "0+60x30"}),
             ("MayflyFullSyncsRepeat", {"mayfly_sync_full_total": "0+1x30"})]
    check_alerts([{"input_series": [series(name, value if isinstance(value, str) else "%sx30" % value)
                                    for name, value in {**well, **other}.items()],
                   "promql_expr_test": firing(alert, 20)} for alert, other in cases])


def test_the_alert_on_a_move_fires_when_nothing_moves():
    cases = [(None, "0x30", "5x30"), (None, "1x30", "0+1x30"), ("MayflyMoveStuck", "1x30", "0+1x5 5x25"),
             (None, "1x5 0x25", "5x30"), (None, "0x11 1x19", "5x30")]
    check_alerts([{"input_series": [series("mayfly_move_state", state), series("mayfly_move_items_done", items)],
                   "promql_expr_test": firing(alert, 15)} for alert, state, items in cases])


def queries_of_dashboard():
    with open(DASHBOARD) as f:
        panels = json.load(f)["panels"]
    for panel in panels:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$instance", ".*").replace("$__rate_interval", "1m")


def test_prometheus_draws_the_dashboard():
    """Every query of it brings a series from a real Prometheus."""
    with served("-t", "2") as (d, web), prometheus(web.port) as query, d.client() as c:
        assert c.set(b"k", b"v") == b"STORED" and c.get(b"k") == b"v"
        wait_for(lambda: query("rate(process_cpu_seconds_total[1m])"), "two scrapes")
        for title, text in queries_of_dashboard():
            assert query(text), (title, text)


def test_prometheus_scrapes_it():
    with served("-t", "2") as (d, web), prometheus(web.port) as query, d.client() as c:
        for i in range(250):
            assert c.set(b"k%d" % i, b"v") == b"STORED"
        wait_for(lambda: query("sum(mayfly_cmd_set_total)")[-1:] and
                 query("sum(mayfly_cmd_set_total)")[0][1] == 250, "Prometheus has the sets")
        assert query("up")[0][1] == 1
        assert query("sum(mayfly_curr_items)")[0][1] == 250
        assert query("count(mayfly_curr_items)")[0][1] == 2
        assert query("mayfly_build_info")[0][0]["version"]
        targets = query("scrape_samples_scraped")
        assert targets and targets[0][1] > 150, targets


if not is_built_in():
    mayfly.skip_all(Inapplicable("built without libmicrohttpd"))
mayfly.main(globals(), beside=("test_many_and_silent_clients_hold_up_nobody", "test_prometheus_draws_the_dashboard",
                               "test_prometheus_scrapes_it"))
