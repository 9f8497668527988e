#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The daemon and its machine: access, what the system does not allow, connections that fall silent, and worker
threads that are pinned to CPUs (worker_cpus)."""
import contextlib
import os
import resource
import socket
import subprocess

import mayfly
from mayfly import Daemon, Inapplicable, wait_for

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


# ---- CPUs of workers ----

CPUS = sorted(os.sched_getaffinity(0))
NONE = max(CPUS) + 1        # this process may not use it, whether there is one or not


def pinned(d, count):
    """The CPUs of each of these worker threads, once they have their names, and those of all other threads."""
    wait_for(lambda: len(look(d)[0]) >= count, "each worker has its name")
    return look(d)


def look(d):
    workers, others = {}, set()
    for task in os.listdir("/proc/%d/task" % d.pid):
        name = mayfly.read("/proc/%d/task/%s/comm" % (d.pid, task)).strip()
        cpus = tuple(sorted(os.sched_getaffinity(int(task))))
        if name.startswith("mayfly-w") and name[8:].isdigit():
            workers[int(name[8:])] = cpus
        else:
            others.add(cpus)
    return [workers[i] for i in sorted(workers)], others


def test_each_worker_is_on_its_cpu():
    two = [CPUS[-1], CPUS[0]]
    wanted = [(two[i % len(set(two))],) for i in range(3)] if len(set(two)) > 1 else [(CPUS[0],)] * 3
    text = ",".join(str(n) for n in dict.fromkeys(two))
    with Daemon("-t", "3", "--worker-cpus", text, control=True) as d, d.operator() as c:
        assert pinned(d, 3) == (wanted, {tuple(CPUS)}), pinned(d, 3)
        assert c.stats(b"settings")["worker_cpus"] == text
        # Back to all of them, and pinned again.
        assert c.ask(b"config set worker_cpus \"\"") == b"OK"
        assert pinned(d, 3) == ([tuple(CPUS)] * 3, {tuple(CPUS)}), pinned(d, 3)
        assert c.ask(b"config set worker_cpus %d" % CPUS[0]) == b"OK"
        assert pinned(d, 3) == ([(CPUS[0],)] * 3, {tuple(CPUS)}), pinned(d, 3)
        assert c.ask(b"mn") == b"MN"


def test_those_that_come_later_are_pinned():
    mayfly.skip_if("drop_privileges" in " ".join(mayfly.MORE_ARGS), "with drop_privileges no thread can be made")
    with Daemon("-t", "2", "-o", "worker_cpus=%d" % CPUS[0], control=True) as d, d.operator() as c:
        assert all(c.ask(b"config set threads %d" % n) == b"OK" for n in (1, 4, 2))
        assert pinned(d, 4) == ([(CPUS[0],)] * 4, {tuple(CPUS)}), pinned(d, 4)
        # Together in one change, and those that are parked.
        assert c.ask(b"config set threads 5 worker_cpus %d" % CPUS[-1]) == b"OK"
        assert pinned(d, 5) == ([(CPUS[-1],)] * 5, {tuple(CPUS)}), pinned(d, 5)


def test_it_works_under_the_filter():
    mayfly.skip_if(mayfly.is_sanitized(), "a sanitizer makes calls of its own")
    with Daemon("-t", "2", "-o", "drop_privileges,max_threads=3", control=True) as d, d.operator() as c:
        answer = c.ask(b"config set worker_cpus %d" % CPUS[0])
        assert answer == b"OK", answer
        assert pinned(d, 3)[0] == [(CPUS[0],)] * 3, pinned(d, 3)
        assert c.ask(b"config set worker_cpus \"\"") == b"OK"
        assert pinned(d, 3)[0] == [tuple(CPUS)] * 3, pinned(d, 3)


def test_what_cannot_be_is_refused():
    with Daemon("-t", "2", "-o", "worker_cpus=%d" % CPUS[0], control=True) as d, d.operator() as c:
        for value, why in ((b"%d" % NONE, b"CPU %d does not exist, or this process may not use it" % NONE),
                           (b"0-", b"is not a list of CPUs"), (b"0,0", b"has a CPU twice"),
                           (b"1024", b"is not a list of CPUs")):
            answer = c.ask(b"config set worker_cpus " + value)
            assert answer.startswith(b"CLIENT_ERROR") and why in answer, answer
        assert pinned(d, 2)[0] == [(CPUS[0],)] * 2, pinned(d, 2)
    for value, why in ((str(NONE), "CPU %d does not exist" % NONE), ("x", "is not a list of CPUs")):
        run = subprocess.run([mayfly.PROGRAM, "--check-config", "-o", "worker_cpus=" + value], capture_output=True,
                             text=True, check=False)
        assert run.returncode == 64 and why in run.stderr, (run.returncode, run.stderr)


mayfly.main(globals())
