#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A disk that fails under a running daemon, at the n-th call of each kind: it serves all the same and says
what has happened; and whatever is loaded afterwards, nothing comes back that was overwritten, deleted or
flushed as far as that was promised, and what was saved well is not lost. MAYFLY_INJECT_ALL=1 tries every n,
otherwise some are."""
import contextlib
import errno
import os
import select
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import mayfly                                                           # noqa: E402
from binary import FLUSH, FLUSHQ, NOOP, OK, BinaryClient, pack          # noqa: E402
from inject import EVER, inject, skip_without                           # noqa: E402
from kept import figure, figures, fill, kept                            # noqa: E402
from mayfly import wait_for                                             # noqa: E402

skip_without()


@contextlib.contextmanager
def injected():
    with kept() as k, inject(k.folder) as i:
        yield k, i


def test_a_flush_holds_up_nobody():
    """The disk takes its time to forget the file; only who flushed waits for it."""
    with injected() as (k, i), k.daemon("-t", "1", env=i.env) as d, d.operator() as o, d.client() as a, \
            d.client() as b, BinaryClient(d.address) as c:
        o.set(b"x", b"1")
        assert o.ask(b"save") == b"OK"
        i.arm(["sync"], 1, "hang")
        a.send(b"get x\r\nflush_all\r\nget x\r\n")
        wait_for(lambda: i.get("hanging") == 1, "the folder is synced")
        assert a.get_reply() == {b"x": b"1"}    # what came before it is not held up
        c.send(pack(FLUSH) + pack(FLUSHQ) + pack(NOOP))
        b.send(b"flush_all noreply\r\nmn\r\n")
        for n in range(100):
            assert o.get(b"x") is None
            assert o.set(b"y", b"%d" % n) == b"STORED"
        assert not select.select([a.sock, b.sock, c.sock], [], [], 0)[0]
        i.disarm()
        assert a.line() == b"OK"
        assert a.get_reply() == {}
        assert b.line() == b"MN"
        assert [(f.opcode, f.status) for f in (c.frame(), c.frame())] == [(FLUSH, OK), (NOOP, OK)]
        assert not k.has_file()
        # Without a file nobody waits.
        i.arm(["open", "sync", "unlink"], 0)
        assert a.ask(b"flush_all") == b"OK"
        assert i.get("seen") == 0
        # A client that goes meanwhile does no harm.
        o.set(b"x", b"1")
        assert o.ask(b"save") == b"OK"
        i.arm(["unlink"], 1, "hang")
        a.send(b"flush_all\r\n")
        wait_for(lambda: i.get("hanging") == 1, "it is removed")
        a.reset()
        i.disarm()
        assert b.ask(b"flush_all") == b"OK"
        assert not k.has_file()


mayfly.main(globals())
