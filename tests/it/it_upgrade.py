#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""SIGUSR2: a program takes over in place, with the number of the process, the sockets and the items. One
that would not start changes nothing."""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import mayfly                                                           # noqa: E402
from mayfly import Client, Daemon, Inapplicable, wait_for               # noqa: E402

UPGRADED = "takes over"


@contextlib.contextmanager
def folder():
    """In memory, where there is such a place."""
    path = tempfile.mkdtemp(prefix="mayfly-upgrade.", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    try:
        yield path
    finally:
        shutil.rmtree(path)


def daemon(*args, **kw):
    if "drop_privileges" in " ".join(mayfly.MORE_ARGS):
        raise Inapplicable("with drop_privileges no program can be started")
    return Daemon("-t", "2", "-m", "64", *args, **kw)


def upgrade(d):
    """Wait until another serves."""
    wait_for(lambda: "is ready" in d.log(), "that it serves is in the log")
    ready = d.log().count("is ready")
    d.process.send_signal(signal.SIGUSR2)
    wait_for(lambda: d.log().count("is ready") > ready, "another serves: " + d.log()[-500:])


def state(c):
    return c.stats(b"persistence")["restart_state"]


def test_another_takes_over():
    """Clients that come all the while are never refused. One whose request comes when the first has begun
    to stop may be closed, as at any stop."""
    done, wrong, stop = [0], [], threading.Event()

    def connect():
        while not stop.is_set():
            try:
                with d.client() as c, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    done[0] += c.ask(b"version") is not None
            except OSError as e:
                wrong.append(str(e))
                return
    for memory in ("file", "fdstore"):
        with folder() as where:
            file = os.path.join(where, "memory") if memory == "file" else memory
            with daemon("-e", file, tcp=True, control=True) as d:
                thread = threading.Thread(target=connect)
                stop.clear()
                thread.start()
                with d.client() as c:
                    for i in range(1000):
                        c.set(b"k%d" % i, b"v%d" % i)
                    assert state(c) == "cold"
                for _ in range(3):
                    before = done[0]
                    upgrade(d)
                    wait_for(lambda: done[0] > before + 20 or wrong, "clients are served")
                    with d.client() as c, d.operator() as o:
                        assert c.stats()["pid"] == str(d.pid)
                        assert state(o) == "warm", o.stats(b"persistence")
                        assert all(c.get(b"k%d" % i) == b"v%d" % i for i in range(0, 1000, 37))
                stop.set()
                thread.join()
                assert not wrong, wrong


def test_an_operator_may_ask_for_it():
    with folder() as where, daemon("-e", os.path.join(where, "memory"), control=True) as d:
        with d.client() as c, d.operator() as o:
            c.set(b"k", b"v")
            assert c.ask(b"upgrade").endswith(b"shutdown not enabled")
            assert o.ask(b"upgrade /bin/true") == b"CLIENT_ERROR usage: upgrade"
            assert o.ask(b"upgrade") == b"OK"
        wait_for(lambda: d.log().count("is ready") == 2, "another serves")
        with d.client() as c:
            assert c.get(b"k") == b"v" and state(c) == "warm"
        assert d.stop() == 0
    with daemon(control=True) as d, d.operator() as o:
        assert o.ask(b"upgrade") == b"SERVER_ERROR not without memory_file, nor with drop_privileges"


def test_a_unix_socket_stays():
    with folder() as where, daemon("-e", os.path.join(where, "memory")) as d:
        with d.client() as c:
            c.set(b"k", b"v")
        file = os.stat(d.path).st_ino
        upgrade(d)
        assert os.stat(d.path).st_ino == file
        with d.client() as c:
            assert c.get(b"k") == b"v"
        assert d.stop() == 0
        assert not os.path.exists(d.path)


def test_what_would_not_start_changes_nothing():
    with folder() as where:
        options = os.path.join(where, "conf")

        def write(text):
            with open(options, "w") as f:
                f.write(text)
        write("verbose = 1\n")
        with daemon("--config", options, "-e", os.path.join(where, "memory")) as d, d.client() as c:
            c.set(b"k", b"v")
            write("hz = perhaps\n")
            d.process.send_signal(signal.SIGUSR2)
            wait_for(lambda: "upgrade, refused:" in d.log(), "it is refused")
            assert UPGRADED not in d.log() and "would not start (status 1)" in d.log(), d.log()
            assert c.get(b"k") == b"v" and state(c) == "cold"
            write("hz = 20\n")
            c.close()
            upgrade(d)
            with d.client() as c:
                assert c.get(b"k") == b"v" and state(c) == "warm"
                assert c.stats(b"settings")["hz"] == "20"


def test_without_memory_file_it_is_refused():
    with daemon() as d, d.client() as c:
        d.process.send_signal(signal.SIGUSR2)
        wait_for(lambda: "refused: without memory_file" in d.log(), "it is refused")
        assert c.ask(b"version") is not None


def test_other_blocks_are_refused():
    for abi in ("1", "nonsense"):
        done = subprocess.run([mayfly.PROGRAM, "--check-config"] + (["-u", "root"] if os.geteuid() == 0 else []),
                              env={**os.environ, "MAYFLY_UPGRADE_ABI": abi}, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 65, done
        assert b"of another version" in done.stderr, done


def test_no_signal_is_lost():
    """Whenever it comes, it ends the one program or the other."""
    for i in range(15):
        with folder() as where, daemon("-e", os.path.join(where, "memory")) as d:
            d.process.send_signal(signal.SIGUSR2)
            time.sleep(i * 0.002)
            assert d.stop() == 0


def test_a_stop_ends_it():
    """Whoever asks for a stop gets one, also while another is about to take over."""
    with folder() as where, daemon("-e", os.path.join(where, "memory")) as d, Client(d.path) as c:
        c.set(b"k", b"v")
        d.process.send_signal(signal.SIGUSR2)
        wait_for(lambda: UPGRADED in d.log(), "it begins")
        d.process.send_signal(signal.SIGTERM)   # this client holds it for two seconds otherwise
        assert d.process.wait(mayfly.PATIENCE) == 0
        assert d.log().count("is ready") == 1, d.log()


mayfly.main(globals())
