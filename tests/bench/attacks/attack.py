# SPDX-License-Identifier: BSD-3-Clause
"""What one client can do to the others: the frame of the attacks in this folder.

An attack is a file with one class, `class Attack(attack.Attack)`. Its first line of documentation
is its title. The runner starts a server, measures a neighbour before, during and after the attack,
and what the server takes in memory, and asks the class to judge that. See Attack for what a file
may set and define; `idle.py` is the smallest example.

The neighbour is a process of its own that gets a value of 100 bytes a thousand times a second, each
get at its time, whether or not those before it were answered. It runs at a higher priority than the
server and the attackers at a lower one, as far as the user may ask for that: they stand for other
machines, and the server shall be measured, not the scheduler.
"""
import array
import collections
import ctypes
import gc
import mmap
import os
import select
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.abspath(os.path.join(HERE, "..", "..", ".."))
sys.path.insert(0, os.path.join(TOP, "tests", "common"))
import mayfly  # noqa: E402

MIB = 1 << 20
KEY, VALUE = b"neighbour", b"n" * 100
GETS_PER_SECOND = 1000
NEIGHBOUR_PATIENCE = 20     # seconds until a get that is not answered is an error
LATER_MS = 20               # bound on how much later the neighbour's worst get is than before the attack
MORE_MIB = 48               # bound on resident memory beyond -m
LOG_CHARS = 4000            # of the messages of a server that died


class Client(mayfly.Client):
    """One connection of the text protocol; the end of the stream raises EOFError."""

    def __init__(self, server, **kw):
        self.server = server
        super().__init__(server.address, **dict({"timeout": NEIGHBOUR_PATIENCE}, **kw))

    def connect(self, address, timeout):
        super().connect(address, timeout)
        if isinstance(address, tuple):
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.server.attack.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            self.sock = context.wrap_socket(self.sock)

    def more(self):
        if not super().more():
            raise EOFError("the server closed the connection")
        return True


# ---- processes ------------------------------------------------------------------------------------


class Children:
    """Processes made by fork; ended by their ids, at the latest when the runner ends."""

    def __init__(self):
        self.pids = []

    def start(self, nice, fn, *args):
        parent = os.getpid()
        pid = os.fork()
        if pid > 0:
            self.pids.append(pid)
            return pid
        status = 1
        try:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)      # PR_SET_PDEATHSIG
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if os.getppid() == parent:
                try:
                    os.nice(nice)
                except OSError:
                    pass
                fn(*args)
            status = 0
        except KeyboardInterrupt:
            pass
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)

    def end(self, pids=None, how=signal.SIGKILL):
        for pid in list(self.pids if pids is None else pids):
            try:
                os.kill(pid, how)
            except ProcessLookupError:
                pass
            os.waitpid(pid, 0)
            self.pids.remove(pid)


class Server:
    """One server under attack, on a port or a socket that the system chose."""

    def __init__(self, name, program, attack):
        self.name, self.program, self.attack = name, program, attack
        self.folder = tempfile.mkdtemp(prefix="mayfly-attack.")
        self.log_path = os.path.join(self.folder, "log")
        self.port = None
        if attack.tls:
            self.make_certificate()
        port_file = os.path.join(self.folder, "port")
        self.path = os.path.join(self.folder, "socket")
        log = open(self.log_path, "wb")
        self.process = subprocess.Popen(
            self.command(), stdin=subprocess.DEVNULL, stdout=log,
            stderr=attack.stderr(self) or log, env=dict(os.environ, MEMCACHED_PORT_FILENAME=port_file))
        log.close()
        try:
            mayfly.wait_for(lambda: self.serves(port_file), "%s serves" % name, 20)
        except BaseException:
            sys.stderr.write(self.log())
            self.stop()
            raise

    def command(self):
        command = [self.program, "-m", str(self.attack.memory_mib), "-c", str(self.attack.connections)]
        if os.geteuid() == 0:
            command += ["-u", "root"]
        if self.attack.unix:
            command += ["-s", self.path]
        else:
            command += ["-l", "127.0.0.1", "-p", "-1", "-U", "0"]
        if self.attack.tls:
            command += ["-Z", "-o", "ssl_chain_cert=%s,ssl_key=%s" % self.certificate]
        return command + self.attack.options(self)

    def make_certificate(self):
        """A key and a certificate for this run."""
        self.certificate = (os.path.join(self.folder, "cert.pem"), os.path.join(self.folder, "key.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "2", "-subj", "/CN=localhost", "-out", self.certificate[0],
                        "-keyout", self.certificate[1]], check=True, stderr=subprocess.DEVNULL)

    def serves(self, port_file):
        if self.process.poll() is not None:
            raise AssertionError("%s ended with %d" % (self.name, self.process.returncode))
        try:
            if not self.attack.unix:
                with open(port_file) as f:
                    self.port = next(int(x.split()[2]) for x in f if x.startswith("TCP INET: "))
            with Client(self, timeout=2):
                return True
        except (OSError, StopIteration, EOFError):
            return False

    @property
    def pid(self):
        return self.process.pid

    @property
    def address(self):
        return self.path if self.attack.unix else ("127.0.0.1", self.port)

    def client(self, **kw):
        """A connection that is logged in where the attack's server asks for it."""
        c = Client(self, **kw)
        self.attack.login(c)
        return c

    def status(self, field):
        """VmRSS or VmHWM, bytes."""
        with open("/proc/%d/status" % self.pid) as f:
            return next(int(x.split()[1]) * 1024 for x in f if x.startswith(field + ":"))

    def forget_peak(self):
        try:
            with open("/proc/%d/clear_refs" % self.pid, "w") as f:
                f.write("5")
        except OSError:
            pass

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def is_alive(self):
        return self.process.poll() is None

    def stop(self):
        if self.is_alive():
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


