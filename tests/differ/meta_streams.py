# SPDX-License-Identifier: BSD-3-Clause
"""Streams of meta commands for differ.py: single lines, sequences of events, and random requests.

What only a newer memcached has (E, x, s of ms, N of append) is in streams.py, newer(). Times to
live are far from what R compares them with, so that nothing depends on how long a stream takes.
"""

import os
import re


def section(name):
    """The lines of a section of lines.txt."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "lines.txt")) as f:
        return re.search(r"(?ms)^# %s: [^\n]*\n(.*?)\n(?:\n|\Z)" % name, f.read()).group(1).split("\n")


def unescape(line):
    return line.encode("latin-1").decode("unicode_escape").encode("latin-1")


LETTERS = bytes(range(97, 123))

# Lines that have to leave the connection in sync; the value of an ms follows its line.
LINES = section("meta")

# What happens to an item over several requests.
COURSES = [line.split(" / ") for line in section("courses")]

PREPARE = b"set a 7 0 2\r\nAA\r\nset n 0 0 2\r\n10\r\n"
FINISH = b"mg a v f\r\nmg n v\r\nmn\r\n"


def lines():
    for line in LINES:
        text = unescape(line)
        yield repr(line), [PREPARE + text + b"\r\n" + FINISH]
        if b"\n" not in text and not text.endswith(b"\r") and text != b"mn":
            yield repr(line), [PREPARE + text + b"\n" + FINISH]


def courses():
    for course in COURSES:
        text = b"".join(unescape(request) + b"\r\n" for request in course)
        yield "course %r" % " / ".join(course), [PREPARE + text + FINISH]


def keys():
    for length in (250, 251, 2000):
        key = b"k" * length
        for form in (b"mg %s v k", b"md %s k", b"ma %s k", b"me %s x", b"ms %s 2 k\r\nhi"):
            stream = [PREPARE + form % key + b"\r\n" + FINISH]
            yield "%r with %d" % (form, length), stream
    for text in (b"A" * 248, b"A" * 252):
        yield "base64 of %d" % len(text), [b"ms %s 1 b k\r\nx\r\nmg %s b v k\r\nmn\r\n" % (text, text)]


def values():
    for size in (1024, 20000, 300000, 1000000):
        value = (LETTERS * (size // 26 + 1))[:size]
        for flags in (b"", b" ME", b" MR k O1", b" MA", b" MP q", b" C1 I", b" T500 F3"):
            for end in (b"\r\n", b"xy\r\n"):
                store = b"ms a %d%s\r\n%s%s" % (size, flags, value, end)
                name = "ms of %d bytes%s and %r" % (size, flags.decode(), end)
                yield name, [PREPARE + store + FINISH + b"mg a v t k O5\r\nmg a N5 R5 v\r\n"]
    size = 2000000
    for line in (b"ms a %d", b"ms a %d ME k", b"ms a %d q C1", b"ms YQ== %d b", b"ms a %d Z"):
        text = line % size + b"\r\n" + b"get n\r\n" * (size // 7) + b"xxxxx" + b"\r\n"
        yield "too large %r" % line, [PREPARE + text + FINISH]
    half = b"y" * 600000
    for mode in (b"MA", b"MP"):
        text = b"ms a 600000\r\n%s\r\nms a 600000 %s k c\r\n%s\r\n" % (half, mode, half)
        yield "%s past the limit" % mode.decode(), [text + b"mg a s\r\nmn\r\n"]


def scripts():
    """Name and stream of every scripted case."""
    yield from lines()
    yield from courses()
    yield from keys()
    yield from values()


# ---- random requests ----

# While memcached still has to send a number's item, it makes a new item for the next number: without
# the marks of the old one, the blanks after a number that became shorter, and the time that T gives.
# So numbers have keys of their own, apart from those of the classic commands too, and only grow; the
# scripted streams cover the rest.
COUNTED = [b"n1", b"n2", b"n:0000000000000001"]
FETCHED = [b"m1", b"m2", b"m3:" + b"y" * 30]
KEYS = COUNTED + FETCHED
TIMES = [b"0", b"0", b"1000", b"100000", b"-1"]
SHOWN = [b"c", b"f", b"k", b"s", b"t", b"v", b"O1", b"Oabc", b"q", b"P/x", b"L"]
VALUES = [b"1", b"5", b"99", b"100000", b"x", b"hello", b"", b"mn\r\n", b"y" * 5000]


# Those that mark no key and have no value (which might be malformed, and swallow what follows).
ODD_LINES = [
    line
    for line in LINES
    if not line.startswith((" ", "ms k", "ma n")) and not re.search(r"\\n| [INR][\d-]| I\b", line)
]


def some(rng, flags, most):
    """Different letters in any order."""
    chosen = {}
    for flag in rng.sample(flags, rng.randrange(min(most, len(flags)) + 1)):
        chosen.setdefault(flag[:1], flag)
    return list(chosen.values())


def join(words):
    return b" ".join(words) + b"\r\n"


def random_get(rng, key):
    acting = []
    if rng.randrange(3) == 0:
        key = rng.choice(FETCHED)
        time = rng.choice(TIMES)
        acting = [b"N" + time, b"R" + rng.choice([b"0", b"50", b"5000"])]
        # t shows nothing sensible for an item whose time has passed.
        acting += [b"T" + time] if time != b"-1" else []
        acting = some(rng, acting, 3)
    shown = [flag for flag in some(rng, SHOWN, 6) if b"N-1" not in acting or flag != b"t"]
    flags = acting + shown + ([b"u"] if rng.randrange(8) == 0 else [])
    flags = [flag for flag in flags if flag != b"v" or key in FETCHED]
    rng.shuffle(flags)
    return join([b"mg", key] + flags)


def random_set(rng, key, with_cas):
    flags = some(rng, [b"c", b"k", b"O7", b"q", b"F77", b"I", b"T" + rng.choice(TIMES)], 5)
    if b"I" in flags:
        key = rng.choice(FETCHED)
    if rng.randrange(3) == 0:
        flags.append(b"M" + rng.choice([b"E", b"A", b"P", b"R", b"S"]))
    cas = None
    if rng.randrange(4) == 0:
        cas = rng.choice([b"C0", b"C9999999999", b"C%CAS%"])
        flags.append(cas)
    rng.shuffle(flags)
    value = rng.choice(VALUES)
    end = b"\r\n" if rng.randrange(40) else b"zz"
    text = join([b"ms", key, b"%d" % len(value)] + flags) + value + end
    return with_cas(key, text) if cas == b"C%CAS%" else text


def random_delete(rng, key, with_cas):
    flags = some(rng, [b"k", b"O3", b"q", b"I", b"T1000"], 4)
    if b"I" in flags:
        key = rng.choice(FETCHED)
    if rng.randrange(4) == 0:
        cas = rng.choice([b"C0", b"C9999999999", b"C%CAS%"])
        text = join([b"md", key, cas] + flags)
        return with_cas(key, text) if cas == b"C%CAS%" else text
    return join([b"md", key] + flags)


def random_arith(rng, key):
    flags = some(rng, [b"k", b"O4", b"q", b"v", b"t", b"c", b"N0", b"N1000", b"J12", b"D7", b"D0", b"M+", b"C0"], 6)
    # With q an older memcached answers when it made the number.
    flags = [flag for flag in flags if flag != b"q" or not {b"N0", b"N1000"} & set(flags)]
    return join([b"ma", key] + flags)


def random_request(rng, with_cas):
    """One request; with_cas(key, text) makes one that needs the current cas of a key."""
    key = rng.choice(KEYS)
    kind = rng.randrange(100)
    if kind < 40:
        return random_get(rng, key)
    if kind < 62:
        return random_set(rng, key, with_cas)
    if kind < 74:
        return random_delete(rng, key, with_cas)
    if kind < 88:
        return random_arith(rng, rng.choice(COUNTED))
    if kind < 91:
        return rng.choice([b"mn\r\n", b"me zz\r\n"])
    return unescape(rng.choice(ODD_LINES)) + b"\r\n"
