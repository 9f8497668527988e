#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The control socket: which users may connect, what the operator may do there, and that clients cannot make it
unavailable."""
import contextlib
import os
import pwd
import resource
import socket
import stat
import subprocess
import sys
import tempfile

import mayfly
from mayfly import Client, Daemon, wait_for

PLACES = 8      # CONTROL_CONNS_MAX


def Controlled(*args, **kw):
    """A daemon for clients over TCP, with a control socket."""
    return Daemon(*args, **{"tcp": True, "control": True, **kw})


def need_root():
    mayfly.skip_if(os.geteuid() != 0, "not root")


# ---- who ------------------------------------------------------------------------------------------

def test_it_is_off_by_default():
    with Daemon("-t", "1") as d, d.client() as c:
        assert c.stats(b"settings")["control"] == "NULL"


def test_only_its_user_may_open_it_whatever_a_says():
    def free():
        os.umask(0)
    with Controlled("-a", "0777", "-t", "1", before=free) as d:
        found = os.stat(d.control_path)
        assert stat.S_ISSOCK(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o600, oct(found.st_mode)
        with d.operator() as c:
            assert c.stats(b"settings")["control"] == d.control_path
        assert d.stop() == 0
        assert not os.path.exists(d.control_path)


def ask_as(uid, path):
    """What a process of this user is answered; "" where the connection is closed."""
    code = ("import os, socket, sys\n"
            "os.setgroups([]); os.setresgid(%d, %d, %d); os.setresuid(%d, %d, %d)\n"
            "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
            "try:\n"
            "    s.sendall(b'version\\r\\n'); sys.stdout.write(s.recv(100).decode())\n"
            "except (BrokenPipeError, ConnectionResetError):\n"
            "    pass\n") % ((uid,) * 6)
    return subprocess.run([sys.executable, "-c", code, path], check=True, stdout=subprocess.PIPE,
                          text=True, timeout=mayfly.PATIENCE).stdout


def test_strangers_are_refused():
    """Even if the file was opened to all: the kernel reports the user of the peer."""
    need_root()
    nobody = pwd.getpwnam("nobody").pw_uid
    stranger = pwd.getpwnam("daemon").pw_uid
    with Controlled("-u", "nobody", "-t", "1", user=False) as d, d.operator() as c:
        os.chmod(d.folder, 0o755)
        assert os.stat(d.control_path).st_uid == nobody
        assert ask_as(nobody, d.control_path).startswith("VERSION")
        os.chmod(d.control_path, 0o666)
        assert c.stat("mayfly_control_refused") == 0
        for n in range(1, 4):
            assert ask_as(stranger, d.control_path) == ""
            assert c.stat("mayfly_control_refused") == n
        wait_for(lambda: "refused user %d on the control socket" % stranger in d.log(), "it is logged")
        assert ask_as(nobody, d.control_path).startswith("VERSION")
        assert c.stat("mayfly_control_refused") == 3


# ---- what -----------------------------------------------------------------------------------------

def test_it_needs_no_login():
    with mayfly.place("users", "user:password\n") as users, Controlled("-Y", users, "-t", "1", wait=False) as d:
        d.wait_for_operator()
        with d.operator() as c, d.client() as client:
            assert client.ask(b"get k") == b"CLIENT_ERROR unauthenticated"
            assert c.set(b"k", b"v") == b"STORED"
            assert c.ask(b"mg k v") == b"VA 1" and c.line() == b"v"
            d.process.send_signal(mayfly.signal.SIGHUP)     # every login is looked at again
            wait_for(lambda: "users" in d.log(), "the users were read again")
            assert c.get(b"k") == b"v"


def test_it_speaks_text_whatever_B_says():
    with Controlled("-B", "binary", "-t", "1", wait=False) as d:
        d.wait_for_operator()
        with d.operator() as c:
            assert c.set(b"k", b"v") == b"STORED"


def test_it_knows_all_commands():
    with Controlled("-o", "no_extensions", "-t", "1") as d, d.operator() as c, d.client() as client:
        assert client.ask(b"ttl k") == b"ERROR"
        assert c.ask(b"ttl k") == b"-2"
        assert client.ask(b"lru_crawler hold 1") == b"ERROR"
        assert c.ask(b"lru_crawler hold 1") == b"OK"


def test_it_may_shut_down_without_A():
    with Controlled("-t", "1") as d, d.client() as client, d.operator() as c:
        assert client.ask(b"shutdown") == b"SERVER_ERROR: shutdown not enabled"
        c.send(b"shutdown\r\n")
        assert d.process.wait(mayfly.PATIENCE) == 0


def test_it_does_not_hold_up_a_graceful_stop():
    with Controlled("-t", "2") as d, d.operator() as watching:
        wait_for(lambda: watching.stat("curr_connections") == 1, "it is alone")
        with d.client() as client, d.operator() as c:
            assert client.set(b"k", b"v") == b"STORED"
            c.send(b"shutdown graceful\r\n")
            wait_for(lambda: "is stopping gracefully (1 connections left)" in d.log(), "it waits for one")
            assert client.get(b"k") == b"v"
        assert d.process.wait(mayfly.PATIENCE) == 0


def test_it_is_idle_as_others():
    with Controlled("-o", "idle_timeout=1", "-t", "1") as d, d.operator() as c:
        assert c.ask(b"mn") == b"MN"
        assert c.line() is None


# ---- that it stays --------------------------------------------------------------------------------

def is_served(c):
    return (c.ask(b"version") or b"").startswith(b"VERSION")


def test_it_has_places_of_its_own():
    for option in ("maxconns_fast", "no_maxconns_fast"):
        with Controlled("-c", "3", "-t", "2", "-o", option) as d, contextlib.ExitStack() as stack:
            first = stack.enter_context(d.operator())
            wait_for(lambda: first.stat("curr_connections") == 1, "it is alone")
            for _ in range(3):
                assert is_served(stack.enter_context(d.client()))
            late = stack.enter_context(d.client())
            if option == "maxconns_fast":
                assert late.line() == b"ERROR Too many open connections"
            else:
                wait_for(lambda: first.stat("accepting_conns") == 0, "accepting pauses")
            others = [stack.enter_context(d.operator()) for _ in range(PLACES - 1)]
            assert all(is_served(c) for c in others)
            with d.operator() as c:             # there are few of them, too
                assert c.line() == b"ERROR Too many open connections"
            others[0].close()
            wait_for(lambda: first.stat("curr_connections") == 3 + PLACES - 1, "one has left")
            assert is_served(stack.enter_context(d.operator()))


def test_it_takes_no_place_of_clients():
    with Controlled("-c", "2", "-t", "1") as d, contextlib.ExitStack() as stack:
        operators = [stack.enter_context(d.operator()) for _ in range(PLACES)]
        assert all(is_served(c) for c in operators)
        wait_for(lambda: operators[0].stat("curr_connections") == PLACES, "they are alone")
        for _ in range(2):
            assert is_served(stack.enter_context(d.client()))


FEW = 120           # descriptors


def test_it_stays_when_descriptors_run_out():
    """Clients use every descriptor of the process; those reserved for the operator remain available."""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, FEW))
    with Controlled("-c", "110", "-t", "1", before=few) as d, contextlib.ExitStack() as stack, d.operator() as c:
        for _ in range(FEW + 10):
            stack.enter_context(d.client())
        wait_for(lambda: "paused accepting" in d.log(), "descriptors run out")
        # The first keeps its place: the server may not have noticed yet that it left.
        operators = [c, *(stack.enter_context(d.operator()) for _ in range(PLACES - 1))]
        assert all(is_served(operator) for operator in operators)


# ---- files of options that are read again ---------------------------------------------------------

def write(path, text):
    mayfly.replace(path, text)


def reload(d, says="options, read again ("):
    d.reload(says)


def values(c, *names):
    c.send(b"config get " + " ".join(names).encode() + b"\r\n")
    found = {}
    while True:
        line = c.line().decode()
        if line == "END":
            return [found[name] for name in names]
        _, name, value = line.split(" ", 2)
        found[name] = value


def test_a_reload_takes_what_is_new_in_the_file():
    with tempfile.TemporaryDirectory(prefix="mayfly-conf.") as folder:
        path = os.path.join(folder, "mayfly.conf")
        write(path, "hz = 20\nttl-jitter = 5\nthreads = 1\ninclude = more\n")
        os.mkdir(os.path.join(folder, "more"))
        more = os.path.join(folder, "more", "a.conf")
        write(more, "idle-timeout = 1000\nexpire-effort = 3\n")
        with Controlled("--config", path, "-o", "expire_effort=7") as d, d.operator() as c:
            assert values(c, "hz", "ttl_jitter", "idle_timeout", "expire_effort") == ["20", "5", "1000", "7"]
            assert c.ask(b"config set ttl_jitter 9 hz 99") == b"OK"
            write(path, "threads = 1\nhz = 30\nttl-jitter = 5\nlisten-backlog = 9\nmemory-limit = 80\ninclude = more\n")
            write(more, "idle-timeout = 2000\nexpire-effort = 4\n")
            reload(d)
            # The flag overrides the file; what config set has changed stays unless the file's value is new.
            assert values(c, "hz", "ttl_jitter", "idle_timeout", "expire_effort", "threads", "memory_limit") == \
                ["30", "9", "2000", "7", "1", "80"]
            assert c.stat("limit_maxbytes") == 80 << 20
            log = d.log()
            assert "options, hz: 99 -> 30 (%s:2)" % path in log, log
            assert "options, idle-timeout: 1000 -> 2000 (%s:1)" % more in log, log
            assert "options, memory-limit: 64 -> 80 (%s:5)" % path in log, log
            assert "options, listen-backlog: 1024 -> 9 needs a restart (%s:4)" % path in log, log
            assert "options, read again (3 changed)" in log and "expire-effort:" not in log, log
            assert c.ask(b"config reset *") == b"OK"    # to what the file says now
            assert values(c, "hz", "ttl_jitter", "expire_effort") == ["30", "5", "7"]
            write(path, "include = more\n")             # what is gone has its default again
            reload(d)
            assert values(c, "hz", "ttl_jitter", "memory_limit") == ["10", "0", "64"]


def test_a_reload_takes_nothing_of_a_file_with_errors():
    with mayfly.place("mayfly.conf", "hz = 20\n") as path:
        with Controlled("--config", path, "-t", "1") as d, d.operator() as c:
            for text, complaint in (("hz = 30\nexpire-effort = 11\nhzz = 1\n", path + ":2: "),
                                    ("hz = 30\nmemory-limit = 16000000\n", "memory-limit: "),
                                    ("hz = 30\nitem-size-max = 1g\n", "")):
                write(path, text)
                reload(d, "unchanged")
                assert values(c, "hz") == ["20"]
                wait_for(lambda what=complaint: what in d.log(), "it is logged")
            os.unlink(path)
            reload(d, "unchanged")
            assert values(c, "hz") == ["20"]
            write(path, "hz = 30\n")
            reload(d)
            assert values(c, "hz") == ["30"]


# ---- a service manager ----------------------------------------------------------------------------

BECOME = ("import os, sys\n"
          "os.dup2(int(sys.argv[1]), 3)\n"
          "os.set_inheritable(3, True)\n"
          "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', LISTEN_FDNAMES='control')\n"
          "os.execv(sys.argv[2], sys.argv[2:])\n")


@contextlib.contextmanager
def activated(listener, *args):
    """A daemon that is passed this socket as its control socket."""
    fd = os.dup(listener.fileno())
    process = subprocess.Popen([sys.executable, "-c", BECOME, str(fd), mayfly.PROGRAM, "-t", "1", *args] + mayfly.ROOT,
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=[fd])
    os.close(fd)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(mayfly.PATIENCE)
        process.stderr.close()


def test_a_passed_socket_is_one_by_its_name():
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        path, clients = os.path.join(folder, "passed"), os.path.join(folder, "clients")
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(path)
            s.listen(16)
            own = os.path.join(folder, "own")
            with activated(s, "-c", "1", "-s", clients, "--control", own), Client(path) as c:
                assert is_served(c)
                assert not os.path.exists(own)
                with Client(clients) as client:     # the others are opened as without it
                    assert is_served(client)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen(16)
            with activated(s, "-s", clients) as process:
                assert process.wait(mayfly.PATIENCE) == 64
                assert b"is for control, but is not a unix socket" in process.stderr.read()


if __name__ == "__main__":
    mayfly.main(globals())
