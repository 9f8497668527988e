#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Probes for tracers: the program has those of the table, with their arguments where they are anyway, and the
scripts of etc/bpftrace/ are understood. That a tracer sees them needs rights in the kernel: not shown here."""
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
sys.path.insert(0, os.path.join(HERE, "..", "guides"))
import mayfly                                                           # noqa: E402
import probes                                                           # noqa: E402


def notes():
    """Of each place of a probe: its name and arguments."""
    with open(os.path.join(mayfly.BUILD, "config.h")) as f:
        mayfly.skip_if("#define HAVE_USDT 1" not in f.read(), "built without probes")
    mayfly.needs("readelf")
    said = subprocess.run(["readelf", "-n", "-W", mayfly.PROGRAM], stdout=subprocess.PIPE, check=True).stdout.decode()
    found = re.findall(r"Provider: mayfly\n\s+Name: (\w+)\n.*?\n\s+Arguments: (.*)\n", said)
    assert found, said
    return [(name, args.split()) for name, args in found]


def test_the_program_has_those_of_the_table():
    found = notes()
    table = {row[0]: int(row[1]) for row in probes.probes()}
    assert {name for name, _ in found} == set(table), found
    for name, args in found:
        assert len(args) == table[name], (name, args)


def test_arguments_are_there_anyway():
    """In registers or in memory."""
    for name, args in notes():
        for a in args:
            assert re.fullmatch(r"-?\d+@[^@]+", a), (name, args)


def test_the_scripts_are_understood():
    notes()
    mayfly.skip_if(shutil.which("bpftrace") is None, "bpftrace is not installed")
    version = subprocess.run(["bpftrace", "--version"], stdout=subprocess.PIPE, check=False).stdout.decode()
    number = re.search(r"v0\.(\d+)", version)
    mayfly.skip_if(number is None or int(number.group(1)) > 20, "this bpftrace does not only compile: " + version)
    for name in probes.SCRIPTS:
        script = os.path.join(probes.TREE, "etc", "bpftrace", name + ".bt")
        done = subprocess.run(["bpftrace", "-d", script, mayfly.PROGRAM], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0, (name, done.stdout.decode()[-2000:])


mayfly.main(globals())