# ---- the neighbour --------------------------------------------------------------------------------


class Probe:
    """Gets the neighbour's value again and again, each get at its time, whether or not those before
    it were answered: a server that is late with one is late with those that were due meanwhile, and
    by how much is what each of them took."""

    ASK = b"get " + KEY + b"\r\n"
    ANSWER = b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (KEY, len(VALUE), VALUE)

    def __init__(self, server, stop):
        self.server, self.stop = server, stop
        self.samples = array.array("d")         # when it was asked, seconds until the answer; -1: failed
        self.asked = collections.deque()        # times of gets that are not answered
        self.client = None
        self.got = b""

    def note(self, asked, seconds):
        self.samples.extend((asked, seconds))

    def connect(self):
        self.client = self.server.client()
        self.client.sock.setblocking(False)
        self.got = self.client.buf

    def fail(self):
        """The connection is lost, and what was asked with it."""
        for asked in self.asked:
            self.note(asked, -1)
        self.asked.clear()
        if self.client is not None:
            self.client.close()
            self.client = None
        time.sleep(.01)

    def ask(self):
        now = time.monotonic()      # what the process overslept is not the server's fault
        self.asked.append(now)
        if self.client is None:
            self.connect()
        if self.client.sock.send(self.ASK) != len(self.ASK):
            raise OSError("the socket takes no more")

    def hear(self):
        try:
            more = self.client.sock.recv(1 << 16)
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        now = time.monotonic()
        self.got += more
        while self.asked and self.got.startswith(self.ANSWER):
            asked = self.asked.popleft()
            self.note(asked, now - asked)
            self.got = self.got[len(self.ANSWER):]
        if not more or not self.ANSWER.startswith(self.got):
            raise EOFError

    def step(self, due):
        """Ask when it is time, hear what has come. Returns when the next get is due."""
        now = time.monotonic()
        if now >= due:
            self.ask()
            return max(due + 1 / GETS_PER_SECOND, now - .1)
        # select() takes microseconds; poll() would round up to milliseconds.
        ready = select.select([self.stop] + ([self.client.sock] if self.client else []), [], [], due - now)[0]
        if self.stop in ready:
            raise StopIteration
        if ready:
            self.hear()
        if self.asked and now - self.asked[0] > NEIGHBOUR_PATIENCE:
            raise EOFError
        return due

    def run(self):
        due = time.monotonic()
        while True:
            try:
                due = self.step(due)
            except StopIteration:
                break
            except (OSError, EOFError, AssertionError):
                if self.client is None and not self.asked:
                    self.asked.append(time.monotonic())
                self.fail()
        now = time.monotonic()
        for asked in self.asked:
            self.note(asked, now - asked)       # so late at least
        return self.samples


def probe(server, result, stop):
    """Write the samples of a probe to result: their count, then the numbers."""
    gc.disable()
    samples = Probe(server, stop).run()
    os.write(result, struct.pack("=Q", len(samples)))
    with os.fdopen(result, "wb") as f:
        f.write(samples.tobytes())


