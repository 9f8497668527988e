# SPDX-License-Identifier: BSD-3-Clause
"""Helpers of the integration tests: a daemon in a fresh temporary directory, a client that
speaks the text protocol, and a runner.

A script defines functions whose names begin with test_ and ends with `mayfly.main(globals())`.
No test sleeps for a fixed time: conditions are polled, with a generous limit. The daemon is stopped
by its process id, whatever happens.
"""
import concurrent.futures
import contextlib
import functools
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

BUILD = os.environ.get("MAYFLY_BUILDDIR", ".")
PROGRAM = os.environ.get("MAYFLYD", os.path.join(BUILD, "daemon", "mayflyd"))
# Options for the daemons of all tests; they come first, so that what a test asks for counts.
MORE_ARGS = os.environ.get("MAYFLY_TEST_ARGS", "").split()
ROOT = ["-u", "root"] if os.geteuid() == 0 else []
PATIENCE = 100.0    # seconds to wait for what takes milliseconds, unless sanitizers or load slow it


class Skip(Exception):
    """A prerequisite of the test is not installed. .ci/run treats that as a failure."""


class Inapplicable(Skip):
    """This build, user or machine cannot run the test, whatever is installed."""

    def __str__(self):
        return "inapplicable: " + super().__str__()


def skip_if(holds, why):
    """Skip this test, which this kind of build, user or machine cannot run."""
    if holds:
        raise Inapplicable(why)


def needs(program, package=None):
    """Skip this test if a program is not installed."""
    if shutil.which(program) is None:
        raise Skip("%s is not installed" % (package or program))


def read_bytes(path):
    with open(path, "rb") as f:
        return f.read()


def read(path):
    return read_bytes(path).decode(errors="replace")


def write(path, text, permissions=None):
    with open(path, "wb") as f:
        f.write(text.encode() if isinstance(text, str) else text)
    if permissions is not None:
        os.chmod(path, permissions)
    return path


def replace(path, text, permissions=None):
    """Write a file atomically."""
    os.rename(write(path + ".new", text, permissions), path)
    return path


def folder(in_memory=False):
    """A folder that is removed at the end; in memory if possible."""
    return tempfile.TemporaryDirectory(prefix="mayfly-it.",
                                       dir="/dev/shm" if in_memory and os.access("/dev/shm", os.W_OK) else None)


@contextlib.contextmanager
def place(name, text=None, permissions=None, in_memory=False):
    """The path of a file in a temporary folder. With a text, the file exists."""
    with folder(in_memory) as made:
        path = os.path.join(made, name)
        if text is not None:
            write(path, text, permissions)
        yield path


