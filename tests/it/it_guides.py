#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The guides in docs/: their tables are those of the source, memcached and mayflyd answer as they say,
and their commands do what they show."""
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("common", "differ", "guides"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))
import blocks                                                           # noqa: E402
import mayfly                                                           # noqa: E402
import tables                                                           # noqa: E402
from mayfly import PROGRAM, Skip, needs                                 # noqa: E402
from peers import Server                                                # noqa: E402

TOP = os.path.join(HERE, "..", "..")
DOCS = os.path.join(TOP, "docs")


def page(name):
    return mayfly.read(os.path.join(DOCS, name))


# ---- the tables ----------------------------------------------------------------------------------

def test_tables_are_those_of_the_source():
    old = page("migrating-from-memcached.md")
    assert tables.filled(old) == old, "docs/migrating-from-memcached.md is stale: run make docs"


def said_by(*args):
    """Status and messages of a start that ends before it serves."""
    return mayfly.run("-v", *args, "--check-config")


# Values for names that need one; the others have none.
VALUES = {"slab_automove_ratio": "0.5", "slab_automove_window": "10", "slab_automove_freeratio": "0.1",
          "tail_repair_time": "10", "hash_algorithm": "jenkins", "lru_crawler_sleep": "10", "lru_crawler_tocrawl": "10",
          "hot_lru_pct": "10", "warm_lru_pct": "10", "hot_max_factor": "0.5", "warm_max_factor": "3",
          "temporary_ttl": "10", "slab_sizes": "100-200", "slab_chunk_max": "512", "sock_cookie_id": "1",
          "slab_growth_factor": "1.5", "slab_min_size": "60", "napi_ids": "1"}


def test_what_has_no_effect_says_so_and_what_is_refused_does_not_start():
    known = tables.options()
    for name in tables.EXTENDED:
        verdict = tables.verdict(name, known)[0]
        if verdict in ("no effect", "refused"):
            status, text = said_by("-o", name + ("=" + VALUES[name] if name in VALUES else ""))
            check(name, verdict, status, text)
    for flag in tables.FLAGS:
        letter, name = flag.split(":")
        verdict = tables.verdict(tables.norm(name), known)[0]
        if verdict in ("no effect", "refused"):
            value = ["x"] if letter == "e" else [VALUES[tables.norm(name)]] if tables.norm(name) in VALUES else []
            check(name, verdict, *said_by("-" + letter, *value))


def check(name, verdict, status, text):
    if verdict == "refused":
        assert status == 64 and "not built with" in text, (name, status, text)
    else:
        assert status == 0 and "accepted without effect" in text, (name, status, text)


# ---- beside memcached ----------------------------------------------------------------------------

@contextlib.contextmanager
def both(*extra):
    needs("memcached")
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        peer, ours = (Server(name, program, list(extra), folder)
                      for name, program in (("memcached", "memcached"), ("mayflyd", PROGRAM)))
        try:
            for s in (peer, ours):
                s.wait_until_ready()
            yield peer, ours
        finally:
            for s in (peer, ours):
                s.stop()


def exchange(server, data):
    """What it answers to this, up to the end."""
    with server.connect() as s:
        s.settimeout(mayfly.PATIENCE)
        s.sendall(data + b"quit\r\n")
        answer = b""
        while True:
            got = s.recv(65536)
            if not got:
                return answer
            answer += got


def lines_of(server, what):
    answer = exchange(server, what + b"\r\n").decode()
    return dict((line.split(" ", 2) + [""])[1:3] for line in answer.splitlines() if line.startswith("STAT "))


def version_of_peer():
    needs("memcached")
    done = subprocess.run(["memcached", "-V"], stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.split()[-1]


def test_memcached_has_the_flags_that_the_page_names():
    mayfly.skip_if(version_of_peer() != "1.6.18", "memcached is not 1.6.18")
    text = subprocess.run(["memcached", "-h"], stdout=subprocess.PIPE, text=True, check=False).stdout
    for letter in set(re.findall(r"^-(\w)[ ,]", text, re.M)) - set("hiVo"):
        assert [f for f in tables.FLAGS if f.startswith(letter + ":")], "-" + letter
    named = re.findall(r"^   - (\w+):", text, re.M)
    for name in named:
        assert name in tables.EXTENDED or name.removeprefix("no_") in tables.EXTENDED, name
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        for name in tables.EXTENDED:
            # It looks at the user last; none of that name is there, so it never starts.
            done = subprocess.run(["memcached", "-s", os.path.join(folder, "s"), "-o", name + "=12", "-B", "none"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=mayfly.PATIENCE, check=False)
            assert ("Illegal suboption" in done.stdout) == (name in tables.NOT_IN_DEBIAN), (name, done.stdout)


def test_defaults_and_lines_are_those_of_memcached():
    mayfly.skip_if(version_of_peer() != "1.6.18", "memcached is not 1.6.18")
    with both() as (peer, ours):
        there, here = lines_of(peer, b"stats settings"), lines_of(ours, b"stats settings")
        # Each has its own path, and no ids are shown as 0 here.
        differ = {n for n in there if here.get(n) != there[n]} - {"domain_socket", "num_napi_ids"}
        # Those that peers.py sets for memcached.
        assert differ <= {"lru_crawler", "lru_maintainer_thread", "lru_segmented", "slab_reassign"}, differ
        there, here = lines_of(peer, b"stats"), lines_of(ours, b"stats")
        missing = set(there) - set(here) - set(tables.STATS_GONE)
        assert not missing, missing
        own = [n for n in here if n not in tables.STATS and not n.startswith("mayfly_")]
        assert not own, own
        for name, kind in tables.stat_lines().items():
            assert kind != "zero" or here[name] == "0", (name, here[name])


def unescaped(cell):
    return cell.strip().strip("`").encode().decode("unicode_escape").encode("latin-1")


def test_answers_are_those_of_the_page():
    mayfly.skip_if(version_of_peer() != "1.6.18", "memcached is not 1.6.18")
    rows = re.findall(r"^\| (`[^|]*\\r\\n`) \| (`[^|]*`) \| (`[^|]*`) \|$", page("migrating-from-memcached.md"), re.M)
    assert len(rows) > 5, rows
    for row in rows:
        sent, peers, ourselves = (unescaped(cell) for cell in row)
        with both() as servers:
            for server, expected in zip(servers, (peers, ourselves)):
                answer = exchange(server, sent)
                assert re.fullmatch(re.escape(expected).replace(rb"\.\.\.", b"[^\r]*"), answer), (row, answer)


def test_every_client_that_is_tested_is_named():
    text = page("migrating-from-memcached.md")
    for name in ("libmemcached", "pymemcache", "pylibmc", "python-memcached", "Cache::Memcached",
                 "Cache::Memcached::Fast", "dalli", "php-memcached", "memjs", "Node.js", "twemproxy"):
        assert name in text, name
    tested = [n for n in os.listdir(os.path.join(HERE, "..", "clients")) if n.endswith("_client.py")]
    assert len(tested) == 8, "tell docs/migrating-from-memcached.md and this test of %s" % tested


# ---- the commands --------------------------------------------------------------------------------

def run(name):
    wrong = blocks.run(os.path.join(DOCS, name))
    assert not wrong, "\n".join(wrong)


def test_the_first_commands_need_bash_alone():
    """Those of README.md, and those that bootstrap prints when it starts the server."""
    readme = mayfly.read(os.path.join(TOP, "README.md")).split("## Try it")[1].split("\n## ")[0]
    shown = "\n".join(line[4:] for line in readme.splitlines() if line.startswith("    "))
    printed = mayfly.read(os.path.join(TOP, "bootstrap")).split("<<EOF\n")[1].split("\nEOF\n")[0].replace("\\\\", "\\")
    printed = "".join(line[4:] + "\n" for line in printed.splitlines() if line.startswith("    "))
    assert "mayflyctl -s $control stats" in printed, printed
    commands = re.findall(r"^\$ (.*)$", shown, re.M)
    expected = [line for line in shown.splitlines() if not line.startswith("$ ")]
    with mayfly.Daemon(tcp=True, control=True) as d, tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        os.symlink(shutil.which("cat"), os.path.join(folder, "cat"))
        os.symlink(shutil.which("sleep"), os.path.join(folder, "sleep"))

        def said_to(script):
            script = script.replace("/11211", "/%d" % d.port).replace("build/control", d.control_path)
            script = re.sub(r"\S*build/ctl/mayflyctl", os.path.join(mayfly.BUILD, "ctl", "mayflyctl"), script)
            done = subprocess.run([shutil.which("bash"), "-ec", script], env={"PATH": folder}, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=mayfly.PATIENCE, check=False)
            assert done.returncode == 0, (script, done.stdout)
            return done.stdout.replace("\r", "")
        got = said_to("\n".join(commands))
        assert re.sub(r"after [\d.]+ \w+", "after 125 us", got).splitlines() == expected, got
        got = said_to("build=build control=build/control\n" + printed.replace("$build/ctl", "build/ctl"))
        assert "VALUE a 0 5" in got and "expired_active" in got and "curr_items" in got, got


def examples(name, language):
    return re.findall(r"^```%s\n(.*?)^```$" % language, page(name), re.M | re.S)


def run_example(d, text, *command):
    """A program of a page against this daemon, in place of the one at the usual port; what it prints."""
    done = subprocess.run(command, input=text.replace("11211", str(d.port)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=mayfly.PATIENCE, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


def is_flushed(d):
    """Store an item for the following example, and check the items left by it."""
    with d.client() as c:
        left = c.get(b"user:42:a", b"user:420:a")
        assert c.set(b"user:42:a", b"x") == c.set(b"user:420:a", b"x") == b"STORED"
    return left == {b"user:420:a": b"x"}


PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable


def test_examples_of_invalidating_in_python():
    _, plain = examples("invalidating.md", "python")
    with mayfly.Daemon("-t", "1", tcp=True) as d:
        is_flushed(d)
        run_example(d, plain, PYTHON, "-")
        assert is_flushed(d)
        run_example(d, plain + "\ntry:\n    flush_prefix(('127.0.0.1', 11211), 'a b')\nexcept RuntimeError as e:\n    print(e)\n",
                    PYTHON, "-")
        assert is_flushed(d)


def test_examples_of_invalidating_with_pymemcache():
    example, _ = examples("invalidating.md", "python")
    has_it = "from pymemcache.client.base import Client; Client.raw_command"
    if subprocess.run([PYTHON, "-c", has_it], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise mayfly.Inapplicable("there is no pymemcache that has raw_command, 4.0 or later")
    with mayfly.Daemon("-t", "1", tcp=True) as d:
        assert run_example(d, example, PYTHON, "-") == "b'new' b'other'\n"


def test_examples_of_invalidating_in_php():
    needs("php", "php-cli")
    example, = examples("invalidating.md", "php")
    with mayfly.Daemon("-t", "1", tcp=True) as d:
        is_flushed(d)
        assert run_example(d, example, "php") == ""
        assert is_flushed(d)
        said = run_example(d, example + "try { flush_prefix('127.0.0.1:11211', 'a b'); } catch (Exception $e) { echo get_class($e); }",
                           "php")
        assert said == "InvalidArgumentException", said


def test_commands_of_migrating():
    needs("memcached")
    needs("nc", "netcat-openbsd")
    if not os.path.exists("/etc/memcached.conf"):
        raise Skip("memcached is not that of Debian")
    run("migrating-from-memcached.md")


def test_commands_of_operating():
    needs("nc", "netcat-openbsd")
    needs("nutcracker")
    needs("openssl")
    needs("promtool", "prometheus")
    run("operating.md")


mayfly.main(globals())
