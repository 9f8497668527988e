#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Options from the environment: MAYFLY_MEMORY_LIMIT and the like."""
import contextlib
import os
import re
import signal
import tempfile

import mayfly
from mayfly import Daemon, wait_for

TEMPLATE = os.path.join(os.environ.get("MAYFLY_SRCDIR", os.path.join(os.path.dirname(__file__), "..", "..")),
                        "etc", "mayfly.conf")
# Of a service "mayfly" and one "mayfly-udp" in Kubernetes.
FOREIGN = {"MAYFLY_SERVICE_HOST": "10.0.0.1", "MAYFLY_SERVICE_PORT": "11211", "MAYFLY_PORT": "tcp://10.0.0.1:11211",
           "MAYFLY_PORT_11211_TCP": "tcp://10.0.0.1:11211", "MAYFLY_PORT_11211_TCP_PROTO": "tcp",
           "MAYFLY_PORT_11211_TCP_PORT": "11211", "MAYFLY_PORT_11211_TCP_ADDR": "10.0.0.1",
           "MAYFLY_UDP_PORT": "udp://10.0.0.1:11211"}


def printed(*args, env=None):
    """{name: (value, where it comes from)} of --print-config."""
    status, said = mayfly.run("--print-config", *args, env=env)
    assert status == 0, said
    return {m[1]: (m[2].strip(), m[3]) for m in re.finditer(r"(?m)^([a-z0-9_-]+) = (.*?) +# (.*)$", said)}


@contextlib.contextmanager
def file(text, name="conf"):
    with tempfile.TemporaryDirectory(prefix="mayfly-env.") as made:
        os.chmod(made, 0o755)
        path = os.path.join(made, name)
        mayfly.write(path, text)
        yield path


def answer(c, line):
    reply = c.ask(line.encode())
    if reply.startswith(b"CONFIG"):
        assert c.line() == b"END"
    return reply.decode()


def test_all_others_override_it():
    env = {"MAYFLY_HZ": "20", "MAYFLY_THREADS": "2", "MAYFLY_CONN_LIMIT": "300", "MAYFLY_LISTEN": "127.0.0.1,::1",
           "MAYFLY_MAXMEMORY": "100mb", "MAYFLY_ENABLE_CAS": "", "MAYFLY_VERBOSE": "1", "MAYFLY_DIR": "/a#b"}
    with file("hz = 30\ndir =\n") as conf, file("-c 400\n-l 127.0.0.2\n") as flags:
        got = printed("--config", conf, "--memcached-conf", flags, "-t", "3", env=env)
        assert got["threads"] == ("3", "command line")
        assert got["hz"] == ("30", conf + ":1")
        assert got["conn-limit"] == ("400", flags + ":1") and got["listen"] == ("127.0.0.2", flags + ":2")
        assert got["memory-limit"] == ("100", "environment: MAYFLY_MEMORY_LIMIT")
        assert got["verbose"] == ("1", "environment: MAYFLY_VERBOSE")
        assert got["dir"][0] == "" and got["port"] == ("11211", "default")
        assert printed(env=env)["dir"] == ("/a#b", "environment: MAYFLY_DIR")
        assert printed(env=env)["listen"][0] == "127.0.0.1,::1"


def test_every_option_has_its_variable():
    options = re.findall(r"(?m)^#([a-z0-9-]+) = ?(.*)$", mayfly.read(TEMPLATE))
    assert len(options) > 100
    env = {"MAYFLY_" + name.upper().replace("-", "_"): value for name, value in options}
    got = printed(env=env)
    for name, value in options:
        if name == "user":
            continue    # the test may have to name one
        variable = "environment: MAYFLY_" + name.upper().replace("-", "_")
        assert got[name] == ((value, variable) if value else (value, "default")), (name, value, got[name])


