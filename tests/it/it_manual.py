#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mayfly-stats(7) has every line that a running server answers to stats, and no other."""
import os
import re
import tempfile

import mayfly
import tls
from mayfly import Daemon

PAGE = os.path.join(os.environ.get("MAYFLY_SRCDIR", "."), "man", "mayflyd-stats.inc")
KINDS = "get|set|delete|arith|touch|flush|admin|other"

# How an answer's names become those of the page: the page describes their prefix.
BEFORE = {
    "stats items": r"items:1:",
    "stats slabs": r"1:",
    "stats conns": r"\d+:",
    "stats shards": r"\d+:",
    "stats latency": r"(\d+:)?(%s):" % KINDS,
    "stats hotkeys": r"\d+:",
    "stats bigkeys": r"\d+:",
}


def described():
    """The names of the page by section."""
    found, section = {}, None
    with open(PAGE, encoding="utf-8") as f:
        for line in f:
            if line.startswith(".Ss "):
                section = line[4:].strip()
                found[section] = []
            elif line.startswith(".It Li "):
                found[section].append(line[7:].strip())
    for section, names in found.items():
        assert len(names) == len(set(names)), "twice in " + section
    return {section: set(names) for section, names in found.items()}


def texts_of(section):
    """The page's text about each line of a section, up to the name of the option."""
    part = mayfly.read(PAGE).split(".Ss %s\n" % section)[1].split("\n.Ss ")[0]
    return {name: " ".join(text.split()) for name, text in re.findall(r"^\.It Li (\S+)\n(.*?)(?=\n\.)", part, re.M | re.S)}


def answered(c, section):
    names = c.stats(section[6:].encode())
    if section == "stats sizes":
        names = ["size" if n.isdigit() else n for n in names]
    if section == "stats replication":
        names = [re.sub(r"^replica\d+$", "replicaN", n) for n in names]
    return {re.sub("^" + BEFORE.get(section, ""), "", n) for n in names}


def ask_all(d, found, auth=None):
    with d.client() as c:
        if auth is not None:
            c.send(b"set auth 0 0 %d\r\n%s\r\n" % (len(auth), auth))
            assert c.line() == b"STORED"
        assert c.set(b"k", b"v" * 100, exptime=100) == b"STORED"
        assert c.get(b"k") is not None
        for section in described():
            found.setdefault(section, set()).update(answered(c, section))
        found["stats latency"].update(re.sub("^" + BEFORE["stats latency"], "", n) for n in c.stats(b"latency workers"))
        return found


def test_the_commands_that_take_admin_are_named():
    """Those of proto/command.def, in the list of mayflyd(8)."""
    tree = os.environ.get("MAYFLY_SRCDIR", ".")
    with open(os.path.join(tree, "proto", "command.def"), encoding="utf-8") as f:
        rows = re.findall(r'^\w+\(\w+, +"(\w+)",.*NEED_(?:ADMIN|REPLICATE), +\w+\)$', f.read(), re.M)
    with open(os.path.join(tree, "man", "mayflyd.8.in"), encoding="utf-8") as f:
        listed = f.read().split("\n.Sh RIGHTS\n")[1].split("None of them includes another")[0]
    assert len(rows) > 10, rows
    missing = [name for name in rows if re.search(r"\b%s\b" % name, listed) is None]
    assert not missing, missing


def test_what_is_turned_off_is_described_so():
    """A switch that disables a feature: its line shows the inverse word, and the page explains it."""
    told = texts_of("stats settings")
    with Daemon("-M", "-C", "-F", "-X", "-W") as d, d.client() as c:
        shown = c.stats(b"settings")
        for name in ("evictions", "cas_enabled", "flush_enabled", "dump_enabled", "watch_enabled"):
            word = shown[name]
            word = word.decode() if isinstance(word, bytes) else word
            assert word in ("no", "off"), (name, word)
            assert told[name].startswith((word.capitalize() + ": ", word + " where ")), (name, told[name])
        assert not told["detail_enabled"].lower().startswith(("no", "off")), told["detail_enabled"]


def test_the_page_has_what_the_server_answers_and_nothing_else():
    page, found = described(), {}
    with Daemon("-t", "2", "-U", "-1", "-l", "tag[name]:127.0.0.1", "-o",
                "idle_timeout=1000,hotkeys=1,track_sizes", tcp=True) as d:
        with d.client() as replica:
            assert replica.ask(b"psync 1 0 - 0 %s 0" % (b"a" * 32)).startswith(b"FULLSYNC ")
            ask_all(d, found)
        with d.client(rcvbuf=4096) as slow, d.client() as c:     # resps_waiting
            assert c.set(b"large", b"v" * 1000000) == b"STORED"
            slow.send(b"get large large large large large large large large\r\n" * 4)
            mayfly.wait_for(lambda: "resps_waiting" in answered(c, "stats conns"), "replies wait")
            found["stats conns"].add("resps_waiting")
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        users = os.path.join(folder, "users")
        mayfly.write(users, "a:b\n")
        os.chmod(folder, 0o755)
        os.chmod(users, 0o644)
        with Daemon("-Y", users) as d:
            ask_all(d, found, b"a b")
        options = tls.Certificates().serve("test")
        with Daemon(*options[:2], options[2] + ",ssl_session_cache") as d:
            ask_all(d, found)
    for section, names in page.items():
        assert found[section] == names, (section, "not described", sorted(found[section] - names),
                                         "not answered", sorted(names - found[section]))


mayfly.main(globals())
