#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tools of the field against the daemon: memccapable, memcached-tool, memcslap, memcaslap,
memcstat. A tool that is not installed is skipped."""
import os
import re
import shutil
import subprocess
import time

import mayfly
from mayfly import Daemon, Skip


def tool(name, *places):
    for place in places:
        if os.path.exists(place):
            return place
    path = shutil.which(name)
    if path is None:
        raise Skip(name + " is not installed")
    return path


def run(*command, patience=200, home=None):
    env = dict(os.environ, HOME=home) if home is not None else None
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=patience, env=env)
    return done.returncode, done.stdout.decode("latin-1")


def test_memccapable():
    path = tool("memccapable")
    with Daemon(tcp=True) as d:
        # By itself it gives up after two seconds without an answer.
        status, said = run(path, "-h", "127.0.0.1", "-p", str(d.port), "-t", "60")
        failed = {line.split("  ")[0] for line in said.splitlines() if "FAIL" in line}
        # It expects an error for surplus words, which memcached ignores since 1.6.45.
        assert failed == {"ascii delete", "ascii delete noreply"}, said
        assert status != 0, said
        assert said.count("ascii") == 27 and said.count("binary") == 27, said


def memcached_tool():
    return tool("memcached-tool", "/usr/share/memcached/scripts/memcached-tool")


def test_memcached_tool():
    path = memcached_tool()
    with Daemon(tcp=True) as d, d.client() as c:
        c.fill(b"k", 50, b"v" * 100)
        address = "127.0.0.1:%d" % d.port
        status, said = run(path, address, "display")
        assert status == 0 and len(said.splitlines()) >= 2, said
        status, said = run(path, address, "stats")
        assert status == 0 and "curr_items" in said, said
        status, said = run(path, address, "settings")
        assert status == 0 and "maxbytes" in said, said


def test_memcached_tool_dump_and_keys():
    path = memcached_tool()
    with Daemon(tcp=True) as d, d.client() as c:
        for i in range(50):
            assert c.set(b"k:%d" % i, b"v%d" % i, exptime=1000 * (i % 2), flags=i) == b"STORED"
        address = "127.0.0.1:%d" % d.port
        status, said = run(path, address, "keys")
        found = [line.split()[0] for line in said.splitlines() if line.startswith("key=")]
        assert status == 0 and set(found) == {"key=k%%3A%d" % i for i in range(50)}, said
        status, said = run(path, address, "dump")
        lines = said.splitlines()
        for i in range(50):
            at = [n for n, line in enumerate(lines) if line.startswith("add k:%d %d " % (i, i))]
            assert status == 0 and len(at) == 1 and lines[at[0] + 1] == "v%d" % i, said
            assert (lines[at[0]].split()[3] == "0") == (i % 2 == 0), lines[at[0]]
        # What it printed is a script that restores the keys.
        assert c.ask(b"flush_all") == b"OK"
        c.send("".join(line + "\r\n" for line in lines if line.startswith(("add", "v"))).encode())
        for _ in range(50):
            assert c.line() == b"STORED"


def test_memcslap():
    path = tool("memcslap")
    with Daemon(tcp=True) as d:
        for kind in ("get", "set"):
            status, said = run(path, "--servers=127.0.0.1:%d" % d.port, "--concurrency=4",
                               "--execute-number=200", "--test=" + kind, "--non-blocking")
            assert status == 0, said


def test_memcaslap():
    path = tool("memcaslap")
    with Daemon(tcp=True) as d:
        status, said = run(path, "-s", "127.0.0.1:%d" % d.port, "-T", "1", "-c", "8", "-x", "5000",
                           "-v", "1.0", home=d.folder)     # it writes a file to it
        assert status == 0, said
        found = dict(re.findall(r"^(\w+): (\d+)$", said, re.M))
        assert int(found["cmd_get"]) + int(found["cmd_set"]) == 5000, said
        for name in ("get_misses", "verify_misses", "verify_failed"):
            assert found[name] == "0", said


def test_memcstat():
    path = tool("memcstat")
    with Daemon(tcp=True) as d:
        status, said = run(path, "--servers=127.0.0.1:%d" % d.port)
        assert status == 0 and "curr_items" in said, said


def test_first_steps_of_the_readme():
    """What a newcomer types: a value with one second to live, read at once and later."""
    with Daemon(tcp=True) as d, d.client() as c:
        began = time.monotonic()
        c.send(b"set a 0 1 5\r\nhello\r\nget a\r\n")
        assert c.line() == b"STORED"
        assert c.get_reply() == {b"a": b"hello"}
        mayfly.wait_for(lambda: c.get(b"a") is None, "the value expires")
        assert time.monotonic() - began >= 1, "it went early"


mayfly.main(globals())
