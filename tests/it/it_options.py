#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sources of options: the configuration file and its includes, memcached's file of flags, the command line; and the
results of --check-config and --print-config."""
import contextlib
import ctypes
import os
import pwd
import re
import resource
import shutil
import socket
import subprocess
import tempfile

import mayfly
from mayfly import Daemon, Skip, wait_for

PROGRAM = os.path.abspath(mayfly.PROGRAM)
WRAPPER = "/usr/share/memcached/scripts/systemd-memcached-wrapper"
PR_SET_CHILD_SUBREAPER = 36


@contextlib.contextmanager
def folder(**files):
    """A folder with these files, as the working directory; __ in a name means a point."""
    here = os.getcwd()
    made = tempfile.mkdtemp(prefix="mayfly-it.")
    os.chmod(made, 0o755)
    try:
        os.chdir(made)
        for name, text in files.items():
            write(name.replace("__", "."), text)
        yield made
    finally:
        os.chdir(here)
        shutil.rmtree(made)


def write(name, text):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    mayfly.write(name, text if isinstance(text, bytes) else text.encode())


def run(*args, user=True, env=None):
    """Its exit status, and what it printed on standard output and standard error."""
    command = [PROGRAM] + (["-u", "root"] if user and os.geteuid() == 0 else []) + list(args)
    # The limit is for a fault: a start that waits for a fifo, or that serves.
    got = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         timeout=mayfly.PATIENCE, env={**os.environ, **(env or {})})
    return got.returncode, got.stdout.decode(errors="replace"), got.stderr.decode(errors="replace")


def printed(*args, **kw):
    """The output of --print-config: {name: (printed value, source)}."""
    status, out, err = run("--print-config", *args, **kw)
    assert status == 0 and err == "", (args, status, err)
    found = {}
    for line in out.splitlines():
        if not line.startswith("#"):
            name, value, source = re.fullmatch(r"(\S+) = ((?:\"(?:[^\"\\]|\\.)*\"|\S*)) *# (.*)", line).groups()
            assert name not in found, line
            found[name] = (value, source)
    return found


def values(*args, **kw):
    return {name: value for name, (value, _) in printed(*args, **kw).items()}


# ---- precedence -----------------------------------------------------------------------------------

def test_very_many_threads_are_warned_of():
    done = subprocess.run([PROGRAM, "--check-config", "-u", "root", "-t", "65"], capture_output=True, check=True)
    assert b"-t: 65 worker threads are more than is recommended" in done.stderr, done.stderr


def test_the_command_line_overrides_the_file_wherever_it_is_named():
    with folder(a__conf="threads = 2\nhz = 20\nverbose = 2\nlisten = 127.0.0.1\nmaxconns-fast = no\n",
                b__conf="-t 1\n-R 5\n-l ::1\n"):
        for args in (["--config", "a.conf", "--memcached-conf", "b.conf", "-t", "3", "-v", "-o", "maxconns_fast"],
                     ["-t", "3", "--memcached-conf=b.conf", "-o", "maxconns_fast", "-v", "--config=a.conf"]):
            got = printed(*args)
            assert got["threads"] == ("3", "command line")
            assert got["verbose"] == ("1", "command line")      # not added to that of the file
            assert got["maxconns-fast"] == ("yes", "command line")
            assert got["hz"] == ("20", "a.conf:2")
            assert got["listen"] == ("127.0.0.1", "a.conf:4")   # those of different sources do not add up
            assert got["max-reqs-per-event"] == ("5", "b.conf:2")
            assert got["conn-limit"] == ("1024", "default")
        assert printed("-l", "::2", "--config", "a.conf", "-l", "::3")["listen"] == ("::2,::3", "command line")


def test_the_server_runs_by_the_file():
    with folder(a__conf="threads = 1\nhz = 33\nlisten = 127.0.0.1\ninclude = conf.d\n"):
        write("conf.d/b.conf", "idle-timeout = 77\n")
        with Daemon("--config", "a.conf", "-o", "hz=44", program=PROGRAM) as d, d.client() as c:
            settings = c.stats(b"settings")
            assert (settings["num_threads"], settings["hz"], settings["idle_timeout"]) == ("1", "44", "77")
            assert settings["inter"] == "127.0.0.1"


def test_the_log_says_where_options_come_from():
    with folder(a__conf="threads = 1\n\nidle-timeout = 5\n"):
        with Daemon("--config", "a.conf", "-v", "-o", "hz=44", program=PROGRAM) as d:
            log = d.log()
        assert "options, idle-timeout is 5 (a.conf:3)" in log, log
        assert "options, hz is 44 (command line)" in log, log


def test_flags_imply_more_than_settings():
    with folder(a__conf="prefix-delimiter = /\n", b__conf="-D /\n"):
        assert printed("--config", "a.conf")["detail-enabled"] == ("no", "default")
        for args in (["--memcached-conf", "b.conf"], ["-D", "/"]):
            assert printed(*args)["detail-enabled"] == ("yes", "follows from another option")


def test_the_background_does_not_lose_the_file():
    """-d changes to the root folder; the file and its includes are read before."""
    with folder() as here:
        write("sub/a.conf", "threads = 1\ndaemon = yes\nenable-shutdown = yes\ninclude = more/*.conf\n"
              "unix-socket = %s/socket\n" % here)
        write("sub/more/b.conf", "hz = 21\n")
        os.chmod("sub", 0o755)
        status, out, err = run("--config", "sub/a.conf")
        assert (status, out, err) == (0, "", "")
        with mayfly.Client(here + "/socket") as c:
            assert c.stats(b"settings")["hz"] == "21"
            c.send(b"shutdown\r\n")
        wait_for(lambda: not os.path.exists("socket"), "the server has stopped")


# ---- files that are not as they should be ---------------------------------------------------------

def test_every_error_has_its_place():
    with folder(a__conf="thraeds = 1\ninclude = conf.d\nport = x\n", b__conf="-m x\nword y\n"):
        write("conf.d/1.conf", "\nhz = fast\nprotocol = http\n")
        status, out, err = run("--config", "a.conf", "--memcached-conf", "b.conf")
        assert (status, out) == (1, ""), (status, out)
        assert err.splitlines() == [
            "mayflyd: b.conf:2: a flag begins with a dash",
            'mayflyd: b.conf:1: -m: "x" is not a number with suffix k, m, g or none (1 to 16777216 megabytes, or 1% to 100%)',
            'mayflyd: a.conf:1: thraeds: unknown option (did you mean "threads"?)',
            'mayflyd: conf.d/1.conf:2: hz: "fast" is not a number (1 to 500)',
            'mayflyd: conf.d/1.conf:3: protocol: "http" is not one of auto ascii binary',
            'mayflyd: a.conf:3: port: "x" is not a number (-1 to 65535)'], err


def test_no_file_makes_it_wait_or_fill_memory():
    def bound():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))
    with folder(empty=""):
        os.mkfifo("fifo")
        os.mkdir("folder")
        with open("huge", "wb") as f:
            f.truncate(1 << 30)
        for flag in ("--config", "--memcached-conf"):
            for name, why in (("fifo", "not a regular file"), ("folder", "not a regular file"),
                              ("/dev/zero", "not a regular file"), ("huge", "too large"),
                              ("none", "No such file or directory"), ("", "No such file or directory")):
                got = subprocess.run([PROGRAM, flag, name], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, timeout=mayfly.PATIENCE,
                                     preexec_fn=None if mayfly.is_sanitized(PROGRAM) else bound)
                assert got.returncode == 64, (flag, name, got)
                assert got.stderr.decode() == "mayflyd: %s: cannot read %s (%s)\n" % (flag, name, why), got.stderr
            assert values(flag, "empty") == values()


def test_a_file_that_may_not_be_read():
    mayfly.skip_if(os.geteuid() != 0, "not root")
    nobody = pwd.getpwnam("nobody")
    with folder(a__conf="threads = 2\n") as here:
        os.chmod("a.conf", 0o600)
        # Root reads it before it becomes the user of -u.
        assert values("--config", "a.conf", "-u", "nobody", user=False)["threads"] == "2"
        assert run("--config", "a.conf", "--check-config", "-u", "nobody", user=False)[:2] == (0, "ok\n")
        shutil.copy(PROGRAM, here + "/mayflyd")

        def become_nobody():
            os.setgroups([])
            os.setresgid(nobody.pw_gid, nobody.pw_gid, nobody.pw_gid)
            os.setresuid(nobody.pw_uid, nobody.pw_uid, nobody.pw_uid)
        got = subprocess.run([here + "/mayflyd", "--config", "a.conf"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=become_nobody)
        assert got.returncode == 64, got
        assert got.stderr == b"mayflyd: --config: cannot read a.conf (Permission denied)\n", got.stderr


def test_text_files_of_all_kinds():
    for text in (b"threads = 2\nhz = 20", b"threads = 2\r\nhz = 20\r\n", b"\xef\xbb\xbfthreads = 2\nhz = 20\n",
                 b"\n\n  threads=2 # \xc3\xa4\n\t hz = 20\n"):
        with folder(a__conf=text):
            got = values("--config", "a.conf")
            assert (got["threads"], got["hz"]) == ("2", "20"), text
    for text in (b"threads = 2\0\n", "threads = 2\n".encode("utf-16"), b"threads = 2\rhz = 20\r"):
        with folder(a__conf=text):
            status, _, err = run("--config", "a.conf")
            assert status == 1 and err.startswith("mayflyd: a.conf:1: "), (text, err)


def test_flags_that_exclude_each_other():
    with folder(a__conf=""):
        for args in (["--config", "a.conf", "--config", "a.conf"], ["--check-config", "--print-config"],
                     ["--memcached-conf=a.conf", "--memcached-conf=a.conf"]):
            status, out, err = run(*args)
            assert status == 64 and out == "" and "can be given once" in err, (args, err)
        # Help is printed, whatever the file.
        status, out, err = run("--config", "none", "--help")
        assert status == 0 and err == "" and "--memcached-conf" in out


# ---- --check-config -------------------------------------------------------------------------------

def test_check_says_what_a_start_would_say():
    with folder(a__conf="enable-sasl = yes\nudp-port = 5\n", users="a:b\n", bad="nothing\n"):
        for args, status, message in (
                ([], 0, ""),
                (["--config", "a.conf"], 64, "mayflyd: a.conf:2: udp-port: cannot enable UDP"),
                (["-I", "64m"], 64, "mayflyd: -I: the largest item (-I 64m) is more than half"),
                (["-t", "0"], 1, "0 is out of range"),
                (["-l", "[::1"], 71, "Invalid IPV6 address"),
                (["-l", "127.0.0.1:99999"], 71, "Invalid port number"),
                (["-s", "/" + "x" * 200], 71, "File name too long"),
                (["-s", "/nonexistent/s"], 71, "No such file or directory"),
                (["--control", "users/c"], 71, "Not a directory"),
                (["--control", "users"], 71, "File exists"),
                (["-s", "."], 71, "File exists"),
                (["-m", "8388608", "-o", "shards=1"], 64, "mayflyd: -o shards: -m 8388608 needs 256 to"),
                (["-e", "/nonexistent/x"], 73, "mayflyd: -e: cannot use /nonexistent/x (No such file or directory)"),
                (["-e", "bad/x"], 73, "mayflyd: -e: cannot use bad/x (Not a directory)"),
                (["-e", "."], 73, "mayflyd: -e: cannot use . (Is a directory)"),
                (["--dir", "none"], 73, "mayflyd: --dir: cannot write to none (No such file or directory)"),
                (["--access", "none"], 1, "mayflyd: --access: could not read"),
                (["-o", "save=1:1"], 64, "mayflyd: -o save: needs a folder to save to (--dir)"),
                (["-Z"], 64, "mayflyd: -Z: "),
                (["--proxy-from", "x"], 64, "mayflyd: --proxy-from: x: "),
                (["-Y", "none"], 1, "mayflyd: -Y: could not read authfile"),
                (["-Y", "bad"], 1, "malformed entry in line 1"),
                (["-Y", "users"], 0, "")):
            got, out, err = run("--check-config", *args)
            assert got == status and message in err, (args, got, err)
            assert out == ("ok\n" if status == 0 else ""), (args, out)
            if status != 0:
                # The default port may be another's; -l goes with it.
                got, _, said = run(*(() if args[0] == "-l" else ("-p", "0", "-s", "socket")), *args)
                assert got == status and message in said, (args, got, said)     # so a start ends
                assert all(line.startswith("mayflyd: ") for line in said.splitlines()), said
        assert run("--check-config", "-e", "new")[:2] == (0, "ok\n") and not os.path.exists("new")
        status, _, err = run("--check-config", "--metrics", "127.0.0.1")
        assert (status, "the port is missing" in err) == (71, True) or "not built with" in err, err
        status, _, err = run("--check-config", "-Y", "none", "-l", "[::1")
        assert status == 71 and "Invalid IPV6" in err and "authfile" in err, err


def test_check_of_certificates():
    status, _, err = run("--check-config", "-Z", "-o", "ssl_chain_cert=/none")
    assert status == 64, err
    assert "Error loading the certificate chain: /none" in err or "not built with TLS" in err, err


def test_check_with_the_rights_of_the_server():
    mayfly.skip_if(os.geteuid() != 0, "not root")
    with folder(users="a:b\n"):
        os.chmod("users", 0o600)
        status, _, err = run("--check-config", "-Y", "users", "-u", "nobody", user=False)
        assert status == 1 and "could not read authfile" in err, err
        assert run("--check-config", "-Y", "users", "-u", "root", user=False)[0] == 0
        assert run("--check-config", user=False)[0] == 64
        assert run("--check-config", "-u", "no-such-user", user=False)[0] == 67


def test_a_port_in_use_names_its_process():
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        port, udp_port = tcp.getsockname()[1], udp.getsockname()[1]
        owner = "by %s, pid %d" % (mayfly.read("/proc/self/comm").strip(), os.getpid())
        for args, given, where, number in (
                (["-p", str(port)], "-p", "TCP port %d" % port, port),
                (["--port=%d" % port], "--port", "TCP port %d" % port, port),
                (["-l", "127.0.0.1:%d" % port], "-l", "127.0.0.1:%d" % port, port),
                (["-o", "port=%d" % port, "-l", "127.0.0.1"], "-l", "127.0.0.1", port),
                (["-p", "0", "-U", str(udp_port)], "-U", "UDP port %d" % udp_port, udp_port)):
            status, _, err = run(*args)
            assert (status, err) == (71, "mayflyd: %s: cannot listen on %s: port %d is in use %s (stop it, or choose "
                                     "another port)\n" % (given, where, number, owner)), (args, err)


def test_a_file_can_be_overruled_by_nothing():
    with folder(a__conf="dir = .\nsave = 900:1\nlisten = 127.0.0.1\nhashpower = 20\nthreads = 2\n"):
        got = printed("--config", "a.conf", "--save=", "--listen=", "-o", "hashpower=")
        for name in ("save", "listen", "hashpower"):
            assert got[name] == ("", "default"), (name, got[name])
        assert printed("--config", "a.conf", "--listen=", "-l", "::1")["listen"] == ("::1", "command line")
        # What has always a value, and a letter with nothing, are mistakes.
        for args, message in ((["--threads="], "--threads: \"\" is not a number (1 to 512, or auto)"),
                              (["-s", ""], "-s: the value is empty")):
            status, _, err = run("--config", "a.conf", *args)
            assert status != 0 and err == "mayflyd: %s\n" % message, (args, err)


def test_M_and_a_policy():
    with folder(a__conf="disable-evictions = yes\n", b__conf="maxmemory-policy = allkeys-lru\n",
                c__conf="maxmemory-policy = allkeys-lru\ndisable-evictions = yes\n"):
        got = values("--config", "a.conf", "-o", "maxmemory_policy=volatile-ttl")
        assert (got["maxmemory-policy"], got["disable-evictions"]) == ("volatile-ttl", "no")
        got = values("--config", "b.conf", "-M")
        assert (got["maxmemory-policy"], got["disable-evictions"]) == ("noeviction", "yes")
        status, out, err = run("--config", "c.conf", "--print-config")
        assert status == 0 and "maxmemory-policy = noeviction" in out
        assert err == "mayflyd: c.conf:2: disable-evictions: overrides maxmemory_policy=allkeys-lru\n", err


def test_check_leaves_nothing():
    """It binds no port in use, and creates no file, socket or process."""
    libc = ctypes.CDLL(None)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        with folder() as here, socket.create_server(("127.0.0.1", 0)) as taken:
            args = ["-d", "-P", "pid", "-l", "127.0.0.1", "-p", str(taken.getsockname()[1])]
            env = {"MEMCACHED_PORT_FILENAME": here + "/ports", "NOTIFY_SOCKET": here + "/notify"}
            assert run("--check-config", *args, env=env) == (0, "ok\n", "")
            assert run("--check-config", *args, "-e", "items", env=env) == (0, "ok\n", "")
            assert run("--check-config", *args, "-s", "socket", env=env) == (0, "ok\n", "")
            assert os.listdir(".") == [], os.listdir(".")
            assert run(*args)[0] == 71      # as a start would
        try:
            left = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        raise AssertionError("a process is left: %s" % (left,))
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


# ---- --print-config -------------------------------------------------------------------------------

ROUND_TRIPS = [
    [],
    ["-m", "1000", "-c", "5", "-p", "-1", "-U", "0", "-l", "127.0.0.1,[::1]:5", "-l", "tag[x]:::1", "-vv"],
    ["-M", "-s", "/tmp/a b # \"c\" \\ ", "-a", "0770", "-A", "-t", "3", "-D", "#", "-R", "7", "-C", "-b", "0"],
    ["-D", " "], ["-D", "\""], ["-D", "'"], ["-D", "\\"], ["-D", "\t"], ["-D", "\x01"], ["-s", "/a\nb", "-u", "'x'"],
    ["-B", "ascii", "-Y", "users", "-I", "1500k", "-F", "-X", "-W", "-k", "-r", "-d", "-P", "pid"],
    ["-Y", "users"], ["-U", "5"], ["-U", "-1"], ["-D", "/"], ["-o", "no_modern"], ["-o", "temporary_ttl=5"],
    ["-f", "1.30001", "-n", "64", "-N", "2", "-o", "slab_automove=2,hot_max_factor=0.125,hash_algorithm=xxh3"],
    ["-o", "hashpower=20,no_maxconns_fast,idle_timeout=5,watcher_logbuf_size=1,track_sizes,hz=100"],
    ["-o", "lazyfree_threshold=1025,lazyfree_backlog=3g,maxmemory_policy=volatile-ttl,no_extensions"],
    ["-o", "ssl_ciphers=HIGH:!aNULL,ssl_min_version=3,ssl_wbuf_size=32,ssl_key=k,ssl_chain_cert=c"],
]


def test_what_is_printed_is_read_again():
    for args in ROUND_TRIPS:
        status, out, err = run("--print-config", *args)
        if "not built with" in err:
            continue
        assert (status, err) == (0, ""), (args, err)
        with folder(a__conf=out):
            if os.geteuid() == 0 and "-u" in args:
                args = args + ["-u", args[args.index("-u") + 1]]
            again = run("--config", "a.conf", "--print-config", user=False)
            assert again[0] == 0, (args, again)
            strip = re.compile(r" *# (default|command line|follows from another option|a\.conf:\d+)$", re.M)
            assert strip.sub("", again[1]) == strip.sub("", out), (args, out, again[1])


def test_every_option_can_be_changed_by_a_file():
    """Each line of etc/mayfly.conf with another value than its default has an effect."""
    other = {"yes": "no", "no": "yes", "auto": "ascii", ":": "/", "all": "control", "density": "noeviction", "everysec": "no", "text": "json"}
    for name, value in values(user=False).items():
        if name == "disable-evictions":
            continue        # it is another word for a policy, but shown for itself
        if value == "":
            new = "20" if name == "hashpower" else "text"
        elif value in other:
            new = other[value]
        else:
            number, suffix = re.fullmatch(r"(-?\d+)([kmg]?)", value).groups()
            new = str(int(number) + 1 if int(number) < 1 or name == "max-item-size" else int(number) // 2 + 1) + suffix
        new = {"ssl-keyformat": "2", "eviction-tenacity": "50", "listen": "127.0.0.1", "log": "stderr", "log-file": "/a", "save": "900:1",
               "rdbcompression": "zstd", "load": "strict", "appendonly": "keys", "replicaof": "[::1]:9",
               "replica-announce": "[::1]:9", "worker-cpus": str(min(os.sched_getaffinity(0)))}.get(name, new)
        needs = {"appendonly": "dir = .\n", "save": "dir = .\n"}.get(name, "")
        with folder(a__conf="%s = %s\n%s" % (name, new, needs)):
            status, out, err = run("--config", "a.conf", "--print-config", user=False)
            if "not built with" in err or "certificate" in err:
                continue
            assert status == 0, (name, new, err)
            line = [text for text in out.splitlines() if text.startswith(name + " = ")][0]
            shown, source = re.fullmatch(r"\S+ = (\S*) *# (.*)", line).groups()
            assert shown == new and source == "a.conf:1", (name, new, line)


def test_passwords_are_not_printed():
    with folder(users="someone:mysecret\n"):
        out = run("--print-config", "-Y", "users")[1]
        assert "auth-file = users" in out and "mysecret" not in out and "someone" not in out


# ---- Debian's memcached.conf ----------------------------------------------------------------------

FLAG_FILES = [
    "-d\nlogfile /var/log/memcached.log\n# -v\n-m 64\n-p 11211\n-u memcache\n-l 127.0.0.1\n-P /run/m.pid\n",
    "-m 100 # megabytes\n  -c 5\t \n-vv\n-l 127.0.0.1\n-l ::1\n",
    "-m 100 # a # b\n-D \\#\n",
    "-m\n100\n-t\n3\n",
    "-o hz=20,no_maxconns_fast\n-o modern\n--port=5\n--thr 3\n",
    "-s '/a b'\n-D \"/\"\n-a 0770\n-Y /a\\ b\n",
    "-m 100\r\n-p 5\r\n",
    "-d -m 5000\n-h\n--daemon\n-k -M -r",
    "-s '$HOME'\n-Y \"a\\$b\\\"c\\\\d\\e\"\n",
    "\n\n#\n-v\n",
]


def test_flags_are_read_as_by_the_script_of_debian():
    """The script itself, which starts mayflyd in the place of memcached, against --memcached-conf."""
    mayfly.skip_if(os.geteuid() != 0, "not root: the script wants to be")
    if not os.path.exists(WRAPPER) or shutil.which("perl") is None:
        raise Skip("memcached or perl is not installed")
    script = mayfly.read(WRAPPER)
    assert '"/usr/bin/memcached"' in script
    for text in FLAG_FILES:
        with folder(a__conf=text):
            write("wrapper", script.replace('"/usr/bin/memcached"', '"%s --print-config"' % PROGRAM))
            by_script = subprocess.run(["perl", "wrapper", "a.conf"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            assert by_script.returncode == 0, (text, by_script)
            own = run("--print-config", "--memcached-conf", "a.conf", user=False)
            assert own[0] == 0, (text, own)

            def plain(out):
                return re.sub(r" *# .*", "", out)
            assert plain(own[1]) == plain(by_script.stdout.decode()), (text, own[1])


def test_no_shell_runs():
    with folder(a__conf="-m 64; touch made\n-p $(touch made)\n-s `touch made`\n") as here:
        status, _, err = run("--memcached-conf", "a.conf")
        assert status == 1 and len(err.splitlines()) == 3, err
        assert not os.path.exists(here + "/made")


def test_a_server_by_the_file_of_debian():
    with folder(a__conf="-d\nlogfile /x\n-m 100\n-t 1\n-c 50\n"):
        with Daemon("--memcached-conf", "a.conf", "-c", "60", program=PROGRAM) as d, d.client() as c:
            settings = c.stats(b"settings")
            assert (settings["maxbytes"], settings["maxconns"]) == (str(100 << 20), "60")
            assert c.set(b"k", b"v") == b"STORED"


mayfly.main(globals())
