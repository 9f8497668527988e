#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`config rewrite` and `config reload` of a running server: the resulting files, the answer to the operator, and that
a file is written completely or not at all. tests/daemon/options/test_options_rewrite.c tests the new content for
arbitrary files."""
import contextlib
import ctypes
import os
import pwd
import re
import stat
import subprocess
import tempfile

import mayfly
import tls
from mayfly import Inapplicable, wait_for

CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE = 16384, 1 << 18
MARK = "\n# Set while the server ran, written by config rewrite:\n"


def Daemon(path, *args, **kw):
    return mayfly.Daemon("--config", path, *args, **{"control": True, **kw})


@contextlib.contextmanager
def folder(**files):
    """A folder with these files; __ in a name means a point."""
    with tempfile.TemporaryDirectory(prefix="mayfly-rewrite.") as made:
        os.chmod(made, 0o755)
        for name, text in files.items():
            write(os.path.join(made, name.replace("__", ".")), text)
        yield made


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", newline="") as f:
        f.write(text)


def read(path):
    return mayfly.read(path)


def answer(c, line):
    """The lines of an answer, to its last."""
    c.send(line + b"\r\n")
    lines = []
    while not lines or not re.match(r"OK$|END$|(CLIENT_|SERVER_)?ERROR", lines[-1]):
        line = c.line()
        if line is None:
            raise EOFError("the connection was closed after %r" % lines)
        lines.append(line.decode())
    return lines


def values(c):
    return {line.split(" ", 2)[1]: line for line in answer(c, b"config get *")[:-1]}


def change(c, **options):
    for name, value in options.items():
        assert answer(c, b"config set %s %s" % (name.encode(), str(value).encode())) == ["OK"], name


# ---- rewrite --------------------------------------------------------------------------------------

def test_the_next_start_has_the_same_values():
    with folder(a__conf="# mine\nhz = 20 # so\nthreads = 1\ninclude = more\nidle-timeout = 9") as here:
        path, more = here + "/a.conf", here + "/more/b.conf"
        write(more, "ttl-jitter = 5\n")
        with Daemon(path) as d, d.operator() as c:
            change(c, hz=33, ttl_jitter=7, verbose=1, conn_limit=500)
            assert answer(c, b"config rewrite") == ["OK"]
            before = values(c)
            assert read(path) == ("# mine\nhz = 33 # so\nthreads = 1\ninclude = more\nidle-timeout = 9\n"
                                  + MARK + "conn-limit = 500\nverbose = 1\n"), read(path)
            assert read(more) == "ttl-jitter = 7\n"
            # It is what config reset goes back to, and nothing is new to a reload.
            change(c, hz=44)
            assert answer(c, b"config reset *") == ["OK"] and values(c) == before
            assert answer(c, b"config reload") == ["OK"] and values(c) == before
            wait_for(lambda: "options, read again (0 changed)" in d.log(), "nothing is new")
            assert d.says("options, wrote hz = 33 (%s:2)" % path)
            # And once more, below the same mark.
            change(c, hotkeys=100)
            assert answer(c, b"config rewrite") == ["OK"]
            assert read(path).endswith(MARK + "conn-limit = 500\nverbose = 1\nhotkeys = 100\n"), read(path)
            before = values(c)
        with Daemon(path) as d, d.operator() as c:
            after = values(c)
            for one in (before, after):
                for name in ("unix_socket", "control"):
                    del one[name]           # of another folder
            assert after == before
        got = mayfly.run("--config", path, "--check-config")
        assert got[0] == 0 and got[1].endswith("ok\n"), got
        assert sorted(os.listdir(here)) == ["a.conf", "more"] and os.listdir(here + "/more") == ["b.conf"]


def test_texts_with_blanks():
    """Written, read by a reload and by the next start, and unset by all three."""
    with folder(a__conf="threads = 1\nreplicaof = a 1\n") as here:
        path = here + "/a.conf"
        with Daemon(path) as d, d.operator() as c:
            change(c, replicaof="b 2", replica_password_file='"/a #b"')
            assert answer(c, b"config rewrite") == ["OK"]
            assert read(path) == "threads = 1\nreplicaof = b 2\n" + MARK + 'replica-password-file = "/a #b"\n', read(path)
            write(path, "threads = 1\nreplicaof = [::1]:3\nreplica-user = u v\n")
            assert answer(c, b"config reload") == ["OK"]
            assert answer(c, b"config get replicaof replica_user replica_password_file")[:-1] == \
                ["CONFIG replicaof [::1]:3", "CONFIG replica_user u v", "CONFIG replica_password_file"]
            write(path, "threads = 1\nreplicaof = h 70000\nreplica-user = other\n")
            assert "%s:2: replicaof: \"h 70000\" is not an address: the port" % path in answer(c, b"config reload")[-1]
            assert answer(c, b"config get replica_user")[0] == "CONFIG replica_user u v"
            write(path, "threads = 1\nreplicaof = no one\n")
            assert answer(c, b"config reload") == ["OK"]
            assert answer(c, b"config get replicaof")[0] == "CONFIG replicaof"
            change(c, replicaof="d 4")
            assert answer(c, b"config rewrite") == ["OK"]
            assert read(path) == "threads = 1\nreplicaof = d 4\n", read(path)
        with Daemon(path) as d, d.operator() as c:
            assert answer(c, b"config get replicaof")[0] == "CONFIG replicaof d 4"
            change(c, replicaof="no one")
            assert answer(c, b"config rewrite") == ["OK"]
            assert read(path) == "threads = 1\nreplicaof = \n", read(path)
        for option, status in (("h 1", 0), ("no one", 0), ("h 0", 64), ("h", 64)):
            for form in (["-o", "replicaof=" + option], ["--replicaof=" + option]):
                got = mayfly.run(*form, "--check-config")
                assert got[0] == status and (status == 0 or "is not an address: the port" in got[1]), (form, got)


def test_a_name_of_redis_keeps_its_unit():
    with folder(a__conf="threads = 1\nmaxmemory = 100mb\nactive-expire-effort = 2\n") as here:
        path = here + "/a.conf"
        with Daemon(path) as d, d.operator() as c:
            change(c, memory_limit=200, expire_effort=5)
            assert answer(c, b"config rewrite") == ["OK"]
            assert read(path) == "threads = 1\nmaxmemory = 200mb\nactive-expire-effort = 5\n", read(path)
        with Daemon(path) as d, d.operator() as c:
            assert answer(c, b"config get maxmemory")[0] == "CONFIG memory_limit 200"


def test_what_the_next_start_has_otherwise_is_told():
    with folder(a__conf="threads = 1\n") as here:
        path = here + "/a.conf"
        with Daemon(path, "-o", "hz=20") as d, d.operator() as c:
            assert answer(c, b"config rewrite") == ["OK"]
            assert read(path) == "threads = 1\n"            # flags are not written
            write(path, "threads = 1\nlisten-backlog = 2\nauth-file = \"/a # b\"\n")
            change(c, hz=30)
            lines = answer(c, b"config rewrite")
            assert lines[0] == "OVERRIDDEN hz 20" and lines[-1] == "OK", lines
            assert sorted(lines[1:-1]) == ['RESTART auth_file "/a # b"', "RESTART listen_backlog 2", "RESTART protocol ascii"], lines
            assert read(path) == 'threads = 1\nlisten-backlog = 2\nauth-file = "/a # b"\n' + MARK + "hz = 30\n"


def test_without_a_file():
    with mayfly.Daemon("-t", "1", control=True) as d, d.operator() as c:
        assert answer(c, b"config rewrite") == \
            ["CLIENT_ERROR there is no configuration file: the server was started without --config"]
        assert answer(c, b"config reload") == ["CLIENT_ERROR there is nothing to reload: no file was given"]


def test_memcached_conf_is_not_written():
    with folder(a__conf="threads = 1\n", m__conf="-R 33\n-m 100\n") as here:
        with Daemon(here + "/a.conf", "--memcached-conf", here + "/m.conf") as d, d.operator() as c:
            assert values(c)["max_reqs_per_event"] == "CONFIG max_reqs_per_event 33"
            change(c, max_reqs_per_event=44)
            assert answer(c, b"config rewrite") == ["OK"]
        assert read(here + "/m.conf") == "-R 33\n-m 100\n"
        assert read(here + "/a.conf") == "threads = 1\n" + MARK + "max-reqs-per-event = 44\n"


def test_links_lead_to_the_file():
    with folder(real__conf="threads = 1\nhz = 20\n") as here:
        os.mkdir(here + "/etc")
        os.symlink("../real.conf", here + "/etc/a.conf")
        os.chmod(here + "/real.conf", 0o640)
        with Daemon(here + "/etc/a.conf") as d, d.operator() as c:
            change(c, hz=21)
            assert answer(c, b"config rewrite") == ["OK"]
        assert os.readlink(here + "/etc/a.conf") == "../real.conf"
        assert read(here + "/real.conf") == "threads = 1\nhz = 21\n"
        assert stat.S_IMODE(os.stat(here + "/real.conf").st_mode) == 0o640
        assert sorted(os.listdir(here)) == ["etc", "real.conf"] and os.listdir(here + "/etc") == ["a.conf"]


def test_errors_of_the_files_are_told():
    with folder(a__conf="threads = 1\nhz = 20\n") as here:
        path = here + "/a.conf"
        with Daemon(path) as d, d.operator() as c:
            change(c, hz=21)
            write(path, "threads = 1\n\nhz = fast\nport = x\n")
            why = 'CLIENT_ERROR %s:3: hz: "fast" is not a number (1 to 500)' % path
            assert all(answer(c, command) == [why] for command in (b"config rewrite", b"config reload"))
            os.unlink(path)
            for command in (b"config rewrite", b"config reload"):
                assert answer(c, command) == ["CLIENT_ERROR --config: cannot read %s (No such file or directory)" % path]
            assert values(c)["hz"] == "CONFIG hz 21"


# ---- what may fail --------------------------------------------------------------------------------

def test_the_user_of_the_server_needs_file_and_folder():
    mayfly.skip_if(os.geteuid() != 0, "not root")
    nobody = pwd.getpwnam("nobody")
    with folder(a__conf="threads = 1\nhz = 20\n") as here:
        path = here + "/a.conf"
        with Daemon(path, "-u", "nobody", user=False) as d, d.operator() as c:
            change(c, hz=21)
            assert answer(c, b"config rewrite") == ["SERVER_ERROR may not write %s (Permission denied)" % path]
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
            assert answer(c, b"config rewrite") == ["SERVER_ERROR cannot make a file beside %s (Permission denied)" % path]
            assert read(path) == "threads = 1\nhz = 20\n"
            wait_for(lambda: "options, not written: may not write" in d.log(), "it is logged")
            os.chown(here, nobody.pw_uid, nobody.pw_gid)
            assert answer(c, b"config rewrite") == ["OK"]
            found = os.stat(path)
            assert (found.st_uid, found.st_gid) == (nobody.pw_uid, nobody.pw_gid)
        assert read(path) == "threads = 1\nhz = 21\n"
        assert os.listdir(here) == ["a.conf"]


def test_confined():
    """drop_privileges leaves the folder of the file."""
    mayfly.skip_if(mayfly.is_sanitized(), "a sanitizer makes calls of its own")
    with folder(a__conf="threads = 1\nhz = 20\ninclude = more\n") as here:
        write(here + "/more/b.conf", "ttl-jitter = 1\n")
        mayfly.skip_if("not built with" in mayfly.run("-o", "drop_privileges", "--check-config")[1],
                       "mayflyd is built without seccomp")
        with Daemon(here + "/a.conf", "-o", "drop_privileges") as d, d.operator() as c:
            change(c, hz=21, ttl_jitter=2)
            assert answer(c, b"config rewrite") == ["OK"]
            assert answer(c, b"config reload") == ["OK"]
        assert read(here + "/a.conf") == "threads = 1\nhz = 21\ninclude = more\n"
        assert read(here + "/more/b.conf") == "ttl-jitter = 2\n"


def small_disk(where, options):
    """Run in the child: a small file system of its own there."""
    def mount():
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0 \
                or libc.mount(b"none", where.encode(), b"tmpfs", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "cannot mount")
        write(where + "/a.conf", "threads = 1\nhz = 20\n#" + "x" * 6000 + "\n")
    return mount


def test_a_full_disk_leaves_the_old_file():
    mayfly.skip_if(os.geteuid() != 0, "not root")
    with folder() as here:
        os.mkdir(here + "/disk")
        path = here + "/disk/a.conf"
        try:
            subprocess.run(["true"], preexec_fn=small_disk(here + "/disk", "size=12k"), check=True)
        except (subprocess.SubprocessError, OSError):
            raise Inapplicable("no file system can be mounted")
        with Daemon(path, before=small_disk(here + "/disk", "size=12k")) as d, d.operator() as c:
            inside = "/proc/%d/root%s" % (d.pid, path)
            before = read(inside)
            change(c, hz=21)
            assert answer(c, b"config rewrite") == ["SERVER_ERROR cannot write %s (No space left on device)" % path]
            assert read(inside) == before and os.listdir(os.path.dirname(inside)) == ["a.conf"]
            assert values(c)["hz"] == "CONFIG hz 21"
            with d.client() as other:
                assert other.set(b"k", b"v") == b"STORED"


def test_all_files_or_none():
    mayfly.skip_if(os.geteuid() != 0, "not root")
    nobody = pwd.getpwnam("nobody")
    with folder(a__conf="threads = 1\nhz = 20\ninclude = more/b.conf\n") as here:
        write(here + "/more/b.conf", "ttl-jitter = 1\n")
        os.chown(here, nobody.pw_uid, -1)
        os.chown(here + "/a.conf", nobody.pw_uid, nobody.pw_gid)
        with Daemon(here + "/a.conf", "-u", "nobody", user=False) as d, d.operator() as c:
            change(c, hz=21, ttl_jitter=2)
            assert answer(c, b"config rewrite") == ["SERVER_ERROR may not write %s/more/b.conf (Permission denied)" % here]
            assert read(here + "/a.conf") == "threads = 1\nhz = 20\ninclude = more/b.conf\n"
            change(c, ttl_jitter=1)
            assert answer(c, b"config rewrite") == ["OK"]
            assert "hz = 21\n" in read(here + "/a.conf")


def test_by_many_at_once():
    """Each answer goes to the client that asked, and the file is complete at any moment."""
    with folder(a__conf="threads = 1\nhz = 20\nttl-jitter = 1\n") as here:
        path = here + "/a.conf"
        with Daemon(path, "-t", "4") as d, contextlib.ExitStack() as stack:
            clients = [stack.enter_context(d.operator()) for _ in range(6)]
            for n in range(30):
                for i, c in enumerate(clients):
                    c.send(b"config set ttl_jitter %d\r\nconfig rewrite\r\nconfig reload\r\nconfig rewrite noreply\r\nmn\r\n"
                           % ((n + i) % 100))
            seen = set()
            for c in clients:
                for _ in range(30):
                    assert [c.line() for _ in range(4)] == [b"OK"] * 3 + [b"MN"]
                    text = read(path)
                    assert re.fullmatch(r"threads = 1\nhz = 20\nttl-jitter = \d+\n", text), text
                    seen.add(text)
            assert answer(clients[0], b"config rewrite") == ["OK"]
            assert values(clients[0])["ttl_jitter"].rsplit(" ", 1)[1] == read(path).rsplit(" ", 1)[1].strip()
        assert os.listdir(here) == ["a.conf"]


def test_a_crash_leaves_a_whole_file():
    with folder(a__conf="threads = 1\nhz = 20\n#" + "x" * 100000 + "\nttl-jitter = 1\n") as here:
        path = here + "/a.conf"
        size = os.stat(path).st_size
        for n in range(5):
            with Daemon(path) as d:
                with d.operator() as c:
                    change(c, hz=100 + n)
                    c.send(b"".join(b"config set ttl_jitter %d\r\nconfig rewrite\r\n" % (10 + i) for i in range(80)))
                    wait_for(lambda: "hz = %d\n" % (100 + n) in read(path)[:100], "it writes")
                d.crash()
            assert abs(os.stat(path).st_size - size) < 10 and "ttl-jitter = " in read(path)[-20:]


def test_a_client_that_has_left_harms_nobody():
    with folder(a__conf="threads = 1\nhz = 20\n") as here, Daemon(here + "/a.conf") as d:
        # A busy server still has the operators before, and refuses one too many: that is no fault here.
        for n in range(50):
            with contextlib.suppress(ConnectionError), d.operator() as c:
                c.send(b"config set hz %d\r\nconfig rewrite\r\nconfig reload\r\n" % (50 + n))
                if n % 2:
                    c.reset()
        def is_answered():      # once the others have left their places
            with contextlib.suppress(ConnectionError, EOFError), d.operator() as c:
                return answer(c, b"config rewrite") == ["OK"]
            return False
        wait_for(is_answered, "it is answered")


def test_a_stop_answers():
    """Waiting clients get their answer, or the end of the connection."""
    with folder(a__conf="threads = 1\nhz = 20\n") as here, Daemon(here + "/a.conf") as d, d.operator() as c:
        c.send(b"".join(b"config set hz %d\r\nconfig rewrite\r\n" % (30 + n) for n in range(200)))
        assert c.line() == b"OK"
        assert d.stop() == 0
        assert os.listdir(here) == ["a.conf"]
        assert re.fullmatch(r"threads = 1\nhz = \d+\n", read(here + "/a.conf"))


# ---- reload ---------------------------------------------------------------------------------------

def test_reload_is_all_or_nothing():
    with folder(a__conf="threads = 1\nhz = 20\nttl-jitter = 1\n") as here:
        path = here + "/a.conf"
        with Daemon(path) as d, d.operator() as c:
            write(path, "listen-backlog = 4\nhz = 30\nttl-jitter = 2\n")
            assert answer(c, b"config reload") == ["RESTART listen_backlog 4", "OK"]
            assert values(c)["hz"] == "CONFIG hz 30" and values(c)["ttl_jitter"] == "CONFIG ttl_jitter 2"
            write(path, "threads = 1\nhz = 40\nttl-jitter = 200\n")
            assert answer(c, b"config reload") == \
                ["CLIENT_ERROR %s:3: ttl-jitter: 200 is out of range (0 to 100)" % path]
            write(path, "threads = 1\nhz = 40\nmemory-limit = 16000000\n")
            assert answer(c, b"config reload") == \
                ["CLIENT_ERROR %s:3: memory-limit: out of bounds or unable to adjust" % path]
            assert values(c)["hz"] == "CONFIG hz 30"
            write(path, "threads = 1\nhz = 40\n")
            assert answer(c, b"config reload noreply\r\nconfig get hz") == ["CONFIG hz 40", "END"]


def test_reload_tells_of_users_and_rules():
    with folder(users="a:b\n", rules="default all\n") as here:
        with mayfly.Daemon("-t", "1", "-Y", here + "/users", "--access", here + "/rules", control=True, wait=False) as d:
            d.wait_for_operator()
            with d.operator() as c:
                assert answer(c, b"config reload") == ["OK"]
                write(here + "/users", "a:b\nnothing\n")
                assert answer(c, b"config reload") == ["CLIENT_ERROR authfile %s/users has a malformed entry in line 2 "
                                                       "(should be 'user:password')" % here]
                write(here + "/users", "a:b\n")
                write(here + "/rules", "default all\nuser x\n")
                assert answer(c, b"config reload") == ["CLIENT_ERROR %s/rules:2: a list of rights is missing" % here]
                write(here + "/rules", "default none\n")
                assert answer(c, b"config reload") == ["OK"]


def test_reload_waits_for_certificates():
    made = tls.Certificates()
    with mayfly.Daemon("-t", "1", *made.serve("one"), control=True, tcp=True, wait=False) as d:
        d.wait_for_operator()
        with d.operator() as c:
            assert answer(c, b"config reload") == ["OK"]
            write(made.path("one.key"), "no key")
            assert answer(c, b"config reload")[0].startswith("CLIENT_ERROR Error loading the ")


if __name__ == "__main__":
    mayfly.main(globals())
