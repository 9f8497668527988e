# SPDX-License-Identifier: BSD-3-Clause
"""Which of two workers serves a client, seen from outside."""

LUMP = b"mg none k q\r\n" * 4000 + b"mn\r\n"    # much work for the server, little for the client


def executed(c):
    """Gets that each of the two has executed. c: any client."""
    got = c.stats(b"shards")
    return [int(got["%d:cmd_get" % i]) for i in range(2)]


def worker_of(c, one):
    """The worker that serves this client: its requests are counted there."""
    before = executed(c)
    one.send(b"mg none k q\r\n" * 50 + b"mn\r\n")
    assert one.line() == b"MN"
    return max(range(2), key=lambda i: executed(c)[i] - before[i])
