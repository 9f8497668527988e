#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Worker threads are pinned to CPUs (worker_cpus): each to one of the list, whenever it was made, and
no other thread is. What the machine does not have is refused."""
import os
import subprocess

import mayfly
from mayfly import Daemon, wait_for

CPUS = sorted(os.sched_getaffinity(0))
NONE = max(CPUS) + 1        # this process may not use it, whether there is one or not


def pinned(d, count):
    """The CPUs of each of so many workers, once these have their names, and those of all other threads."""
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
