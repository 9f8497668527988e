#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""With -u root drops all privileges, and without it the start is refused. Files that root writes before that cannot
be redirected. With -o drop_privileges only system calls and files of a running server are accessible."""
import contextlib
import os
import pwd
import resource
import shutil
import signal
import tempfile

import mayfly
from mayfly import Daemon, wait_for


def need_root():
    mayfly.skip_if(os.geteuid() != 0, "not root")


def test_everything_is_dropped():
    need_root()
    nobody = pwd.getpwnam("nobody")
    with Daemon("-u", "nobody", "-t", "2", tcp=True, user=False) as d, d.client() as c:
        assert c.set(b"k", b"v") == b"STORED"
        for task in os.listdir("/proc/%d/task" % d.pid):
            with open("/proc/%d/task/%s/status" % (d.pid, task)) as f:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
            assert status["Uid"].split() == [str(nobody.pw_uid)] * 4, status["Uid"]
            assert status["Gid"].split() == [str(nobody.pw_gid)] * 4, status["Gid"]
            assert set(status["Groups"].split()) <= {str(nobody.pw_gid)}, status["Groups"]
            for caps in ("CapPrm", "CapEff", "CapAmb"):
                assert int(status[caps], 16) == 0, (caps, status[caps])


def kinds_of_pages(d):
    """The flags of each mapping: dd is one that core files leave out."""
    with open("/proc/%d/smaps" % d.pid) as f:
        return [set(line.split()[1:]) for line in f if line.startswith("VmFlags:")]


def test_items_are_left_out_of_core_files():
    need_root()
    for options, shown in (((), True), (("-r",), False)):
        with Daemon(*options, "-u", "nobody", "-t", "2", tcp=True, user=False) as d:
            with open("/proc/%d/limits" % d.pid) as f:
                soft = [line.split()[4] for line in f if line.startswith("Max core file size")][0]
            assert (soft == "0") is shown, soft
            # Root owns what cannot be dumped.
            assert (os.stat("/proc/%d/mem" % d.pid).st_uid == 0) is shown
            if shown or not mayfly.is_sanitized():      # a sanitizer leaves out its own memory
                # dp: pages that the kernel may drop, which glibc 2.41 has for random numbers
                assert any({"dd", "wr"} <= flags and "dp" not in flags for flags in kinds_of_pages(d)) is shown


def test_traps_in_the_folder_of_the_user():
    """The user of -u owns the folder and has put links and fifos where root writes at the start."""
    need_root()
    nobody = pwd.getpwnam("nobody")
    folder = tempfile.mkdtemp(prefix="mayfly-it.")
    precious = tempfile.NamedTemporaryFile(prefix="mayfly-it.")
    precious.write(b"precious")
    precious.flush()

    def inside(name):
        return os.path.join(folder, name)
    try:
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        os.symlink(precious.name, inside("ports"))
        os.symlink(precious.name, inside("ports.lck"))
        os.mkfifo(inside("pid"))
        with Daemon("-u", "nobody", "-P", inside("pid"), "-l", "127.0.0.1", "-p", "-1", "-o", "listen_both",
                    user=False, path=inside("socket"), env={"MEMCACHED_PORT_FILENAME": inside("ports")}) as d:
            assert int(mayfly.read(inside("pid"))) == d.pid
            assert not os.path.islink(inside("ports"))
            assert mayfly.read(inside("ports")).startswith("TCP INET: ")
            assert os.stat(inside("socket")).st_uid == nobody.pw_uid
        assert mayfly.read_bytes(precious.name) == b"precious"
        assert sorted(os.listdir(folder)) == ["ports", "ports.lck"], "pid file and socket are removed"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        precious.close()


# ---- -o drop_privileges ---------------------------------------------------------------------------

@contextlib.contextmanager
def confined(*args, **kw):
    mayfly.skip_if(mayfly.is_sanitized(), "a sanitizer makes calls of its own")
    mayfly.skip_if(b"libseccomp" not in open(mayfly.PROGRAM, "rb").read(), "built without libseccomp")
    with Daemon("-v", "-o", "drop_privileges", *args, **kw) as d:
        yield d


def test_all_threads_are_confined():
    with confined("-t", "3") as d, d.client() as c:
        assert c.set(b"k", b"v") == b"STORED" and c.get(b"k") == b"v"
        tasks = os.listdir("/proc/%d/task" % d.pid)
        assert len(tasks) >= 5, tasks
        for task in tasks:
            with open("/proc/%d/task/%s/status" % (d.pid, task)) as f:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
            assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1", (task, status)
        wait_for(lambda: "system call rules are in force" in d.log(), "it is logged")
        assert d.stop() == 0
        assert not os.path.exists(d.path), "the socket is removed"
    with Daemon("-v") as d, open("/proc/%d/status" % d.pid) as f:
        assert "Seccomp:\t0\n" in f.read() or mayfly.MORE_ARGS


def test_files_are_read_again_where_they_were():
    """The file of users may be replaced. A link that leads elsewhere is not followed any more."""
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder, \
            tempfile.TemporaryDirectory(prefix="mayfly-it.") as elsewhere:
        users = os.path.join(folder, "users")

        def put(path, text):
            mayfly.replace(path, text)

        def log_in(d, name):
            with d.client() as c:
                return c.set(b"u", name + b" " + name)
        put(users, "one:one\n")
        with confined("-t", "1", "-Y", users) as d:
            mayfly.skip_if("file access is restricted" not in d.log(), "this kernel has no Landlock")
            assert log_in(d, b"one") == b"STORED"
            put(users, "two:two\n")
            d.process.send_signal(signal.SIGHUP)
            wait_for(lambda: log_in(d, b"two") == b"STORED", "the new users are known")
            put(os.path.join(elsewhere, "users"), "three:three\n")
            os.unlink(users)
            os.symlink(os.path.join(elsewhere, "users"), users)
            d.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "Permission denied" in d.log(), "what is elsewhere cannot be read")
            assert log_in(d, b"two") == b"STORED"


def test_a_long_life_in_confinement():
    """Operations beyond plain requests: watchers, dumps, large values, options, a flush, a pid file that is
    removed."""
    with mayfly.place("pid") as pidfile:
        with confined("-t", "2", "-m", "64", "-P", pidfile, tcp=True, control=True) as d, d.client() as c, \
                d.client() as w:
            assert w.ask(b"watch mutations connevents") == b"OK"
            for i in range(200):
                assert c.set(b"k%d" % i, bytes(500000)) == b"STORED"
            assert c.stat("evictions") > 0
            wait_for(lambda: w.more() and w.buf.count(b"\n") > 2, "the watcher gets lines")
            for what in (b"", b"settings", b"items", b"slabs", b"shards", b"expire", b"conns"):
                assert c.stats(what)
            c.send(b"lru_crawler metadump all\r\n")
            wait_for(lambda: c.more() and c.buf.endswith(b"END\r\n"), "the dump ends")
            c.buf = b""
            with d.operator() as operator:
                assert operator.ask(b"config set memory_limit 32") == b"OK"
            assert c.ask(b"flush_all") == b"OK"
            assert c.ask(b"verbosity 2") == b"OK"
            d.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "nothing to reload" in d.log(), "the signal is taken")
            assert c.set(b"k", b"v") == b"STORED"
            assert d.stop() == 0
            assert not os.path.exists(pidfile)


def test_more_connections_in_confinement():
    """A soft limit on open files that suits -c, below the hard limit, as shells and service managers set it."""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, 600))
    with confined("-t", "1", "-c", "50", before=few, control=True) as d, d.operator() as c:
        assert c.ask(b"config set conn_limit 400") == b"OK"
        assert c.ask(b"config set conn_limit 5000") == \
            b"CLIENT_ERROR conn_limit: the limit on open files is 600 for this process"


def test_root_is_refused_without_a_user():
    need_root()
    status, said = mayfly.run("-l", "127.0.0.1", "-p", "0", "-U", "0", user=())
    assert status == 64 and "root" in said, (status, said)


def test_unknown_user_is_refused():
    need_root()
    status, said = mayfly.run("-u", "no-such-user-here", "-l", "127.0.0.1", "-p", "0", user=())
    assert status != 0 and "no-such-user-here" in said, (status, said)


mayfly.main(globals())
