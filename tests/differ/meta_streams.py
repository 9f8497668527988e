# SPDX-License-Identifier: BSD-3-Clause
"""Streams of meta commands for differ.py: single lines, sequences of events, and random requests.

What only a newer memcached has (E, x, s of ms, N of append) is in streams.py, newer(). Times to
live are far from what R compares them with, so that nothing depends on how long a stream takes.
"""

import re

LETTERS = bytes(range(97, 123))

# Lines that have to leave the connection in sync; the value of an ms follows its line.
LINES = r"""
mg
mg a
mg  a  v   k 
mg a v\r
mg a v \r
mg a\tb v
mg a v\tk
mg\ta
MG a
mgx a
mx a
m
mg a s v f c t
mg a t f c v s
mg a k O12 q s
mg a q
mg a q v
mg a O
mg a O\x01\xff v
mg a O1234567890123456789012345678901
mg a O12345678901234567890123456789012
mg a O12345678901234567890123456789012 Z
mg a v v
mg a O1 O2
mg a k k Z
mg a P P
mg a P/x L/y v
mg a a
mg a Z
mg a S5
mg a S
mg a W
mg a [
mg a 5
mg a b
mg a b Z
mg a b Tx
mg a b v k
mg a kkk v5
mg a C5 D5 J5 F5 I MX v
mg a M
mg a MXX
mg a N
mg a N0 v
mg a R
mg a T
mg a C
mg a D
mg a J
mg a F
mg a Fx
mg a F-1
mg a J-1
mg a T0x
mg a T1.5
mg a Tx Z
mg a Z Tx
mg a T 5
mg a T99999999999999999999
mg a R1.5
mg a T+500 t
mg a T\t500 t
mg a t T500
mg a T500 t v k
mg a v c f h k s t u q O1 P L N0 R0 T0 C1
mg a v c f h k l s t u q O1 P L N0 R0 T0 C1 D1
mg a v v v v v v v v v v v v v v v v v v v
mg zz
mg zz v k s t O9
mg zz q k
mg zz T500
mg zz R500
mg zz u
mg zz N500 s v t f k O1
mg zz N500 q
mg zz N0 t T500
mg zz T500 R5000 N100 t
mg zz N-1 v
mg YQ== b v
mg enp= b k O1
mg enp6 k O1 b
mg enp6 b O1 k q
mg YQ= b
mg !!!! b
mg ==== b
mg AAo= b k
mn
mn x
mn q y z
me
me zz
me enp6 b
me enp6 b x
ms
ms a
ms a k
ms a x k
ms a 5x
ms a -1
ms a 2147483646
ms a S2
ms k 5
ms a 2\r\nhi
ms a 2 \r\nhi
ms a +2\r\nhi
ms a 02\r\nhi
ms a 2\t\r\nhi
ms a 0\r\n
ms a 2 c q\r\nhi
ms a 2 k O7 T500 F9\r\nhi
ms a 2 O7 F+9 k\r\nhi
ms a 2 T\t500\r\nhi
ms a 2 T-1\r\nhi
ms zz 2 q k\r\nhi
ms zz 2 ME k\r\nhi
ms a 2 ME k O1 c\r\nhi
ms a 2 ME q\r\nhi
ms zz 2 MR\r\nhi
ms a 2 MR\r\nhi
ms a 2 MA T500 F1\r\nhi
ms a 2 MP T500 F1\r\nhi
ms zz 2 MA c k\r\nhi
ms zz 2 MP q\r\nhi
ms a 2 MS\r\nhi
ms a 2 I\r\nhi
ms a 2 C0\r\nhi
ms a 2 C0 I\r\nhi
ms a 2 C9999999999 k O1 c\r\nhi
ms a 2 C9999999999 q I\r\nhi
ms zz 2 C1 k\r\nhi
ms zz 2 C1 I q\r\nhi
ms zz 2 C0 ME\r\nhi
ms a 2 C1 ME I\r\nhi
ms a 2 MA C9999999999\r\nhi
ms a 2 MA C0\r\nhi
ms zz 2 MA C5\r\nhi
ms zz 2 MR C5\r\nhi
ms a 2 MR C9999999999 I\r\nhi
ms a 2 v t h l u R5 D5 J5 P L\r\nhi
ms YQ== 2 b k O1\r\nhi
ms YSBi 2 O1 k b c\r\nhi
ms AAo= 2 b k\r\nhi
ms a 2 b\r\nhi
ms a 2 badflag\r\nhi
ms a 2 Z\r\nhi
ms a 2 2 2\r\nhi
ms a 2 k k\r\nhi
ms a 2 Mx\r\nhi
ms a 2 Ms\r\nhi
ms a 2 M\r\nhi
ms a 2 MSS\r\nhi
ms a 2 Cx\r\nhi
ms a 2 C\r\nhi
ms a 2 C-1\r\nhi
ms a 2 T\r\nhi
ms a 2 F-1\r\nhi
ms a 2 Fx Z\r\nhi
ms a 2 O12345678901234567890123456789012\r\nhi
ms a 2 MX O12345678901234567890123456789012\r\nhi
ms a 2 b MX\r\nhi
ms a 7 Z\r\nget a\r\n
ms a 9 k k q\r\ndelete a\r
ms a 2\r\nhix
ms a 2 q\r\nhix
ms a 2 k\r\nh\r\n
ms a 2\r\nhi\n
md
md zz
md zz q k
md zz k O1
md a
md a q
md a k O1
md a I
md a I T500 k
md a I T-1
md a T500
md a T0 v t s c f h l u N5
md a C0
md a C0 I
md a C5 q k
md a Z
md a k k
md a b
md a C
md a Cx
md a I Tx
md a O12345678901234567890123456789012
md YQ== k b O1
md enp6 O1 b k
ma
ma zz
ma zz q k O1
ma zz MD
ma a
ma a q
ma n
ma n v
ma n v k O1 t
ma n q
ma n q v
ma n D5 v
ma n MD D5 v
ma n M+ v
ma n M- v
ma n MI v
ma n MD D100 v
ma n D18446744073709551615 v
ma n N500 J9 D2 v t
ma n T500 t
ma n t T500 v
ma n C0 v
ma n C9999999999 v k
ma n C9999999999 q
ma n F5 R5 I s h l u f v
ma zz N500 v t
ma zz N0 J15 D3 MD v
ma zz J15
ma zz N500 T1000 t
ma zz N0 q
ma zz N0 q k v
ma zz N-1 v
ma n Z
ma n v v
ma n D
ma n Dx
ma n D-1
ma n J
ma n M
ma n MX
ma n Md
ma n MII
ma n MX O12345678901234567890123456789012
ma n D1.5
ma n D18446744073709551616
ma bg== b k v
ma enp6 N0 J7 k b v
ma enp6 b
""".strip("\n")

