#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Other scripts under -o drop_privileges: those in which the daemon uses most of its libraries. By
MAYFLY_TEST_ARGS every script can be run so, see HACKING.md."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import mayfly                                                           # noqa: E402
from mayfly import Inapplicable                                         # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


def run(script):
    if mayfly.is_sanitized():
        raise Inapplicable("a sanitizer makes calls of its own")
    with open(mayfly.PROGRAM, "rb") as f:
        if b"libseccomp" not in f.read():
            raise Inapplicable("built without libseccomp")
    env = {**os.environ, "MAYFLY_TEST_ARGS": "-o drop_privileges"}
    done = subprocess.run([sys.executable, os.path.join(HERE, script)], env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    said = done.stdout.decode(errors="replace")
    assert done.returncode == 0 and "\nnot ok" not in said and "ended by -o drop_privileges" not in said, said


def test_tls():
    run("it_tls.py")


def test_sasl():
    run("it_sasl.py")


def test_metrics():
    run("it_metrics.py")


def test_udp():
    run("it_udp.py")


def test_signals():
    run("it_signals.py")


mayfly.main(globals())
