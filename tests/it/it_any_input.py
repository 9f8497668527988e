#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""No external input may end the server. The input is generated from the tables of the source: every command is sent
with every option and word that commands know, and with several values of each kind, to the control socket, as a
client with all rights and as one without a login, as text, as binary frames and as datagrams. Every option gets every
value in files that are reread, on the command line and with --check-config. Environment variables, HTTP requests and
data files get odd values. Answers are checked by other tests: here the server must survive, and stop normally."""
import concurrent.futures
import contextlib
import glob
import itertools
import os
import re
import socket
import struct
import subprocess
import tempfile

import binary
import mayfly
from deftables import TOP, read, rows
from mayfly import Daemon, PROGRAM, wait_for

# ---- what is combined -------------------------------------------------------------------------------

COMMANDS = [(r[2].strip('"').encode(), r[3]) for r in rows("proto/command.def", "COMMAND|EXTENSION")]
ROWS = [r for name in ("daemon/options/options.def", "lib/base/engine_options.def") for r in rows(name, "OPT|ENGINE_OPT")]
COMPAT = rows("daemon/options/compat.def", "ALIAS|TAKEN|REFUSED")
NAMES = [r[4].strip('"').encode() for r in ROWS if r[4] != '""'] + \
    [r[1 if r[0] == "ALIAS" else 2 if r[0] == "REFUSED" else 3].strip('"').encode() for r in COMPAT]
LETTERS = [r[3].strip("'").encode() for r in ROWS if r[3] != "0"] + \
    [r[1 if r[0] == "REFUSED" else 2].strip("'").encode() for r in COMPAT if r[0] != "ALIAS" and "'" in r[1] + r[2]]
# What options take that have words instead of numbers.
OWN_WORDS = sorted({w.split(":")[0].encode() for r in ROWS if r[1] == "ENUM" for w in r[8].strip('"').split("|")})
HAVE_WORDS = {r[4].strip('"').encode() for r in ROWS if r[1] == "ENUM"}
# Words that commands take, wherever they are compared.
WORDS = sorted({w.encode() for path in glob.glob(os.path.join(TOP, "daemon", "command", "*.c")) +
                glob.glob(os.path.join(TOP, "daemon", "stats", "stats.c")) + glob.glob(os.path.join(TOP, "daemon", "worker", "*.def"))
                for w in re.findall(r'"([a-z_]+)"', read(os.path.relpath(path, TOP)))})
VARIABLES = sorted({name for path in glob.glob(os.path.join(TOP, "daemon", "*", "*.c"))
                    for text in [read(os.path.relpath(path, TOP))]
                    for got in re.findall(r"getenv\((\"?\w+\"?)\)", text)
                    for name in ([got.strip('"')] if got[0] == '"' else re.findall(r'define %s +"(\w+)"' % got, text))})

NUMBERS = [b"0", b"1", b"-1", b"1.5", b"1k", b"2147483647", b"4294967295", b"9223372036854775807", b"18446744073709551616",
           b"-9223372036854775808", b"9" * 300, b"1e999", b"0x10"]
TEXTS = [b"yes", b"no", b"x", b"*", b"a,b,c", b"1,2", b"/nonexistent", b"900:1", b"a=b", b"%s%n", b"\"", b"\"\"", b"\\", b"\xff\x01",
         b"x" * 40, b"x" * 251, b"noreply"]
VALUES = NUMBERS + TEXTS
FEW = [b"0", b"-1", b"4294967296", b"9" * 300, b"yes", b"1,2", b"x" * 251]
LONG = [b"x" * 1900, b"x" * 3000, b"x" * 200000, b" ".join([b"x"] * 900), b" ".join([b"x" * 250] * 40), b"\0", b"\r"]

numbers = itertools.count()
sent = {}       # how many combinations by where they went


def note(where, n):
    sent[where] = sent.get(where, 0) + n


def underscored(name):
    return name.replace(b"-", b"_")


def is_stop(line):
    """Commands that end the server as they should: test_commands_that_stop."""
    words = line.split()
    return words[:1] == [b"shutdown"] and set(words[1:]) <= {b"graceful", b"save", b"nosave"}


def arguments(command, cls):
    """What a command is sent with. To those on keys each word is a key like any other, and only config knows options."""
    yield b""
    for value in VALUES:
        yield value
        yield b"key " + value
    for word in WORDS if cls == "CLASS_ADMIN" else TEXTS:
        yield word
        for value in FEW:
            yield word + b" " + value
        yield word + b" 1 " + word
    if command == b"config":
        for name in NAMES:
            yield underscored(name)
            yield b"get " + underscored(name)
            yield b"get %s*" % name
            for value in VALUES + (OWN_WORDS if name in HAVE_WORDS else []):
                yield b"set %s %s" % (underscored(name), value)
                yield b"reset *"
            yield b"set %s 1 %s 1" % (name, name)
            yield b"set %s" % name
            yield b"reset " + name
        for pairs in (10, 40, 200):
            yield b"set" + b" hz 10" * pairs
            yield b"reset" + b" hz" * pairs
            yield b"get" + b" hz" * pairs


def stores():
    """Lines that a value follows, and the value, if its length can be read."""
    for command in (c for c, cls in COMMANDS if cls == "CLASS_STORE"):
        for value in VALUES:
            yield b"%s key %s 0 2" % (command, value), b"2"
            yield b"%s key 0 %s 2" % (command, value), b"2"
            yield b"%s key 0 0 %s" % (command, value), value
            yield b"%s key 0 0 2 %s" % (command, value), b"2"
    for value in VALUES:
        yield b"ms key " + value, value
    for letter in range(33, 127):
        for value in [b""] + NUMBERS[:8] + TEXTS[:6]:
            yield b"ms key 2 %c%s" % (letter, value), b"2"


def with_value(line, length):
    """The line, followed by as many bytes as it says; None: too many to be sent."""
    if re.fullmatch(rb"\d{1,12}", length) is None:
        return line + b"\r\nvv"
    return line + b"\r\n" + b"v" * int(length) if int(length) < 1000 else None


def metas():
    for command in (b"mg", b"md", b"ma", b"me", b"mn"):
        for letter in range(33, 127):
            for value in [b""] + NUMBERS[:8] + TEXTS[:6]:
                yield b"%s key %c%s" % (command, letter, value)
        yield b"%s key %s" % (command, b" ".join(b"%c" % c for c in range(65, 123)))
        yield b"%s key %s" % (command, b"b " * 100)


def plain_lines():
    """All lines that leave the connection as it was: its next line is a command."""
    for command, cls in COMMANDS:
        if command in (b"quit", b"watch") or cls == "CLASS_STORE" or command == b"ms":
            continue
        for args in arguments(command, cls):
            line = (command + b" " + args).rstrip(b" ")
            if not is_stop(line) and len(line) < 1500:
                yield line
                if b"replica" in line:      # answered when it is a primary, which takes the next changes, again
                    yield b"replicaof no one"
    yield from metas()
    for line, length in stores():
        whole = with_value(line, length)
        if whole is not None:
            yield whole


def lone_lines():
    """Lines that may end the connection, or what it can be used for."""
    return (line + b"\r\n" for line in bare_lone_lines())


def bare_lone_lines():
    for command, cls in COMMANDS:
        for value in LONG:
            yield b"%s %s" % (command, value)
            yield b"%s key %s" % (command, value)
        if command in (b"quit", b"watch"):
            for word in [b""] + WORDS + VALUES:
                yield (command + b" " + word).rstrip(b" ")
    for line, length in stores():
        if with_value(line, length) is None:
            yield line
    yield b"GET / HTTP/1.1"
    yield from (b"", b"\0", b"\r", b" ", b"\n", b"\x80", b"set", b"set x")


# ---- sending ----------------------------------------------------------------------------------------

def check(d):
    assert d.is_alive(), "it ended with %d: %s" % (d.process.returncode, d.log()[-2000:])


def until(c, last):
    """Read up to an answer; false: the connection has ended."""
    try:
        tail = b""
        while not tail.endswith(last):
            got = c.sock.recv(1 << 18)
            if not got:
                return False
            tail = (tail + got)[-len(last):]
        return True
    except ConnectionError:
        return False


def ask_all(c, data):
    """Send lines, and a last one with a unique answer; false: the connection ended before that. A replica would
    refuse the last one, so the server is made a primary before it, if this client may do that."""
    number = next(numbers)
    try:
        c.send(data + b"\r\nreplicaof no one\r\nmd nobody-has-this O%d\r\n" % number)
    except ConnectionError:
        return False
    return until(c, b"NF O%d\r\n" % number)


def send_all(d, connect, where, lines):
    """Send lines in groups. If one of a group ends the connection, the others are sent once more, by themselves."""
    lines = list(lines)
    at, step, c = 0, 250, connect()
    while at < len(lines):
        group = lines[at:at + step]
        if ask_all(c, b"\r\n".join(group)):
            at, step = at + len(group), min(2 * step, 250)
            continue
        c.close()
        check(d)
        c = connect()
        if len(group) == 1:
            at += 1
        step = max(len(group) // 8, 1)
    c.close()
    check(d)
    note(where, len(lines))


def send_alone(d, connect, where, pieces):
    """Send each on a separate connection, and wait until the server has closed it, so all input was processed."""
    n = 0
    for n, piece in enumerate(pieces, 1):
        with connect() as c, contextlib.suppress(ConnectionError):
            c.send(piece)
            c.sock.shutdown(socket.SHUT_WR)
            c.rest()
    check(d)
    note(where, n)


@contextlib.contextmanager
def busy(*args, **kw):
    """A daemon with all that looks at requests, and that keeps data."""
    with tempfile.TemporaryDirectory(prefix="mayfly-any.") as folder:
        with Daemon("-t", "2", "-m", "64", "-o", "hotkeys=1,latency_stats,slowlog_us=1,track_sizes,detail_enabled",
                    "--dir", folder, *args, control=True, **kw) as d:
            d.kept = folder
            yield d
            check(d)
            with d.operator() as c:
                for what in (b"", b"settings", b"hotkeys", b"bigkeys", b"latency", b"conns", b"shards", b"expire", b"persistence", b"replication"):
                    c.stats(what)
                assert ask_all(c, b"slowlog get -1")
        said = d.log_text
        assert "runtime error" not in said and "Sanitizer" not in said, said[-4000:]


class Logged(Daemon):
    log_text = ""

    def stop(self, *args, **kw):
        try:
            return super().stop(*args, **kw)
        finally:
            self.log_text = self.log()


Daemon = Logged


# ---- text -------------------------------------------------------------------------------------------

def test_control_socket():
    with busy() as d:
        send_all(d, d.operator, "control socket", plain_lines())
        send_alone(d, d.operator, "control socket", lone_lines())


def test_client_without_login():
    with busy() as d, d.operator() as watcher:
        watcher.send(b"watch fetchers mutations deletions evictions connevents\r\n")
        watcher.sock.setblocking(False)
        send_all(d, d.client, "client", (line for line in plain_lines() if not line.startswith(b"config set")))
        send_alone(d, d.client, "client", lone_lines())


def test_client_that_may_everything():
    """Only config depends on the rights. The operator restores options that lock clients out."""
    with tempfile.TemporaryDirectory(prefix="mayfly-any.") as folder:
        users, rules = os.path.join(folder, "users"), os.path.join(folder, "access")
        mayfly.write(users, "boss:pass\n")
        mayfly.write(rules, "listener unix all\nuser boss all\n")
        with busy("-Y", users, "--access", rules, wait=False) as d:
            d.wait_for_operator()

            def connect():
                with d.operator() as o:
                    assert o.ask(b"config reset *") == b"OK"
                c = d.client()
                assert c.set(b"auth", b"boss pass") == b"STORED"
                return c
            send_all(d, connect, "client with all rights", (line for line in plain_lines() if line.startswith(b"config ")))


# ---- frames, datagrams ------------------------------------------------------------------------------

def frames():
    """Frames that can follow each other, and those that end the connection or leave it waiting."""
    good, bad = [], []
    for r in rows("proto/opcodes.def", "OPCODE"):
        opcode, extras, key, value = int(r[1], 16), r[6], r[7], r[8]
        keys = [b""] if key == "NO_KEY" else [b"key", b"x" * 250] + WORDS if opcode == binary.STAT else [b"key", b"x" * 250]
        for e in (0, 4) if extras == "MAYBE_4" else (int(extras),):
            for fill in (b"\0", b"\xff", b"\x7f"):
                for k in keys:
                    good.append(binary.pack(opcode, k, fill * e, b"1" if value == "A_VALUE" else b"", cas=fill[0]))
        for e in (0, 1, 4, 8, 20, 21, 255):
            for k in (b"", b"k", b"x" * 251, b"x" * 65535):
                bad.append(binary.pack(opcode, k, b"\xff" * e, b"v"))
    for opcode in range(256):
        for lengths in ((0, 0, 0), (65535, 255, 0), (0, 0, 0xFFFFFFFF), (3, 0, 1 << 20), (250, 8, 258 + (1 << 21)), (0, 255, 255)):
            bad.append(binary.pack(opcode, key_len=lengths[0], extras_len=lengths[1], body_len=lengths[2]))
    return [f for f in good if f[1] not in (binary.QUIT, binary.QUITQ)], bad + [binary.pack(binary.QUIT), binary.pack(binary.QUITQ)]


def test_frames():
    good, bad = frames()
    with busy() as d:
        with d.client() as c:
            for at in range(0, len(good), 200):
                c.send(b"".join(good[at:at + 200]) + binary.pack(binary.NOOP, opaque=binary.LAST))
                assert until(c, binary.answer(binary.NOOP, opaque=binary.LAST)), d.log()[-2000:]
        note("frames", len(good))
        for connect in (d.client, d.operator):      # the operator's socket does not speak it
            send_alone(d, connect, "frames", bad + good[::5])


def test_datagrams():
    good, bad = frames()
    lines = [line + b"\r\n" for line in plain_lines() if not line.startswith((b"config set", b"lru_crawler"))][::4]
    with busy("-U", "-1", tcp=True) as d:
        port = d.ports("UDP INET")[0]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect(("127.0.0.1", port))
            s.settimeout(mayfly.PATIENCE)
            payloads = lines + [f for f in good + bad if len(f) < 60000] + [b"", b"\x80", b"x" * 60000]
            for at in range(0, len(payloads), 100):
                for payload in payloads[at:at + 100]:
                    s.send(struct.pack(">HHHH", 1, 0, 1, 0) + payload)
                s.send(struct.pack(">HHHH", 2, 0, 1, 0) + b"mn\r\n")
                while struct.unpack(">H", s.recv(1 << 16)[:2])[0] != 2:
                    pass
            for head in (b"", b"\0" * 7, struct.pack(">HHHH", 1, 65535, 65535, 65535), struct.pack(">HHHH", 1, 1, 0, 0)):
                s.send(head)
            note("datagrams", len(payloads) + 4)


# ---- HTTP -------------------------------------------------------------------------------------------

def requests():
    paths = [b"/", b"/metrics", b"/healthz", b"/readyz", b"/primary", b"/replica", b"", b"*", b"/metrics?x=%00", b"/" + b"x" * 8000, b"/%ff", b"//", b"http://x/metrics"]
    paths += [b"/%s?%s" % (path, query) for path in (b"primary", b"replica")
              for query in (b"", b"lag", b"lag=", b"lag=1&lag=1", b"&", b"=", b"lag=%31%00", b"%00=1", b"lag=%", b"lag=" + b"9" * 7000)]
    paths += [b"/replica?lag=" + re.sub(rb"[\x00- \xff]", b"+", value) for value in VALUES]
    for method in (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"CONNECT", b"x", b"", b"G" * 3000):
        for path in paths:
            for version in (b" HTTP/1.1", b" HTTP/9.9"):
                yield b"%s %s%s\r\nHost: x\r\nConnection: close\r\n\r\n" % (method, path, version)
    for name in (b"Accept", b"Accept-Encoding", b"Content-Length", b"Transfer-Encoding", b"Connection", b"Upgrade", b"Range", b"Expect", b"X"):
        for value in [b"", b"*", b"chunked", b"100-continue", b"application/openmetrics-text;version=1.0.0;q=x", b"gzip;q=9" * 100] + VALUES:
            yield b"GET /metrics HTTP/1.1\r\nHost: x\r\n%s: %s\r\nConnection: close\r\n\r\n" % (name, value)
    yield from (b"\0" * 100, b"\r\n" * 1000, b"GET", b"\x16\x03\x01" + b"\xff" * 300)
    yield b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n"


def test_http():
    with tempfile.TemporaryDirectory(prefix="mayfly-any.") as folder:
        done = subprocess.run(command() + ["--check-config", "--metrics", "127.0.0.1:0", "-s", os.path.join(folder, "s")],
                              capture_output=True, text=True, timeout=mayfly.PATIENCE, check=False)
    mayfly.skip_if("not built with" in done.stderr, "not built with metrics")
    with busy("--metrics", "127.0.0.1:0") as d:
        port = int(wait_for(lambda: re.search(r"metrics, listens on tcp:127\.0\.0\.1:(\d+)", d.log()), "it listens").group(1))
        all_requests = list(requests())

        def ask(request):
            with socket.create_connection(("127.0.0.1", port), mayfly.PATIENCE) as s, contextlib.suppress(OSError):
                s.sendall(request)
                s.shutdown(socket.SHUT_WR)
                s.settimeout(0.2)       # of some it waits for more
                while s.recv(1 << 16):
                    pass
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, all_requests))
        check(d)
        note("HTTP", len(all_requests))


# ---- files that are read again ----------------------------------------------------------------------

def conf_texts():
    """Files of options: each option with each value, all options with one, and what is no such file."""
    for value in [b""] + VALUES + OWN_WORDS + [b'"', b'"\\x00"', b"x" * 5000]:
        yield b"".join(b"%s = %s\n" % (name, value) for name in NAMES)
    yield b"".join(b"%s\n" % name for name in NAMES)
    for text in (b"", b"\0" * 100, b"=\n", b"= x\n", b"[x]\n", b"hz\n" * 1000, b"hz = 1" * 10000, b"x" * (1 << 21), b"include =\n",
                 b"include = main.conf\n", b"include = *\n" * 50, b"include = /dev/null\n", b"include = /nonexistent/*\n",
                 b"include = .\n", b"include = " + b"x" * 5000 + b"\n", b"include = " + b"[" * 300 + b"\n"):
        yield text


def flag_texts():
    """The same as flags, for files of memcached's kind."""
    for value in [b"", b" "] + VALUES + OWN_WORDS:
        yield b"".join(b"-%s %s\n" % (letter, value) for letter in LETTERS)
        yield b"".join(b"--%s=%s\n" % (name, value) for name in NAMES)
        yield b"".join(b"-o %s=%s\n" % (underscored(name), value) for name in NAMES)
    for text in (b"-", b"--", b"-\n-\n", b"--=\n", b"-o\n", b"-o ,\n", b"-o no_\n", b"-o =\n", b"'\n", b"\"\n", b"-p $x\n", b"\\", b"-\0\n",
                 b"".join(b"-%c x\n" % c for c in range(33, 256)), b"-" + bytes(range(33, 127)), b"--no-\n", b"--config x\n--help\n-h\n-V\n"):
        yield text


