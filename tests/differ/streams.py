# SPDX-License-Identifier: BSD-3-Clause
"""What differ.py sends: scripted streams and random ones.

A stream is a list of pieces: bytes, or WithCas, whose text is sent with the current cas of a key
in place of %CAS%. None of them waits for time to pass, reads statistics or depends on which
items are evicted.

memcached loses answers when it closes a connection, or complains about a key of a get, while
they wait to be sent (mayflyd does not: intended.txt). Such lines are a piece of their own here,
sent after the answers to all earlier requests have left.
"""

import collections
import re
import time

import meta_streams
from meta_streams import section, unescape

WithCas = collections.namedtuple("WithCas", "key text")

BYTE_BY_BYTE_MAX = 400
EVERY_CUT_MAX = 90
CUTS_MAX = 300     # of a random stream, between two places where a cas is asked for

# Absolute times: a day from now, and long ago.
TOMORROW = b"%d" % (int(time.time()) + 86400)
LONG_AGO = b"%d" % (31 * 86400)

K250 = b"k" * 250
K251 = b"k" * 251

# Lines that have to leave the connection in sync; a get of a known key follows each of them.
ODD_LINES = section("odd")

PREPARE = b"set a 7 0 2\r\nAA\r\nset n 0 0 2\r\n10\r\n"
FINISH = b"get a n\r\n"
ENDS = (FINISH, meta_streams.FINISH)


def odd_lines():
    for line in ODD_LINES:
        for end in (b"\r\n", b"\n"):
            yield repr(line), [PREPARE + unescape(line) + end + FINISH]
    for text in (b"\r\n", b"\n", b" \r\n", b"\r\r\n", b"\n\n\r\n"):
        yield repr(text), [PREPARE + text + FINISH]


def closing():
    for line in section("closing"):
        yield repr(line), [PREPARE, unescape(line) + b"\r\n" + FINISH]
    # Lines that never end.
    for head in (b"", b"set ", b"version ", b" " * 200):
        yield "endless %r" % head, [PREPARE, head + b"x" * 70000]
    yield "endless get", [PREPARE, b"get " + b"x " * 35000]


KEY_LIFE = b"set %s 0 0 1\r\nx\r\nget %s\r\ntouch %s 0\r\ndelete %s\r\nget %s\r\n"


def keys():
    for key in (K250, K251, b"k" * 2000):
        for line in section("keys"):
            form = unescape(line) + b"\r\n"
            stream = [PREPARE, form % key + FINISH, b"get %s\r\n" % key]
            yield "%r with %d" % (form, len(key)), stream
    for key in (b"\x01", b"a\tb", b"\xff\xfe\x80", b"a\rb", b"0", b"HTTP/1.1", b"\x7f"):
        yield repr(key), [KEY_LIFE % ((key,) * 5)]
    for count in (100, 1000, 10000):
        many = b"".join(b" %s%05d" % (b"k" * 200, i) for i in range(count))
        yield "%d keys" % count, [PREPARE + b"get" + many + b" a n a\r\n" + FINISH]
    yield "one key 50 000 times", [PREPARE + b"get" + b" a" * 50000 + b"\r\n" + FINISH]
    far = b"get" + b" a" * 3000 + b" " + K251 + b" a\r\n"
    yield "a long key far back", [PREPARE, far + FINISH]
    yield "hits past 24 words", [PREPARE + b"get" + b" a zz n" * 20 + b"\r\n" + FINISH]


def bad_chunks():
    commands = (
        b"set a 0 0 1\r\n",
        b"set a 0 0 1 noreply\r\n",
        b"add b 0 0 1\r\n",
        b"append a 0 0 1\r\n",
        b"set a 0 0 0\r\n",
        b"cas a 0 0 1 1\r\n",
    )
    for text in (b"xy\r\n", b"x\n", b"x\r\r\n", b"\r\n", b"get a\r\n", b"x" * 60 + b"\r\n", b"xyz"):
        for command in commands:
            yield "%r then %r" % (command, text), [PREPARE + command + text + FINISH]


