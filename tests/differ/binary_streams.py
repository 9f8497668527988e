# SPDX-License-Identifier: BSD-3-Clause
"""What differ.py sends in the binary protocol, and how answers in it are compared.

Streams are made as in streams.py. What memcached gets out of step with (a key or extras after an
unknown opcode, a value after touch, gat and stat, a body of more than 1 GiB) stands in DIFFERENCES.
"""

import collections
import os
import sys

import intended
import streams

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import binary as b  # noqa: E402

# A frame with the current cas of a key.
WithCas = collections.namedtuple("WithCas", "key text")

CAS_AT = 16  # its place in a header


def with_cas(frame, cas):
    return frame[:CAS_AT] + cas.to_bytes(8, "big") + frame[b.HEADER :]


def ask_cas(key, mark):
    """Ask for the cas of a key within the stream; the noop with this mark ends the answer."""
    return b.pack(b.GETK, key, opaque=mark) + b.pack(b.NOOP, opaque=mark)


def cas_in(answers, mark):
    """None until the answer to ask_cas() has come; 1 when there is no such key."""
    frames, _ = b.split(answers)
    cas = 1
    for frame in frames:
        if frame.opaque == mark and frame.opcode == b.GETK and frame.status == b.OK:
            cas = frame.cas
        if frame.opaque == mark and frame.opcode == b.NOOP:
            return cas
    return None


def normal(answers):
    """A line for each frame, without what differs between any two servers."""
    frames, rest = b.split(answers)
    names = {0: 0}
    lines = []
    for f in frames:
        cas = names.setdefault(f.cas, len(names))
        value = b"<version>" if f.opcode == b.VERSION and f.status == b.OK else f.value
        lines.append(line(f.opcode, f.status, f.key, f.extras, value, f.opaque, cas, f.datatype))
    return b"".join(lines) + rest


def line(opcode, status=b.OK, key=b"", extras=b"", value=None, opaque=0, cas=0, datatype=0):
    if value is None:
        value = b.TEXTS.get(status, b"")
    return b"%02x status %x opaque %x cas %d type %d key %r extras %s: %s\n" % (
        opcode, status, opaque, cas, datatype, key, extras.hex().encode(), value)


# ---- scripts ----

PREPARE = b.store(b.SET, b"a", b"AA", flags=7) + b.store(b.SETQ, b"n", b"10")
FINISH = b.pack(b.GETKQ, b"a") + b.pack(b.GETK, b"n") + b.pack(b.NOOP, opaque=0xE0F)

UPDATES = [b.SET, b.ADD, b.REPLACE, b.SETQ, b.ADDQ, b.REPLACEQ]
EXTENSIONS = [b.APPEND, b.PREPEND, b.APPENDQ, b.PREPENDQ]
ARITHMETIC = [b.INCR, b.DECR, b.INCRQ, b.DECRQ]
GETS = [b.GET, b.GETQ, b.GETK, b.GETKQ]
TOUCHES = [b.TOUCH, b.GAT, b.GATQ, b.GATK, b.GATKQ]
DELETES = [b.DELETE, b.DELETEQ]
SASL = [b.SASL_LIST, b.SASL_AUTH, b.SASL_STEP]
BARE = [b.QUIT, b.QUITQ, b.FLUSH, b.FLUSHQ, b.NOOP, b.VERSION]
UNKNOWN = [0x1B, 0x1F, 0x25, 0x30, 0x3C, 0x7F, 0x80, 0x81, 0xFF]

TIME = b"\0\0\x27\x10"

# A noop makes the answers before it leave. While an answer refers to a number, memcached writes the
# next number elsewhere, and without the spaces that fill its length.
RELEASE = b.pack(b.NOOP)