OTHER_TEXTS = [b"", b"\0", b"x" * 100000, b":\n", b"a:\n", b":b\n", b"a:b\na:b\n", b"a:" + b"x" * 5000, b"user\n", b"user x\n", b"user x all,,\n",
               b"user \"\\x0\" all\n", b"listener unix none\n" * 500, b"default all prefix=" + b"x" * 300, b"user x read " + b"prefix=a " * 50,
               b"\"" * 3000, b"a:$6$x\n", b"a:$\n", b"a:" + b"$" * 300 + b"\n", bytes(range(256)), b"certificate \"x y\" read\n\n\n#\n"]


def reload_each(d, path, texts):
    n = 0
    for n, text in enumerate(texts, 1):
        mayfly.write(path, text)
        with d.operator() as c:
            assert ask_all(c, b"config reload\r\nconfig get *"), d.log()[-2000:]
            if n % 20 == 0:
                c.ask(b"config rewrite")
    check(d)
    return n


def test_files_that_are_read_again():
    with tempfile.TemporaryDirectory(prefix="mayfly-any.") as folder:
        conf, flags, rules, users = (os.path.join(folder, name) for name in ("main.conf", "memcached.conf", "access", "users"))
        for path, text in ((conf, b""), (flags, b""), (rules, b"listener unix all\n"), (users, b"a:b\n")):
            mayfly.write(path, text)
        with busy("--config", conf, "--memcached-conf", flags, "--access", rules, "-Y", users, wait=False) as d:
            d.wait_for_operator()
            n = reload_each(d, conf, conf_texts()) * len(NAMES)
            mayfly.write(conf, b"")
            n += reload_each(d, flags, flag_texts()) * len(NAMES)
            mayfly.write(flags, b"")
            n += reload_each(d, rules, OTHER_TEXTS) + reload_each(d, users, OTHER_TEXTS)
            note("files read again", n)