def run(*args, user=ROOT, env=None, cwd=None, before=None):
    """Run a start that ends before it serves: its status, and its output."""
    done = subprocess.run([os.path.abspath(PROGRAM), *user, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=PATIENCE, env={**os.environ, **(env or {})}, cwd=cwd,
                          preexec_fn=before, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


@contextlib.contextmanager
def background(folder, *args, env=None, stderr=None):
    """A daemon that is started with -d in this folder; its socket, and its process id."""
    path, pid_file = os.path.join(folder, "socket"), os.path.join(folder, "pid")
    subprocess.run([os.path.abspath(PROGRAM), "-d", "-s", path, "-P", pid_file, *args, *ROOT], cwd=folder, check=True,
                   timeout=PATIENCE, stdin=subprocess.DEVNULL, stderr=stderr, env={**os.environ, **(env or {})})
    pid = int(read(pid_file))
    try:
        yield path, pid
    finally:
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not os.path.exists(pid_file), "it ends")


def wait_for(condition, what, patience=PATIENCE):
    """Poll until condition() is true, and return its value."""
    while patience > 0:
        began = time.monotonic()
        got = condition()
        if got:
            return got
        time.sleep(0.01)
        patience -= min(time.monotonic() - began, 1)    # longer: this process was stopped, and others perhaps as well
    raise AssertionError("never happened: " + what)


def best_of(measure, limit, patience=20):
    """Measure until a result is below the limit, for some time; returns the best one. Other load on the machine
    spoils some results, a fault of the daemon spoils all."""
    end = time.monotonic() + patience
    best = measure()
    while best >= limit and time.monotonic() < end:
        best = min(best, measure())
    return best


@contextlib.contextmanager
def beside(run, cases):
    """Call run(case, is_over) for all cases in parallel threads while the body of the with statement runs. At its end
    the event is_over is set, and all threads are joined. Raises the first failure."""
    is_over = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        results = [pool.submit(run, case, is_over) for case in cases]
        try:
            yield
        finally:
            is_over.set()
        for result in results:
            result.result()


def in_parallel(run, cases):
    """Call run(case) for all cases in parallel: for tests that mostly wait."""
    with beside(lambda case, _: run(case), cases):
        pass


def has_text(*texts, program=PROGRAM):
    """Does the program contain one of these strings, because it is linked with a library?"""
    code = read_bytes(program)
    return any(text in code for text in texts)


def is_sanitized(program=PROGRAM):
    """Is it built with a sanitizer? Measuring memory or speed of such a build is pointless."""
    return has_text(b"libasan", b"__asan_init", b"__tsan_init", program=program)


def has_address_sanitizer(program=PROGRAM):
    return has_text(b"__asan_init", program=program)


def use_python_of_debian():
    """Re-execute with /usr/bin/python3: only that can load the compiled modules of Debian packages, and another
    Python may be first in the PATH."""
    python = "/usr/bin/python3"
    if sys.executable != python and os.path.exists(python) and "MAYFLY_REEXEC" not in os.environ:
        os.environ["MAYFLY_REEXEC"] = "1"
        os.execv(python, [python] + sys.argv)


class Client:
    """One connection of the text protocol."""

    def __init__(self, address, timeout=PATIENCE, rcvbuf=None):
        family = socket.AF_UNIX if isinstance(address, (str, bytes)) else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(timeout)
        if rcvbuf is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        try:
            self.connect(address, timeout)
        except OSError:
            self.sock.close()
            raise
        self.buf = b""

    def connect(self, address, timeout):
        end = time.monotonic() + timeout
        while True:
            try:
                self.sock.connect(address)
                return
            except BlockingIOError:     # a unix socket whose queue of new connections is full
                if time.monotonic() > end:
                    raise
                time.sleep(0.001)

    def send(self, data):
        self.sock.sendall(data)

    def more(self):
        got = self.sock.recv(1 << 18)
        self.buf += got
        return bool(got)

    def line(self):
        """The next line without its end; None at the end of the stream."""
        while b"\r\n" not in self.buf:
            if not self.more():
                return None
        line, self.buf = self.buf.split(b"\r\n", 1)
        return line

    def exactly(self, n):
        while len(self.buf) < n:
            if not self.more():
                raise EOFError("%d of %d bytes" % (len(self.buf), n))
        data, self.buf = self.buf[:n], self.buf[n:]
        return data

    def rest(self):
        """Everything up to the end of the stream."""
        while self.more():
            pass
        data, self.buf = self.buf, b""
        return data

    def ask(self, line):
        """Send a line, read a line."""
        self.send(line + b"\r\n")
        return self.line()

    def set(self, key, value, exptime=0, flags=0):
        self.send(b"set %s %d %d %d\r\n%s\r\n" % (key, flags, exptime, len(value), value))
        return self.line()

    def get_reply(self):
        """Read one get's answer: a dictionary."""
        found = {}
        while True:
            line = self.line()
            if line == b"END":
                return found
            if line is None or not line.startswith(b"VALUE "):
                raise AssertionError("answer of a get: %r" % line)
            words = line.split()
            value = self.exactly(int(words[3]) + 2)
            assert value[-2:] == b"\r\n", value[-20:]
            found[words[1]] = value[:-2]

    def get(self, *keys):
        self.send(b"get " + b" ".join(keys) + b"\r\n")
        found = self.get_reply()
        return found.get(keys[0]) if len(keys) == 1 else found

    def fill(self, prefix, count, value):
        """Store this number of items, with keys prefix0, prefix1 and so on."""
        for at in range(0, count, 1000):
            self.send(b"".join(b"ms %s%d %d q\r\n%s\r\n" % (prefix, n, len(value), value)
                               for n in range(at, min(at + 1000, count))) + b"mn\r\n")
            assert self.line() == b"MN"

    def stats(self, what=b""):
        """`stats` or one of its sub-commands, as a dictionary of strings."""
        self.send((b"stats " + what).strip() + b"\r\n")
        lines = []
        while b"END" not in lines[:-1]:      # the last one may be incomplete
            assert self.more(), "the stream ends in the answer of stats %r" % what
            lines = self.buf.split(b"\r\n")
            for line in lines[:-1]:
                assert line.startswith(b"STAT ") or line == b"END", "answer of stats %r: %r" % (what, line)
        end = lines.index(b"END")
        self.buf = b"\r\n".join(lines[end + 1:])
        return {name: value for name, _, value in (line[5:].decode("latin-1").partition(" ") for line in lines[:end])}

    def stat(self, name, what=b""):
        return int(self.stats(what)[name])

    def shard_sum(self, name):
        """The sum over all shards and workers of a line of `stats shards`."""
        found = [int(v) for k, v in self.stats(b"shards").items() if k.split(":", 1)[-1] == name]
        assert found, "stats shards has no " + name
        return sum(found)

    def reset(self):
        """Close with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Daemon:
    """A running daemon; use it in a with statement."""

    def __init__(self, *args, tcp=False, port=None, path=None, env=None, before=None, wait=True,
                 user=True, program=PROGRAM, stderr=None, is_visible=False, control=False):
        """is_visible: the test reads its descriptors in /proc, which requires root, or -r."""
        self.folder = tempfile.mkdtemp(prefix="mayfly-it.")
        self.path = path or os.path.join(self.folder, "socket")
        self.log_path = os.path.join(self.folder, "log")
        self.process = None
        command = [program]
        if ROOT and user:
            command += ROOT
        elif is_visible:
            if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
                raise Inapplicable("neither root nor allowed to write core files")
            command += ["-r"]
        port_file = os.path.join(self.folder, "port")
        self.control_path = os.path.join(self.folder, "control")
        if control:
            command += ["--control", self.control_path]
        if tcp:
            command += ["-l", "127.0.0.1", "-p", str(port or -1)]
        else:
            command += ["-s", self.path]
        environment = {**os.environ, "MEMCACHED_PORT_FILENAME": port_file, **(env or {})}
        command[1:1] = MORE_ARGS
        self.tcp, self.port, self.port_file, self.command = tcp, port, port_file, command + list(args)
        log = open(self.log_path, "wb")
        try:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log if stderr is None else stderr, env=environment, preexec_fn=before)
            if wait:
                self.wait_until_it_serves()
        except BaseException:
            self.kill()
            raise
        finally:
            log.close()

    @property
    def pid(self):
        return self.process.pid

    def of_thread(self, name, file):
        """The /proc data of the thread of this name."""
        for task in os.listdir("/proc/%d/task" % self.pid):
            where = "/proc/%d/task/%s/" % (self.pid, task)
            if read(where + "comm").strip() == name:
                return read(where + file)
        raise AssertionError("there is no thread " + name)

    def cpu_of_thread(self, name):
        """Seconds of CPU time of the thread of this name."""
        return int(self.of_thread(name, "schedstat").split()[0]) / 1e9

    @property
    def address(self):
        return ("127.0.0.1", self.port) if self.tcp else self.path

    def find_port(self):
        if self.port is None:
            with contextlib.suppress(OSError):
                self.port = next(iter(self.ports()), None)
        return self.port

    def ports(self, kind="TCP INET"):
        """Its listening ports."""
        return [int(line.split()[2]) for line in read(self.port_file).splitlines() if line.startswith(kind + ": ")]

    def reload(self, says):
        """Reload the files, and wait until this text appears in the log once more."""
        before = self.log().count(says)
        self.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.log().count(says) > before, says)

    def wait_until_it_serves(self):
        def serves():
            if self.process.poll() is not None:
                raise AssertionError("the daemon ended with %d: %s" % (self.process.returncode, self.log()))
            if self.tcp and not self.find_port():
                return False
            try:
                with Client(self.address, 2) as c:
                    return c.ask(b"version") is not None
            except OSError:
                return False
        wait_for(serves, "the daemon serves")

    def client(self, **kw):
        return Client(self.address, **kw)

    def operator(self):
        """A connection to the control socket of Daemon(control=True)."""
        return Client(self.control_path)

    def wait_for_operator(self):
        """For a daemon that does not answer ordinary clients."""
        def comes_in():
            try:
                with self.operator() as c:
                    return c.ask(b"version") is not None and (not self.tcp or self.find_port())
            except OSError:
                return False
        wait_for(comes_in, "the operator is served")

    def says(self, text):
        """True once this text is in the log, which a separate thread writes."""
        def is_there():
            return text in self.log()
        try:
            return wait_for(is_there, text)
        except AssertionError:
            raise AssertionError("%s is not in the log:\n%s" % (text, self.log())) from None

    def log(self):
        return read(self.log_path)

    def rss(self):
        """Resident bytes. Counted page by page if the kernel allows it: the number in statm lacks per-CPU counts that
        were not added yet, megabytes on machines with many CPUs."""
        with contextlib.suppress(OSError), open("/proc/%d/smaps_rollup" % self.pid) as f:
            for line in f:
                if line.startswith("Rss:"):
                    return int(line.split()[1]) * 1024
        return int(read("/proc/%d/statm" % self.pid).split()[1]) * resource.getpagesize()

    def cpu(self):
        """CPU seconds used by all threads. The clock of a process needs no statistics, which a kernel may be built
        without; its number is computed as in clock_getcpuclockid()."""
        return time.clock_gettime(~self.pid << 3 | 2)

    def is_alive(self):
        return self.process.poll() is None

    def has_stopped(self):
        tasks = "/proc/%d/task" % self.pid
        return all(read("%s/%s/stat" % (tasks, task)).rsplit(")", 1)[1].split()[0] == "T" for task in os.listdir(tasks))

    @contextlib.contextmanager
    def paused(self):
        """Stops the daemon while the body runs: all input sent meanwhile has arrived when it continues."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            wait_for(self.has_stopped, "the daemon stands still")
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def stop(self, how=signal.SIGTERM, patience=PATIENCE):
        """Stop it; returns its exit status."""
        self.process.send_signal(how)
        wait_for(lambda: not self.is_alive(), "it ends", patience)
        return self.process.returncode

    def crash(self):
        self.process.kill()
        self.process.wait()

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.crash()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is not None:
                sys.stderr.write(self.log()[-4000:])
            elif self.is_alive():
                status = self.stop()
                assert status == 0, "exit status %d: %s" % (status, self.log()[-4000:])
        finally:
            self.kill()


def hold(d, count, data):
    """This number of clients of d that send as much of data as the server accepts, and read nothing."""
    held = []
    for _ in range(count):
        c = d.client()
        c.sock.setblocking(False)
        view = memoryview(data)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while len(view) > 0:
                view = view[c.sock.send(view):]
        held.append(c)
    return held


def pattern(name, n):
    """n bytes that are unique to this name: another key's value, or a partial one, does not match."""
    unit = b"<" + name + b">"
    return (unit * (n // len(unit) + 1))[:n]


def skip_all(reason):
    """Skip the whole script; the reason is a text or a Skip."""
    print("1..0 # SKIP %s" % reason)
    sys.exit(0)


class Run:
    """A test that runs now, or in a thread in parallel with others."""

    def __init__(self, test, is_beside):
        self.test, self.error = test, None
        self.thread = threading.Thread(target=self.run) if is_beside else None
        if self.thread is not None:
            self.thread.start()

    def run(self):
        began = time.monotonic()
        try:
            self.test()
        except Exception as error:      # the report of a test must not end the others
            self.error = error
        self.seconds = time.monotonic() - began

    def report(self, number, name):
        """Wait for it and report the result; false: it failed."""
        if self.thread is not None:
            self.thread.join()
        else:
            self.run()
        if isinstance(self.error, Skip):
            print("ok %d - %s # SKIP %s" % (number, name, self.error), flush=True)
        elif self.error is not None:
            traceback.print_exception(self.error)
            print("not ok %d - %s" % (number, name), flush=True)
            return False
        else:
            print("ok %d - %s (%.2f s)" % (number, name, self.seconds), flush=True)
        return True


def cases(names, run, **arguments):
    """Tests that differ in the arguments of run()."""
    names.update(("test_" + name, functools.partial(run, *args)) for name, args in arguments.items())


def main(names, beside=()):
    """Run the functions test_*, or those of them that the command line names, and report each in
    the Test Anything Protocol. Those named in `beside` do little but wait, and change nothing of this
    process: they run in threads beside the others."""
    if not os.access(PROGRAM, os.X_OK):
        skip_all("%s is not built" % PROGRAM)
    only = sys.argv[1:]
    tests = [(name, test) for name, test in names.items() if name.startswith("test_") and (not only or name in only)]
    print("1..%d" % len(tests), flush=True)
    runs = [(name, Run(test, name in beside)) for name, test in tests]
    failed = [name for number, (name, run) in enumerate(runs, 1) if not run.report(number, name)]
    sys.exit(1 if failed else 0)
