#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Several servers of a proxy of memcached, by the routes of docs/operating.md. Debian's memcached has no proxy:
MEMCACHED_PROXY names one that was built with --enable-proxy."""
import contextlib
import os
import re
import subprocess
import tempfile

import mayfly
from mayfly import Client, Daemon, wait_for

SOURCES = os.environ.get("MAYFLY_SRCDIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
KEYS = [b"key%d" % i for i in range(100)]


def routes(ports):
    """The file of the page, with other addresses."""
    with open(os.path.join(SOURCES, "docs", "operating.md"), encoding="utf-8") as page:
        text = re.search(r"```lua\n(.*?)```", page.read(), re.S).group(1)
    for address, port in zip(("10.0.0.1:11211", "10.0.0.2:11211"), ports):
        assert address in text, text
        text = text.replace(address, "127.0.0.1:%d" % port)
    return text


@contextlib.contextmanager
def proxy(ports):
    """A client of a proxy in front of servers at these ports."""
    program = os.environ.get("MEMCACHED_PROXY")
    mayfly.skip_if(not program, "MEMCACHED_PROXY names no memcached with a proxy")
    with tempfile.TemporaryDirectory(prefix="mayfly-proxy.") as folder:
        path = os.path.join(folder, "socket")
        with open(os.path.join(folder, "routes.lua"), "w", encoding="utf-8") as f:
            f.write(routes(ports))
        process = subprocess.Popen([program, *mayfly.ROOT, "-s", path, "-t", "1", "-o",
                                    "proxy_config=routelib,proxy_arg=%s/routes.lua" % folder],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: os.path.exists(path), "the proxy listens")
            with Client(path) as c:
                yield c
        finally:
            process.kill()
            process.wait()


def test_keys_are_spread_over_servers():
    with Daemon(tcp=True) as a, Daemon(tcp=True) as b, proxy((a.port, b.port)) as c:
        # The proxy connects to them by itself, and answers errors until it has.
        wait_for(lambda: all(c.set(key, b"v" + key) == b"STORED" for key in KEYS), "all are stored")
        for key in KEYS:
            assert c.get(key) == b"v" + key
            assert c.ask(b"mg %s v" % key) == b"VA %d" % (len(key) + 1) and c.line() == b"v" + key
        counts = []
        for server in (a, b):
            with server.client() as own:
                counts.append(own.stat("curr_items"))
        assert sum(counts) == len(KEYS) and min(counts) > 0, counts
        assert c.ask(b"ms n 1 T60 c\r\n5").startswith(b"HD c")
        assert c.ask(b"ma n v D2") == b"VA 1" and c.line() == b"7"
        assert c.ask(b"incr n 3") == b"10" and c.ask(b"touch n 60") == b"TOUCHED"
        assert c.ask(b"md n q\r\nmn") == b"MN" and c.get(b"n") is None


def test_a_server_that_fails_misses_and_moves_no_key():
    with Daemon(tcp=True) as a, Daemon(tcp=True) as b, proxy((a.port, b.port)) as c:
        wait_for(lambda: all(c.set(key, b"old") == b"STORED" for key in KEYS), "all are stored")
        with b.client() as own:
            of_b = [key for key in KEYS if own.get(key) is not None]
        b.crash()
        # None of them went to the other server, which would have it twice later.
        for key in of_b:
            assert c.set(key, b"new").startswith(b"SERVER_ERROR"), key
        with a.client() as own:
            assert all(own.get(key) is None for key in of_b)
        for key in KEYS:
            if key not in of_b:
                assert c.get(key) == b"old"


mayfly.main(globals())
