# SPDX-License-Identifier: BSD-3-Clause
"""Intended differences between the answers of mayflyd and of memcached 1.6.45: intended.txt."""
import collections
import os
import re

import meta_streams

Difference = collections.namedtuple("Difference", "sent peer ours reason")


def text(written):
    """The bytes of a text as dialogues write it."""
    found = re.sub(rb"\\\*(\d+)\{(.*?)\}", lambda m: int(m.group(1)) * m.group(2), written.encode())
    return meta_streams.unescape(found.decode())


def answer(written):
    return None if written == "?" else b"" if written == "-" else text(written)


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "intended.txt")) as f:
    DIFFERENCES = [Difference(text(sent), answer(peer), answer(ours), reason) for reason, sent, peer, ours in
                   re.findall(r"(?m)^# (.*)\n> (.*)\nmemcached (.*)\nmayflyd (.*)$", f.read())]