# What happens to an item over several requests.
COURSES = [
    ["md a I", "mg a v", "mg a v", "mg a N5 R5000", "get a", "ms a 2\r\nv2", "mg a v"],
    ["md a I T500", "mg a t f", "md a I", "mg a t", "mg a", "md a I q", "mg a", "md a", "mg a"],
    ["md a I", "ms a 2 C1 I T900 F8\r\nv3", "mg a v t f", "mg a v", "ms a 2 C1\r\nv4", "mg a"],
    ["ms a 2 C1 I T900 F8\r\nv3", "mg a v t f", "mg a v", "ms a 2 MA\r\nxx", "mg a v f"],
    ["ms a 2 MR C1 I\r\nv3", "mg a v", "ms a 2 ME C1 I\r\nv4", "ms a 2 MA C1 I\r\nv5", "mg a v"],
    ["md n I", "ma n", "mg n v", "mg n v"],
    ["md a I", "append a 0 0 1\r\nx", "mg a v", "touch a 100", "mg a t"],
    ["md a I", "touch a 500", "gat 500 a", "mg a t", "mg a t"],
    ["md a I", "set a 1 0 1\r\nx", "mg a v f"],
    ["mg zz N500 v t", "mg zz v N500", "mg zz", "ms zz 2 ME\r\nhi", "add zz 0 0 1\r\nx"]
    + ["ms zz 2 T1000\r\nhi", "mg zz N500 v t"],
    ["mg zz N500", "ms zz 2 C9999999999\r\nhi", "mg zz v", "ms zz 2 MA\r\nhi", "mg zz v"],
    ["mg zz N500", "md zz I", "mg zz", "mg zz", "ma zz", "md zz", "mg zz"],
    ["ms a 1 T100\r\nx", "mg a R50", "mg a R5000 t", "mg a R5000 t", "mg a"]
    + ["ms a 1 T100\r\nx", "mg a R5000 T9000 t", "mg a t", "mg a T100 R5000"],
    ["ms a 1 T100\r\nx", "mg a T9000 R5000 t", "mg a R5000 t", "ms a 1\r\nx", "mg a R5000"],
    ["mg a R0", "mg a R-1", "ms a 1 T100\r\nx", "mg a R0", "mg a R-1", "mg a R5000 q"],
    ["mg a h u", "mg a h u", "mg a h", "mg a h", "ms a 1\r\nx", "mg a h u", "get a", "mg a h"],
    ["ms n 2\r\n99", "ma n v", "ma n MD v", "mg n v s", "ms n 3\r\n007", "ma n v", "mg n v s"],
    ["ms YSBi 1 b\r\nx", "mg YSBi b k v O1", "mg YSBi b O1 t k", "get a b", "md YSBi b q"],
    ["ms YSBi 1 b\r\n5", "ma YSBi b k v", "ma YSBi b q", "mg YSBi b v", "md YSBi b k"],
    ["mg a v q", "mg zz v q", "mg a k q", "mn", "md zz q", "md a q", "mn", "mg a q", "mn"],
    ["flush_all", "mg a", "mg zz N500 v", "flush_all", "mg zz", "ma n N0 v", "flush_all", "ma n"],
]

PREPARE = b"set a 7 0 2\r\nAA\r\nset n 0 0 2\r\n10\r\n"
FINISH = b"mg a v f\r\nmg n v\r\nmn\r\n"


def unescape(line):
    return line.encode("latin-1").decode("unicode_escape").encode("latin-1")


def lines():
    for line in LINES.split("\n"):
        text = unescape(line)
        yield repr(line), [PREPARE + text + b"\r\n" + FINISH]
        if b"\n" not in text and not text.endswith(b"\r") and text != b"mn":
            yield repr(line), [PREPARE + text + b"\n" + FINISH]


def courses():
    for course in COURSES:
        text = b"".join(request.encode() + b"\r\n" for request in course)
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
    for line in LINES.split("\n")
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
