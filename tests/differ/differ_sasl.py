#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""memcached and mayflyd speak SASL alike: the same frames.

Both run with -S, the same configuration and the same users (a sasldb). A stream is a list of
frames, each sent after the one before was answered, and once more with its first frame byte by
byte. Intended differences are in DIFFERENCES, and both answers of each are checked. Environment as
in peers.py.
"""

import contextlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from differ_auth import Whole, cut, play                                # noqa: E402
from peers import both, compare_rows, compare_streams                   # noqa: E402

import mayfly                                                           # noqa: E402

GET, SET, DELETE, QUIT, NOOP, VERSION = 0x00, 0x01, 0x04, 0x07, 0x0A, 0x0B
LIST, AUTH, STEP = 0x20, 0x21, 0x22

CONFIGURATION = """mech_list: plain login
pwcheck_method: auxprop
auxprop_plugin: sasldb
sasldb_path: %s
"""


def frame(opcode, key=b"", value=b"", extras=b"", key_len=None, body_len=None):
    body = extras + key + value
    key_len = len(key) if key_len is None else key_len
    body_len = len(body) if body_len is None else body_len
    head = struct.pack(">BBHBBHIIQ", 0x80, opcode, key_len, len(extras), 0, 0, body_len, 0x0A0D, 0)
    return head + body


def plain(user, password, authzid=b""):
    return frame(AUTH, b"PLAIN", authzid + b"\0" + user + b"\0" + password)


GOOD = plain(b"user@realm", b"pass")
WRONG = plain(b"user@realm", b"wrong")
MISS = frame(GET, b"k")

# These succeed; after them memcached does not expect another authentication.
KEYS = [GOOD, plain(b"user@realm", b"pass", b"user@realm"), frame(AUTH, b"plain", b"\0user@realm\0pass")]

OPENINGS = KEYS + [
    frame(LIST), frame(LIST, b"k"), frame(LIST, b"", b"v"), frame(LIST, b"", b"", b"abcd"), frame(VERSION),
    WRONG, plain(b"nobody@realm", b"pass"), plain(b"user", b"pass"),
    plain(b"user@realm", b"pass", b"other"), plain(b"user@realm", b""), plain(b"", b"pass"), plain(b"", b""),
    plain(b"user@realm", b"p" * 1000), plain(b"user@realm", b"p" * 8000), plain(b"user@realm", b"p" * 20000),
    plain(b"user@realm", b"pass\0"), frame(AUTH, b"PLAIN", b"garbage"),
    frame(AUTH, b"FOO", b"x"), frame(AUTH, b"CRAM-MD5"), frame(AUTH, b"M" * 32, b"x"), frame(AUTH, b"M" * 33, b"x"),
    frame(AUTH, b"M" * 250, b"x"), frame(AUTH, b"M" * 251, b"x"), frame(AUTH, b"", b"x"), frame(AUTH),
    frame(AUTH, b"PLAIN", b"\0user@realm\0pass", b"abcd"), frame(STEP), frame(STEP, b"PLAIN", b"\0user@realm\0pass"),
    frame(STEP, b"FOO", b"x"), frame(STEP, b"M" * 33, b"x"),
    frame(SET, b"k", b"v", b"\0" * 8), frame(SET, b"k", b"v" * 100000, b"\0" * 8),
]


def streams():
    for opening in OPENINGS:
        yield [opening]
        yield [opening, frame(VERSION), MISS] if opening in KEYS else [opening, frame(VERSION), GOOD, MISS]
    for opcode in range(0x100):
        if opcode not in (LIST, AUTH, STEP, VERSION):
            yield [frame(opcode, b"k")]
            yield [WRONG, frame(opcode)]
    yield [GOOD, frame(NOOP), frame(SET, b"k", b"v", b"\0" * 8), frame(DELETE, b"k"), frame(QUIT)]
    yield [GOOD + frame(NOOP) + MISS]
    yield [WRONG + GOOD + MISS]
    yield [WRONG, MISS]
    yield [GOOD, WRONG, MISS]
    yield [GOOD, frame(STEP, b"PLAIN", b"\0user@realm\0pass"), MISS]
    yield [frame(AUTH, b"PLAIN"), frame(STEP, b"PLAIN", b"\0user@realm\0pass"), MISS]
    yield [frame(AUTH, b"PLAIN"), frame(STEP, b"PLAIN", b"\0user@realm\0wrong"), MISS]
    login = [frame(AUTH, b"LOGIN"), frame(STEP, b"LOGIN", b"user@realm")]
    yield login + [frame(STEP, b"LOGIN", b"pass"), MISS]
    yield login + [frame(STEP, b"LOGIN", b"wrong"), MISS]
    yield login + [frame(STEP, b"XX", b"pass"), MISS]
    yield login + [frame(STEP, b"", b"pass"), MISS]
    yield login + [MISS]
    yield login[:1] + [GOOD, MISS]


# The frames sent; the status of each answer (None if it depends on how they arrived); the reason.
DIFFERENCES = [
    ([GOOD, GOOD, MISS], [0, 0x20, 0x20], [0, 0, 1], "authenticating again starts over"),
    ([GOOD, frame(LIST), MISS], [0, 0, 0x20], [0, 0, 1], "asking for the mechanisms takes nothing back"),
    ([frame(AUTH, b"PLAIN\0x", b"\0user@realm\0pass")], [0], [0x20], "NUL is a byte of the name, and ends nothing"),
    ([plain(b"user@realm", b"p" * 2000000), GOOD], [0x82, 0], [0x20, 0], "what is too long is no password"),
    ([frame(AUTH, b"PLAIN", b"x", body_len=0xFFFFFFFF)], [0x82], [0x20], "what is too long is no password"),
    ([frame(AUTH, b"PLAIN", b"x", body_len=0x80000000)], [], [0x20], "lengths are not negative"),
    ([frame(AUTH, b"PLAIN", b"x", key_len=65535)], [], [0x81], "what contradicts itself is refused at once"),
    ([frame(AUTH, b"PLAIN", key_len=10, body_len=5)], None, [0x81], "no answer is lost by closing"),
    ([frame(AUTH, b"PLAIN", b"x", body_len=0)], None, [0x81], "no answer is lost by closing"),
]


def frames(answers):
    """(opcode, status, body) of each frame; the version is not compared."""
    found = []
    while len(answers) >= 24:
        _, opcode, key_len, extras_len, _, status, body_len, opaque, cas = struct.unpack(">BBHBBHIIQ", answers[:24])
        body = answers[24 : 24 + body_len]
        if opcode == VERSION and status == 0:
            body = b"version"
        if opcode in (SET, DELETE) and status == 0:
            cas = 0
        found.append((opcode, key_len, extras_len, status, opaque, cas, body))
        answers = answers[24 + body_len :]
    return found + ([answers] if answers else [])


def variants(stream):
    first, rest = stream[0], [Whole(piece) for piece in stream[1:]]
    yield [Whole(first)] + rest
    if len(first) <= 300:
        yield cut(first, range(1, len(first))) + rest


def make_users(folder):
    tool = shutil.which("saslpasswd2") or "/usr/sbin/saslpasswd2"
    if not os.access(tool, os.X_OK):
        raise mayfly.Skip("saslpasswd2 is not installed")
    db = os.path.join(folder, "sasldb2")
    mayfly.write(os.path.join(folder, "memcached.conf"), CONFIGURATION % db)
    arguments = [tool, "-p", "-c", "-a", "memcached", "-f", db, "-u", "realm", "user"]
    subprocess.run(arguments, input=b"pass", check=True)


def has_sasl(command, folder):
    """Without SASL, -S with a protocol that it excludes is refused with another message."""
    user = ["-u", "root"] if os.geteuid() == 0 else []
    path = os.path.join(folder, "none")
    got = subprocess.run([command, "-s", path, "-S", "-U", "0"] + user, timeout=100, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         env=dict(os.environ, SASL_CONF_PATH=folder, MEMCACHED_SASL_PWDB="/no/such/file"))
    return b"not built" not in got.stdout


@contextlib.contextmanager
def guarded():
    with tempfile.TemporaryDirectory(prefix="mayfly-sasl.") as folder:
        os.environ["SASL_CONF_PATH"] = folder
        mayfly.skip_if(not has_sasl(mayfly.PROGRAM, folder), "mayflyd is built without SASL")
        make_users(folder)
        with both("-S") as servers:
            yield servers


def test_streams():
    with guarded() as servers:
        compare_streams(servers, streams(), variants, lambda server, stream: frames(play(server, stream)))


def test_intended_differences():
    with guarded() as servers:
        compare_rows(servers, DIFFERENCES, lambda server, sent: [f[3] for f in frames(play(server, sent))])


mayfly.main(globals())
