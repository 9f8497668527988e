#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The daemon and its machine: access, what the system does not allow, connections that fall
silent."""
import contextlib
import os
import resource
import socket
import subprocess

import mayfly
from mayfly import Daemon, Inapplicable



# ---- access from other machines ---------------------------------------------------------------------

def test_open_doors_are_told():
    status, said = mayfly.run("--check-config", "-l", "0.0.0.0")
    assert status == 0 and said.count("can use 0.0.0.0 without a user or a certificate") == 1, said
    for closed in (["-l", "127.0.0.1"], ["-s", "socket"], []):
        status, said = mayfly.run("--check-config", *closed)
        assert status == 0 and "without a user" not in said, said


def test_protected_refuses_open_doors():
    # Nothing is opened: the first is a check, and the second finds no port.
    for args in (["--check-config", "-l", "0.0.0.0"], ["-l", "127.0.0.1,0.0.0.0", "-p", "-1"]):
        status, said = mayfly.run("--protected", *args)
        assert status == 64 and "could use " in said and "--protected" in said, (status, said)
    with Daemon("-o", "protected", tcp=True) as d, d.client() as c:
        assert c.set(b"k", b"v") == b"STORED"


# ---- memory that stays ----------------------------------------------------------------------------

def without_locks():
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 16, 1 << 16))


def locked_kib(*args):
    with Daemon("-t", "1", *args) as d:
        mayfly.skip_if("-k has no effect" in d.log(), "the limit on locked memory cannot be lifted here")
        with open("/proc/%d/status" % d.pid) as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmLck:"))


def test_memory_is_locked():
    assert locked_kib() == 0
    assert locked_kib("-k") > 1024


def test_memory_that_cannot_be_locked():
    if os.geteuid() == 0:
        # Root may lift any limit, but not when it has lost the right to.
        drop = ["setpriv", "--bounding-set=-sys_resource,-ipc_lock", "--inh-caps=-sys_resource,-ipc_lock"]
        if subprocess.run(drop + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
            raise Inapplicable("setpriv cannot drop capabilities")
    else:
        drop = []
    done = subprocess.run(drop + [mayfly.PROGRAM, *mayfly.ROOT, "-l", "127.0.0.1", "-p", "-1", "-o",
                                  "lock_memory_required"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=mayfly.PATIENCE, preexec_fn=without_locks)
    assert done.returncode == 71 and b"-o lock_memory_required: memory cannot be locked" in done.stdout, done


# ---- connections that fall silent -----------------------------------------------------------------

def keepalive_ticks(port):
    """When the system asks the clients of this port whether they are there, in its ticks (100 a
    second); only connections of the daemon's side."""
    found = []
    with open("/proc/net/tcp") as f:
        for line in f.readlines()[1:]:
            words = line.split()
            local, state, timer = words[1], words[3], words[5]
            if int(local.split(":")[1], 16) == port and state == "01" and timer.startswith("02:"):
                found.append(int(timer.split(":")[1], 16))
    return found


def test_silent_clients_are_asked():
    with Daemon("-o", "tcp_keepalive=50", tcp=True) as d, d.client() as c:
        assert c.ask(b"mn") == b"MN"
        ticks = keepalive_ticks(d.port)
        assert ticks and all(t <= 5000 for t in ticks), ticks
    with Daemon("-o", "tcp_keepalive=20000", tcp=True) as d, d.client() as c:
        assert c.ask(b"mn") == b"MN"
        ticks = keepalive_ticks(d.port)
        assert ticks and all(t > 1000000 for t in ticks), ticks


# ---- connections that nobody has accepted yet ------------------------------------------------------

def waiting_connections(backlog):
    """Number of clients that the system accepts while the daemon is stopped."""
    with Daemon("-t", "1", "-b", str(backlog)) as d, contextlib.ExitStack() as stack, d.paused():
        for n in range(1000):
            s = stack.enter_context(socket.socket(socket.AF_UNIX))
            s.setblocking(False)
            try:
                s.connect(d.path)
            except BlockingIOError:
                return n
    raise AssertionError("there is no end")


def test_so_many_wait_to_be_accepted():
    few, more = waiting_connections(3), waiting_connections(40)
    assert 3 <= few <= 5 and 40 <= more <= 42, (few, more)      # the system counts on by one


mayfly.main(globals())
