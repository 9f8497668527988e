#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""probes.py [--write] - what is made of lib/base/probes.def: the list of probes in mayflyd(8), and in the
scripts of etc/bpftrace/ the names of the commands by number.

Without --write it compares, and ends with 1 if something is stale. Probes that a script uses must be in
the table, with as many arguments.
"""
import os
import re
import sys

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPTS = ("latency", "misses", "removals")
MARKED = re.compile(r"(\t/\* begin: names of commands \*/\n).*?(\t/\* end \*/\n)", re.S)


def read(*path):
    with open(os.path.join(TREE, *path)) as f:
        return f.read()


def probes():
    """Name, number of arguments, their names, when it fires."""
    rows = re.findall(r'^PROBE\((\w+), +(\d), "([^"]*)", "([^"]*)"\)$', read("lib", "base", "probes.def"), re.M)
    for name, n, what, _ in rows:
        assert int(n) == len(what.split(", ")), "%s: %s arguments, but: %s" % (name, n, what)
    return rows


def manual():
    lines = ['.\\" Made by `make docs` from lib/base/probes.def.', ".Bl -tag -width Ds"]
    for name, _, what, when in probes():
        lines.append(".It Li %s Pq %s" % (name, what))
        lines.append(when[0].upper() + when[1:] + ".")
    outcomes = re.findall(r"^OUTCOME\((\w+)\)", read("lib", "base", "outcomes.def"), re.M)
    shown = ["%d %s" % (i, name.lower().replace("_", " ")) for i, name in enumerate(outcomes)]
    lines += [".El", ".Pp", "An outcome is a number:", ",\n".join(shown) + "."]
    return "\n".join(lines) + "\n"


def with_names(script):
    """Numbers begin with 1, as in enum command."""
    names = re.findall(r'^(?:COMMAND|EXTENSION)\(\w+, +"(\w+)"', read("proto", "command.def"), re.M)
    block = "".join('\t@name[%d] = "%s";\n' % (i, name) for i, name in enumerate(names, 1))
    return MARKED.sub(lambda m: m.group(1) + block + m.group(2), script)


def check_script(name, script):
    known = {row[0]: int(row[1]) for row in probes()}
    used = []
    # A clause: its probes, then what is done.
    for heads, body in re.findall(r"((?:^usdt:[^\n{]*\n)+)(?:/[^\n]*/\n)?\{\n(.*?)^\}", script, re.M | re.S):
        for probe in re.findall(r"mayfly:(\w+)", heads):
            assert probe in known, "%s.bt uses %s, which is no probe" % (name, probe)
            most = max([int(n) + 1 for n in re.findall(r"\barg(\d)", body)] or [0])
            assert most <= known[probe], "%s.bt uses arguments that %s does not have" % (name, probe)
            used.append(probe)
    assert used, "%s.bt uses no probe" % name


def main():
    wanted = {os.path.join("man", "mayflyd-probes.inc"): manual()}
    for name in SCRIPTS:
        path = os.path.join("etc", "bpftrace", name + ".bt")
        wanted[path] = with_names(read(path))
        check_script(name, wanted[path])
    stale = 0
    for path, text in wanted.items():
        if "--write" in sys.argv[1:]:
            with open(os.path.join(TREE, path), "w") as f:
                f.write(text)
        elif not os.path.exists(os.path.join(TREE, path)) or read(path) != text:
            print("%s is stale: run make docs" % path)
            stale = 1
    sys.exit(stale)


if __name__ == "__main__":
    main()
