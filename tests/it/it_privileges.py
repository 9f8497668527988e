#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Root gives everything up with -u, and is refused without it. What it writes before that goes to no
other file."""
import os
import pwd
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import mayfly                                                           # noqa: E402
from mayfly import Daemon, Inapplicable                                 # noqa: E402


def need_root():
    if os.geteuid() != 0:
        raise Inapplicable("not root")


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
                assert any({"dd", "wr"} <= flags for flags in kinds_of_pages(d)) is shown


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
            with open(inside("pid")) as f:
                assert int(f.read()) == d.pid
            assert not os.path.islink(inside("ports"))
            with open(inside("ports")) as f:
                assert f.read().startswith("TCP INET: ")
            assert os.stat(inside("socket")).st_uid == nobody.pw_uid
        with open(precious.name, "rb") as f:
            assert f.read() == b"precious"
        assert sorted(os.listdir(folder)) == ["ports", "ports.lck"], "pid file and socket are removed"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        precious.close()


def test_root_is_refused_without_a_user():
    need_root()
    done = subprocess.run([mayfly.PROGRAM, "-l", "127.0.0.1", "-p", "0", "-U", "0"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=mayfly.PATIENCE)
    assert done.returncode == 64, done.returncode
    assert b"root" in done.stdout, done.stdout


def test_unknown_user_is_refused():
    need_root()
    done = subprocess.run([mayfly.PROGRAM, "-u", "no-such-user-here", "-l", "127.0.0.1", "-p", "0"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=mayfly.PATIENCE)
    assert done.returncode != 0
    assert b"no-such-user-here" in done.stdout, done.stdout


mayfly.main(globals())
