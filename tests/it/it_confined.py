#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Other scripts under -o drop_privileges: those in which the daemon uses most of its libraries. By
MAYFLY_TEST_ARGS every script can be run so, see HACKING.md."""
import os
import re
import subprocess
import sys
import tempfile

import mayfly

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = ("tls", "sasl", "metrics", "udp", "signals", "load_async", "replication_tls")
# They take long, and the daemon makes no system call in them that it does not make in the others.
LEFT_OUT = {"test_a_primary_that_is_not_trusted", "test_a_session_that_moves_all_the_time",
            "test_half_a_handshake_holds_nobody_up", "test_nothing_is_left_of_connections", "test_odd_records",
            "test_prometheus_draws_the_dashboard", "test_prometheus_scrapes_it", "test_values_of_all_sizes"}
running = {}    # process and output of a script; they mostly wait, so all run at once


def start():
    env = {**os.environ, "MAYFLY_TEST_ARGS": "-o drop_privileges"}
    for name in SCRIPTS:
        if sys.argv[1:] and "test_" + name not in sys.argv[1:]:
            continue
        script = os.path.join(HERE, "it_%s.py" % name)
        tests = [test for test in re.findall(r"(?m)^def (test_\w+)", mayfly.read(script)) if test not in LEFT_OUT]
        out = tempfile.TemporaryFile()
        process = subprocess.Popen([sys.executable, script, *tests], env=env,
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        running[name] = (process, out)


def run(name):
    mayfly.skip_if(mayfly.is_sanitized(), "a sanitizer makes calls of its own")
    mayfly.skip_if(not mayfly.has_text(b"libseccomp"), "built without libseccomp")
    if not running:
        start()
    process, out = running[name]
    status = process.wait()
    with out:
        out.seek(0)
        said = out.read().decode(errors="replace")
    assert status == 0 and "\nnot ok" not in said and "ended by -o drop_privileges" not in said, said


mayfly.cases(globals(), run, **{name: (name,) for name in SCRIPTS})
mayfly.main(globals())
