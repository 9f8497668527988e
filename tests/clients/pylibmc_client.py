#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pylibmc: libmemcached from Python, text and binary, ketama over three servers."""
import mayfly
from foreign import addresses, daemons, need_module

mayfly.use_python_of_debian()
pylibmc = need_module("pylibmc", "pylibmc")


def exercise(servers, binary):
    checks = 0

    def check(good, what):
        nonlocal checks
        checks += 1
        assert good, what

    c = pylibmc.Client(servers, binary=binary, behaviors={
        "tcp_nodelay": True, "ketama": True, "cas": True, "remove_failed": 1,
        "_poll_timeout": 60000, "connect_timeout": 60000})
    check(c.flush_all(), "flush_all")
    check(c.set("k", "v") and c.get("k") == "v", "set, get")
    check(not c.add("k", "w") and c.add("new", "w"), "add")
    check(c.replace("k", "w") and c.get("k") == "w", "replace")
    try:
        replaced = c.replace("absent", "w")
    except pylibmc.NotFound:        # by the binary protocol
        replaced = False
    check(not replaced, "replace of an absent key")
    check(c.set("text", b"b") and c.append("text", b"c") and c.prepend("text", b"a"), "append, prepend")
    check(c.get("text") == b"abc", "what they made")
    check(c.get("absent") is None, "a miss")
    check(c.set("object", {"list": [1, 2]}) and c.get("object") == {"list": [1, 2]}, "an object")
    check(c.set("n", 10) and c.incr("n", 5) == 15 and c.decr("n", 20) == 0, "incr, decr")
    value, cas = c.gets("text")
    check(c.cas("text", b"swapped", cas) and c.get("text") == b"swapped", "cas")
    try:
        lost = c.cas("text", b"again", cas)
    except pylibmc.Error:
        lost = False
    check(not lost, "cas that lost")
    check(c.touch("k", 1000), "touch")
    many = {"m%d" % i: "value %d" % i for i in range(300)}
    check(c.set_multi(many, 1000) == [], "set_multi")
    check(c.get_multi(["m%d" % i for i in range(600)]) == many, "get_multi")
    check(c.delete_multi(list(many)), "delete_multi")
    check(c.get_multi(list(many)) == {}, "what delete_multi left")
    check(c.set("large", b"l" * 900000) and c.get("large") == b"l" * 900000, "a large value")
    check(c.delete("k") and c.get("k") is None, "delete")
    check(len(c.get_stats()) == len(servers), "stats of every server")
    check(c.flush_all() and c.get("large") is None, "flush_all empties")
    c.disconnect_all()
    return checks


def exercise_both(binary):
    for count in (1, 3):
        with daemons(count) as group:
            print("        pylibmc: %d checks" % exercise(addresses(group), binary))


def test_text():
    exercise_both(False)


def test_binary():
    exercise_both(True)


mayfly.main(globals())
