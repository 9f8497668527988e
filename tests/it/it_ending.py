#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How connections end: RST in the middle of a reply, half-close with replies pending, quit after
a pipeline. No other client notices, and nothing is left over."""
import mayfly
from mayfly import Daemon, wait_for


def test_reset_in_mid_reply():
    with Daemon("-m", "64", "-t", "2", tcp=True) as d, d.client() as c:
        big = mayfly.pattern(b"big", 900000)
        assert c.set(b"big", big) == b"STORED"
        for i in range(60):
            r = d.client(rcvbuf=4096)
            r.send(b"get big\r\n" * (1 + i % 7))
            if i % 3:
                r.exactly(50)
            r.reset()
            if i % 10 == 0:
                assert c.get(b"big") == big
        wait_for(lambda: c.stat("curr_connections") == 1, "all that were reset are gone")
        wait_for(lambda: c.shard_sum("mayfly_out_pending_bytes") == 0, "no answer is pending")
        assert c.get(b"big") == big


def test_reset_in_mid_body():
    with Daemon("-m", "64", "-t", "2", tcp=True) as d, d.client() as c:
        for i in range(60):
            r = d.client()
            r.send(b"set half 0 0 800000\r\n" + b"x" * (i * 13000))
            r.reset() if i % 2 else r.close()
        wait_for(lambda: c.stat("curr_connections") == 1, "all that were reset are gone")
        assert c.get(b"half") is None
        wait_for(lambda: c.shard_sum("mayfly_body_pending_bytes") == 0, "no body is pending")
        assert c.stat("curr_items") == 0


def test_half_close_gets_every_answer():
    with Daemon("-m", "64", "-t", "2") as d, d.client() as c:
        big = mayfly.pattern(b"big", 700000)
        assert c.set(b"big", big) == b"STORED"
        h = d.client(rcvbuf=4096)
        h.send(b"get big\r\n" * 20 + b"version\r\n")
        h.sock.shutdown(1)
        for _ in range(20):
            assert h.get_reply() == {b"big": big}
        assert h.line().startswith(b"VERSION")
        assert h.rest() == b""
        h.close()


def test_quit_behind_a_pipeline():
    with Daemon("-m", "64", "-t", "2") as d, d.client() as c:
        big = mayfly.pattern(b"big", 700000)
        assert c.set(b"big", big) == b"STORED"
        q = d.client(rcvbuf=4096)
        q.send(b"get big\r\n" * 20 + b"quit\r\ndelete big\r\n")
        for _ in range(20):
            assert q.get_reply() == {b"big": big}
        assert q.rest() == b""
        q.close()
        assert c.get(b"big") == big


def test_closed_without_reading():
    """A client leaves without reading its replies: EPIPE, and not the end of the daemon."""
    with Daemon("-m", "64", "-t", "1") as d, d.client() as c:
        assert c.set(b"k", b"v" * 10000) == b"STORED"
        for _ in range(100):
            g = d.client()
            g.send(b"get k\r\n" * 50)
            g.close()
        wait_for(lambda: c.stat("curr_connections") == 1, "all are gone")
        assert c.get(b"k") == b"v" * 10000


def test_idle_timeout():
    with Daemon("-o", "idle_timeout=1", "-t", "1") as d:
        def connect_and_ask():
            idle = d.client()
            if idle.ask(b"version") is not None:
                return idle
            idle.close()        # the machine stood for a second between the two
            return None

        def kicks():
            try:
                with d.client() as c:
                    return c.stat("idle_kicks")
            except (AssertionError, OSError):   # the same happened to this one
                return 0
        with wait_for(connect_and_ask, "an answer") as idle:
            assert idle.rest() == b"", "it is closed, and told nothing"
        wait_for(lambda: kicks() >= 1, "it is counted")


mayfly.main(globals())