def values():
    small = (b"", b"\r\n", b"get a\r\n", b"quit\r\n", b"\0\0", b"set a 0 0 1\r\nx", b" ", b"\x80")
    for value in small:
        store = b"set a 1 0 %d\r\n%s\r\n" % (len(value), value)
        yield "value %r" % value, [store + FINISH]
    for size in (1024, 5000, 20000, 65536, 300000, 1000000):
        value = (meta_streams.LETTERS * (size // 26 + 1))[:size]
        for command in (b"set", b"replace", b"append", b"prepend"):
            for end in (b"\r\n", b"xy\r\n"):
                store = b"%s a 1 0 %d\r\n%s%s" % (command, size, value, end)
                name = "%s of %d bytes and %r" % (command.decode(), size, end)
                yield name, [PREPARE + store + FINISH]
    size = 600000
    for command in (b"append", b"prepend"):
        store = b"set a 0 0 %d\r\n%s\r\n" % (size, b"y" * size)
        extend = b"%s a 0 0 %d\r\n%s\r\n" % (command, size, b"z" * size)
        yield "%s past the limit" % command.decode(), [store + extend + b"touch a 0\r\n"]


def too_large():
    """The value is swallowed with its line end, and a set drops the old one."""
    size = 2000000
    body = (b"get a\r\n" * (size // 7 + 1))[:size]
    for command in (b"set", b"add", b"replace", b"append", b"prepend", b"cas"):
        unique = b" 1" if command == b"cas" else b""
        for tail in (b"", b" noreply"):
            line = b"%s a 0 0 %d%s%s\r\n" % (command, size, unique, tail)
            stream = [PREPARE + line + body + b"\r\nversion\r\n" + FINISH]
            yield "too large %r" % line, stream
    line = b"set a 0 0 %d\r\n" % size
    yield "too large without end", [PREPARE + line + body + b"xyversion\r\n" + FINISH]


def arithmetic():
    most = b"18446744073709551615"
    numbers = (
        [b"0", b"9", b"10", b"99", b"100", most, b"18446744073709551616", b"9" * 20, b"1" * 21]
        + [b"", b" 5", b"5 ", b"05", b"+5", b"-5", b"5x", b"x", b"0x5", b"1.5", b"1 2"]
    )
    for number in numbers:
        store = b"set n 3 0 %d\r\n%s\r\n" % (len(number), number)
        for command in (b"incr", b"decr"):
            for delta in (b"0", b"1", b"95", most):
                line = b"%s n %s\r\n" % (command, delta)
                # In pieces: memcached makes a new item while an answer with the old one waits.
                stream = [store + line + b"gets n\r\n", line + b"get n\r\n"]
                yield "%r and %r" % (number, line), stream
    changes = [b"decr n 1", b"decr n 990", b"incr n 1", b"incr n 123456"]
    changes += [b"append n 0 0 1\r\n7", b"incr n 1"]
    life = [change + b"\r\nget n\r\n" for change in changes]
    yield "shrinking and growing", [b"set n 0 0 4\r\n1000\r\n"] + life


def times():
    exptimes = (
        [b"0", b"1000", b"-1", b"-9999999999", b"2592000", b"2592001", b"-0", b"+100"]
        + [b"1000000000", TOMORROW, LONG_AGO]
    )
    lines = (
        b"set a 0 %s 1\r\nx\r\n",
        b"add b 0 %s 1\r\nx\r\n",
        b"cas a 0 %s 1 1\r\nx\r\n",
        b"touch a %s\r\n",
        b"gat %s a\r\n",
        b"gats %s a n\r\n",
    )
    after = b"get a b\r\nadd a 0 0 1\r\ny\r\nget a\r\n"
    for exptime in exptimes:
        for line in lines:
            yield "%r with %r" % (line, exptime), [PREPARE + line % exptime + after]
    yield "far flush", [PREPARE + b"flush_all 100000\r\n" + FINISH + b"flush_all\r\n" + FINISH]
    # Large values, more than a socket takes at once: each is sent although its time has passed.
    names = (b"p", b"q", b"r", b"s", b"t")
    stores = b"".join(b"set %s 0 0 300000\r\n%s\r\n" % (k, k * 300000) for k in names)
    several = b" ".join(names)
    yield "gat -1 of large values", [stores + b"gat -1 %s\r\nget %s\r\n" % (several, several)]


def cas():
    store = b"set a 5 0 1\r\nx\r\n"
    good = b"cas a 0 0 1 %CAS%\r\ny\r\n"
    again = b"cas a 0 0 1 %CAS%\r\nz\r\n"
    asked = b"gets a\r\n"
    for name, before, text in (
        ("good", store, good),
        ("twice", store, good + again),
        ("noreply", store, (good + again).replace(b"\r\n", b" noreply\r\n", 1)),
        ("after touch", store, b"touch a 100\r\n" + good),
        ("after delete", store, b"delete a\r\n" + good),
        ("after incr", b"set a 0 0 1\r\n5\r\n", b"incr a 1\r\n" + good),
        ("after append", store, b"append a 0 0 1\r\n9\r\n" + good),
        ("with a bad chunk", store, b"cas a 0 0 1 %CAS%\r\nyz\r\n"),
        ("to the past", store, b"cas a 0 -1 1 %CAS%\r\ny\r\n"),
    ):
        yield "cas " + name, [before, WithCas(b"a", text + asked)]


def flags():
    for command in (b"set", b"add", b"replace", b"append", b"prepend"):
        present = b"%s a 99 100 3\r\nxyz\r\nget a\r\n" % command
        absent = b"%s b 98 0 1\r\nq\r\nget b\r\n" % command
        yield "%s keeps what" % command.decode(), [PREPARE + present + absent]
    yield "widest flags", [b"set a 4294967295 0 1\r\nx\r\nincr a 1\r\nget a\r\n"]
    for numbers in (b"+1 +0 +1", b"007 -0 01", b"\t1 0 1\x0b", b"1\tz 0 1\r", b"0000000000000000000000012 0 1"):
        yield "numbers %r" % numbers, [b"set a " + numbers + b"\r\nx\r\nget a\r\n"]


INNER = b"flush_all\r\nget a n\r\n"
REFUSED = ([b"%s a x 0 %%d", b"%s a 0 x %%d", b"%s a -1 0 %%d", b"%s " + K251 + b" 0 0 %%d", b"%s a 0 0 %%d x y z"])


def refused():
    """The value of a storage line that is refused is no command, when its length can be read."""
    for command in (b"set", b"add", b"replace", b"append", b"prepend", b"cas"):
        for form in REFUSED:
            for tail in (b"", b" noreply"):
                line = form % command % len(INNER) + tail + b"\r\n"
                yield "refused %r" % line[:60], [PREPARE + line + INNER + b"\r\n" + FINISH]
    for line in (b"ms " + K251 + b" %d", b"ms a %d k k", b"ms a %d Z", b"ms a %d Tx q", b"ms a %d MX", b"ms a b %d"):
        text = line % len(INNER) if b" b " not in line else b"ms a b"
        yield "refused %r" % text[:60], [PREPARE + text + b"\r\n" + INNER + b"\r\n" + FINISH]
    # Keys with spaces and line ends, as careless clients send them.
    for key in (b"a b", b"a 0 0 11\r\nflush_all", b"a\r\nflush_all\r\nset b", b"a 0 0 1 x", b"a  b  c"):
        text = b"set %s 0 0 %d\r\n%s\r\n" % (key, len(INNER), INNER)
        yield "careless key %r" % key, [PREPARE + text + FINISH]


def newer():
    """What only the newer memcached knows."""
    for line in section("newer"):
        yield "newer " + line, [unescape(line)]


def scripts():
    """Name and stream of every scripted case."""
    yield from odd_lines()
    yield from closing()
    yield from keys()
    yield from bad_chunks()
    yield from values()
    yield from too_large()
    yield from arithmetic()
    yield from times()
    yield from cas()
    yield from flags()
    yield from refused()
    yield from newer()
    yield from meta_streams.scripts()


# ---- random streams ----

# The answer to "version" marks the place where a cas was asked for, so no other request may be
# "version"; and a line that announces a value would take the next request for its value.
ANNOUNCES = re.compile(r"(set|add|replace|append|prepend|cas) \S+ \S+ \S+ [-+]?\d|ms \S+ \d")
RANDOM_LINES = [line for line in ODD_LINES if not line.startswith("version") and not ANNOUNCES.match(line)]

KEYS = [b"a", b"n", b"key", b"k:0000000000000001", b"x" * 40, K250, b"odd\xff\x01"]
# Below 2^63: for larger ones memcached looks for a minus in the bytes after the value.
NUMBERS = [b"0", b"1", b"5", b"99", b"100", b"1000000", b"999999999999999999", b"007"]
CHANGES = [b"incr", b"decr"]
STORES = [b"set", b"set", b"set", b"add", b"replace", b"append", b"prepend", b"cas"]
LIKE_COMMANDS = [b"get a\r\n", b"set a 0 0 1\r\nx\r\n", b"\r\n", b"END\r\n", b"quit\r\n", b"\0"]
EXPTIMES = [b"0", b"0", b"0", b"1000", b"100000", b"-1", TOMORROW]


def leave_out(recorded, is_reference):
    """Use no line for random streams that the peer answers otherwise than what is recorded, and let
    numbers only grow if it is the reference itself: what becomes of their padding in it depends on
    which answers have left (see differ.py)."""
    import recorded as table

    if is_reference:
        CHANGES[:] = [b"incr"]
        NUMBERS.remove(b"007")
        RANDOM_LINES[:] = [line for line in RANDOM_LINES if not line.startswith("decr")]

    names = {name for name, stream in scripts() if table.digest(stream) in recorded}
    RANDOM_LINES[:] = [line for line in RANDOM_LINES if repr(line) not in names]
    meta_streams.ODD_LINES[:] = [line for line in meta_streams.ODD_LINES if repr(line) not in names]


def random_value(rng):
    """memcached's incr reads past a value of white space only, and never past a NUL."""
    value = random_bytes(rng)
    text = value.strip(b" \t\r\n\v\f")
    is_odd = (value and not text) or (b"\0" in text and text[:1] in b"+-0123456789\0")
    return b"x" if is_odd else value


def random_bytes(rng):
    kind = rng.randrange(10)
    if kind < 4:
        return rng.choice(NUMBERS)
    if kind == 4:
        return rng.choice(LIKE_COMMANDS)
    if kind == 5:
        return rng.randbytes(rng.randrange(3000))
    if kind == 6 and rng.randrange(8) == 0:
        # A value of digits would be a number for memcached only, see intended.txt.
        byte = rng.randrange(256)
        return bytes([byte if byte not in b"0123456789" else 0x2E]) * rng.randrange(200000)
    return rng.randbytes(rng.randrange(40))


def random_store(rng, key, noreply):
    command = rng.choice(STORES)
    value = random_value(rng)
    flag_word = rng.choice([b"0", b"1", b"4294967295"])
    head = b"%s %s %s %s %d" % (command, key, flag_word, rng.choice(EXPTIMES), len(value))
    end = b"\r\n" if rng.randrange(30) else rng.choice([b"zz", b"\n\n"])
    text = b"%s%s\r\n%s%s" % (head, b" %CAS%" if command == b"cas" else b"", value, end)
    if noreply:
        text = text.replace(b"\r\n", b" noreply\r\n", 1)
    if command != b"cas":
        return text
    if rng.randrange(2) or b"%CAS%" in value:
        return text.replace(b"%CAS%", b"1", 1)
    return WithCas(key, text)


def random_request(rng):
    key = rng.choice(KEYS)
    noreply = rng.randrange(6) == 0
    tail = b" noreply\r\n" if noreply else b"\r\n"
    kind = rng.randrange(100)
    if kind < 25:
        return rng.choice([b"get ", b"get ", b"gets "]) + key + b"\r\n"
    if kind < 33:
        command = rng.choice([b"get", b"gets", b"gat 0", b"gats 1000", b"gat -1"])
        # memcached accepts 2 KiB of a gat line, or less if it comes in pieces.
        several = rng.randrange(1, 7 if command.startswith(b"gat") else 60)
        return b" ".join([command] + rng.choices(KEYS, k=several)) + b"\r\n"
    if kind < 65:
        return random_store(rng, key, noreply)
    if kind < 77:
        return b"%s %s %s" % (rng.choice(CHANGES), key, rng.choice(NUMBERS)) + tail
    if kind < 84:
        return b"delete " + key + tail
    if kind < 90:
        return b"touch %s %s" % (key, rng.choice(EXPTIMES)) + tail
    if kind < 91:
        return b"flush_all" + tail
    if kind < 92:
        size = rng.randrange(1100000, 1500000)
        command = rng.choice([b"set", b"add", b"append"])
        return b"%s %s 0 0 %d\r\n%s\r\n" % (command, key, size, b"v" * size)
    line = unescape(rng.choice(RANDOM_LINES))
    return line + rng.choice([b"\r\n", b"\n"])


def random_stream(rng):
    """Requests in one stream, in pieces only where the current cas is needed.

    Of every two streams one has meta commands, alone or among the others.
    """
    stream = [b""]
    meta_share = rng.choice([0, 0, 50, 95])
    for _ in range(rng.randrange(20, 400)):
        if rng.randrange(100) < meta_share:
            request = meta_streams.random_request(rng, WithCas)
        else:
            request = random_request(rng)
        if isinstance(request, WithCas):
            stream += [request, b""]
        else:
            stream[-1] += request
    return stream


def cut(rng, stream, last=b"foo\r\n"):
    """The same stream in more pieces, of sizes from a byte to all of it.

    It may end inside a value; a last short piece lets the answers before leave.
    """
    pieces = []
    step = rng.choice([3, 30, 300, 3000, 30000, 1 << 30])
    for piece in stream:
        if not isinstance(piece, bytes):
            pieces.append(piece)
            continue
        if len(piece) // step > CUTS_MAX:
            step = len(piece) // CUTS_MAX
        at = 0
        while at < len(piece):
            size = rng.randrange(1, 2 * step)
            pieces.append(piece[at:at + size])
            at += size
    return pieces + [last]