def test_wrong_values_are_refused():
    for name, values in {"MEMORY_LIMIT": (" ", "0%", "101%", "1e9%", "-5%", "80 %", "9" * 30, "x" * 5000, "\xff\x01"),
                         "THREADS": (" ", "0", "auto ", "50%", "9" * 30), "ENABLE_SSL": (" ", "2", "yess"),
                         "PROTOCOL": (" ", "http"), "UNIX_MASK": ("9", "0x1")}.items():
        for value in values:
            status, said = mayfly.run("--check-config", env={"MAYFLY_" + name: value})
            assert status in (1, 64) and said.startswith("mayflyd: MAYFLY_%s: " % name), (name, value, status, said)
            assert len(said) < 300
            assert printed(env={"MAYFLY_" + name: ""}) == printed()
    status, said = mayfly.run("--check-config", env={"MAYFLY_HZ": "x", "MAYFLY_THREADS": "y"})
    assert "MAYFLY_HZ: " in said and "MAYFLY_THREADS: " in said
    # A rule between options names the variable as well.
    status, said = mayfly.run("--check-config", env={"MAYFLY_MEMORY_LIMIT": "1"})
    assert status == 64 and "mayflyd: MAYFLY_MEMORY_LIMIT: the largest item" in said, said
    # Nothing of that keeps the help from being shown, and it is the environment that is read last.
    assert all(mayfly.run(question, env={"MAYFLY_HZ": "x"})[0] == 0 for question in ("--help", "--version", "--license"))
    assert printed("-o", "hz=7", env={"MAYFLY_HZ": "20"})["hz"] == ("7", "command line")


def test_what_is_no_option_is_left_alone():
    plain = printed()
    assert mayfly.run("--check-config") == mayfly.run("--check-config", env=FOREIGN)
    assert printed(env=FOREIGN) == plain
    status, said = mayfly.run("--check-config", env={"MAYFLY_MEMORY_LIMT": "secret", "MAYFLY_memory_limit": "5", "MAYFLY_": "1",
                                              "MAYFLY_" + "A" * 5000: "1", "MAYFLY": "1", "MAYFLY_API_TOKEN": "secret"})
    assert status == 0 and said.splitlines()[:-1] == [
        "mayflyd: MAYFLY_%s: not an option (did you mean MAYFLY_MEMORY_LIMIT?)" % name
        for name in ("MEMORY_LIMT", "memory_limit")], said
    with Daemon("-v", env={**FOREIGN, "MAYFLY_API_TOKEN": "secret", "MAYFLY_HZ": "20"}) as d:
        assert d.says("options, the environment variable MAYFLY_API_TOKEN names no option")
        assert d.says("MAYFLY_PORT names no option")
        assert d.says("options, hz is 20 (environment: MAYFLY_HZ)") and "secret" not in d.log()


def test_while_it_serves():
    with file("conn-limit = 500\n") as conf:
        with Daemon("--config", conf, env={"MAYFLY_HZ": "20", "MAYFLY_MEMORY_LIMIT": "100"}, control=True) as d, \
                d.operator() as c:
            assert answer(c, "config get hz") == "CONFIG hz 20" and c.stat("limit_maxbytes") == 100 << 20
            d.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "read again (0 changed)" in d.log(), "the file is read again")
            assert answer(c, "config get hz") == "CONFIG hz 20"
            assert answer(c, "config set hz 50") == "OK" and answer(c, "config reset hz") == "OK"
            assert answer(c, "config get hz") == "CONFIG hz 20"
            with open(conf, "a") as f:
                f.write("hz = 30\n")
            assert answer(c, "config reload") == "OK" and answer(c, "config get hz") == "CONFIG hz 30"
            assert answer(c, "config set memory_limit 128") == "OK" and answer(c, "config rewrite") == "OK"
        got = printed("--config", conf, env={"MAYFLY_MEMORY_LIMIT": "100"})
        assert got["memory-limit"][0] == "128" and got["memory-limit"][1].startswith(conf)


mayfly.main(globals())
