#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""memcached and mayflyd answer a client that has to authenticate with the same bytes.

Both run with -Y and the same file. A stream is a list of commands, each sent after the one before
was answered, because memcached forgets an answer that still waits when the next command is
refused; the first command is also sent byte by byte, and cut in two at every place. Intended
differences are in DIFFERENCES, and both answers of each are checked. Environment as in peers.py.
"""

import contextlib
import sys
import tempfile

sys.dont_write_bytecode = True
from peers import Dialogue, Silence, both, compare_rows, compare_streams  # noqa: E402

import mayfly                                                           # noqa: E402


class Whole(bytes):
    """A piece that ends a command: the next is sent after its answer, or not at all after the end."""

USERS = b"u:p\nc:p:q\nspace:p q\nd:1\nd:2\nempty:\n:nobody\n"

UNAUTHENTICATED = b"CLIENT_ERROR unauthenticated\r\n"
FAILURE = b"CLIENT_ERROR authentication failure\r\n"
STORED = b"STORED\r\n"
BAD_FORMAT = b"CLIENT_ERROR bad authentication token format\r\n"


def offer(value, length=None):
    return b"set a 0 0 %d\r\n%s\r\n" % (len(value) if length is None else length, value)


GOOD = offer(b"u p")
AFTER = b"get a\r\n"

VALUES = [
    b"u p", b"u q", b"v p", b"u pp", b"u", b"", b"u\tp", b"U p", b"up", b"p u",
    b"c p:q", b"c p", b"c:p q", b"space p", b"d 1", b"d 2", b"d 3", b"u p\r",
    b"u\np", b"u " + b"p" * 300, b"\xff\xfe \xfd",
]

LINES = [
    b"set foo bar baz 3", b"set a 0 0 3 noreply", b"set a 0 0 3 x y z w v w", b"  set  a  0  0  3 ", 
    b"set a 0 0 03", b"set a 0 0 3 " + b"x " * 60, b"set " + b"k" * 251 + b" 0 0 3", b"set " + b"k" * 1500 + b" 0 0 3",
]

REFUSED = [
    b"get a", b"gets a b", b"gat 0 a", b"version", b"stats", b"stats settings", b"shutdown", b"flush_all",
    b"verbosity 1", b"mg a v", b"add a 0 0 3", b"SET a 0 0 3", b"sett a 0 0 3",
    b"set a", b"set a 0 3", b"set a 0 0 ", b"set a 0 0 -1", b"set a 0 0 x", b"set a 0 0 3x", b"set a 0 0 3.5",
    b"set a 0 0 0x3", b"set a 0 0 18446744073709551616",
    b"set a 0 0 " + b"9" * 40, b"\x80\x0b" + b"\0" * 22, b"watch", b"x" * 2000,
]


def streams():
    for value in VALUES:
        yield [offer(value), AFTER]
    for line in LINES:
        yield [line + b"\r\nu p\r\n", AFTER]
        yield [line + b"\nu q\r\n", AFTER]
    for line in REFUSED:
        yield [line + b"\r\n", AFTER, GOOD, AFTER]
    yield [b"set a 0 0 3\r\nu pxx", AFTER, GOOD]
    yield [b"set a 0 0 3\r\nu p\nx", AFTER, GOOD]
    yield [GOOD, GOOD, AFTER, b"version\r\n", b"quit\r\n"]
    yield [GOOD + b"get x\r\nset b 0 0 1\r\n1\r\nincr b 1\r\nget a b\r\n"]
    yield [offer(b"u q"), offer(b"u r"), GOOD, AFTER]
    yield [b"x" * 2049]


# All after the first space is the password in memcached 1.6.45, and spaces part words in Debian's.
LATER = "1.6.45: a password may have spaces, also at its ends"

# The pieces sent; the answers of memcached and mayflyd; the reason.
DIFFERENCES = [
    ([offer(b"u q") + GOOD + b"get x\r\n"], STORED + b"END\r\n", FAILURE + STORED + b"END\r\n",
     "an answer is not lost when the next command is there already"),
    ([offer(b"  u   p  ")], STORED, FAILURE, LATER),
    ([offer(b"u p x")], STORED, FAILURE, LATER),
    ([offer(b"u p ")], STORED, FAILURE, LATER),
    ([offer(b"u p" + b" " * 2000)], STORED, FAILURE, LATER),
    ([offer(b"space p q")], FAILURE, STORED, LATER),
    ([offer(b" p")], BAD_FORMAT, FAILURE, LATER),
    ([offer(b" nobody")], BAD_FORMAT, FAILURE, LATER),
    ([offer(b"empty ")], BAD_FORMAT, FAILURE, LATER),
    ([b"set a 0 0 4294967296\r\n", AFTER], UNAUTHENTICATED, 2 * UNAUTHENTICATED, "a length is not cut to 32 bits"),
    ([b"set a 0 0 18446744073709551615\r\n", AFTER], UNAUTHENTICATED, 2 * UNAUTHENTICATED,
     "a length is not cut to 32 bits"),
    ([b"quit\r\n"], None, b"", "1.6.45 closes after a line of less than six bytes"),
    ([b"mn\r\n", GOOD], None, b"", "1.6.45 closes after a line of less than six bytes"),
    ([b"\r\n", GOOD], None, b"", "1.6.45 closes after a line of less than six bytes"),
    ([b"get a\r\nget b\r\nstats\r\n", GOOD], None, UNAUTHENTICATED + STORED, "1.6.45 answers once for each read"),
    ([b"set a 0 0 5\r\nu p\0x\r\n"], STORED, FAILURE, "NUL is a byte of the password, and ends nothing"),
    ([b"set a 0 0 3\0 5\r\nu p\r\n"], None, UNAUTHENTICATED, "NUL is no end of a number"),
    ([b"GET / HTTP/1.1\r\n" + GOOD], STORED, b"", "HTTP closes"),
    ([b"x" * 3000 + b"\r\n"], UNAUTHENTICATED, b"", "the bound on a line is not how much came at once"),
    ([offer(b"u p" + b" " * 5000)], STORED, UNAUTHENTICATED, "what is kept of an unknown client is bounded"),
    ([offer(b"u p" + b" " * 100000), GOOD], b"", UNAUTHENTICATED + STORED,
     "a value that is too large is dropped, and the stream stays in step"),
]


def play(server, stream):
    talk = Dialogue(server)
    try:
        for piece in stream:
            before = len(talk.out)
            talk.send(piece)
            while isinstance(piece, Whole) and talk.is_open and len(talk.out) == before:
                talk.take()
        return talk.finish()
    except Silence:
        return bytes(talk.out) + b"<silence>"
    finally:
        talk.close()


def cut(first, places):
    """The pieces of a command; only the last of them ends it."""
    edges = [0] + list(places) + [len(first)]
    pieces = [first[a:b] for a, b in zip(edges, edges[1:])]
    return pieces[:-1] + [Whole(pieces[-1])]


def variants(stream):
    first, rest = stream[0], [Whole(command) for command in stream[1:]]
    yield [Whole(first)] + rest
    if len(first) <= 400:
        yield cut(first, range(1, len(first))) + rest
    if len(first) <= 80:
        for place in range(1, len(first)):
            yield cut(first, [place]) + rest


def normal(answers):
    return b"".join(b"VERSION\r\n" if line.startswith(b"VERSION ") else line
                    for line in answers.splitlines(keepends=True))


@contextlib.contextmanager
def guarded():
    with tempfile.NamedTemporaryFile(prefix="mayfly-users.") as users:
        users.write(USERS)
        users.flush()
        with both("-Y", users.name) as servers:
            yield servers


def test_streams():
    with guarded() as servers:
        compare_streams(servers, streams(), variants, lambda server, stream: normal(play(server, stream)))


def test_intended_differences():
    with guarded() as servers:
        compare_rows(servers, DIFFERENCES, play)


if __name__ == "__main__":
    mayfly.main(globals())
