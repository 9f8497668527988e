#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tables.py [--write] - the tables of docs/migrating-from-memcached.md.

The names that mayflyd knows are read from the tables of its source: options.def, compat.def, counters.def
and the lines of stats_general.c. Those that memcached knows, and the remarks, are in memcached.txt. A name that
is in neither place is an error, so no flag and no line of `stats` can be forgotten.

Without --write it compares, and ends with 1 if the page is stale.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGE = os.path.join(TREE, "docs", "migrating-from-memcached.md")


def read(*path):
    with open(os.path.join(TREE, *path)) as f:
        return f.read()


# ---- what memcached has, and remarks: memcached.txt ------------------------------------------------

PARTS = dict(re.findall(r"(?ms)^# (\w+): [^\n]*\n(.*?)\n(?=\n|\Z)", read("tests", "guides", "memcached.txt")))
FLAGS, EXTENDED, NOT_IN_DEBIAN, STATS, STATS_GONE = (
    PARTS[name].split() for name in ("flags", "extended", "newer", "stats", "gone"))
REMARKS, INSTEAD, STAT_REMARKS, ZERO_REMARKS = (
    {name: remark for line in PARTS[part].split("\n") for names, remark in [line.split(": ", 1)] for name in names.split(", ")}
    for part in ("remarks", "instead", "lines", "zeros"))


# ---- what mayflyd has ----------------------------------------------------------------------------

def columns(row):
    """The columns of a row of a table of the source."""
    return [c.strip() for c in re.findall(r'(?:"(?:[^"\\]|\\.)*"|\'.\'|\([^)]*\)|[^,"])+', row)]


def rows_of(text, macro):
    for row in re.findall(r"^%s\((.*?)\)$" % macro, text, re.M | re.S):
        yield columns(re.sub(r"\s*\n\s*", " ", row))


def text_of(column):
    return column.strip('"')


def norm(name):
    return name.replace("-", "_")


def options():
    """name -> (verdict, what the table says) of all that the command line knows."""
    known = {}
    own = {}
    for name, macro in (("daemon/options/options.def", "OPT"), ("lib/base/engine_options.def", "ENGINE_OPT")):
        for c in rows_of(read(*name.split("/")), macro):
            if c[0] == "kind":
                continue
            own[c[1]] = norm(text_of(c[3]))
            known[norm(text_of(c[3]))] = ("no effect" if "OPT_IGNORED" in c[9] else "works", text_of(c[12]))
    compat = read("daemon", "options", "compat.def")
    for c in rows_of(compat, "ALIAS"):
        known[norm(text_of(c[0]))] = ("works", known[own[c[1]]][1])
    for c in rows_of(compat, "TAKEN"):
        known[norm(text_of(c[2]))] = ("no effect", text_of(c[4]))
    for c in rows_of(compat, "REFUSED"):
        known[norm(text_of(c[1]))] = ("refused", text_of(c[3]))
    known.pop("", None)
    return known


def verdict(name, known):
    """(verdict, remark) of a flag of memcached."""
    if name not in known and known.get(name.removeprefix("no_"), ("",))[0] == "works":
        return "same", ""
    if name not in known:
        raise SystemExit("tables.py: mayflyd does not know memcached's " + name)
    what, text = known[name]
    remark = REMARKS.get(name, "")
    if what == "works":
        if remark.startswith("same"):
            return "same", remark[4:].lstrip(";, ")
        return ("differs", remark) if remark else ("same", "")
    if what == "no effect":
        return what, remark or text
    return what, "%s: %s" % (text, INSTEAD.get(text, "not in this build"))


def markdown(head, rows):
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return out + ["| " + " | ".join(r) + " |" for r in rows]


def merged(rows):
    """Names with the same verdict and remark in one row, at the place of the first."""
    found = {}
    for name, what, remark in rows:
        found.setdefault((what, remark), []).append(name)
    return [(", ".join(names), what, remark) for (what, remark), names in found.items()]


def flags_table():
    known = options()
    rows = [("`-h`, `-i`, `-V`", "same", "`--print-config` and `--check-config` are new")]
    for flag in FLAGS:
        letter, name = flag.split(":")
        rows.append(("`-%s` `--%s`" % (letter, name), *verdict(norm(name), known)))
    return markdown(("flag", "here", "what to know"), merged(rows))


def extended_table():
    known = options()
    return markdown(("`-o`", "here", "what to know"),
                    merged([("`%s`" % name, *verdict(name, known)) for name in EXTENDED]))


def stat_lines():
    """name -> counter, computed or zero: the lines of `stats`."""
    found = {}
    for c in rows_of(read("lib", "base", "counters.def"), "CTR"):
        if c[0] != "kind" and "IN_STATS" in c[4]:
            found[text_of(c[3])] = "counter"
    for c in rows_of(read("daemon", "stats", "stats_lines.def"), "GENERAL"):
        if c[0] != "before":
            found[text_of(c[1])] = "zero" if c[4] == "0" else "computed"
    return found


def zero_remark(name):
    if name in STAT_REMARKS:
        return STAT_REMARKS[name]
    for pattern, remark in ZERO_REMARKS.items():
        if re.search(pattern, name):
            return remark
    raise SystemExit("tables.py: why is %s always 0?" % name)


def stats_table():
    known = stat_lines()
    missing = [n for n in STATS if n not in known]
    own = [n for n in known if n not in STATS and not n.startswith("mayfly_")]
    if missing or own:
        raise SystemExit("tables.py: lines of stats that are missing: %s, not memcached's: %s" % (missing, own))
    rows = []
    for name in STATS:
        if known[name] == "zero":
            rows.append(("`%s`" % name, "always 0", zero_remark(name)))
        elif name in STAT_REMARKS:
            rows.append(("`%s`" % name, "other meaning", STAT_REMARKS[name]))
        else:
            rows.append(("`%s`" % name, "same", ""))
    return markdown(("line", "here", "what to know"), merged(rows))


def intended_table():
    """What differs from memcached 1.6.45 in answers: from the list that the comparison checks."""
    sys.path.insert(0, os.path.join(TREE, "tests", "differ"))
    import binary_streams               # pylint: disable=import-outside-toplevel
    import intended                     # pylint: disable=import-outside-toplevel
    reasons = [d.reason for d in intended.DIFFERENCES]
    reasons += ["in the binary protocol, " + d.reason for d in binary_streams.DIFFERENCES]
    return ["* " + reason[0].upper() + reason[1:] + "." for reason in dict.fromkeys(reasons)]


TABLES = {"flags": flags_table, "extended": extended_table, "stats": stats_table, "answers": intended_table}


# ---- the page ------------------------------------------------------------------------------------

def filled(page):
    for name, make in TABLES.items():
        mark = r"(<!-- %s: made by tests/guides/tables.py -->\n).*?(<!-- end of %s -->)" % (name, name)
        page, count = re.subn(mark, lambda m, f=make: m[1] + "\n".join(f()) + "\n" + m[2], page, flags=re.S)
        if count != 1:
            raise SystemExit("tables.py: the page has no place for " + name)
    return page


def main():
    old = read("docs", "migrating-from-memcached.md")
    new = filled(old)
    if "--write" in sys.argv[1:]:
        if new != old:
            with open(PAGE + ".tmp", "w") as f:
                f.write(new)
            os.replace(PAGE + ".tmp", PAGE)
    elif new != old:
        raise SystemExit("docs/migrating-from-memcached.md is stale: run make docs")


if __name__ == "__main__":
    main()
