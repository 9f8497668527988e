#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Options that are a share of the machine: memory_limit=80% and threads=auto. Control groups and memory
are those of a folder of the test, except that CPUs come from the affinity of the process as well."""
import contextlib
import os
import signal
import tempfile

import mayfly
from mayfly import Daemon, wait_for

MIB = 1 << 20
BESIDE = 48     # megabytes for the process and for connections, by default
CPUS = sorted(os.sched_getaffinity(0))
STAYS = "have changed, but %s stays as it is"


class Machine:
    """What the daemon sees of the system; files are replaced as a whole."""

    def __init__(self, folder):
        self.folder = folder
        self.env = {"MAYFLY_MACHINE_ROOT": folder}
        self.put("proc/meminfo", "MemTotal: %d kB\nMemFree: 1 kB\n" % (1 << 20))
        self.put("proc/self/cgroup", "0::/pod/cache\n")

    def put(self, path, text):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        mayfly.replace(path, text)

    def conf(self, text):
        """Make a configuration file. Returns its path."""
        self.put("conf", text)
        return os.path.join(self.folder, "conf")

    def memory(self, megabytes):
        self.put("sys/fs/cgroup/pod/cache/memory.max", "%s\n" % (megabytes if megabytes == "max" else megabytes * MIB))

    def cpus(self, quota):
        self.put("sys/fs/cgroup/pod/cache/cpu.max", quota + "\n")


@contextlib.contextmanager
def machine():
    with mayfly.folder() as folder:
        os.chmod(folder, 0o755)
        yield Machine(folder)


def share(percent, megabytes):
    """The limit that follows, in megabytes."""
    return (megabytes * MIB * percent // 100 - BESIDE * MIB) // MIB


def limit(c):
    bytes_ = c.stat("limit_maxbytes")
    assert bytes_ % MIB == 0
    return bytes_ // MIB


def given(c, name):
    """Its values in config get and stats settings."""
    line = c.ask(b"config get " + name.encode())
    assert c.line() == b"END"
    word = line.decode().split(" ", 2)[2]
    assert c.stats(b"settings")[name] == word
    return word


def config(c, text):
    return c.ask(b"config " + text.encode())


def refused(m, *args, before=None):
    return mayfly.run(*args, env=m.env, before=before)


# ---- memory ---------------------------------------------------------------------------------------

def test_a_share_of_the_control_group():
    with machine() as m:
        m.memory(500)
        m.put("sys/fs/cgroup/pod/memory.max", "%d\n" % (400 * MIB))
        with Daemon("-m", "80%", env=m.env, control=True) as d, d.operator() as c:
            assert limit(c) == share(80, 400) and given(c, "memory_limit") == "80%"
            assert int(c.stats(b"settings")["maxbytes"]) == share(80, 400) * MIB
            assert d.says("memory-limit = 80% is 272 megabytes (80% of the 400 megabytes of the control group")
            assert "may be OOM-killed" not in d.log()
        m.put("proc/self/cgroup", "4:memory:/pod/cache\n0::/\n")
        m.put("sys/fs/cgroup/memory/pod/cache/memory.limit_in_bytes", "%d\n" % (300 * MIB))
        with Daemon("--memory-limit=100%", env=m.env) as d, d.client() as c:
            assert limit(c) == share(100, 300)


def test_a_share_of_the_machine():
    with machine() as m:
        for max_ in ("max", 9999):
            m.memory(max_)
            with Daemon("-o", "maxmemory=50%", env=m.env) as d, d.client() as c:
                assert limit(c) == share(50, 1024)
                assert d.says("of the machine")
        with Daemon("-m", "50%", "-o", "read_buf_mem_limit=100", env=m.env) as d, d.client() as c:
            assert limit(c) == 512 - 100 - 24


def test_a_number_is_what_it_was():
    with machine() as m:
        m.memory(400)
        for typed, megabytes, shown in (("64", 64, "64"), ("2g", 2048, "2048"), ("100m", 100, "100")):
            with Daemon("-m", typed, env=m.env, control=True) as d, d.operator() as c:
                assert limit(c) == megabytes and given(c, "memory_limit") == shown
                assert "host, memory-limit" not in d.log()


ODD = ("0%", "101%", "-5%", "+5%", "1e9%", "80 %", " 80%", "80% ", "%", "%%", "80%%", "8.5%", "0x10%", "18446744073709551617%",
       "4294967297%", "auto", "", " ", "99999999999999999999", "-1", "1e3")


def test_odd_values_of_memory():
    with machine() as m, Daemon("-m", "50%", env=m.env, control=True) as d, d.operator() as c:
        for value in ODD:
            status, said = refused(m, "-m", value, "--check-config")
            assert status == 64 and said.startswith("mayflyd: -m: "), (value, status, said)
            assert config(c, 'set memory_limit "%s"' % value).startswith(b"CLIENT_ERROR memory_limit: "), value
            assert given(c, "memory_limit") == "50%" and limit(c) == share(50, 1024)
        m.memory(40)
        status, said = refused(m, "-m", "80%")
        assert status == 64 and "-m: 80% of 40 megabytes, less 48 for connections" in said, (status, said)
        m.memory("max")
        m.put("proc/meminfo", "nothing\n")
        status, said = refused(m, "-m", "80%")
        assert status == 64 and "-m: 80% of an unknown memory" in said, (status, said)


def test_memory_that_changes_is_followed():
    with machine() as m:
        m.memory(512)
        with Daemon("-t", "1", "-m", "80%", env=m.env, control=True) as d, d.operator() as c:
            m.memory(200)
            wait_for(lambda: limit(c) == share(80, 200), "the limit follows")
            for n in range(1000):
                assert c.set(b"k%d" % n, b"x" * 100000) == b"STORED"
            assert 64 * MIB < c.stat("bytes") < share(80, 200) * MIB
            m.memory(100)
            wait_for(lambda: limit(c) == share(80, 100), "the limit follows down")
            wait_for(lambda: c.stat("bytes") < share(80, 100) * MIB, "what is too much is evicted")
            m.memory(50)
            wait_for(lambda: STAYS % "memory-limit" in d.log(), "it is said that it cannot follow")
            assert limit(c) == share(80, 100)
            m.memory(16384)     # more than the machine has
            wait_for(lambda: limit(c) == share(80, 1024), "the limit follows up")
            m.put("proc/meminfo", "MemTotal: %d kB\n" % (16 << 20))
            wait_for(lambda: limit(c) == share(80, 16384), "and further than the shards held")
            assert d.log().count(STAYS % "memory-limit") == 1


def test_a_share_set_while_it_serves():
    with machine() as m:
        path = m.conf("memory-limit = 64\n")
        with Daemon("--config", path, env=m.env, control=True) as d, d.operator() as c:
            assert config(c, "set memory_limit 50%") == b"OK" and limit(c) == share(50, 1024)
            assert config(c, "rewrite").startswith(b"OK")
            assert mayfly.read(path) == "memory-limit = 50%\n"
            m.memory(300)
            wait_for(lambda: limit(c) == share(50, 300), "a share that was set later is followed")
            assert config(c, "reload") == b"OK" and given(c, "memory_limit") == "50%"
            assert limit(c) == share(50, 300)
            assert c.ask(b"cache_memlimit 80") == b"OK" and given(c, "memory_limit") == "80"
            assert config(c, "reset memory_limit") == b"OK" and given(c, "memory_limit") == "50%"
            assert limit(c) == share(50, 300)
            m.conf("memory-limit = 60%\nmax-reqs-per-event = 7\n")
            d.process.send_signal(signal.SIGHUP)
            wait_for(lambda: limit(c) == share(60, 300), "the file is read again")


def test_a_share_outlives_an_upgrade():
    mayfly.skip_if("drop_privileges" in " ".join(mayfly.MORE_ARGS), "with drop_privileges no program can be started")
    with machine() as m, tempfile.TemporaryDirectory(prefix="mayfly-machine.") as folder:
        m.memory(400)
        with Daemon("-m", "64", "-e", os.path.join(folder, "items"), env=m.env, control=True) as d:
            with d.operator() as c:
                assert config(c, "set memory_limit 50%") == b"OK"
            d.process.send_signal(signal.SIGUSR2)
            wait_for(lambda: d.log().count("is ready") == 2, "another serves: " + d.log()[-500:])
            with d.operator() as c:
                assert given(c, "memory_limit") == "50%" and limit(c) == share(50, 400)


def test_a_confined_server_follows():
    mayfly.skip_if(not mayfly.has_text(b"libseccomp"), "built without libseccomp")
    mayfly.skip_if(mayfly.is_sanitized(), "a sanitizer makes calls of its own")
    with machine() as m:
        m.memory(400)
        with Daemon("-m", "50%", "-t", "auto", "-o", "drop_privileges", env=m.env) as d, d.client() as c:
            m.memory(300)
            wait_for(lambda: limit(c) == share(50, 300), "the limit follows")


# ---- threads --------------------------------------------------------------------------------------

def threads(c):
    return int(c.stats(b"settings")["num_threads"])


def on_one_cpu():
    os.sched_setaffinity(0, CPUS[:1])


def test_threads_by_affinity():
    with machine() as m:
        with Daemon("-t", "auto", env=m.env, control=True) as d, d.operator() as c:
            assert threads(c) == c.stat("threads") == len(CPUS) and given(c, "threads") == "auto"
            assert d.says("threads = auto is %d" % len(CPUS))
            assert config(c, "set worker_cpus %d" % CPUS[-1]) == b"OK"
            wait_for(lambda: threads(c) == 1, "there are no more than CPUs of worker_cpus")
        with Daemon("-t", "auto", env=m.env, before=on_one_cpu) as d, d.client() as c:
            assert threads(c) == 1
            os.sched_setaffinity(d.pid, CPUS)
            wait_for(lambda: threads(c) == len(CPUS), "the affinity is followed")


def test_threads_by_quota():
    mayfly.skip_if(len(CPUS) < 2, "there is one CPU")
    with machine() as m:
        m.cpus("100000 100000")
        with Daemon("-t", "auto", env=m.env, control=True) as d, d.operator() as c:
            assert threads(c) == 1
            for quota, count in (("100001 100000", 2), ("1000 100000", 1), ("max 100000", len(CPUS))):
                m.cpus(quota)
                wait_for(lambda: threads(c) == count, "the quota is followed")
            assert config(c, "set threads 1") == b"OK" and threads(c) == 1
            assert config(c, "set threads auto") == b"OK" and threads(c) == len(CPUS)
            assert config(c, "reset threads") == b"OK" and given(c, "threads") == "auto"


def test_threads_are_written():
    with machine() as m:
        path = m.conf("threads = 1\n")
        with Daemon("--config", path, env=m.env, control=True) as d, d.operator() as c:
            assert config(c, "set threads auto") == b"OK" and threads(c) == len(CPUS)
            assert config(c, "rewrite").startswith(b"OK")
        assert mayfly.read(path) == "threads = auto\n"


def test_odd_values_of_threads():
    with machine() as m, Daemon("-t", "auto", env=m.env, control=True) as d, d.operator() as c:
        for value in ("0", "513", "Auto", "auto ", " auto", "automatic", "50%", "", " ", "-1", "1e1", "99999999999999999999"):
            status, said = refused(m, "-t", value, "--check-config")
            assert status == 1 and said.startswith("mayflyd: -t: "), (value, status, said)
            assert config(c, 'set threads "%s"' % value).startswith(b"CLIENT_ERROR threads: "), value
            assert given(c, "threads") == "auto"


mayfly.main(globals())