# ---- starts -----------------------------------------------------------------------------------------

def command():
    return [PROGRAM] + mayfly.ROOT


def check_ended(status, said, what):
    """It refused, or it stopped as requested."""
    assert 0 <= status < 100 and "runtime error" not in said and "Sanitizer" not in said, (status, what, said[-2000:])


def check_config(words):
    done = subprocess.run(command() + ["--check-config"] + words, capture_output=True, timeout=mayfly.PATIENCE,
                          stdin=subprocess.DEVNULL, check=False)
    check_ended(done.returncode, done.stderr.decode("latin-1"), words)


def test_command_line():
    """All values with all flags go through the same code in tests/daemon/options/test_any_flag.c, without a process
    for each; here are some, and files, with all that --check-config checks."""
    runs = [["--%s=%s" % (name.decode(), ("1", "/nonexistent/x")[i % 2])] for i, name in enumerate(NAMES)]
    runs += [["-" + letter.decode(), "/"] for letter in LETTERS]
    with tempfile.TemporaryDirectory(prefix="mayfly-any.") as folder:
        for kind, texts in (("--config", conf_texts()), ("--memcached-conf", flag_texts())):
            for i, text in enumerate(list(texts)[::5]):
                path = os.path.join(folder, "%s%d" % (kind[2:], i))
                mayfly.write(path, text)
                runs.append([kind, path])
        for path in ("/nonexistent", folder, "/dev/null", ""):
            runs += [[flag, path] for flag in ("--config", "--memcached-conf", "--access", "-Y", "--dir", "-e", "-P", "-s", "--control")]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(check_config, runs))
    note("command line", len(runs))