class Neighbour:
    """The process that probes, seen from the runner."""

    def __init__(self, children, server):
        self.children = children
        self.result, result = os.pipe()
        stop, self.stop = os.pipe()
        self.pid = children.start(-10, probe, server, result, stop)
        os.close(result)
        os.close(stop)

    def finish(self):
        """A list of (when it was asked, seconds)."""
        os.write(self.stop, b"x")
        with os.fdopen(self.result, "rb") as f:
            count = struct.unpack("=Q", f.read(8))[0]
            samples = array.array("d", f.read(count * 8))
        os.close(self.stop)
        os.waitpid(self.pid, 0)
        self.children.pids.remove(self.pid)
        return list(zip(samples[::2], samples[1::2]))


class Phase:
    """The neighbour's gets that were asked in a stretch of time, in milliseconds. One that was
    answered much later belongs here as well."""

    def __init__(self, samples, begin, end):
        inside = [s for when, s in samples if begin <= when < end]
        good = sorted(s * 1000 for s in inside if s >= 0)
        self.errors = len(inside) - len(good)
        self.count = len(good)
        self.p50 = good[len(good) // 2] if good else float("inf")
        self.p99 = good[len(good) * 99 // 100] if good else float("inf")
        self.max = good[-1] if good else float("inf")

    def __str__(self):
        return "%.2f/%.1f/%.1f" % (self.p50, self.p99, self.max)


# ---- an attack ------------------------------------------------------------------------------------


class Attack:
    """What a file of this folder may set and define. Everything has a default but attack()."""

    memory_mib = 64         # -m
    connections = 4096      # -c
    flags = ()              # more flags, for every server
    tls = False             # the server speaks TLS on its port, and so do neighbour and clients
    unix = False            # a unix socket instead of a port
    attackers = 1           # processes that run attack()
    honest_clients = 2      # processes that run honest() from before the attack until after it
    seconds = None          # of each of the three phases, instead of the runner's
    settles = 1.0           # seconds between the start of the attackers and the phase "during"
    episodes = 0            # so many servers are started and handed to episode(), and nothing else is measured

    def options(self, server):
        """Flags that depend on server.name, or that name files in server.folder."""
        return list(self.flags)

    def stderr(self, server):
        """A descriptor for the server's messages; None: a file."""
        return None

    def login(self, client):
        """Done by neighbour and honest clients after they have connected."""

    def prepare(self, server):
        """Before anything is measured, in the runner: keys that the attack needs."""

    def attack(self, server, number):
        """In a process of its own that is killed at the end: attack until then. If it returns, its
        connections are closed."""
        raise NotImplementedError

    def honest(self, client, number):
        """One operation of an honest client, repeated. An exception counts as a failure; EOFError
        and OSError count as a connection that was cut, and the client connects again."""
        key = b"honest%d" % number
        assert client.set(key, b"v" * 1000) == b"STORED"
        assert client.get(key) == b"v" * 1000
        time.sleep(.001)

    def episode(self, server):
        """One life of a server, up to its end. Returns how many clients were served well, how many
        badly, how many were cut, and what to say about it."""
        raise NotImplementedError

    def judge(self, run):
        """Reasons why the server did not withstand; none: it did."""
        reasons = []
        for phase, when in ((run.during, ""), (run.after, " afterwards")):
            if phase.count == 0:
                reasons.append("neighbour not served" + when)
            elif phase.max > run.before.max + LATER_MS:
                reasons.append("late by %.0f ms%s" % (phase.max - run.before.max, when))
        if run.before.errors + run.during.errors + run.after.errors:
            reasons.append("neighbour cut")
        if run.rss_peak > (self.memory_mib + MORE_MIB) * MIB:
            reasons.append("memory")
        if run.failed:
            reasons.append("honest requests failed")
        if run.cut:
            reasons.append("honest clients cut")
        if not run.is_alive:
            reasons.append("server died: %d" % run.server.process.returncode)
        return reasons


class Tally:
    """Counts of the honest clients, in memory shared by their processes."""

    def __init__(self, clients):
        self.words = mmap.mmap(-1, max(1, clients) * 24)

    def add(self, client, which):
        at = client * 24 + which * 8
        self.words[at:at + 8] = struct.pack("=Q", struct.unpack("=Q", self.words[at:at + 8])[0] + 1)

    def sum(self, which):
        return sum(struct.unpack_from("=Q", self.words, at + which * 8)[0] for at in range(0, len(self.words), 24))


def be_honest(attack, server, number, tally):
    client = None
    said = False
    while True:
        try:
            client = client or server.client()
            attack.honest(client, number)
            tally.add(number, 0)
        except Exception as why:    # any of them is the server's failure
            was_cut = isinstance(why, (OSError, EOFError))
            tally.add(number, 2 if was_cut else 1)
            if not said:
                sys.stderr.write("%s, honest client %d: %r\n" % (server.name, number, why))
                said = True
            if client is not None:
                client.close()
                client = None
            time.sleep(.05)


class Episodes:
    """An attack on the end of servers, repeated."""

    def __init__(self, name, attack, server_name, program):
        self.name, self.server_name = name, server_name
        self.ok = self.bad = self.cut = 0
        self.said = []
        for _ in range(attack.episodes):
            server = Server(server_name, program, attack)
            try:
                ok, bad, cut, said = attack.episode(server)
            finally:
                server.stop()
            self.ok, self.bad, self.cut = self.ok + ok, self.bad + bad, self.cut + cut
            self.said.append(said)
        self.reasons = ["%d clients cut or served badly" % (self.bad + self.cut)] if self.bad + self.cut else []

    def __str__(self):
        return "%-20s %-10s %-95s %-18s %s" % (
            self.name, self.server_name, "longest: " + max(self.said), "%d/%d/%d" % (self.ok, self.bad, self.cut),
            ", ".join(self.reasons) or "holds")


class Run:
    """One attack against one server."""

    def __init__(self, name, attack, server_name, program, seconds):
        self.attack_name, self.attack, self.seconds = name, attack, attack.seconds or seconds
        self.children = Children()
        self.server = Server(server_name, program, attack)
        try:
            self.run()
        finally:
            self.children.end()
            self.server.stop()

    def run(self):
        attack, server = self.attack, self.server
        with server.client() as c:
            assert c.set(KEY, VALUE) == b"STORED"
        attack.prepare(server)
        tally = Tally(attack.honest_clients)
        for i in range(attack.honest_clients):
            self.children.start(0, be_honest, attack, server, i, tally)
        neighbour = Neighbour(self.children, server)
        time.sleep(.3)
        before = time.monotonic()
        time.sleep(self.seconds)
        self.rss_before = server.status("VmRSS")
        server.forget_peak()
        began = time.monotonic()
        attackers = [self.children.start(5, attack.attack, server, i) for i in range(attack.attackers)]
        # The first moments belong to the attack, but its memory is measured when it is in place.
        time.sleep(attack.settles + self.seconds)
        self.rss_during = server.status("VmRSS") if server.is_alive() else 0
        self.rss_peak = server.status("VmHWM") if server.is_alive() else 0
        ended = time.monotonic()
        gone = [pid for pid in attackers if os.waitpid(pid, os.WNOHANG)[0]]
        for pid in gone:
            self.children.pids.remove(pid)
        self.children.end([pid for pid in attackers if pid not in gone])
        time.sleep(.5)      # the kernel closes what the attackers held
        after = time.monotonic()
        time.sleep(self.seconds)
        over = time.monotonic()
        self.rss_after = server.status("VmRSS") if server.is_alive() else 0
        samples = neighbour.finish()
        self.before = Phase(samples, before, began)
        self.during = Phase(samples, began, ended)
        self.after = Phase(samples, after, over)
        self.ok, self.failed, self.cut = (tally.sum(i) for i in range(3))
        self.is_alive = server.is_alive()
        if not self.is_alive:
            sys.stderr.write("%s, its last messages:\n%s" % (server.name, server.log()[-LOG_CHARS:]))
        self.reasons = attack.judge(self)

    HEAD = "%-20s %-10s %-18s %-22s %-18s %-6s %-15s %-18s %s" % (
        "attack", "server", "before, ms", "during", "after", "errors", "MiB b/peak/a", "honest ok/bad/cut",
        "verdict")

    def __str__(self):
        memory = "%.0f/%.0f/%.0f" % (self.rss_before / MIB, self.rss_peak / MIB, self.rss_after / MIB)
        return "%-20s %-10s %-18s %-22s %-18s %-6d %-15s %-18s %s" % (
            self.attack_name, self.server.name, self.before, self.during, self.after,
            self.before.errors + self.during.errors + self.after.errors, memory,
            "%d/%d/%d" % (self.ok, self.failed, self.cut), ", ".join(self.reasons) or "holds")
