#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The same bytes sent to memcached and to mayflyd have to give the same answers, in the text
protocol (streams.py) and in the binary one (binary_streams.py).

The reference is memcached 1.6.45. An older one, such as that of Debian, replaces it where both
answer the same; where they do not, the answer of 1.6.45 is in recorded.txt (recorded.py).

Each stream is played on a fresh connection to an empty cache: the scripted ones whole to both, and to
mayflyd also byte by byte, and cut in two at every place; seeded random ones, cut at random places, to
both. Intended differences are in intended.txt, and both answers of each are checked.

Environment as in peers.py; MAYFLY_SEED is the first seed, MAYFLY_DIFFER_STREAMS the number of
random streams.
"""
import contextlib
import functools
import os
import random
import re
import sys

sys.dont_write_bytecode = True
import binary_streams                                                   # noqa: E402
import intended                                                         # noqa: E402
import recorded                                                         # noqa: E402
import streams                                                          # noqa: E402
from peers import Dialogue, Silence, both, first_difference             # noqa: E402

import mayfly                                                           # noqa: E402


def play(server, stream):
    """The answers to a stream; the server has taken each piece before the next is sent."""
    server.flush()
    talk = Dialogue(server)
    try:
        for piece in stream:
            if isinstance(piece, streams.WithCas):
                piece = piece.text.replace(b"%CAS%", talk.cas_of(piece.key))
            elif isinstance(piece, binary_streams.WithCas):
                piece = binary_streams.with_cas(piece.text, talk.binary_cas_of(piece.key))
            talk.send(piece)
        return talk.finish()
    except Silence:
        return bytes(talk.out) + b"<silence>"
    finally:
        talk.close()


def time_to_live(seconds):
    """As coarse as needed for servers that are asked one after the other. The streams give times of
    hundreds, which have hardly begun when they are asked for; and one that is a point in time,
    tomorrow. What is left until then crosses any hundred while the test runs, but no ten thousand."""
    unit = 100 if seconds < 10000 else 10000
    return b"<%d>" % (-(-seconds // unit) * unit)


@functools.lru_cache(maxsize=8)     # the cuts of one stream mostly have the same answers
def normal(answers):
    """Without what differs between any two servers: versions, absolute cas numbers, and how much of a
    time to live has passed."""
    if answers[:1] == b"\x81":
        return binary_streams.normal(answers)
    names = {}

    def name_cas(match):
        number = names.setdefault(match.group(2), len(names) + 1)
        return b"%s<cas %d>\r\n" % (match.group(1), number)

    def meta_line(match):
        line = re.sub(rb"( c)([1-9]\d*)", lambda m: name_cas(m)[:-2], match.group())
        line = re.sub(rb" l\d+", b" l<idle>", line)
        return re.sub(rb" t(\d+)", lambda m: b" t" + time_to_live(int(m.group(1))), line)

    def debug_line(match):
        left = int(match.group(2))
        return b"ME %s exp=%s\r\n" % (match.group(1), time_to_live(left) if left > 0 else b"%d" % left)

    # What 1.6.45 sends after a key of a get that is too long is no answer to anything.
    answers = answers.replace(b"CLIENT_ERROR bad command line format\r\n\r\n",
                              b"CLIENT_ERROR bad command line format\r\n")
    answers = re.sub(rb"(?m)^ME (\S+) exp=(-?\d+) .*\r\n", debug_line, answers)
    answers = re.sub(rb"(?m)^(?:HD|VA|EX|NS|NF) [^\r\n]*\r\n", meta_line, answers)
    answers = re.sub(rb"(?m)^(VALUE \S+ \d+ \d+ )(\d+)\r\n", name_cas, answers)
    return re.sub(rb"(?m)^VERSION \S+\r\n", b"VERSION <version>\r\n", answers)


class Comparison:
    def __init__(self, peer, ours):
        self.peer = peer
        self.ours = ours
        self.recorded = {} if recorded.is_reference(peer) else recorded.load()
        self.played = {}        # what the peer answered, by digest
        self.count = 0
        self.different = 0
        self.names_shown = set()

    def of_peer(self, stream):
        """What the peer answers. It does not depend on how a stream is cut, so that each is played once;
        unless a cas is asked for within it, whose request is not of the stream."""
        digest = recorded.digest(stream)
        if digest in self.recorded:
            return self.recorded[digest]
        if not all(isinstance(piece, bytes) for piece in stream):
            return normal(play(self.peer, stream))
        if digest not in self.played:
            self.played[digest] = normal(play(self.peer, stream))
        return self.played[digest]

    def compare(self, name, stream, change=lambda answers: answers):
        """Play a stream to both; at most one report for each name."""
        self.count += 1
        answers = [change(self.of_peer(stream)), change(normal(play(self.ours, stream)))]
        if answers[0] == answers[1]:
            return
        self.different += 1
        if name in self.names_shown:
            return
        self.names_shown.add(name)
        at, theirs, mine = first_difference(*answers)
        text = b"".join(p if isinstance(p, bytes) else p.text for p in stream)
        print("DIFFERENT %s, from byte %d of the answers" % (name, at))
        text = text if len(text) < 400 else text[:400] + b"..."
        print("  sent (%d pieces): %r" % (len(stream), text))
        print("  %s: %r" % (self.peer.name, theirs))
        print("  %s: %r" % (self.ours.name, mine))

    def expect(self, row):
        """An intended difference: both answers are known, and differ."""
        for server, want in ((self.peer, row.peer), (self.ours, row.ours)):
            if server is self.peer and recorded.digest([row.sent]) in self.recorded:
                want = None
            self.count += 1
            got = normal(play(server, [row.sent]))
            if want is not None and got != want:
                self.different += 1
                print("NOT AS INTENDED (%s)" % row.reason)
                print("  sent: %r" % row.sent[:400])
                print("  %s: %r" % (server.name, got[:400]))
                print("  wanted: %r" % want[:400])


@contextlib.contextmanager
def comparison():
    with both() as servers:
        c = Comparison(*servers)
        yield c
        print("        %d streams" % c.count)
        assert c.different == 0, "%d of %d streams differ" % (c.different, c.count)


def test_scripted_binary_streams():
    with comparison() as c:
        for name, stream in binary_streams.scripts():
            c.compare("binary " + name, stream)


def test_scripted_text_streams():
    known = set()       # what most streams begin and end with is cut once; so is a line that has two ends
    with comparison() as c:
        for name, stream in streams.scripts():
            c.compare(name, stream)
            if len(stream) > 1:
                continue
            text = stream[0]
            first, last = 0, len(text)
            if streams.PREPARE in known and text.startswith(streams.PREPARE):
                first = len(streams.PREPARE)
            finish = next((end for end in streams.ENDS if text.endswith(end)), b"")
            if finish in known:
                last -= len(finish)
            if len(text) <= streams.BYTE_BY_BYTE_MAX:
                pieces = [text[:first], *(text[i:i + 1] for i in range(first, last)), text[last:]]
                c.compare(name + ", byte by byte", [piece for piece in pieces if piece])
            if len(text) <= streams.EVERY_CUT_MAX:
                for cut in range(max(first, last - 2 if name in known else 1), min(last + 1, len(text))):
                    c.compare(name + ", cut in two", [text[:cut], text[cut:]])
                known.update((name, text[:len(streams.PREPARE)], finish))


def test_intended_differences():
    with comparison() as c:
        for row in intended.DIFFERENCES + binary_streams.DIFFERENCES:
            c.expect(row)


def without_padding(answers):
    """The blanks after a number that became shorter stay in memcached only until it meets the item
    while an answer with it is on its way."""
    return re.sub(rb"(?m)^(VALUE \S+ \d+|VA) \d+( [^\r\n]*)?\r\n(\d+) *\r\n", rb"\1 n\2\r\n\3\r\n", answers)


def test_random_streams():
    seed = int(os.environ.get("MAYFLY_SEED", "20240607"))
    with comparison() as c:
        streams.leave_out(c.recorded, recorded.is_reference(c.peer))
        for number in range(int(os.environ.get("MAYFLY_DIFFER_STREAMS", "40"))):
            for kind, make in (("text", streams), ("binary", binary_streams)):
                rng = random.Random(seed + number)
                stream = make.cut(rng, make.random_stream(rng))
                name = "random %s stream of MAYFLY_SEED=%d" % (kind, seed + number)
                c.compare(name, stream, without_padding)


if __name__ == "__main__":
    mayfly.main(globals())