def good_frames():
    """Every opcode, used properly, on keys that are present and one that is not."""
    for key in (b"a", b"n", b"zz", b"odd \r\n\0\xff"):
        for opcode in UPDATES:
            yield b.store(opcode, key, b"value", flags=0x01020304, exptime=1000, opaque=opcode)
            yield b.store(opcode, key, cas=1 << 60)
        for opcode in EXTENSIONS:
            yield b.pack(opcode, key, value=b"5", opaque=opcode)
            yield b.pack(opcode, key, value=b"5", cas=1 << 60)
        for opcode in ARITHMETIC:
            yield b.arith(opcode, key, 3, 77, 0xFFFFFFFF, opaque=opcode)
            yield b.arith(opcode, key, 3, 77, 1000)
            yield b.arith(opcode, key, (1 << 64) - 1, (1 << 64) - 1, 0)
            yield b.arith(opcode, key, 0, 1, 0, cas=1 << 60)
        for opcode in GETS + DELETES:
            yield b.pack(opcode, key, opaque=opcode, status=99, datatype=1)
            yield b.pack(opcode, key, cas=1 << 60)
        for opcode in TOUCHES:
            yield b.timed(opcode, key, 1000, opaque=opcode)
    for opcode in BARE:
        yield b.pack(opcode, opaque=0xFFFFFFFF, cas=5)
    for opcode in (b.FLUSH, b.FLUSHQ):
        yield b.timed(opcode)
        yield b.timed(opcode, exptime=100000)
    for mechanism in (b"PLAIN", b"x" * 33):
        yield b.pack(b.SASL_AUTH, mechanism, value=b"\0user\0password")
        yield b.pack(b.SASL_STEP, mechanism)
    yield b.pack(b.SASL_LIST)
    for opcode in UNKNOWN:
        yield b.pack(opcode, value=b"value", opaque=opcode)
    for key in (b"reset", b"nothing", b"detail", b"detail x", b"detail off", b"cachedump 1 1", b"\0"):
        yield b.pack(b.STAT, key, opaque=9)


def good():
    for frame in good_frames():
        yield "frame %s" % frame.hex(), [PREPARE + frame + FINISH]


def cuts():
    """One frame of each opcode, cut in two at every byte of the stream; what all begin with, once."""
    seen = set()
    first = 1
    for frame in good_frames():
        if frame[1] in seen or frame[1] in UNKNOWN[1:]:
            continue
        seen.add(frame[1])
        text = PREPARE + frame + b.pack(b.GETK, b"a") + b.pack(b.NOOP)
        for cut in range(first, len(text)):
            yield "opcode %02x, cut in two" % frame[1], [text[:cut], text[cut:]]
        first = len(PREPARE)


def is_out_of_step(opcode, extras, key, value):
    """Does memcached take part of this frame for the next frame?"""
    if len(key) > 250:
        return False
    if opcode in UNKNOWN:
        return bool(extras or key)
    if opcode in TOUCHES:
        return len(extras) == 4 and bool(key) and bool(value)
    return opcode == b.STAT and not extras and bool(value)


def wrong_lengths():
    """Every opcode with extras, keys and values that are not allowed."""
    opcodes = UPDATES + EXTENSIONS + ARITHMETIC + GETS + TOUCHES + DELETES + SASL + BARE + [b.STAT, 0x77]
    for opcode in opcodes:
        for extras in (b"", TIME, b"\0" * 8, b"\0" * 20, b"\0" * 19, b"\xff" * 255):
            for key in (b"", b"a", streams.K250, streams.K251):
                for value in (b"", b"v"):
                    if opcode == b.STAT and not key and not extras and not value:
                        continue  # all statistics
                    if is_out_of_step(opcode, extras, key, value):
                        continue
                    if opcode == 0x77 and (extras or key):
                        continue
                    frame = b.pack(opcode, key, extras, value)
                    name = "%02x with %d, %d, %d" % (opcode, len(extras), len(key), len(value))
                    yield name, [PREPARE, frame + FINISH]
        for key_len, extras_len, body_len in ((2, 0, 1), (1, 1, 1), (1, 8, 8), (250, 0, 3), (1, 20, 0)):
            padding = b"\0" * (key_len + extras_len)
            frame = b.pack(opcode, value=padding, key_len=key_len, extras_len=extras_len, body_len=body_len)
            yield "%02x belied" % opcode, [PREPARE, frame + FINISH]


def wrong_magic():
    for magic in (0, 0x67, 0x7F, 0x81, 0xFF):
        yield "magic %02x" % magic, [PREPARE, b.pack(b.NOOP, magic=magic) + FINISH]
    yield "text after binary", [PREPARE + b.pack(b.NOOP), b"get a\r\nget a\r\nget a\r\nget a\r\n"]


