#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Snapshots over a connection: mayflyctl save and load, and their commands save - and restore. A received snapshot is
complete or reported as incomplete, even if a side disconnects, waits or flushes meanwhile; a load restores no deleted
item."""
import json
import os
import shutil
import subprocess
import tempfile

import mayfly
import tls
from mayfly import wait_for

CTL = os.path.join(mayfly.BUILD, "ctl", "mayflyctl")
CHECK = os.path.join(mayfly.BUILD, "ctl", "mayfly-check")
KEYS = 20000        # of some 400 bytes: more than sockets take by themselves


class Folder:
    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="mayfly-transfer.")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def name(self, name):
        return os.path.join(self.path, name)


def daemon(*args, **kw):
    return mayfly.Daemon("-t", "2", "-m", "256", "-I", "8m", *args, control=True, **kw)


def ctl(d, *args, **kw):
    return subprocess.run([CTL, "-s", d.control_path, *args], capture_output=True, check=False,
                          timeout=mayfly.PATIENCE, stdin=subprocess.DEVNULL, **kw)


def check(path):
    """The output of mayfly-check for it."""
    done = subprocess.run([CHECK, "--json", path], capture_output=True, check=False, timeout=mayfly.PATIENCE)
    return json.loads(done.stdout)[0]


def fill(c, keys=KEYS):
    c.fill(b"k", keys, b"x" * 400)


def begin(c):
    """Request a snapshot, and read its first bytes: so the walk has started, and waits for this client."""
    c.send(b"save -\r\n")
    assert c.more()


def portions(c):
    """The bytes of an answer to save -, and its last line."""
    data = b""
    while True:
        line = c.line()
        if line is None or not line.startswith(b"PART "):
            return data, line
        data += c.exactly(int(line.split()[1]))


def test_it_goes_to_a_file_or_to_standard_output():
    with Folder() as f, daemon() as d, d.operator() as o:
        fill(o, 3000)
        o.set(b"large", b"y" * 5000000)
        done = ctl(d, "save", f.name("one"))
        assert (done.returncode, done.stderr) == (0, b""), done
        assert done.stdout.startswith(b"saved 3001 items, "), done
        said = check(f.name("one"))
        assert said["verdict"] == "whole" and said["items"] == 3001, said
        assert os.stat(f.name("one")).st_mode & 0o777 == 0o600
        done = ctl(d, "save", "-")
        assert (done.returncode, done.stderr) == (0, b""), done.stderr
        mayfly.write(f.name("two"), done.stdout)
        said = check(f.name("two"))
        assert said["verdict"] == "whole" and said["items"] == 3001, said
        assert o.stat("exports", b"persistence") == 2 and o.stat("export_failures", b"persistence") == 0
        assert sorted(os.listdir(f.path)) == ["one", "two"]
        # It is one that a server loads.
        os.rename(f.name("two"), f.name("mayfly.snapshot"))
        with daemon("-o", "save_on_stop=no,dir=" + f.path) as other, other.operator() as c:
            assert c.stats()["curr_items"] == "3001" and len(c.get(b"large")) == 5000000


def test_by_tcp_and_what_cannot_be():
    with Folder() as f, mayfly.Daemon("-t", "1", tcp=True) as d, d.client() as c:
        c.set(b"a", b"x")
        done = subprocess.run([CTL, "-h", "127.0.0.1", "-p", str(d.address[1]), "save", f.name("one")],
                              capture_output=True, check=False, timeout=mayfly.PATIENCE)
        assert done.returncode == 0 and check(f.name("one"))["items"] == 1, done
        assert c.ask(b"save x").startswith(b"CLIENT_ERROR usage")
        os.mkfifo(f.name("fifo"))       # it would be replaced, and so would /dev/null
        for target in ("/nonexistent/folder/file", f.name(""), "", f.name("fifo")):
            done = subprocess.run([CTL, "-h", "127.0.0.1", "-p", str(d.address[1]), "save", target],
                                  capture_output=True, check=False, timeout=mayfly.PATIENCE)
            assert done.returncode in (2, 6) and done.stderr, done
        with open("/dev/full", "wb") as full:
            done = subprocess.run([CTL, "-h", "127.0.0.1", "-p", str(d.address[1]), "save", "-"], stdout=full,
                                  stderr=subprocess.PIPE, check=False, timeout=mayfly.PATIENCE)
        assert done.returncode == 6, done
    with mayfly.Daemon("-X") as d, d.client() as c:
        assert c.ask(b"save -").startswith(b"SERVER_ERROR dumps are turned off")


def test_one_at_a_time():
    with Folder() as f, daemon() as d, d.operator() as o:
        fill(o)
        with d.client() as slow:
            begin(slow)
            assert o.ask(b"save -").startswith(b"BUSY")
            done = ctl(d, "save", f.name("one"))
            assert done.returncode == 4 and b"another client" in done.stderr, done
            assert os.listdir(f.path) == []
            assert o.stat("export_in_progress", b"persistence") == 1
            data, last = portions(slow)
            # A key is sent twice where the index was resized under the walk.
            sent = int(last[4:])
            assert last[:4] == b"END " and KEYS <= sent < KEYS * 1.01, last
            # The connection goes on.
            assert slow.ask(b"mn") == b"MN"
        wait_for(lambda: o.stat("export_in_progress", b"persistence") == 0, "it ends")
        mayfly.write(f.name("slow"), data)
        assert check(f.name("slow"))["items"] == sent


def test_a_client_that_goes():
    with daemon() as d, d.operator() as o:
        fill(o)
        for n in (1, 2):
            with d.client() as c:
                begin(c)
                if n == 1:
                    c.reset()
            wait_for(lambda: o.stat("export_failures", b"persistence") == n, "it is given up")
            wait_for(lambda: o.stat("export_in_progress", b"persistence") == 0, "there is none")
        assert len(ctl(d, "save", "-").stdout) > KEYS * 400


def test_a_flush_meanwhile():
    with Folder() as f, daemon() as d, d.operator() as o:
        fill(o)
        with d.client() as c:
            begin(c)
            assert o.ask(b"flush_all") == b"OK"
            data, last = portions(c)
            assert last.startswith(b"SERVER_ERROR everything was flushed"), last
        mayfly.write(f.name("half"), data)
        assert check(f.name("half"))["verdict"] == "damaged"
        assert o.stat("export_failures", b"persistence") == 1


def test_a_stop_meanwhile():
    with daemon() as d, d.operator() as o, d.client() as c:
        fill(o)
        begin(c)
        assert d.stop() == 0


def load(d, *args, stdin=subprocess.DEVNULL):
    done = subprocess.run([CTL, "-s", d.control_path, "--json", "load", *args], stdin=stdin, capture_output=True,
                          check=False, timeout=mayfly.PATIENCE)
    return done.returncode, json.loads(done.stdout or "null"), done.stderr.decode()



def test_over_tls_and_by_users():
    """An operator may, a client with read and write may not; and a large value passes in parts."""
    made = tls.Certificates()
    with Folder() as f:
        for name, text in (("users", "ops:secret\napp:secret\n"), ("password", "secret\n"),
                           ("access", "user ops all\nuser app read,write\ndefault none\n")):
            mayfly.write(f.name(name), text, 0o600)
        d = mayfly.Daemon("-t", "2", "-m", "256", "-I", "8m", *made.serve("cache"), "-Y", f.name("users"),
                          "--access", f.name("access"), tcp=True, control=True, wait=False)

        def run(user, *args):
            return subprocess.run([CTL, "-h", "127.0.0.1", "-p", str(d.port), "--tls", "--ca", made.path("cache.pem"),
                                   "--tls-name", "cache", "--user", user, "--password-file", f.name("password"), *args],
                                  capture_output=True, check=False, timeout=mayfly.PATIENCE, stdin=subprocess.DEVNULL)
        with d:
            d.wait_for_operator()
            with d.operator() as o:
                fill(o, 3000)
                o.set(b"large", b"y" * 5000000)
                done = run("ops", "save", f.name("one"))
                assert done.returncode == 0 and done.stdout.startswith(b"saved 3001 items, "), done
                assert check(f.name("one"))["verdict"] == "whole"
                assert o.ask(b"flush_all") == b"OK"
                done = run("ops", "load", f.name("one"))
                assert done.returncode == 0, done
                assert o.stats()["curr_items"] == "3001" and o.get(b"large") == b"y" * 5000000
                for args in (("save", f.name("two")), ("load", f.name("one"))):
                    done = run("app", *args)
                    assert done.returncode not in (0, -6, -11) and b"for operators" in done.stderr, done
                assert not os.path.exists(f.name("two"))
                assert o.stat("exports", b"persistence") == 1 and o.stat("export_failures", b"persistence") == 0


def test_what_needs_its_logs_is_refused():
    with Folder() as folder, daemon() as b, b.operator() as p:
        with daemon("--dir", folder.path, "--appendonly", "full", "--appendfsync", "always") as a, a.operator() as o:
            o.set(b"old", b"1")
            assert o.ask(b"save") == b"OK"
            o.set(b"new", b"2")
            assert o.ask(b"delete old") == b"DELETED"
            assert ctl(a, "save", folder.name("alone")).returncode == 0
            files = sorted(name for name in os.listdir(folder.path) if name != "alone")
            assert len(files) == 2 and ".log." in files[1], files
            for name, why in zip(files, (b"has logs", b"is the log of a snapshot")):
                done = ctl(b, "load", folder.name(name))
                assert done.returncode == 1 and why in done.stderr and done.stdout == b"", done
        assert p.get(b"old") is None and p.get(b"new") is None
        assert load(b, folder.name("alone"))[0] == 0
        assert p.get(b"old") is None and p.get(b"new") == b"2"


def test_from_one_server_to_another():
    with daemon() as a, a.operator() as o, daemon() as b, b.operator() as p:
        fill(o, 3000)
        for n in range(1000):
            assert o.ask(b"ms t%d 2 p%d F%d\r\nhi" % (n, 100000000 + n, n)) == b"HD"
        assert o.ask(b"ms YSBiCg== 6 b\r\nbinary") == b"HD"
        o.set(b"large", b"y" * 5000000)
        o.set(b"both", b"older")
        p.set(b"both", b"newer")
        assert o.ask(b"ms stale 1\r\nx") == b"HD" and o.ask(b"md stale I") == b"HD"
        assert o.ask(b"mg awaited N600") == b"HD W"
        assert o.ask(b"ms early 1 T600\r\nx") == b"HD" and o.ask(b"mg early R900") == b"HD W"
        with subprocess.Popen([CTL, "-s", a.control_path, "save", "-"], stdout=subprocess.PIPE) as save:
            status, said, err = load(b, "-", stdin=save.stdout)
            save.stdout.close()
            assert save.wait(mayfly.PATIENCE) == 0
        assert (status, err) == (0, ""), err
        # A key is sent twice where the index was resized under the walk.
        assert said["loaded"] == 4003 and said["there"] >= 1 and said["stale"] == 2, said
        assert said["gone"] == said["refused"] == said["expired"] == 0, said
        assert p.get(b"both") == b"newer" and len(p.get(b"large")) == 5000000
        assert p.ask(b"mg stale v") == b"EN" and p.ask(b"mg awaited v") == b"EN"
        assert p.get(b"early") == b"x"
        assert p.ask(b"mg YSBiCg== v b").startswith(b"VA 6") and p.line() == b"binary"
        for n in range(1000):
            for key in (b"t%d" % n, b"k%d" % n):
                assert o.ask(b"mg %s f s" % key) == p.ask(b"mg %s f s" % key)
                # Each server has its own clock, which counts milliseconds.
                was, now = (int(c.ask(b"pexpiretime " + key).split()[-1]) for c in (o, p))
                assert abs(now - was) <= 1, (key, was, now)
        assert int(p.stats()["curr_items"]) == 4004


def test_load_of_what_is_damaged_or_something_else():
    with Folder() as f, daemon() as d, d.operator() as o:
        fill(o, 3000)
        assert ctl(d, "save", f.name("good")).returncode == 0
        data = bytearray(mayfly.read_bytes(f.name("good")))
        data[data.index(b"x" * 400, len(data) // 2)] ^= 1   # in a value: blocks begin where they like
        mayfly.write(f.name("bad"), data)
        mayfly.write(f.name("rdb"), b"REDIS0011")
        assert o.ask(b"flush_all") == b"OK"
        status, said, err = load(d, f.name("bad"))
        assert status == 1 and "checksum differs" in err and 0 < said["loaded"] < 3000, (said, err)
        assert int(o.stats()["curr_items"]) == said["loaded"]
        status, said, err = load(d, f.name("rdb"))
        assert status == 1 and said is None and "is a Redis RDB file" in err, err
        assert load(d, f.name("none"))[0] == 6
        # Values that the server does not take are counted.
        with mayfly.Daemon("-I", "1k", control=True) as small:
            status, said, err = load(small, f.name("good"))
            assert status == 0 and said["loaded"] == 3000, (said, err)
        o.set(b"large", b"x" * 100000)
        assert ctl(d, "save", f.name("large")).returncode == 0
        with mayfly.Daemon("-I", "10k", control=True) as small:
            status, said, err = load(small, f.name("large"))
            assert status == 0 and said["refused"] == 1, (said, err)


def test_what_has_expired_or_is_to_be_flushed():
    with Folder() as f, daemon() as d, d.operator() as o:
        assert o.ask(b"ms short 1 p2500\r\nx") == b"HD" and o.ask(b"ms long 1\r\nx") == b"HD"
        assert o.ask(b"flush_all 1000") == b"OK"
        assert ctl(d, "save", f.name("one")).returncode == 0
        wait_for(lambda: o.ask(b"mg short") == b"EN", "it expires")
        with daemon() as other, other.operator() as c:
            c.set(b"own", b"x")
            status, said, _ = load(other, f.name("one"))
            assert status == 0 and said["expired"] == 1 and said["loaded"] == 1, said
            # It has no deadline of its own, but may not outlive the flush.
            assert 0 < int(c.ask(b"ttl long").split()[-1]) <= 1000
            assert c.ask(b"mg own t") == b"HD t-1"


def test_what_goes_meanwhile_does_not_come_back():
    with daemon() as d, d.operator() as o, d.operator() as c, d.operator() as other:
        c.set(b"there", b"x")
        assert c.ask(b"restore begin 1000") == b"OK"
        assert c.ask(b"restore begin") == b"BUSY another load is under way"
        assert other.ask(b"restore begin") == b"BUSY another load is under way"
        assert other.ask(b"restore end") == b"NOT_FOUND"
        assert o.ask(b"delete absent") == b"NOT_FOUND" and o.ask(b"delete there") == b"DELETED"
        assert o.ask(b"touch touched 100") == b"NOT_FOUND"
        for key in (b"absent", b"there", b"touched"):
            assert c.ask(b"ms %s 1 ME\r\nx" % key) == b"NS", key
            assert c.ask(b"mg " + key) == b"EN"
        assert c.ask(b"ms absent 100000 ME\r\n" + b"x" * 100000) == b"NS"
        assert c.ask(b"ms new 1 ME\r\nx") == b"HD"
        assert o.ask(b"ms absent 1 ME\r\nx") == b"HD"      # as new as any
        assert c.ask(b"restore end") == b"RESTORED 4"
        assert c.ask(b"ms touched 1 ME\r\nx") == b"HD"
        assert c.ask(b"restore end") == b"NOT_FOUND"
        # A flush voids it, and a closed connection ends it.
        assert c.ask(b"restore begin") == b"OK" and o.ask(b"flush_all") == b"OK"
        assert c.ask(b"ms new 1 ME\r\nx") == b"NS"
        assert c.ask(b"restore end").startswith(b"SERVER_ERROR everything was flushed")
        assert other.ask(b"restore begin") == b"OK"
        other.close()
        wait_for(lambda: c.ask(b"restore begin") == b"OK", "it is over")
        for bad in (b"restore", b"restore x", b"restore begin x", b"restore begin 1 2"):
            assert c.ask(bad).startswith(b"CLIENT_ERROR usage"), bad


def test_a_restore_takes_what_the_limit_bears():
    """However many items it announces, and as often as it is asked for."""
    with mayfly.Daemon("-m", "64", "-t", "1", control=True) as d, d.operator() as c:
        before = d.rss()
        for _ in range(100):
            assert c.ask(b"restore begin 18446744073709551615") == b"OK"
            taken = d.rss() - before
            assert c.ask(b"restore end") == b"RESTORED 0"
        assert mayfly.is_sanitized() or taken < 8 << 20, "%d MiB" % (taken >> 20)


mayfly.main(globals())
