#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mayflyctl against a running daemon: every command, in words and in JSON, its exit status, its
prompt; and against servers that break the protocol."""
import base64
import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

import mayfly
import tls
from mayfly import Daemon, Skip, wait_for

PROGRAM = os.path.join(mayfly.BUILD, "ctl", "mayflyctl")
OK, NO, USAGE, LINK, REFUSED, GARBLED = range(6)
ODD = b"\x1b[31m\xff key"


def run(*args, stdin=None, status=OK, env=None):
    """Run mayflyctl; returns its output."""
    done = subprocess.run([PROGRAM, *args], input=stdin if stdin is not None else b"", capture_output=True,
                          timeout=mayfly.PATIENCE, check=False, env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})})
    assert done.returncode == status, (args, done.returncode, done.stdout[-2000:], done.stderr[-4000:])
    if status in (OK,):
        assert b"\x1b" not in done.stderr
    return done.stdout


def complaint(*args, status, **kw):
    done = subprocess.run([PROGRAM, *args], input=b"", capture_output=True, timeout=mayfly.PATIENCE, check=False,
                          env={**os.environ, "LC_ALL": "C.UTF-8"}, **kw)
    assert done.returncode == status, (args, done.returncode, done.stdout[-2000:], done.stderr[-4000:])
    assert re.fullmatch(rb"[ -~\n]*", done.stderr), done.stderr
    return done.stderr.decode()


def of(d):
    """The arguments that lead to a daemon, to its control socket if it has one."""
    if os.path.exists(d.control_path):
        return ["-s", d.control_path]
    return ["-h", "127.0.0.1", "-p", str(d.port)] if d.tcp else ["-s", d.path]


def ctl(d, *args, **kw):
    return run(*of(d), *args, **kw)


def ask(d, *args, **kw):
    """The answer in JSON."""
    return json.loads(ctl(d, "--json", *args, **kw))


# ---- each command --------------------------------------------------------------------------------

def test_ping_and_version():
    with Daemon("-t", "1") as d:
        assert b"the server answered" in ctl(d, "ping")
        assert ask(d, "ping")["answers"] is True
        got = ask(d, "version")
        assert got["mayfly"] and got["memcached"].startswith("1.6")
        assert ctl(d, "version").decode().startswith("mayfly " + got["mayfly"])


def test_set_get_ttl_touch_delete():
    with Daemon("-t", "1") as d, d.client() as c:
        ctl(d, "set", "greeting", "hello", "--expire", "1000", "--flags", "7")
        assert c.get(b"greeting") == b"hello"
        assert ctl(d, "get", "greeting") == b"hello"       # a pipe gets the bytes
        item = ask(d, "get", "greeting")[0]
        assert item["value"] == "hello" and item["size"] == 5 and item["flags"] == 7
        assert 0 < item["ttl_s"] <= 1000 and item["was_fetched"] is True and item["cas"] > 0
        assert b"greeting: expires in 16 min" in ctl(d, "ttl", "greeting")
        ctl(d, "touch", "greeting", "0")
        assert ask(d, "ttl", "greeting") == [{"key": "greeting", "found": True, "ttl_s": None}]
        assert b"expires never" in ctl(d, "ttl", "greeting")
        ctl(d, "touch", "greeting", "-1")
        assert ask(d, "get", "greeting", status=NO) == [{"key": "greeting", "found": False}]
        assert ask(d, "touch", "greeting", "5", status=NO)["touched"] is False
        c.set(b"a", b"1")
        assert ask(d, "delete", "a", "b", status=NO) == [{"key": "a", "deleted": True}, {"key": "b", "deleted": False}]
        assert c.get(b"a") is None


def test_a_value_comes_from_standard_input():
    value = bytes(range(256)) * 1000
    with Daemon("-t", "1") as d:
        ctl(d, "set", "bytes", stdin=value)
        assert ctl(d, "get", "bytes") == value
        item = ask(d, "get", "bytes")[0]
        assert base64.b64decode(item["value_base64"]) == value
        assert "value" not in item


def test_odd_keys_go_in_base64():
    with Daemon("-t", "1") as d, d.client() as c:
        typed = r"\x1b[31m\xff key"
        ctl(d, "set", "--escaped", typed, r"v\x00\r\n")
        c.send(b"mg %s b v\r\n" % base64.b64encode(ODD))
        assert c.line().split()[:2] == [b"VA", b"4"]
        assert c.exactly(6) == b"v\0\r\n\r\n"
        assert ctl(d, "get", "-e", typed) == b"v\0\r\n"
        assert base64.b64decode(ask(d, "get", ODD)[0]["key_base64"]) == ODD
        assert ctl(d, "delete", "-e", typed) == rb"\x1b[31m\xff key: deleted" + b"\n"
        assert "1 to 250 bytes" in complaint(*of(d), "get", "", status=USAGE)
        assert "1 to 250 bytes" in complaint(*of(d), "get", "k" * 251, status=USAGE)
        assert "base64" in complaint(*of(d), "get", " " * 200, status=USAGE)
        ctl(d, "set", "k" * 250, "v")
        ctl(d, "set", " " * 186, "v")


def test_a_terminal_sees_no_byte_of_a_server_as_it_is():
    with Daemon("-t", "1", control=True) as d:
        ctl(d, "set", ODD, b"\x1b]0;owned\x07\xc2\x9b2J")
        with Terminal(PROGRAM, *of(d), "get", ODD) as t:
            text = t.rest()
            assert b"\x1b" not in text and b"\x07" not in text and b"\x9b" not in text, text
            assert rb"\x1b]0;owned\x07\xc2\x9b2J" in text and b"expires   never" in text
            assert t.status() == OK
        with Terminal(PROGRAM, *of(d), "get", "--raw", ODD) as t:
            assert b"\x1b]0;owned\x07" in t.rest()
        assert all(rb"\x1b[31m\xff key" in ctl(d, *args) for args in (["dump"], ["dump", "--keys"]))
        ctl(d, "stats", "detail", "on")
        ctl(d, "get", b"\x1b[1m:x", status=NO)
        assert b"\x1b" not in ctl(d, "stats", "detail", "dump")


def test_stats():
    with Daemon("-t", "2") as d, d.client() as c:
        c.set(b"k", b"v" * 1000)
        rows = dict(re.findall(r"^(\S+) +(\S+)", ctl(d, "stats").decode(), re.M))
        assert rows["curr_items"] == "1"
        assert re.search(r"^limit_maxbytes +67108864  64\.0 MiB$", ctl(d, "stats").decode(), re.M)
        assert re.search(r"^curr_items +1  items stored now$", ctl(d, "stats", "--explain").decode(), re.M)
        for section in ([], ["shards"], ["expire"], ["settings"], ["items"], ["slabs"], ["sizes"], ["conns"]):
            got, want = ask(d, "stats", *section), c.stats(" ".join(section).encode())
            assert set(got) - {n for n in got if "conns" in section} == set(want) - {n for n in want if "conns" in section}
            assert len(ctl(d, "stats", *section).splitlines()) >= len(want) - 3
        explained = ask(d, "stats", "--explain")
        assert explained["curr_items"] == {"value": 1, "meaning": "items stored now"}
        assert ask(d, "stats", "reset") == ["RESET"]
        assert c.stat("cmd_set") == 0
        assert "ERROR" in complaint(*of(d), "stats", "nonsense", status=REFUSED)
        for section, meant in (("expir", "expire"), ("setings", "settings"), ("shard", "shards")):
            assert "no stats %s (did you mean %s?)" % (section, meant) in complaint(*of(d), "stats", section, status=REFUSED)
        # What it knows is refused for another reason.
        assert "did you mean" not in complaint(*of(d), "stats", "detail", "x", status=REFUSED)


def test_stats_watched():
    with Daemon("-t", "1") as d, d.client() as c:
        with subprocess.Popen([PROGRAM, *of(d), "stats", "--watch", "0.01", "--json"], stdout=subprocess.PIPE) as p:
            first = json.loads(p.stdout.readline())
            assert first["per_second"] == {}
            for i in range(10):
                c.set(b"k%d" % i, b"v")
            for line in p.stdout:
                got = json.loads(line)
                if got["stats"]["curr_items"] == 10:
                    break
            p.send_signal(signal.SIGTERM)
            p.stdout.close()
        assert len(ctl(d, "stats", "-w", "0.001", "-n", "3", "--json").splitlines()) == 3
        text = ctl(d, "stats", "-w", "0.001", "-n", "5").decode()
        assert text.count(", after ") == 4
        assert re.search(r"^bytes_read +\d+  \+.* B  .*/s$", text, re.M), text


def test_rates_are_of_a_second():
    """The header of each round has the seconds that changes are divided by."""
    with fake(b"STAT n 0\r\nEND\r\n", b"STAT n 9000\r\nEND\r\n") as path:
        text = run("-s", path, "stats", "-w", "0.05", "-n", "2").decode()
    seconds = float(re.search(r", after (\S+) s$", text, re.M).group(1))
    shown = re.search(r"^n +9000  \+9000  (\S+?)(k?)/s$", text, re.M)
    assert shown, text
    rate = float(shown.group(1)) * (1000 if shown.group(2) else 1)
    assert abs(rate * seconds / 9000 - 1) < 0.02, text


@contextlib.contextmanager
def controlled(*args, **kw):
    """A daemon with a control socket, and the arguments that lead to that."""
    with mayfly.place("control") as path, Daemon("-t", "1", "--control", path, *args, **kw) as d:
        yield d, ["-s", path]


def test_config():
    with controlled("-o", "hz=25") as (_, there):
        assert json.loads(run(*there, "--json", "config", "get", "hz")) == {"hz": 25}
        assert run(*there, "config", "set", "hz", "50") == b"OK\n"
        assert re.fullmatch(rb"hz +50\n", run(*there, "config", "get", "hz"))
        assert len(json.loads(run(*there, "config", "get", "--json"))) > 50
        assert "out of range" in complaint(*there, "config", "set", "expire_effort", "50", status=REFUSED)
        assert "needs a restart" in complaint(*there, "config", "set", "listen-backlog", "2", status=REFUSED)


def test_config_of_files():
    with mayfly.place("mayfly.conf", "threads = 1\nhz = 25\n") as path:
        with controlled("--config", path, "-o", "idle_timeout=5") as (_, there):
            assert run(*there, "config", "set", "hz", "50", "idle_timeout", "6") == b"OK\n"
            assert run(*there, "config", "rewrite") == b"idle_timeout will be overridden at the next start with 5\nOK\n"
            assert mayfly.read(path).startswith("threads = 1\nhz = 50\n\n# ")
            with open(path, "a") as f:
                f.write("listen-backlog = 2\npidfile = \"a #\"\n")
            assert run(*there, "config", "reload") == \
                b'listen_backlog needs a restart for 2\npidfile needs a restart for "a #"\nOK\n'
            assert json.loads(run(*there, "--json", "config", "rewrite")) == \
                {"overridden": {"idle_timeout": 5}, "restart": {"listen_backlog": 2, "pidfile": "a #"}}
            with open(path, "a") as f:
                f.write("hz = x\n")
            assert path + ":" in complaint(*there, "config", "reload", status=REFUSED)
    with controlled() as (_, there):
        assert "without --config" in complaint(*there, "config", "rewrite", status=REFUSED)


def test_words_of_config_stand_in_quotes_where_they_must():
    asked = []

    def answer(c, line):
        asked.append(line)
        c.sendall(b'CONFIG a "b \\"c\\""\r\nEND\r\n')
    with fake(answer, echo=True) as path:
        assert json.loads(run("-s", path, "--json", "config", "set", "name", 'a "b"', "", "c")) == {"a": 'b "c"'}
    assert asked == [b'config set name "a \\"b\\"" "" c\r\n'], asked
    asked.clear()
    with fake(answer, echo=True) as path:
        run("-s", path, "config", "set", "name", "a \\", "a\\b")
    assert asked == [b'config set name "a \\\\" a\\b\r\n'], asked


def test_the_control_socket_serves_every_command():
    with controlled("-o", "admin_commands=control", tcp=True) as (d, there):
        with d.client() as c:
            c.set(b"k", b"v" * 10)
        for command in (["ping"], ["version"], ["stats"], ["stats", "shards"], ["dump"], ["get", "k"], ["memory"],
                        ["top", "-n", "1", "-i", "0.001"], ["latency"], ["slowlog"], ["flush"]):
            run(*there, *command)
        complaint(*of(d), "flush", status=REFUSED)


def test_watch():
    with Daemon("-t", "1") as d, d.client() as c:
        for as_json in ([], ["--json"]):
            with subprocess.Popen([PROGRAM, *of(d), "watch", "mutations", "-n", "2", *as_json],
                                  stdout=subprocess.PIPE) as p:
                wait_for(lambda: c.stat("log_watchers") == 1, "it watches")
                c.send(b"ms %s 1 b\r\nx\r\nms k 1\r\nx\r\n" % base64.b64encode(ODD))
                assert c.line() == b"HD" and c.line() == b"HD"
                lines = p.stdout.read().splitlines()
                assert p.wait(mayfly.PATIENCE) == OK
            wait_for(lambda: c.stat("log_watchers") == 0, "it has gone")
            assert len(lines) == 2
            if as_json:
                events = [json.loads(line) for line in lines]
                assert base64.b64decode(events[0]["key_base64"]) == ODD
                assert events[1]["key"] == "k" and events[1]["type"] == "item_store"
            else:
                assert b"key=k" in lines[1]


def test_dump_and_its_filters():
    with Daemon("-t", "2") as d, d.client() as c:
        assert ctl(d, "dump") == b"" and ask(d, "dump") == [] and ask(d, "dump", "--keys") == []
        for i in range(100):
            c.set(b"small:%d" % i, b"v", exptime=1000)
        c.set(b"large", b"v" * 5000)
        c.set(b"sp\xc3\xa4t", b"v", exptime=100000, flags=3)
        c.get(b"large")
        keys = [i["key"] for i in ask(d, "dump")]
        assert len(keys) == 102 and "spät" in keys
        assert sorted(i["key"] for i in ask(d, "dump", "--keys")) == sorted(keys)

        def chosen(*args):
            return sorted(i["key"] for i in ask(d, "dump", *args))
        assert chosen("--match", "small:1?") == ["small:1%d" % i for i in range(10)]
        assert chosen("--min-size", "4k") == ["large"]
        size = [i["size"] for i in ask(d, "dump") if i["key"] == "large"][0]
        assert chosen("--min-size", str(size)) == ["large"] and chosen("--min-size", str(size + 1)) == []
        assert chosen("--never") == ["large"]
        assert len(chosen("--within", "1001")) == 100
        assert len(chosen("--unread")) == 101
        assert len(chosen("-n", "5")) == 5
        assert chosen("--keys", "-m", "l*") == ["large"]
        item = [i for i in ask(d, "dump") if i["key"] == "spät"][0]
        assert item["flags"] == 3 and item["expires_at"] > 0 and item["was_fetched"] is False
        text = ctl(d, "dump", "--never").decode().splitlines()
        assert len(text) == 2 and text[1].split()[1] == "never" and text[1].endswith(" large")
        assert "--keys" in complaint(*of(d), "dump", "--keys", "--never", status=USAGE)
    with Daemon("-t", "1", "-X") as d:
        assert "not allowed" in complaint(*of(d), "dump", status=REFUSED)


def test_flush():
    with Daemon("-t", "1") as d, d.client() as c:
        c.set(b"k", b"v")
        assert ctl(d, "flush", "1000") == b"OK\n"
        assert c.get(b"k") == b"v"
        assert ask(d, "flush") == {"flushed": True}
        assert c.get(b"k") is None
    with Daemon("-t", "1", "-F") as d:
        assert "not allowed" in complaint(*of(d), "flush", status=REFUSED)
        assert "flush_prefix not allowed" in complaint(*of(d), "flush", "--prefix", "k", status=REFUSED)


def test_flush_of_a_prefix():
    with Daemon("-t", "1") as d, d.client() as c:
        for key in (b"p:1", b"p:2", b"q:1"):
            c.set(key, b"v")
        assert ctl(d, "flush", "--prefix", "p:") == b"OK\n"
        assert c.get(b"p:1", b"p:2", b"q:1") == {b"q:1": b"v"}
        assert ask(d, "flush", "--prefix=q") == {"flushed": True}
        assert c.get(b"q:1") is None
        assert c.set(b"k", b"v") == b"STORED"
        for wrong in ("", "a b", "a\r\nflush_all", "x" * 251):
            assert "1 to 250 bytes" in complaint(*of(d), "flush", "--prefix", wrong, status=USAGE)
        assert "a number of seconds" in complaint(*of(d), "flush", "--prefix", "k", "10", status=USAGE)
        assert c.get(b"k") == b"v"
        assert ctl(d, "flush", "--prefix", "x" * 250) == b"OK\n"


def memory_at_rest(d, c):
    """The output of `memory` between two equal ones: shards stock segments for a while after a store."""
    while True:
        held = c.shard_sum("resident_bytes")
        got = ask(d, "memory")
        if c.shard_sum("resident_bytes") == held:
            return got, held


def test_memory():
    with Daemon("-t", "2") as d, d.client() as c:
        for i in range(200):
            c.set(b"k%d" % i, b"v" * 10000)
        got, held = memory_at_rest(d, c)
        assert got["limit_bytes"] == 64 << 20
        assert got["held_bytes"] == held
        assert got["parts"]["live"] == c.shard_sum("bytes") > 2000000
        assert abs(sum(got["parts"].values()) - got["held_bytes"]) < 1
        assert got["resident_bytes"] is None or got["resident_bytes"] > got["parts"]["live"]
        text = ctl(d, "memory").decode()
        assert re.search(r"^  live items +1\.9 MiB +3\.0 %  .", text, re.M), text
        assert "#" in ctl(d, "memory", "--ascii").decode()


def test_upgrade():
    """Waits until another program serves, or none will."""
    mayfly.skip_if("drop_privileges" in " ".join(mayfly.MORE_ARGS), "with drop_privileges no program can be started")
    with tempfile.TemporaryDirectory(prefix="mayfly-ctl.") as where:
        program = os.path.join(where, "another")
        shutil.copy(mayfly.PROGRAM, program)
        with Daemon("-t", "1", "-e", os.path.join(where, "memory"), control=True) as d, d.client() as c:
            c.set(b"k", b"v")
            for i, args in enumerate(([], [program], [])):
                assert ctl(d, "upgrade", *args) == b"the program took over, with 1 items\n"
                wait_for(lambda: d.log().count("is ready") >= i + 2, "another is ready")
            assert ask(d, "upgrade") == {"upgraded": True, "items": 1}
            said = complaint(*of(d), "upgrade", "/bin/true", status=REFUSED)
            assert "/bin/true is another program; nothing has changed" in said, said
            assert "usage: upgrade" in complaint(*of(d), "upgrade", "nonsense", status=REFUSED)
            assert c.get(b"k") == b"v"
    with Daemon("-t", "1", control=True) as d:
        assert "not without memory_file" in complaint(*of(d), "upgrade", status=REFUSED)


def test_replication():
    """replicas, replicaof, wait, promote and failover, over the control sockets of two servers."""
    with Daemon("-t", "1", tcp=True, control=True) as p, Daemon("-t", "1", tcp=True, control=True) as r, p.client() as c:
        assert c.set(b"k", b"v") == b"STORED"
        text = ctl(p, "replicas").decode()
        assert "role             primary\n" in text and "replicas online  0\n" in text and "ADDRESS" not in text, text
        assert ask(p, "replicas")["replicas"] == []
        assert ask(p, "wait", "1", "1", status=NO) == {"replicas": 0, "wanted": 1}
        assert "not a number" in complaint(*of(p), "wait", "x", "1", status=USAGE)
        assert "usage: wait" in complaint(*of(p), "wait", "1", "x", status=REFUSED)
        assert "no online replica" in complaint(*of(p), "failover", status=REFUSED)
        assert "this is a primary" in complaint(*of(p), "promote", status=REFUSED)
        assert ctl(r, "replicaof", "127.0.0.1", str(p.port)) == b"OK, the server is a replica (mayflyctl replicas)\n"
        wait_for(lambda: ask(p, "replicas")["online_replicas"] == 1, "the replica is online")
        assert ask(p, "wait", "1", "60000") == {"replicas": 1, "wanted": 1}
        assert ctl(p, "wait", "1", "60000") == b"1 replica has all changes\n"
        wait_for(lambda: ask(p, "replicas")["replicas"][0]["lag_bytes"] == 0, "it has acknowledged everything")
        one, = ask(p, "replicas")["replicas"]
        assert one["address"] == "127.0.0.1:%d" % r.port and one["state"] == "online", one
        text = ctl(p, "replicas").decode()
        row = text.splitlines()[-1].split()
        assert row[0] == one["address"] and row[2] == "online" and row[4] == "0", text
        text = ctl(r, "replicas").decode()
        assert "role             replica\n" in text and "state            online\n" in text, text
        assert "follows          127.0.0.1 %d\n" % p.port in text and "lag, time        0 s\n" in text, text
        assert json.loads(ctl(r, "--json", "top", "-n", "1", "-i", "0.01").splitlines()[0])["role"] == "replica"
        assert ctl(r, "promote", "60000") == b"OK, the server is the primary, and the old primary follows it\n"
        wait_for(lambda: ask(r, "replicas")["online_replicas"] == 1, "the roles have changed")
        wait_for(lambda: b"state            online" in run(*of(p), "replicas"), "it is in step")
        with r.client() as there:
            assert there.get(b"k") == b"v" and there.set(b"k", b"w") == b"STORED"
        assert b"a replica is now the primary" in ctl(r, "failover", "127.0.0.1", str(p.port))
        with p.operator() as o:     # mayflyctl fails while it is a replica without a link
            wait_for(lambda: o.ask(b"role").startswith(b"ROLE primary "), "the roles have changed again")
        with p.client() as there:
            assert there.get(b"k") == b"w"
        assert ctl(r, "replicaof", "no", "one") == b"OK, the server is a primary\n"
        assert ask(r, "replicas")["role"] == "primary"
        # A primary that is not there.
        assert ctl(r, "replicaof", "127.0.0.1", "1").startswith(b"OK")
        wait_for(lambda: ask(r, "replicas", status=NO)["primary_link_failures"] > 0, "it cannot connect")
        text = run(*of(r), "replicas", status=NO).decode()
        assert "state            connecting\n" in text and "lag, time        unknown\n" in text, text
        assert "connecting" in doctor(r)[0]["replica_link"]


def doctor(d, *args):
    """What it advises, by its names, with the facts."""
    done = subprocess.run([PROGRAM, *of(d), "doctor", "--json", *args], capture_output=True, check=False,
                          timeout=mayfly.PATIENCE)
    rows = json.loads(done.stdout)
    given = {row["id"]: row["fact"] for row in rows if row["state"] == "advice"}
    assert done.returncode == (NO if given else OK), done
    return given, {row["id"]: row["state"] for row in rows}


# What depends on where the test runs.
OF_HOST = {"huge_pages", "overcommit", "backlog", "cgroup", "host_memory", "swap", "files", "clock_source", "clock",
           "threads_few", "threads_many", "one_worker"}


def test_doctor():
    with Daemon("-t", "1", "-m", "16", "-I", "64k") as d, d.client() as c:
        given, states = doctor(d)
        assert set(given) <= OF_HOST, given
        assert states["evictions"] == "well" and states["expiry_debt"] == "well"
        for i in range(4000):
            c.send(b"set k%d 0 0 20000 noreply\r\n%s\r\n" % (i, b"v" * 20000))
        c.set(b"large", b"v" * 100000)
        given, _ = doctor(d)
        assert set(given) - OF_HOST == {"evictions", "too_large"}, given
        text = run(*of(d), "doctor", status=NO).decode()
        assert "* many evictions compared with stores\n    fact:  " in text and "\n    to do: raise" in text
    with Daemon("-t", "1", "-l", "0.0.0.0", tcp=True) as d:
        assert "0.0.0.0" in doctor(d)[0]["open_door"]
    with Daemon("-t", "1", "-p", "-1", "-o", "listen_both") as d:      # on loopback, as -l is not given
        assert not {"open_door", "admin"} & set(doctor(d)[0])


def test_tables():
    with Daemon("-t", "1", "-o", "latency_stats") as d, d.client() as c:
        for i in range(10):
            c.set(b"k%d" % i, b"v")
        mayfly.wait_for(lambda: c.stats(b"latency")["set:count"] == "10", "all are counted")
        got = ask(d, "latency")
        assert got["set"]["count"] == 10 and got["set"]["p99_us"] > 0
        text = ctl(d, "latency").decode().splitlines()
        assert text[0].split()[:3] == ["count", "mean_us", "p50_us"]
        assert [row.split()[1] for row in text if row.startswith("set")] == ["10"]
        assert ctl(d, "latency", "reset") in (b"OK\n", b"RESET\n")
        assert ask(d, "latency")["set"]["count"] == 0
        assert "0:set" in ask(d, "latency", "workers")


def test_slowlog():
    with Daemon("-t", "1", "-o", "slowlog_us=1") as d, d.client() as c:
        c.set(b"some-key", b"v" * 1000)
        rows = ask(d, "slowlog", "get", "-1").values()
        assert any(row["command"] == "set" and row["key"] == "some-key" and row["us"] > 0 for row in rows), rows
        assert len(ask(d, "slowlog", "get", "1")) == 1
        text = ctl(d, "slowlog", "get", "-1").decode()
        assert text.split()[:3] == ["time", "us", "command"] and " some-key " in text
        assert ask(d, "slowlog", "len")["0"]["count"] >= 1
        assert ctl(d, "slowlog", "reset") == b"OK\n"


def test_hot_and_big_keys():
    with Daemon("-t", "1", "-o", "hotkeys=1") as d, d.client() as c:
        c.set(b"small", b"v")
        c.set(b"large", b"v" * 50000)
        rows = ask(d, "bigkeys")
        assert rows["1"]["key"] == "large" and rows["1"]["value_bytes"] == 50000, rows
        text = ctl(d, "bigkeys").decode()
        assert re.search(r"^1 +large +48\.8 KiB", text, re.M), text

        def is_hot():
            for _ in range(2000):
                c.get(b"small")
            return ask(d, "hotkeys").get("1", {}).get("key") == "small"
        wait_for(is_hot, "a key is hot")
        assert re.search(r"^1 +small ", ctl(d, "hotkeys").decode(), re.M)


def test_tables_of_any_server():
    answer = b"".join(b"STAT %d:%s %s\r\n" % (i, n, v) for i in range(2)
                      for n, v in ((b"key", b"a\x1b[31m%d" % i), (b"bytes", b"2048"), (b"note", b"two words")))
    with fake(answer + b"END\r\n") as path:
        for command in (["hotkeys"], ["bigkeys"], ["slowlog"], ["slowlog", "get", "5"], ["latency"]):
            lines = run("-s", path, *command).decode().splitlines()
            assert lines[0].split() == ["key", "bytes", "note"], lines
            assert lines[2].split() == ["1", r"a\x1b[31m1", "2.0", "KiB", "two", "words"], lines
            got = json.loads(run("-s", path, "--json", *command))
            assert got["1"] == {"key": "a\x1b[31m1", "bytes": 2048, "note": "two words"}
    with fake(b"STAT a 1\r\nSTAT b:c 2\r\nSTAT d 3\r\nEND\r\n") as path:
        assert json.loads(run("-s", path, "--json", "hotkeys")) == {"a": 1, "b": {"c": 2}, "d": 3}
        assert run("-s", path, "hotkeys").decode().split() == ["a", "1", "d", "3", "c", "b", "2"]
    with fake(b"END\r\n") as path:
        assert run("-s", path, "slowlog") == b"no entries\n"
    with fake(b"OK\r\n") as path:
        assert run("-s", path, "slowlog", "reset") == b"OK\n"


# ---- top -----------------------------------------------------------------------------------------

def has_ncurses():
    return mayfly.has_text(b"newterm", program=PROGRAM)


def test_top_in_a_pipe():
    with Daemon("-t", "2") as d, d.client() as c:
        lines = ctl(d, "top", "-n", "25", "-i", "0.001").decode().splitlines()
        assert len(lines) == 27 and lines[0].split()[:3] == ["time", "items", "bytes"]
        assert lines[21] == lines[0]
        with subprocess.Popen([PROGRAM, *of(d), "top", "--json", "-i", "0.01"], stdout=subprocess.PIPE) as p:
            for line in p.stdout:
                got = json.loads(line)
                c.set(b"k", b"v")
                c.get(b"k")
                c.get(b"absent")
                if got["all"]["ops"] > 0 and got["all"]["hit_pct"] not in (None, 100):
                    break
            p.terminate()
            p.stdout.close()
        assert len(got["shards"]) == 2 and got["all"]["items"] == 1
        assert sum(one["ops"] for one in got["shards"]) > 0
        assert "no column" in complaint(*of(d), "top", "--sort", "nonsense", status=USAGE)


def screen(t, rows=24, columns=80):
    """The text on the terminal, from the received output."""
    import vt
    return vt.Screen(rows, columns).feed(t.text).lines()


def test_top_on_a_terminal():
    mayfly.skip_if(not has_ncurses(), "built without ncurses")
    with Daemon("-t", "2", "-m", "100") as d, d.client() as c:
        for i in range(100):
            c.set(b"k%d" % i, b"v" * 1000)
        with Terminal(PROGRAM, *of(d), "top", "-i", "0.05", term="xterm") as t:
            def shows(what, row=None, **size):
                def look():
                    t.more()
                    lines = screen(t, **size)
                    return any(re.search(what, line) for line in (lines if row is None else [lines[row]]))
                wait_for(look, what)
            shows(r"SHARD +items +bytes +hit% +ops/s evict/s expire/s +debt +lag +reclaim", 8)
            shows(r"^  all +100 ", 9)
            shows(r"memory     \[.{30}\] .* of 100 MiB", 1)
            shows(r"q quit", 23)
            t.send(b"i")
            shows(r"shard +ITEMS", 8)
            t.send(b"?")
            shows(r"A letter sorts by its column")
            t.send(b"x")
            shows(r"^  all ", 9)
            t.resize(40, 120)
            shows(r"q quit", 39, rows=40, columns=120)
            t.resize(5, 20)
            shows(r"q quit", 4, rows=5, columns=20)
            t.send(b"q")
            assert t.status() == OK
        # A terminal without UTF-8 and colours.
        with Terminal(PROGRAM, *of(d), "top", "-i", "0.05", "-n", "3", term="vt100", env={"LC_ALL": "C"}) as t:
            text = t.rest()
            assert t.status() == OK and max(text) < 0x80 and b"memory" in text and b"[" in text


def test_top_on_a_dumb_terminal():
    with Daemon("-t", "1") as d:
        # ncurses leaks when it does not know a terminal.
        for term in ("dumb", "") + (() if mayfly.is_sanitized(PROGRAM) else ("nobody-knows-it",)):
            with Terminal(PROGRAM, *of(d), "top", "-i", "0.001", "-n", "2", term=term) as t:
                lines = t.rest().decode().splitlines()
                assert len(lines) == 3 and lines[0].startswith("time "), (term, lines)
                assert t.status() == OK


def test_top_survives_its_server():
    mayfly.skip_if(not has_ncurses(), "built without ncurses")
    with mayfly.place("socket") as path:
        with Daemon("-t", "1", path=path) as d, Terminal(PROGRAM, *of(d), "top", "-i", "0.05", term="xterm") as t:
            t.expect(b"memory")
            d.stop()
            t.expect(b"no connection")
            with Daemon("-t", "1", path=path) as again:
                again.wait_until_it_serves()
                t.text = b""
                t.expect(b"q quit")
                t.send(b"q")
                assert t.status() == OK


# ---- the command line ----------------------------------------------------------------------------

def test_help_names_every_command_and_option():
    text = run("--help").decode()
    commands = re.findall(r"^  ([a-z]+) ", text, re.M)
    assert "stats" in commands and "dump" in commands
    assert set(json.loads(run("help", "--json"))) == set(commands)
    for name in commands:
        assert run("help", name).startswith(b"usage: mayflyctl [OPTION...] " + name.encode())
        assert run(name, "--help") == run("help", name)
    assert re.fullmatch(rb"mayflyctl \S+\n", run("--version"))


def test_raw():
    with Daemon("-t", "1") as d, d.client() as c:
        assert c.set(b"k", b"MN") == b"STORED"
        assert ctl(d, "raw", "version").startswith(b"VERSION 1.6")
        assert ctl(d, "raw", "get", "k", "none") == b"VALUE k 0 2\nMN\nEND\n"
        assert ctl(d, "raw", "mg", "k", "v") == b"VA 2\nMN\n"
        assert ask(d, "raw", "touch", "k", "100") == ["TOUCHED"]
        assert len(ctl(d, "raw", "stats").splitlines()) > 50
        assert complaint(*of(d), "raw", "incr", "k", "1", status=REFUSED).startswith(
            "mayflyctl: the server answers: CLIENT_ERROR cannot increment")
        assert complaint(*of(d), "raw", "nonsense", status=REFUSED) == "mayflyctl: the server answers: ERROR\n"
        for word, instead in (("set", "set"), ("ms", "set"), ("watch", "watch"), ("restore", "load")):
            assert complaint(*of(d), "raw", word, "k", status=USAGE) == \
                "mayflyctl: raw sends one line, but %s needs more; use %s\n" % (word, instead)


def test_bgsave_and_shutdown():
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder, \
            Daemon("-t", "1", "--dir", folder, control=True) as d, d.client() as c:
        assert c.set(b"k", b"v") == b"STORED"
        assert ask(d, "bgsave") == {"saving": True}
        wait_for(lambda: os.path.exists(folder + "/mayfly.snapshot"), "it is saved")
        assert ask(d, "shutdown", "graceful", "nosave") == {"stopping": True}
        c.close()
        assert d.process.wait(mayfly.PATIENCE) == 0
    with Daemon("-t", "1") as d:
        assert "shutdown not enabled" in complaint(*of(d), "shutdown", status=REFUSED)
        assert complaint(*of(d), "bgsave", status=REFUSED).startswith("mayflyctl: the server answers: ")


def test_what_is_off_says_how_to_turn_it_on():
    with Daemon("-t", "1", control=True) as d, d.client() as c:
        for command, option, on in (("latency", "latency_stats", "yes"), ("hotkeys", "hotkeys", "100"),
                                    ("slowlog", "slowlog_us", "10000")):
            off = ctl(d, command).decode()
            assert off == "%s is off. To turn it on: mayflyctl config set %s %s\n" % (option, option, on), off
            assert b"is off" not in ctl(d, "--json", command)
            ctl(d, "config", "set", option, on)
            c.ask(b"version")
            assert b"is off" not in ctl(d, command)
        assert ctl(d, "slowlog", "reset") == b"OK\n"


def test_a_reader_that_leaves_is_no_failure():
    with Daemon("-t", "1") as d:
        done = subprocess.run(["bash", "-c", "\"$@\" | head -n 1; echo ${PIPESTATUS[0]}", "-", PROGRAM, *of(d), "stats",
                               "--watch", "0.01"], capture_output=True, check=False, timeout=mayfly.PATIENCE)
        assert done.stderr == b"" and done.stdout.splitlines()[1:] == [b"0"], done


def test_errors_have_whole_paths():
    with Daemon("-t", "1") as d:
        assert complaint(*of(d), "save", "/nonexistent/folder/file", status=6) == \
            "mayflyctl: cannot write /nonexistent/folder/file: No such file or directory\n"


def test_misuse():
    for args in ([], ["nonsense"], ["get"], ["ping", "x"], ["--nonsense"], ["ping", "--watch", "1"],
                 ["-h", "localhost", "-s", "/x", "ping"], ["-p", "1", "ping"], ["--ca", "x", "ping"],
                 ["--password-file", "x", "ping"], ["touch", "k", "soon"], ["set", "k", "v", "-E", "soon"],
                 ["stats", "-n", "1"], ["set", "k", "v", "--flags", "4294967296"], ["get", "-e", "\\q"]):
        assert complaint("-s", "/nowhere", *args, status=USAGE) if "-s" not in args and "-h" not in args \
            else complaint(*args, status=USAGE), args


def test_no_server():
    with mayfly.place("socket") as path:
        assert path in complaint("-s", path, "ping", status=LINK)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        assert "port %d" % port in complaint("-h", "127.0.0.1", "-p", str(port), "ping", status=LINK)
        assert "too long" in complaint("-s", "/" + "x" * 200, "ping", status=LINK)


def test_tcp_users_and_passwords():
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        users, good, bad = (os.path.join(folder, n) for n in ("users", "good", "bad"))
        for path, text in ((users, "ops:secret word\n"), (good, "secret word\n"), (bad, "wrong\n")):
            mayfly.write(path, text, 0o600)
        with Daemon("-t", "1", "-Y", users, tcp=True) as d:
            assert b"answered" in ctl(d, "--user", "ops", "--password-file", good, "ping")
            assert "authentication failure" in complaint(*of(d), "--user", "ops", "--password-file", bad, "ping",
                                                         status=REFUSED)
            for command in ("ping", "stats"):
                assert complaint(*of(d), command, status=REFUSED) == "mayflyctl: the server requires a login: --user NAME\n"
            assert "contains a space" in complaint(*of(d), "--user", "o ps", "--password-file", good, "ping",
                                         status=USAGE)
            assert "No such file" in complaint(*of(d), "--user", "ops", "--password-file", "/nowhere", "ping",
                                               status=USAGE)
            # No terminal, no file: it does not wait for anything.
            assert "terminal" in complaint(*of(d), "--user", "ops", "ping", status=USAGE, start_new_session=True)
            with Terminal(PROGRAM, *of(d), "--user", "ops", "ping") as t:
                t.expect(b"Password of ops: ")
                t.send(b"secret word\n")
                text = t.rest()
                assert b"the server answered" in text and b"secret" not in text, text
            os.chmod(good, 0o644)
            done = subprocess.run([PROGRAM, *of(d), "--user", "ops", "--password-file", good, "ping"],
                                  capture_output=True, check=True, timeout=mayfly.PATIENCE)
            assert b"accessible by other users" in done.stderr


def test_tls():
    made = tls.Certificates()
    named = ["--tls", "--ca", made.path("cache.pem"), "--tls-name", "cache"]
    with Daemon("-t", "1", *made.serve("cache"), tcp=True, wait=False) as d:
        wait_for(d.find_port, "it listens")
        wait_for(lambda: b"answered" in subprocess.run([PROGRAM, *of(d), *named, "ping"], capture_output=True, check=False,
                                                      timeout=mayfly.PATIENCE).stdout, "it answers over TLS")
        ctl(d, *named, "set", "big", stdin=b"v" * 500000)
        assert ctl(d, *named, "get", "big") == b"v" * 500000
        assert "certificate" in complaint(*of(d), *named[:3], "ping", status=LINK)   # another name
        assert "certificate" in complaint(*of(d), "--tls", "--tls-name", "cache", "ping", status=LINK)
        assert "cache.key" in complaint(*of(d), "--tls", "--ca", made.path("cache.key"), "ping", status=LINK)


# ---- the prompt ----------------------------------------------------------------------------------

class Terminal:
    """A program on a terminal of 80x24."""

    def __init__(self, *command, term="dumb", env=None, size=(24, 80)):
        self.text = b""
        self.ended = None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                import fcntl
                import struct
                import termios
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
                os.execve(command[0], command, {**os.environ, "TERM": term, "LC_ALL": "C.UTF-8", **(env or {})})
            finally:
                os._exit(127)

    def resize(self, rows, columns):
        import fcntl
        import struct
        import termios
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, data):
        os.write(self.fd, data)

    def more(self, patience=mayfly.PATIENCE):
        if not select.select([self.fd], [], [], patience)[0]:
            raise AssertionError("nothing more than %r" % self.text[-2000:])
        try:
            got = os.read(self.fd, 65536)
        except OSError:     # the other end is closed
            got = b""
        self.text += got
        return bool(got)

    def expect(self, what):
        """Read until this text arrives; discards it and everything before it."""
        while what not in self.text:
            if not self.more():
                raise AssertionError("%r never came: %r" % (what, self.text))
        before, self.text = self.text.split(what, 1)
        return before

    def ask(self, data, what):
        self.send(data)
        return self.expect(what)

    def rest(self):
        while self.more():
            pass
        return self.text

    def status(self):
        """Its exit status, after all of its output."""
        self.rest()
        if self.ended is None:
            self.ended = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.ended

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.ended is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.status()
        os.close(self.fd)


def test_moves():
    """A move that finds no room: its progress is shown, on a terminal until its end; and it is cancelled."""
    with Daemon("-t", "1", "-m", "16", "-M", control=True) as d, d.operator() as c:
        count = 0
        while c.set(b"f%d" % count, b"v" * 10000) == b"STORED":
            count += 1
        text = ctl(d, "moves").decode()
        assert "workers      1 active, 1 wanted, 0 leaving, 1 in total\n" in text and "state        idle\n" in text, text
        assert "\nitems " not in text, text
        assert ctl(d, "moves", "cancel", status=NO) == b""
        run(*of(d), "moves", "on", status=USAGE)
        assert c.ask(b"config set shards 3") == b"OK"
        wait_for(lambda: ask(d, "moves")["move_waits_for"] == "room", "there is no room")
        got = ask(d, "moves")
        assert got["move_state"] == "waiting" and got["shards_wanted"] == 3 and got["move_items_all"] > count / 2, got
        assert doctor(d)[0]["move_stuck"].endswith("state waiting; no room %d times" % got["move_waits"])
        assert re.search(r"\nitems        \d+ %, \S+ of \S+ items, .* of .*, waiting for room\n", ctl(d, "moves").decode())
        assert ctl(d, "moves", "cancel").startswith(b"OK")
        with Terminal(PROGRAM, *of(d), "moves") as t:
            t.expect(b" items, ")
            t.expect(b"\r\x1b[K[")
            assert b" %, " in t.expect(b", waiting for room"), "and once more"
            for i in range(0, count, 2):
                assert c.ask(b"delete f%d" % i) == b"DELETED"
            t.expect(b"state        cancelled")
            assert t.rest().endswith(b" s\r\n") and t.status() == 0, t.text


def prompt(d, folder):
    return Terminal(PROGRAM, *of(d), env={"HOME": folder, "XDG_STATE_HOME": "", "INPUTRC": "/dev/null"})


def test_prompt():
    with Daemon("-t", "1") as d, tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder, prompt(d, folder) as t:
        t.expect(b"mayfly> ")
        t.ask(b"set \"a key\" 'some value'\n", b"stored, 10 B")
        t.expect(b"mayfly> ")
        t.ask(b"get 'a key' --json\n", b'"value": "some value"')
        t.ask(b"nonsense\n", b"there is no command nonsense")
        t.ask(b"ping -s /elsewhere\n", b"on the command line only")
        t.ask(b"watch\n", b"watch")
        with d.client() as c:
            wait_for(lambda: c.stat("log_watchers") == 1, "it watches")
            t.send(b"\x03")     # which ends the command, not the program
            wait_for(lambda: c.stat("log_watchers") == 0, "it does not watch any more")
        t.expect(b"mayfly> ")
        t.ask(b"ping\n", b"the server answered")
        t.ask(b"pong\n", b"there is no command pong (did you mean ping?)")
        t.expect(b"mayfly> ")
        t.send(b"quit\n")
        assert t.status() == OK


def test_an_interrupt_clears_the_line():
    with Daemon("-t", "1") as d, d.client() as c, tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        assert c.set(b"k", b"v") == b"STORED"
        with prompt(d, folder) as t:
            t.expect(b"mayfly> ")
            t.ask(b"flush --yes", b"flush --yes")
            t.ask(b"\x03", b"mayfly> ")
            t.ask(b"\n", b"mayfly> ")
            assert c.get(b"k") == b"v"
            t.ask(b"ping\n", b"the server answered")
            t.send(b"quit\n")
            assert t.status() == OK


def test_what_cannot_be_undone_is_asked_on_a_terminal():
    with Daemon("-t", "1", "-A") as d, d.client() as c, tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        for command, question in ((["flush"], b"Drop all items of "), (["shutdown"], b"Stop the server of "),
                                  (["raw", "flush_all"], b"Drop all items of "),
                                  (["flush", "--prefix", "k"], b"Drop all items whose keys have this prefix of "),
                                  (["raw", "flush_prefix", "k"], b"Drop all items whose keys have this prefix of "),
                                  (["raw", "shutdown"], b"Stop the server of "),
                                  (["replicaof", "127.0.0.1", "1"], b"Follow another server and lose the items of "),
                                  (["replicaof", "no", "one"], b"Make a primary of "), (["promote"], b"Make a primary of "),
                                  (["failover"], b"Hand the role of primary to a replica of "),
                                  (["raw", "replicaof", "127.0.0.1", "1"], b"Change the role of ")):
            for answer in (b"\n", b"n\n", b"\x04"):
                assert c.set(b"k", b"v") == b"STORED"
                with Terminal(PROGRAM, *of(d), *command, env={"HOME": folder}) as t:
                    t.expect(question + d.path.encode() + b"? [y/N] ")
                    t.ask(answer, b"nothing was done")
                    assert t.status() == NO
                assert c.get(b"k") == b"v"
        with Terminal(PROGRAM, *of(d), "flush", env={"HOME": folder}) as t:
            t.expect(b"[y/N] ")
            t.ask(b"y\n", b"OK")
            assert t.status() == OK
        assert c.get(b"k") is None
        assert c.set(b"k", b"v") == b"STORED"
        with Terminal(PROGRAM, *of(d), "flush", "-y", env={"HOME": folder}) as t:
            assert b"[y/N]" not in t.rest() and t.status() == OK
        assert c.get(b"k") is None
        assert ctl(d, "shutdown") == b"OK, the server is stopping\n"
        assert d.process.wait(mayfly.PATIENCE) == 0


def has_readline():
    return mayfly.has_text(b"add_history", program=PROGRAM)


def test_prompt_completes_and_remembers():
    mayfly.skip_if(not has_readline(), "built without readline")
    with Daemon("-t", "1") as d, tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        with prompt(d, folder) as t:
            t.expect(b"mayfly> ")
            t.ask(b"pi\t\n", b"the server answered")
            t.ask(b"stats sh\t--exp\t--js\t\n", b'"0:curr_items": {"value": 0')
            t.ask(b"config get active_e\t\n", b"config is for operators")
            t.expect(b"mayfly> ")
            t.send(b"\x04")
            t.rest()
        history = os.path.join(folder, ".mayflyctl_history")
        assert mayfly.read(history).splitlines() == ["ping ", "stats shards --explain --json ", "config get active_e"]
        assert os.stat(history).st_mode & 0o77 == 0


def test_prompt_connects_again():
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        path = os.path.join(folder, "socket")
        with Daemon("-t", "1", path=path) as d:
            t = prompt(d, folder)
            with contextlib.ExitStack() as stack:
                stack.callback(d.kill)
                stack.enter_context(t)
                t.expect(b"mayfly> ")
                t.ask(b"ping\n", b"the server answered")
                d.stop()
                t.ask(b"ping\n", b"mayflyctl: ")
                with Daemon("-t", "1", path=path):
                    t.ask(b"ping\nping\n", b"the server answered")
                    t.send(b"quit\n")
                    t.rest()


# ---- servers that break the protocol -------------------------------------------------------------

@contextlib.contextmanager
def fake(*answers, then="close", echo=False):
    """A server that answers each chunk of input with the next of the answers, whatever the input. echo: an answer
    that is a function also receives the input."""
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder, socket.socket(socket.AF_UNIX) as s:
        path = os.path.join(folder, "socket")
        s.bind(path)
        s.listen()
        is_over = threading.Event()

        def serve():
            with contextlib.suppress(OSError):
                while not is_over.is_set():
                    c, _ = s.accept()
                    with c, contextlib.suppress(OSError):
                        for answer in answers:
                            line = c.recv(65536)
                            if not line:
                                break
                            if callable(answer):
                                answer(c, line) if echo else answer(c)
                            else:
                                c.sendall(answer)
                        if then == "silence":
                            c.recv(1)
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield path
        finally:
            is_over.set()
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as last:
                last.connect(path)
            thread.join(mayfly.PATIENCE)


def test_a_silent_server_has_a_limit():
    with fake(b"", then="silence") as path:
        for command in (["ping"], ["stats"], ["get", "k"], ["dump"], ["config", "get"], ["set", "k", "v"]):
            assert "silent" in complaint("-s", path, "-t", "0.05", *command, status=LINK)
    with fake(b"STAT a 1\r\nSTAT", then="silence") as path:
        assert "silent" in complaint("-s", path, "-t", "0.05", "stats", status=LINK)


def test_a_connection_that_breaks():
    for answer in (b"", b"STAT a 1\r\n", b"VA 10 f0\r\nabc", b"MN"):
        with fake(answer) as path:
            for command in (["ping"], ["stats"], ["get", "k"]):
                done = subprocess.run([PROGRAM, "-s", path, *command], capture_output=True, check=False,
                                      timeout=mayfly.PATIENCE, stdin=subprocess.DEVNULL)
                assert done.returncode in (LINK, GARBLED), (answer, command, done)


def test_the_last_second_of_an_item():
    with fake(b"HD t0\r\n") as path:
        assert run("-s", path, "ttl", "k") == b"k: expires in less than 1 s\n"


def test_garbage_is_told_and_escaped():
    evil = b"\x1b]0;owned\x07\x9b2J\xe2\x80\xae\r\n"
    with fake(evil, evil) as path:
        for command in (["ping"], ["stats"], ["get", "k"], ["set", "k", "v"], ["delete", "k"], ["ttl", "k"],
                        ["touch", "k", "1"], ["dump"], ["dump", "--keys"], ["watch"], ["flush"], ["version"]):
            complaint("-s", path, "-t", "1", *command, status=GARBLED)
    with fake(b"ERROR " + evil) as path:
        assert r"ERROR \x1b]0;owned\x07\x9b2J" in complaint("-s", path, "ping", status=REFUSED)
    with fake(b"STAT \x1b[31m \x1b[0m\r\nSTAT b \xff\r\nEND\r\n") as path:
        assert b"\x1b" not in run("-s", path, "stats")
        assert json.loads(run("-s", path, "stats", "--json")) == {"\x1b[31m": "\x1b[0m", "b": "\ufffd"}
    with fake(b"CONFIG \x1b[31m \x1b[0m\r\n\x1b[1m\r\nEND\r\n") as path:
        assert b"\x1b" not in run("-s", path, "config", "get")
        assert json.loads(run("-s", path, "--json", "config", "get")) == {"\x1b[31m": "\x1b[0m", "\x1b[1m": None}


def test_why_items_were_refused_is_escaped():
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        file = os.path.join(folder, "snapshot")
        with mayfly.Daemon() as d:
            ctl(d, "set", "k", "v")
            ctl(d, "save", file)
        with fake(b"OK\r\n", b"SERVER_ERROR \x1b]0;owned\x07\r\nMN\r\n", b"RESTORED 0\r\n") as path:
            assert run("-s", path, "load", file).endswith(rb"1 were refused: the server answers: "
                                                          rb"SERVER_ERROR \x1b]0;owned\x07" + b"\n")


def test_portions_of_a_snapshot_are_bounded():
    portion = bytes(1 << 20)
    with fake(b"PART 1048576\r\n" + portion + b"END 1\r\n") as path:
        assert run("-s", path, "save", "-") == portion
    with fake(b"PART 1048577\r\n" + portion + b"xEND 1\r\n") as path:
        complaint("-s", path, "save", "-", status=GARBLED)


def test_sizes_are_bounded():
    def endless(line):
        def answer(c):
            while True:
                c.sendall(line)
        return answer
    with fake(endless(b"x" * 65536)) as path:
        assert "without an end" in complaint("-s", path, "stats", status=GARBLED)
    with fake(endless(b"STAT " + b"n" * 1000 + b" 1\r\n")) as path:
        complaint("-s", path, "stats", status=GARBLED)
    with fake(b"VA 99999999999999 f0\r\n") as path:
        complaint("-s", path, "get", "k", status=GARBLED)
    with fake(b"VA 18446744073709551615 f0\r\n") as path:
        complaint("-s", path, "get", "k", status=GARBLED)
    with fake(b"VA 3 f0 t-1 s3 l0 h0 c1\r\nabcdeEN\r\n") as path:
        complaint("-s", path, "get", "k", status=GARBLED)


def test_output_that_nobody_takes():
    mayfly.skip_if(not os.path.exists("/dev/full"), "no /dev/full")
    with Daemon("-t", "1") as d, open("/dev/full", "wb") as full:
        done = subprocess.run([PROGRAM, *of(d), "stats"], stdout=full, stderr=subprocess.PIPE, check=False,
                              timeout=mayfly.PATIENCE)
        assert done.returncode == 6 and b"cannot be written" in done.stderr


# ---- completion of shells ------------------------------------------------------------------------

COMPLETE = r"""
. "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_mayflyctl
printf '%s\n' "${COMPREPLY[@]}"
"""


def test_bash_completes():
    bash = shutil.which("bash")
    if bash is None:
        raise Skip("bash is not installed")
    script = os.path.join(os.environ.get("MAYFLY_SRCDIR", "."), "etc", "completion", "mayflyctl.bash")
    assert subprocess.run([bash, "-n", script], check=False).returncode == 0

    def complete(*words):
        done = subprocess.run([bash, "-c", COMPLETE, "-", script, "mayflyctl", *words], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0 and done.stderr == "", done
        return done.stdout.split()
    assert "stats" in complete("") and "doctor" not in complete("st")
    assert complete("stats", "sh") == ["shards"]
    assert complete("-s", "/x", "stats", "--wa") == ["--watch"]
    assert complete("ping", "--wa") == []
    assert complete("--js") == ["--json"]
    assert complete("-t", "") == []
    assert complete("stats", "") == ["bigkeys", "budgets", "conns", "detail", "expire", "hotkeys", "items", "latency", "moves",
                                     "persistence", "replication", "reset", "settings", "shards", "sizes", "slabs"]
    with Daemon("-t", "1", control=True) as d:
        done = subprocess.run([bash, "-c", COMPLETE, "-", script, PROGRAM, *of(d), "config", "set", "active"],
                              capture_output=True, text=True, check=False)
        assert done.stdout.split() == ["active_expire"], done
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        with open(os.path.join(folder, "some-file"), "w"):
            pass
        assert complete("--ca", folder + "/so") == [folder + "/some-file"]


def test_zsh_completes():
    zsh = shutil.which("zsh")
    mayfly.skip_if(zsh is None, "zsh is not installed")
    script = os.path.join(os.environ.get("MAYFLY_SRCDIR", "."), "etc", "completion", "_mayflyctl")
    done = subprocess.run([zsh, "-n", script], capture_output=True, check=False)
    assert done.returncode == 0 and done.stderr == b"", done


if __name__ == "__main__":
    mayfly.main(globals())