def values():
    for size in (0, 1, 1000, 20000, 65536, 200000, 300000, 1000000):
        value = (streams.meta_streams.LETTERS * (size // 26 + 1))[:size]
        for opcode in UPDATES:
            frame = b.store(opcode, b"a", value, opaque=size)
            yield "%02x of %d bytes" % (opcode, size), [PREPARE + frame + FINISH]
        for opcode in EXTENSIONS:
            frame = b.pack(opcode, b"a", value=value)
            yield "%02x of %d bytes" % (opcode, size), [PREPARE + frame + FINISH]
    stored = b.store(b.SETQ, b"a", b"x" * 300000)
    several = stored + b.pack(b.GETQ, b"a") * 10 + b.pack(b.GETQ, b"zz") + b.timed(b.GATKQ, b"a")
    yield "several large ones", [several + FINISH]
    for opcode in EXTENSIONS:
        sum_ = b.store(b.SET, b"a", b"y" * 600000) + b.pack(opcode, b"a", value=b"z" * 600000)
        yield "%02x past the limit" % opcode, [sum_ + b.timed(b.TOUCH, b"a") + b.pack(b.NOOP)]


def too_large():
    """The value is swallowed, and a set drops the old one."""
    body = b.store(b.SET, b"a", b"inside") * 40000
    for opcode in UPDATES:
        yield "too large %02x" % opcode, [PREPARE + b.store(opcode, b"a", body) + FINISH]
    for opcode in EXTENSIONS:
        yield "too large %02x" % opcode, [PREPARE + b.pack(opcode, b"a", value=body) + FINISH]


def cas():
    good_cas = [b.store(opcode, b"a", b"new") for opcode in UPDATES]
    good_cas += [b.pack(opcode, b"a", value=b"new") for opcode in EXTENSIONS]
    good_cas += [b.pack(opcode, b"a") for opcode in DELETES]
    for frame in good_cas:
        yield "cas of %02x" % frame[1], [PREPARE, WithCas(b"a", frame), FINISH]
        yield "cas twice of %02x" % frame[1], [PREPARE, WithCas(b"a", frame), WithCas(b"a", frame), FINISH]
    for opcode in ARITHMETIC:
        frame = b.arith(opcode, b"n", 5)
        yield "cas of %02x" % opcode, [PREPARE, WithCas(b"n", frame), FINISH]
    after = b.timed(b.TOUCH, b"a", 1000)
    yield "cas after touch", [PREPARE + after, WithCas(b"a", good_cas[0]), FINISH]


def numbers():
    most = (1 << 64) - 1
    for text in (b"0", b"9", b"99", b"18446744073709551615", b"18446744073709551616", b"", b"x", b"5x", b"05"):
        for opcode in (b.INCR, b.DECR):
            for delta in (0, 1, 91, most):
                change = RELEASE + b.arith(opcode, b"n", delta)
                life = b.store(b.SET, b"n", text) + change + b.pack(b.GET, b"n") + change
                yield "%r and %02x of %d" % (text, opcode, delta), [life + FINISH]
    # None is so short that it could end before the number is read: memcached's clock ticks in seconds.
    for exptime in (0, 100, 1000, 2592000, 0xFFFFFFFE):
        for opcode in ARITHMETIC:
            made = b.arith(opcode, b"new", 1, 5, exptime) * 2
            yield "%02x makes, %d" % (opcode, exptime), [made + b.pack(b.GETK, b"new") + FINISH]


def times():
    for exptime in (0, 1000, 2592000, 2592001, 31 * 86400, 1000000000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
        stores = b"".join(b.store(opcode, b"a", b"x", exptime=exptime) for opcode in (b.SET, b.ADD))
        yield "stored until %d" % exptime, [PREPARE + stores + FINISH]
        for opcode in TOUCHES:
            touched = b.timed(opcode, b"a", exptime) * 2
            yield "%02x until %d" % (opcode, exptime), [PREPARE + touched + FINISH]


def scripts():
    """Name and stream of every scripted case."""
    yield from good()
    yield from cuts()
    yield from wrong_lengths()
    yield from wrong_magic()
    yield from values()
    yield from too_large()
    yield from cas()
    yield from numbers()
    yield from times()


# ---- random streams ----

EXPTIMES = [0, 0, 0, 1000, 100000, 0xFFFFFFFF]


def random_value(rng):
    """Without NUL, at which memcached ends a number, also one made by append and prepend."""
    return streams.random_value(rng).replace(b"\0", b"z")


def random_frame(rng):
    key = rng.choice(streams.KEYS)
    opaque = rng.randrange(1 << 32)
    kind = rng.randrange(100)
    if kind < 30:
        return b.pack(rng.choice(GETS), key, opaque=opaque)
    if kind < 55:
        value = random_value(rng)
        frame = b.store(rng.choice(UPDATES), key, value, rng.randrange(1 << 32), rng.choice(EXPTIMES), opaque=opaque)
    elif kind < 65:
        # Short: memcached takes "5 " with 80 KB after it for a number, mayflyd only a small value.
        value = random_value(rng)[:1000]
        frame = b.pack(rng.choice(EXTENSIONS), key, value=value, opaque=opaque)
    elif kind < 77:
        delta = int(rng.choice(streams.NUMBERS))
        number = b.arith(rng.choice(ARITHMETIC), key, delta, rng.randrange(1000), rng.choice(EXPTIMES), opaque=opaque)
        return RELEASE + (number if rng.randrange(8) else with_cas(number, 1 << 60))
    elif kind < 84:
        frame = b.pack(rng.choice(DELETES), key, opaque=opaque)
    elif kind < 91:
        return b.timed(rng.choice(TOUCHES), key, rng.choice(EXPTIMES), opaque=opaque)
    elif kind < 92:
        return b.pack(rng.choice([b.FLUSH, b.FLUSHQ]))
    elif kind < 93:
        size = rng.randrange(1100000, 1500000)
        return b.store(rng.choice(UPDATES), key, b"v" * size)
    elif kind < 96:
        return b.pack(rng.choice(UNKNOWN), value=rng.randbytes(rng.randrange(100)), opaque=opaque)
    else:
        return b.pack(rng.choice([b.NOOP, b.VERSION, b.SASL_LIST]), opaque=opaque)
    if rng.randrange(8) == 0:
        return WithCas(key, frame)
    return frame if rng.randrange(8) else with_cas(frame, 1 << 60)


def random_stream(rng):
    """Requests in one stream, in pieces only where the current cas is needed."""
    stream = [b""]
    for _ in range(rng.randrange(20, 400)):
        frame = random_frame(rng)
        if isinstance(frame, WithCas):
            stream += [frame, b""]
        else:
            stream[-1] += frame
    return stream


def cut(rng, stream):
    return streams.cut(rng, stream, b.pack(b.NOOP))


# ---- intended differences ----

LAST = b.pack(b.NOOP, opaque=1)
LAST_LINE = line(b.NOOP, opaque=1)


def _differences():
    row = intended.Difference
    in_step = "the body of an unknown opcode is dropped, no more and no less"
    for opcode in (0x77, 0x1B):
        yield row(b.pack(opcode, b"key") + LAST + LAST, None, line(opcode, b.UNKNOWN) + LAST_LINE * 2, in_step)
    behind = "what a request may not have is an error, not the next request"
    hidden = b.pack(b.FLUSH, opaque=2)
    for opcode in TOUCHES:
        frame = b.pack(opcode, b"zz", TIME, hidden)
        quiet = opcode in (b.GATQ, b.GATKQ)
        theirs = b"" if quiet else line(opcode, b.NOT_FOUND) if opcode != b.GATK \
            else line(opcode, b.NOT_FOUND, b"zz", value=b"")
        yield row(frame + LAST, theirs + line(b.FLUSH, opaque=2) + LAST_LINE, line(opcode, b.INVALID), behind)
    yield row(b.pack(b.STAT, b"reset", value=hidden) + LAST,
              line(b.STAT) + line(b.FLUSH, opaque=2) + LAST_LINE, line(b.STAT, b.INVALID), behind)
    huge = "a body of more than 1 GiB is too large, and swallowed"
    for length in (0x7FFFFFFF, 0xFFFFFFFF):
        frame = b.store(b.SET, b"a", body_len=length)
        yield row(frame + LAST, line(b.SET, b.INVALID), line(b.SET, b.TOO_LARGE), huge)
    early = "an error is sent at once, not after what is swallowed"
    yield row(b.pack(b.GET, key_len=65535, body_len=65535), b"", line(b.GET, b.INVALID), early)
    whole = "the name of a statistic is compared to its end"
    for name in (b"resetx", b"reset x"):
        frame = b.pack(b.STAT, name)
        ours = line(b.STAT, b.NOT_FOUND) if name == b"resetx" else line(b.STAT)
        yield row(frame + LAST, line(b.STAT) + LAST_LINE, ours + LAST_LINE, whole)
    kept = "what 1.6.45 has no more is answered as it was before"
    frame = b.pack(b.STAT, b"sizes_disable")
    status = line(b.STAT, key=b"sizes_status", value=b"disabled")
    yield row(frame + LAST, line(b.STAT, b.NOT_FOUND) + LAST_LINE, status + line(b.STAT) + LAST_LINE, kept)


DIFFERENCES = list(_differences())
