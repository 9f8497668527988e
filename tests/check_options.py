#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each option is shown to change something: tests/options-shown names a test for every row of the tables of
options, and the test has to be there and to name the option. What is accepted for memcached's sake and
changes nothing is marked so in the tables, and the manual says so."""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "common"))
from deftables import read, rows                                        # noqa: E402


class Option:
    def __init__(self, field, letter, name, traits):
        self.field, self.name = field, name.strip('"')
        self.letter = letter.strip("'") if letter != "0" else None
        self.is_ignored = "OPT_IGNORED" in traits

    def is_named_in(self, text):
        words = {self.name, self.name.replace("-", "_"), self.field}
        pattern = "|".join(r"(?:(?<![a-z0-9-])|(?<=--))(?:no_)?%s(?![a-z0-9-])" % re.escape(word) for word in words)
        return re.search(pattern, text) or (self.letter and re.search(r"[\" ]-[a-zA-Z]*%s\b|[\" ]-%s" % ((self.letter,) * 2), text))


OPTIONS = [Option(r[2], r[3], r[4], r[10]) for name in ("daemon/options/options.def", "lib/base/engine_options.def")
           for r in rows(name, "OPT|ENGINE_OPT")]
COMPAT = rows("daemon/options/compat.def", "ALIAS|REDIS|REDIS_BYTES|INSTEAD|TAKEN|REFUSED")


def listed():
    found = {}
    for line in read("tests/options-shown").splitlines():
        if line and not line.startswith("#"):
            name, test = line.split()
            assert name not in found, name + " is there twice"
            found[name] = test
    return found


def functions(text):
    """The functions of a test's source, by name: TEST(name) of C, def and class of Python."""
    parts = re.split(r"(?m)^(?=def |class |TEST|(?:static )?[a-z_][a-z0-9_ *]*\([^;]*$)", text)
    found = {}
    for part in parts:
        name = re.match(r"(?:def|class) (\w+)|TEST(?:_LOOP)?\((\w+)|[a-z_][\w *]*?(\w+)\(", part)
        if name:
            found[next(n for n in name.groups() if n)] = part
    return found


def text_of(test):
    """What a test does: its own lines, and those of the functions of its file that it calls."""
    path, _, name = test.partition(":")
    whole = read(path)
    if not name:
        return whole
    known = functions(whole)
    assert name in known, "%s has no test %s" % (path, name)
    wanted, left = set(), [name]
    while left:
        one = left.pop()
        if one not in wanted:
            wanted.add(one)
            left += [other for other in known if re.search(r"\b%s\(" % other, known[one])]
    return "\n".join(known[one] for one in wanted)


def is_run(test):
    path = test.partition(":")[0]
    return re.search(r"\b%s\b" % re.escape(path[:-2] if path.endswith(".c") else path), read("tests/Makefile.inc"))


def complaints_of_tests():
    shown = listed()
    wanted = {o.name: o for o in OPTIONS if o.name and not o.is_ignored}
    for name in sorted(set(wanted) - set(shown)):
        yield "%s: no test shows what it changes (tests/options-shown)" % name
    for name in sorted(set(shown) - set(wanted) - {"IGNORED", "ALIAS", "REDIS", "TAKEN", "REFUSED"}):
        yield "%s: tests/options-shown has it, and it is no option with an effect" % name
    for name, test in shown.items():
        try:
            text = text_of(test)
        except (OSError, AssertionError) as reason:
            yield "%s: %s" % (name, reason)
            continue
        if not is_run(test):
            yield "%s: %s is not in tests/Makefile.inc" % (name, test)
        if name in wanted and not wanted[name].is_named_in(text):
            yield "%s: %s does not name it" % (name, test)


def complaints_of_kinds():
    shown = listed()
    for kind, word in (("IGNORED", "no effect"), ("TAKEN", "no effect"), ("REFUSED", "refused")):
        if word not in text_of(shown[kind]):
            yield "%s: %s does not look for it" % (kind, shown[kind])
    for row in COMPAT:
        if row[0] == "ALIAS" and row[1].strip('"').replace("-", "_") not in text_of(shown["ALIAS"]):
            yield "%s: %s does not name it" % (row[1], shown["ALIAS"])
        if row[0].startswith("REDIS") and row[1].strip('"') not in text_of(shown["REDIS"]):
            yield "%s: %s does not name it" % (row[1], shown["REDIS"])


def complaints_of_manual():
    """The list of what is accepted without effect has just these."""
    page = re.sub(r"\\[-&]|\\\(hy", lambda m: "-" if m.group(0) != "\\&" else "", read("man/mayflyd-options.inc"))
    entries = set(re.findall(r"^\.It (?:Fl .*?|.*)\b([a-z0-9][a-z0-9_-]+)\b.*$", page, re.M)) | \
        set(re.findall(r"[a-z0-9][a-z0-9_-]+", " ".join(re.findall(r"^\.(?:It|Cm|Fl|Xo|Oc|,) .*$", page, re.M))))
    entries = {e.replace("_", "-") for e in entries}
    for o in OPTIONS:
        if o.name and o.name.replace("_", "-") not in entries:
            yield "%s: man/mayflyd-options.inc does not name it" % o.name
    for row in COMPAT:
        name = row[{"TAKEN": 3, "REFUSED": 2}.get(row[0], 1)].strip('"')
        if row[0] not in ("ALIAS", "REFUSED") and name.replace("_", "-") not in entries:
            yield "%s: man/mayflyd-options.inc does not name it" % name


def main():
    checks = ((complaints_of_tests, "each option has a test that shows what it changes"),
              (complaints_of_kinds, "and those without effect one that shows that"),
              (complaints_of_manual, "the manual names them all"))
    is_good = True
    print("1..%d" % len(checks))
    for number, (check, what) in enumerate(checks, 1):
        found = list(check())
        for one in found:
            print("# " + one)
        print("%s %d - %s" % ("not ok" if found else "ok", number, what))
        is_good = is_good and not found
    sys.exit(0 if is_good else 1)


main()
