# SPDX-License-Identifier: BSD-3-Clause
"""The answers of memcached 1.6.45 where an older one answers otherwise: recorded.txt, written by
record.py. A line of it has the digest of a stream, what the stream is, and the answers to it."""
import ast
import hashlib
import os

import streams

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded.txt")
REFERENCE = (1, 6, 45)


def is_reference(server):
    """Is this server the version that answers count of, or a later one?"""
    return server.version() >= REFERENCE


def digest(stream):
    """The same however a stream is cut, and whenever it is made."""
    text = b"".join(piece if isinstance(piece, bytes) else piece.text for piece in stream)
    return hashlib.sha256(text.replace(streams.TOMORROW, b"<tomorrow>")).hexdigest()[:16]


def load():
    answers = {}
    with open(PATH) as f:
        for line in f:
            if not line.startswith("#"):
                key, _, answer = line.rstrip("\n").split("\t")
                answers[key] = ast.literal_eval(answer)
    return answers