def start(args, env=None, wrapper=None):
    """Start a daemon with something odd; it serves or it refuses."""
    with tempfile.TemporaryDirectory(prefix="mayfly-any.") as folder:
        path = os.path.join(folder, "socket")
        log = os.path.join(folder, "log")
        with open(log, "wb") as out:
            p = subprocess.Popen((wrapper or []) + command() + ["-t", "1", "-m", "16", "-s", path] + args, stdin=subprocess.DEVNULL,
                                 stdout=out, stderr=out, env={**os.environ, **(env or {})})
        try:
            def settled():
                if p.poll() is not None:
                    return True
                try:
                    with mayfly.Client(path, 2) as c:
                        return c.ask(b"version") is not None
                except OSError:
                    return False
            wait_for(settled, "it serves or refuses")
            if p.poll() is None:
                p.terminate()
            status = p.wait(mayfly.PATIENCE)
        finally:
            if p.poll() is None:
                p.kill()
                p.wait()
        check_ended(status, mayfly.read(log), (args, env))


def start_all(where, starts):
    starts = list(starts)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda one: start(*one), starts))
    note(where, len(starts))


def test_environment():
    assert {"NOTIFY_SOCKET", "LISTEN_FDS", "MAYFLY_PASSED_SOCKETS"} <= set(VARIABLES), VARIABLES
    values = ["", "-1", "0", "3", "1023", "4294967295", "x" * 5000, "1,2,3,,x", "/nonexistent/x", "1:1"]
    itself = ["/bin/sh", "-c", "LISTEN_PID=$$ WATCHDOG_PID=$$ exec \"$@\" 3</dev/null 4<&3", "sh"]
    starts = [([], {name: value}, itself) for name in VARIABLES if name not in ("LISTEN_PID", "WATCHDOG_PID") for value in values]
    starts += [([], {name: value, "LISTEN_FDS": "1", "WATCHDOG_USEC": "1"}) for name in ("LISTEN_PID", "WATCHDOG_PID") for value in values]
    starts += [([], {"LISTEN_FDS": "2", "LISTEN_FDNAMES": names}, itself)
               for names in ("control:metrics", "mayfly.items:mayfly.items", "client", "tls:proxied", ":")]
    start_all("environment", starts)


