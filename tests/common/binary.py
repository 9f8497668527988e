# SPDX-License-Identifier: BSD-3-Clause
"""The binary protocol for tests: frames, and a minimal client."""
import collections
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mayfly import Client                                               # noqa: E402

HEADER = 24
REQUEST, RESPONSE = 0x80, 0x81

(GET, SET, ADD, REPLACE, DELETE, INCR, DECR, QUIT, FLUSH, GETQ, NOOP, VERSION, GETK, GETKQ, APPEND,
 PREPEND, STAT, SETQ, ADDQ, REPLACEQ, DELETEQ, INCRQ, DECRQ, QUITQ, FLUSHQ, APPENDQ,
 PREPENDQ) = range(0x1B)
TOUCH, GAT, GATQ = range(0x1C, 0x1F)
SASL_LIST, SASL_AUTH, SASL_STEP, GATK, GATKQ = range(0x20, 0x25)

# The noop that ends a run of quiet requests.
LAST = 0x6E6F6F70

OK, NOT_FOUND, EXISTS, TOO_LARGE, INVALID, NOT_STORED, NON_NUMERIC = range(7)
AUTH_ERROR, UNKNOWN, NO_MEMORY = 0x20, 0x81, 0x82

TEXTS = {
    NOT_FOUND: b"Not found",
    EXISTS: b"Data exists for key.",
    TOO_LARGE: b"Too large.",
    INVALID: b"Invalid arguments",
    NOT_STORED: b"Not stored.",
    NON_NUMERIC: b"Non-numeric server-side value for incr or decr",
    AUTH_ERROR: b"Auth failure.",
    UNKNOWN: b"Unknown command",
    NO_MEMORY: b"Out of memory allocating item",
}

Frame = collections.namedtuple("Frame", "magic opcode datatype status opaque cas extras key value")


def pack(opcode, key=b"", extras=b"", value=b"", opaque=0, cas=0, magic=REQUEST, status=0,
         datatype=0, key_len=None, extras_len=None, body_len=None):
    """The bytes of a frame; its lengths are correct unless others are given."""
    return struct.pack(
        ">BBHBBHIIQ", magic, opcode,
        len(key) if key_len is None else key_len,
        len(extras) if extras_len is None else extras_len,
        datatype, status,
        len(extras) + len(key) + len(value) if body_len is None else body_len,
        opaque, cas) + extras + key + value


def store(opcode, key, value=b"", flags=0, exptime=0, **more):
    return pack(opcode, key, struct.pack(">II", flags, exptime), value, **more)


def arith(opcode, key, delta=1, initial=0, exptime=0xFFFFFFFF, **more):
    return pack(opcode, key, struct.pack(">QQI", delta, initial, exptime), **more)


def timed(opcode, key=b"", exptime=0, **more):
    """touch, the gat family, flush."""
    return pack(opcode, key, struct.pack(">I", exptime), **more)


def answer(opcode, status=OK, key=b"", extras=b"", value=None, opaque=0, cas=0):
    """The bytes of an answer; the value of an error is its text unless another is given."""
    if value is None:
        value = TEXTS.get(status, b"")
    return pack(opcode, key, extras, value, opaque, cas, RESPONSE, status)


def split(data):
    """The frames at the front of data, and the remaining bytes."""
    frames, at = [], 0
    while len(data) >= at + HEADER:
        magic, opcode, key_len, extras_len, datatype, status, body_len, opaque, cas = \
            struct.unpack_from(">BBHBBHIIQ", data, at)
        body = at + HEADER
        key, value, end = body + extras_len, body + extras_len + key_len, body + body_len
        if magic != RESPONSE or len(data) < end or value > end:
            break
        frames.append(Frame(magic, opcode, datatype, status, opaque, cas, data[body:key], data[key:value], data[value:end]))
        at = end
    return frames, data[at:]


class BinaryClient(Client):
    """One connection of the binary protocol."""

    def frame(self):
        """The next frame; None at the end of the stream."""
        while True:
            frames, _ = split(self.buf)
            if frames:
                first = frames[0]
                size = HEADER + len(first.extras) + len(first.key) + len(first.value)
                self.buf = self.buf[size:]
                return first
            if not self.more():
                assert not self.buf, "the stream ends amid a frame: %r" % self.buf[:60]
                return None

    def call(self, data):
        self.send(data)
        return self.frame()

    def until_noop(self, data):
        """Send requests and a noop; returns all frames before its answer."""
        self.send(data + pack(NOOP, opaque=LAST))
        frames = []
        while True:
            frame = self.frame()
            assert frame is not None, "closed after %d frames: %r" % (len(frames), frames[-3:])
            if frame.opcode == NOOP and frame.opaque == LAST:
                return frames
            frames.append(frame)

    def statistics(self, key=b""):
        """All lines of a stat, as a dictionary of strings."""
        self.send(pack(STAT, key))
        found = {}
        while True:
            frame = self.frame()
            assert frame is not None and frame.opcode == STAT, frame
            assert frame.status == OK, frame
            if not frame.key:
                return found
            found[frame.key.decode()] = frame.value.decode("latin-1")