def test_files_of_data():
    """Snapshots, logs and files of items that are cut, changed or something else."""
    with tempfile.TemporaryDirectory(prefix="mayfly-any.") as folder:
        kept, items = os.path.join(folder, "kept"), os.path.join(folder, "items")
        os.mkdir(kept)
        with Daemon("-t", "1", "-m", "16", "--dir", kept, "-o", "appendonly=full", "-e", items) as d, d.client() as c:
            for i in range(50):
                assert c.set(b"key%d" % i, b"v" * 10 * i) == b"STORED"
            assert c.ask(b"save") == b"OK"
            assert c.set(b"later", b"v") == b"STORED"
        whole = {name: open(os.path.join(kept, name), "rb").read() for name in os.listdir(kept)}
        starts = []
        for name, data in sorted(whole.items()):
            for i, bad in enumerate(odd_files(data)):
                copy = os.path.join(folder, "%s.%d" % (name, i))
                os.mkdir(copy)
                for other, text in whole.items():
                    mayfly.write(os.path.join(copy, other), bad if other == name else text)
                load = ("yes", "strict", "salvage")[i % 3]
                starts.append((["--dir", copy, "-o", "appendonly=full,load=" + load],))
        with open(items, "rb") as f:
            head = f.read(1 << 16)
        for i, bad in enumerate(odd_files(head)):
            path = os.path.join(folder, "items%d" % i)
            with open(path, "wb") as f:
                f.write(bad)
                f.truncate(os.path.getsize(items))
            starts.append((["-e", path],))
        start_all("files of data", starts)


def odd_files(data):
    n = len(data)
    yield from (b"", b"\0", data[:7], data[:n // 2], data[:-1], data + b"x", data * 2, bytes(n), b"\xff" * n)
    for at in sorted({min(at, n - 1) for at in (0, 8, 12, 16, 24, 32, 40, 56, 64, 100, n // 2, n - 9) if n > 0}):
        yield data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1:]
        yield data[:at] + b"\xff" * min(8, n - at) + data[at + 8:]


# ---- ends -------------------------------------------------------------------------------------------

def test_commands_that_stop():
    """They do, with 0."""
    for line in (b"shutdown", b"shutdown graceful", b"shutdown save", b"shutdown nosave graceful", b"shutdown graceful nosave"):
        with busy_stop() as (d, c):
            c.send(line + b"\r\n")
            status = d.process.wait(mayfly.PATIENCE)
            assert status == 0, (line, status, d.log()[-2000:])
    with tempfile.TemporaryDirectory(prefix="mayfly-any.") as folder:
        lines = [b"upgrade " + value for value in VALUES + LONG[:2] + [b"/bin/false", b"/nonexistent/x", b"/", b"/dev/null"]]
        with Daemon("-t", "1", "-m", "16", "-e", os.path.join(folder, "items"), control=True) as d:
            for line in lines:
                with d.operator() as c:
                    ask_all(c, line)
            check(d)
    note("commands that stop", 5 + len(lines))


@contextlib.contextmanager
def busy_stop():
    with tempfile.TemporaryDirectory(prefix="mayfly-any.") as folder:
        with Daemon("-t", "1", "-m", "16", "--dir", folder, control=True) as d, d.operator() as c:
            yield d, c


def test_zz_how_many():
    print("# %d combinations: %s" % (sum(sent.values()), ", ".join("%s %d" % pair for pair in sent.items())), flush=True)


mayfly.main(globals(), beside=("test_http",))
