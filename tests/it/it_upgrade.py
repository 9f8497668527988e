#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""SIGUSR2: a program takes over in place, with the number of the process, the sockets, the items and the
connections. One that would not start changes nothing."""
import contextlib
import os
import shutil
import signal
import socket
import tempfile
import threading
import time

import binary as b
import checked
import mayfly
import replicas
import tls
from binary import BinaryClient
from mayfly import Client, Daemon, Inapplicable, pattern, wait_for
from nomem import NoMem

UPGRADED = "takes over"
WAITS = "upgrade, waits for values"


def daemon(*args, limit=("-m", "64"), **kw):
    mayfly.skip_if("drop_privileges" in " ".join(mayfly.MORE_ARGS), "with drop_privileges no program can be started")
    return Daemon("-t", "2", *limit, *args, **kw)


@contextlib.contextmanager
def keeping(*args, **kw):
    """With items in a file that the next one takes over."""
    with mayfly.place("memory", in_memory=True) as path, daemon("-e", path, *args, **kw) as d:
        yield d


def upgrade(d):
    """Wait until another serves."""
    wait_for(lambda: "is ready" in d.log(), "that it serves is in the log")
    ready = d.log().count("is ready")
    d.process.send_signal(signal.SIGUSR2)
    wait_for(lambda: d.log().count("is ready") > ready, "another serves: " + d.log()[-500:])


def state(c):
    return c.stats(b"persistence")["restart_state"]


def test_another_takes_over():
    """Clients that come all the while are never refused, and all are answered."""
    done, wrong, stop = [0], [], threading.Event()

    def connect():
        while not stop.is_set():
            try:
                with d.client() as c:
                    assert c.ask(b"version").startswith(b"VERSION")
                    done[0] += 1
            except Exception as e:      # whatever it is, the test says so
                wrong.append(repr(e))
                return
    for memory in ("file", "fdstore"):
        with mayfly.folder(in_memory=True) as where:
            file = os.path.join(where, "memory") if memory == "file" else memory
            with daemon("-e", file, tcp=True, control=True) as d:
                thread = threading.Thread(target=connect)
                stop.clear()
                thread.start()
                with d.client() as c:
                    for i in range(1000):
                        c.set(b"k%d" % i, b"v%d" % i)
                    assert state(c) == "cold"
                for _ in range(3):
                    before = done[0]
                    upgrade(d)
                    wait_for(lambda: done[0] > before + 20 or wrong, "clients are served")
                    with d.client() as c, d.operator() as o:
                        assert c.stats()["pid"] == str(d.pid)
                        assert state(o) == "warm", o.stats(b"persistence")
                        assert all(c.get(b"k%d" % i) == b"v%d" % i for i in range(0, 1000, 37))
                stop.set()
                thread.join()
                assert not wrong, wrong


def options(c, *names):
    c.send(b"config get " + " ".join(names).encode() + b"\r\n")
    return dict(line.decode().split()[1:] for line in iter(c.line, b"END"))


def test_what_was_set_while_it_ran_stays():
    """Live options, unless the file has a newer value, and a hold of expired items."""
    with mayfly.place("config", "memory-limit = 32\nhz = 20\nexpire-effort = 2\n") as config, \
            keeping("--config", config, control=True, limit=()) as d, d.operator() as o:
        for change in (b"memory_limit 128", b"hz 100", b"maxmemory_policy allkeys-lru", b"active_expire no",
                       b"expire_effort 5", b"replica_user \"some one\"", b"replica_password_file \"/a \\\"b\\\" c\""):
            assert o.ask(b"config set " + change) == b"OK", change
        assert o.ask(b"expire_hold 600") == b"OK"
        value = b"x" * 60000
        for i in range(1000):           # more than the file's limit has room for
            assert o.set(b"k%d" % i, value) == b"STORED"
        assert o.ask(b"ms short 1 p1\r\nx") == b"HD"
        wait_for(lambda: o.ask(b"mg short") == b"EN", "it expires")
        mayfly.replace(config, "memory-limit = 32\nhz = 20\nexpire-effort = 3\n")
        upgrade(d)
        with d.operator() as c:
            got = options(c, "memory_limit", "hz", "maxmemory_policy", "active_expire", "expire_effort")
            assert got == {"memory_limit": "128", "hz": "100", "maxmemory_policy": "allkeys-lru",
                           "active_expire": "no", "expire_effort": "3"}, got
            assert c.stats(b"settings")["replica_user"] == "some one"
            assert c.stats(b"settings")["replica_password_file"] == '/a "b" c'
            assert c.stats(b"")["evictions"] == "0" and c.stat("curr_items") == 1001
            left = int(c.stats(b"expire")["expire_hold_left_ms"])
            assert 100000 < left <= 600000, left
            assert c.ask(b"config reset hz") == b"OK" and options(c, "hz") == {"hz": "20"}
        log = d.log()
        assert "upgrade, keeps the values of config set: " in log
        assert "memory-limit = 128" in log and "hz = 100" in log and "replica-user = " in log
        assert "upgrade, expire-effort = 3 (%s:3) replaces 5 from config set" % config in log, log
        # A lower limit in the file: what it costs is said.
        mayfly.replace(config, "memory-limit = 16\n")
        upgrade(d)
        with d.operator() as c:
            assert options(c, "memory_limit") == {"memory_limit": "16"}
            assert d.says("megabytes more than the limit of 16 (memory-limit), which are evicted")
            wait_for(lambda: c.stat("curr_items") < 400, "it evicts")


def test_a_log_that_was_begun_beside_load_async_goes_on():
    """None starts so, but one that runs may begin it; and what else was set stays, too."""
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder, \
            keeping("--dir", folder, "-o", "load_async", control=True) as d, d.operator() as o:
        assert o.ask(b"config set appendonly full hz 100") == b"OK"
        assert o.set(b"k", b"v") == b"STORED"
        upgrade(d)
        with d.operator() as c:
            assert options(c, "appendonly", "hz") == {"appendonly": "full", "hz": "100"}
            assert c.get(b"k") == b"v"


def test_an_operator_may_ask_for_it():
    with keeping(control=True) as d:
        with d.client() as c, d.operator() as o:
            c.set(b"k", b"v")
            assert c.ask(b"upgrade").endswith(b"shutdown not enabled")
            for wrong in (b"true", b"/bin/true /bin/true", b"/" + b"x" * 4096):
                assert o.ask(b"upgrade " + wrong) == b"CLIENT_ERROR usage: upgrade [/PATH]"
            assert o.ask(b"upgrade") == b"OK"
        wait_for(lambda: d.log().count("is ready") == 2, "another serves")
        with d.client() as c:
            assert c.get(b"k") == b"v" and state(c) == "warm"
        assert d.stop() == 0
    with daemon(control=True) as d, d.operator() as o:
        assert o.ask(b"upgrade") == b"SERVER_ERROR not without memory_file, nor with drop_privileges"


def test_a_program_may_be_named():
    """Over the control socket; it is run by its name from then on. What is not the operator's own is not."""
    with mayfly.place("another") as program, keeping("-A", control=True, is_visible=True) as d, d.client() as c, \
            d.operator() as o:
        c.set(b"k", b"v")
        assert c.ask(b"upgrade /bin/true") == b"CLIENT_ERROR a program is named over the control socket"
        shutil.copy(mayfly.PROGRAM, program)

        def refused(why, mode=0o755):
            if os.path.isfile(program):
                os.chmod(program, mode)
            before = d.log().count("upgrade, refused: " + program)
            assert o.ask(b"upgrade " + program.encode()) == b"OK"
            wait_for(lambda: d.log().count("upgrade, refused: " + program) > before, "it is refused")
            # The line is written before main can be asked again; the state is shown after that.
            wait_for(lambda: o.stats(b"persistence")["upgrade_state"] == "refused", "it is over")
            assert why in d.log().rsplit("upgrade, refused: ", 1)[1], d.log()
        refused("it is no program", 0o644)
        refused("others may write it", 0o775)
        refused("others may write it", 0o757)
        if os.geteuid() == 0:
            os.chown(program, 65534, 0)
            refused("it belongs to another user")
            os.chown(program, 0, 0)
        os.chmod(program, 0o755)
        for _ in range(2):      # by that name also when none is named
            ready = d.log().count("is ready")
            assert o.ask(b"upgrade " + program.encode() if ready == 1 else b"upgrade") == b"OK"
            wait_for(lambda: d.log().count("is ready") > ready, "another serves")
            assert os.readlink("/proc/%d/exe" % d.pid) == program
            assert c.get(b"k") == b"v" and state(c) == "warm"
        os.unlink(program)
        refused("No such file")
        os.mkdir(program)
        refused("it is no program")
        assert c.get(b"k") == b"v"


def test_what_is_asked_meanwhile_says_nothing_of_the_first():
    """A client that waits for the first upgrade does not receive the refusal of the second."""
    with mayfly.place("another") as program, keeping("-A", control=True, is_visible=True) as d, d.operator() as o:
        with open(program, "w", encoding="ascii") as f:
            f.write("#!/bin/sh\nexec sleep 1000\n")
        os.chmod(program, 0o755)
        assert o.ask(b"upgrade " + program.encode()) == b"OK"
        wait_for(lambda: o.stats(b"persistence")["upgrade_state"] == "asked", "it is asked")

        def looks_at_another():
            assert o.ask(b"upgrade " + program.encode() + b".none") == b"OK"
            return "already running" in d.log() or "refused" in d.log()
        wait_for(looks_at_another, "the second is looked at")
        assert "refused" not in d.log() and o.stats(b"persistence")["upgrade_state"] == "asked"
        assert d.stop() == 0


def test_a_program_that_is_none_of_ours():
    """It has no objection to anything."""
    with mayfly.place("another", "#!/bin/sh\nexit 0\n", 0o755) as program, keeping(control=True) as d, d.operator() as o:
        assert o.ask(b"upgrade " + program.encode()) == b"OK"
        wait_for(lambda: "upgrade, refused: %s is another program" % program in d.log(), "it is refused")
        assert o.ask(b"lastsave") is not None and UPGRADED not in d.log()


def test_a_program_that_goes_when_it_is_needed():
    """The one before goes on, with clients and items."""
    with mayfly.place("another", mayfly.read_bytes(mayfly.PROGRAM), 0o755) as program, \
            keeping(control=True, is_visible=True) as d, d.client() as c, d.client() as slow, d.operator() as o:
        c.set(b"k", b"v")
        with HoldsUp(slow, c):
            assert o.ask(b"upgrade " + program.encode()) == b"OK"
            wait_for(lambda: UPGRADED in d.log(), "it begins")
            os.unlink(program)
        wait_for(lambda: d.log().count("is ready") == 2, "the old one serves: " + d.log())
        assert d.says("cannot run %s (No such file" % program)
        assert c.get(b"k") == b"v" and state(c) == "warm" and o.ask(b"lastsave") is not None
        assert os.readlink("/proc/%d/exe" % d.pid) == os.path.realpath(mayfly.PROGRAM)


def test_what_would_not_start_changes_nothing():
    with mayfly.place("conf", "verbose = 1\n") as options, keeping("--config", options) as d, d.client() as c:
        c.set(b"k", b"v")
        mayfly.replace(options, "hz = perhaps\n")
        d.process.send_signal(signal.SIGUSR2)
        wait_for(lambda: "upgrade, refused:" in d.log(), "it is refused")
        assert d.says("would not start (status 1)") and UPGRADED not in d.log()
        assert c.get(b"k") == b"v" and state(c) == "cold"
        mayfly.replace(options, "hz = 20\n")
        upgrade(d)
        assert c.get(b"k") == b"v" and state(c) == "warm"
        assert c.stats(b"settings")["hz"] == "20"


class Taken:
    """What another process listens on."""

    def __init__(self, where):
        self.tcp, self.udp = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.unix, self.path = socket.socket(socket.AF_UNIX), os.path.join(where, "taken")
        for s in (self.tcp, self.udp):
            s.bind(("127.0.0.1", 0))
        self.unix.bind(self.path)
        self.tcp.listen()
        self.unix.listen()
        self.address = "127.0.0.1:%d" % self.tcp.getsockname()[1]

    def close(self):
        for s in (self.tcp, self.udp, self.unix):
            s.close()


def free_port():
    """A port that the system could give to another program; the test must accept that."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_what_cannot_be_had_is_noticed_before():
    """Addresses of others, folders, files: nothing changes, and what can be had is taken later."""
    with mayfly.folder(in_memory=True) as where, contextlib.closing(Taken(where)) as taken:
        options, memory = os.path.join(where, "conf"), os.path.join(where, "memory")
        damaged, fresh = os.path.join(where, "damaged"), os.path.join(where, "fresh")
        mayfly.replace(damaged, "this is no snapshot" * 100)
        base = "listen-both = yes\nlisten = 127.0.0.1:0\nudp-port = -1\n"
        mayfly.replace(options, base + "memory-file = %s\n" % memory)
        with daemon("--config", options) as d, d.client() as c:
            c.set(b"k", b"v")
            d.find_port()
            files = sorted(os.listdir(where))

            def refused(text, why, keeps_file=True):
                mayfly.replace(options, text + ("memory-file = %s\n" % memory if keeps_file else ""))
                before, said = d.log().count("upgrade, refused: "), len(d.log())
                d.process.send_signal(signal.SIGUSR2)
                wait_for(lambda: d.log().count("upgrade, refused: ") > before, "it is refused: " + text)
                assert why in d.log()[said:] and "would not start" in d.log()[said:], d.log()[said:]
                assert c.get(b"k") == b"v" and state(c) == "cold"
            refused(base + "udp-port = %d\n" % taken.udp.getsockname()[1], "cannot listen on UDP port")
            refused("listen-both = yes\nlisten = %s\n" % taken.address, "cannot listen on " + taken.address)
            refused("listen-both = yes\nlisten = 127.0.0.1:0,%s\n" % taken.address, "is in use")
            refused(base + "control = %s\n" % taken.path, "cannot listen on " + taken.path)
            refused(base + "dir = %s/none\n" % where, "cannot write to %s/none" % where)
            refused(base + "dir = %s\ndbfilename = damaged\nload = strict\n" % where, "snapshot, " + damaged)
            refused(base, "the items would be lost", keeps_file=False)
            refused(base + "memory-file = %s\n" % fresh, "the items would be lost", keeps_file=False)
            refused(base + "memory-file = fdstore\n", "the items would be lost", keeps_file=False)
            os.rename(memory, fresh)
            refused(base, "the items would be lost")
            os.rename(fresh, memory)
            assert sorted(os.listdir(where)) == files
            assert "\nok" not in d.log()
            with Client(("127.0.0.1", d.port)) as other:
                assert other.get(b"k") == b"v"
            mayfly.replace(options, base + "memory-file = %s\ncontrol = %s\ndir = %s\n" % (memory, fresh, where))
            upgrade(d)
            with Client(fresh) as o, Client(("127.0.0.1", d.port)) as other:
                assert state(o) == "warm" and other.get(b"k") == b"v"


def test_a_limit_that_does_not_suit_the_items_is_refused():
    """The next program would start empty, or not at all where the file system has less room."""
    with mayfly.place("config", "memory-limit = 16\n") as config, \
            keeping("--config", config, limit=()) as d, d.client() as c:
        c.set(b"k", b"v")
        mayfly.replace(config, "memory-limit = 65536\n")
        d.process.send_signal(signal.SIGUSR2)
        wait_for(lambda: "upgrade, refused:" in d.log(), "it is refused")
        assert d.says("the items would be lost (memory-limit = 65536 does not suit them)")
        assert c.get(b"k") == b"v" and state(c) == "cold"
        mayfly.replace(config, "memory-limit = 64\n")
        upgrade(d)
        assert c.get(b"k") == b"v" and state(c) == "warm"


def test_metrics_too():
    with mayfly.folder(in_memory=True) as where, contextlib.closing(Taken(where)) as taken:
        options = os.path.join(where, "conf")
        mayfly.replace(options, "metrics = 127.0.0.1:0\n")
        try:
            probe = daemon("--config", options, "-e", os.path.join(where, "memory"))
        except AssertionError as e:
            if "libmicrohttpd" in str(e):
                raise Inapplicable("mayflyd is built without metrics") from e
            raise
        with probe as d, d.client() as c:
            c.set(b"k", b"v")
            mayfly.replace(options, "metrics = %s\n" % taken.address)
            d.process.send_signal(signal.SIGUSR2)
            wait_for(lambda: "upgrade, refused:" in d.log(), "it is refused")
            assert d.says("cannot listen on %s" % taken.address)
            mayfly.replace(options, "metrics = 127.0.0.1:%d\n" % int(d.log().split("metrics, listens on tcp:127.0.0.1:")[1].split()[0]))
            for _ in range(2):      # where the one that runs has it
                upgrade(d)
            assert c.get(b"k") == b"v"


def test_whoever_is_quicker_takes_an_address_only():
    """Between question and start: the rest is served."""
    with mayfly.folder(in_memory=True) as where, mayfly.folder() as other:
        options, program, marks = os.path.join(where, "conf"), os.path.join(other, "another"), os.path.join(other, "mark")
        with open(program, "w") as f:
            f.write("#!/bin/sh\ncase \"$*\" in *--check-config*) ;; *) : >%s.begun; while [ ! -e %s.go ]; do sleep 0.01; done;; esac\n"
                    "exec %s \"$@\"\n" % (marks, marks, mayfly.PROGRAM))
        os.chmod(program, 0o755)
        mayfly.replace(options, "")
        with daemon("--config", options, "-e", os.path.join(where, "memory"), control=True) as d, d.client() as c:
            c.set(b"k", b"v")
            with contextlib.closing(socket.socket()) as taken, d.operator() as o:
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                port = free_port()
                mayfly.replace(options, "listen-both = yes\nlisten = 127.0.0.1:%d\n" % port)
                assert o.ask(b"upgrade " + program.encode()) == b"OK"
                wait_for(lambda: os.path.exists(marks + ".begun") or "refused" in d.log(), "it begins")
                assert "refused" not in d.log(), d.log()
                taken.bind(("127.0.0.1", port))
                taken.listen()
                open(marks + ".go", "w").close()
                wait_for(lambda: d.log().count("is ready") == 2 or not d.is_alive(), "another serves")
                assert d.says("cannot listen on 127.0.0.1:%d" % port)
                assert c.get(b"k") == b"v" and state(c) == "warm"


def test_an_address_may_grow():
    """The conflicting server no longer exists."""
    with mayfly.place("conf", "listen-both = yes\nlisten = 127.0.0.1:0\n") as options, \
            keeping("--config", options) as d, d.client() as c:
        c.set(b"k", b"v")
        port = d.find_port()
        mayfly.replace(options, "listen-both = yes\nlisten = 0.0.0.0:%d\nprotected = no\n" % port)
        upgrade(d)
        assert c.get(b"k") == b"v" and state(c) == "warm"
        with Client(("127.0.0.2", port)) as other:
            assert other.get(b"k") == b"v"


def test_the_pid_file_stays():
    """Also where it could not be made again, as in a folder of root."""
    with mayfly.folder(in_memory=True) as where:
        options, first, second = (os.path.join(where, name) for name in ("conf", "first", "second"))
        mayfly.replace(options, "pidfile = %s\n" % first)
        with daemon("--config", options, "-e", os.path.join(where, "memory")) as d:
            is_of = os.stat(first).st_ino
            for _ in range(2):
                upgrade(d)
                assert os.stat(first).st_ino == is_of
            mayfly.replace(options, "pidfile = %s\n" % second)
            upgrade(d)
            assert not os.path.exists(first)
            assert mayfly.read(second) == "%d\n" % d.pid
            upgrade(d)
            assert d.stop() == 0 and not os.path.exists(second)


def test_a_socket_whose_file_is_gone_gets_another():
    with keeping() as d, d.client() as c:
        c.set(b"k", b"v")
        os.unlink(d.path)
        upgrade(d)
        with d.client() as other:
            assert other.get(b"k") == b"v" and state(other) == "warm"


def test_without_memory_file_it_is_refused():
    with daemon() as d, d.client() as c:
        d.process.send_signal(signal.SIGUSR2)
        wait_for(lambda: "refused: without memory_file" in d.log(), "it is refused")
        assert c.ask(b"version") is not None


def test_other_blocks_are_refused():
    for abi in ("1", "nonsense"):
        done = mayfly.run("--check-config", env={"MAYFLY_UPGRADE_ABI": abi})
        assert done[0] == 65 and "have another format version" in done[1], done


def test_no_signal_is_lost():
    """Whenever it comes, it ends the one program or the other."""
    for i in range(15):
        with keeping() as d:
            d.process.send_signal(signal.SIGUSR2)
            time.sleep(i * 0.002)
            assert d.stop() == 0


def begin_upload(c, other, n=900000):
    """A value of which a part is missing. Returns the rest of it; the other client is asked until it has begun."""
    c.send(b"set big 0 0 %d\r\n" % n + pattern(b"big", n)[:300000])
    wait_for(lambda: "conn_nread" in other.stats(b"conns").values(), "it is being received")
    return pattern(b"big", n)[300000:] + b"\r\n"


class HoldsUp(threading.Thread):
    """A client that sends a value little by little: it holds a stop up for a second and a half."""

    def __init__(self, c, other):
        super().__init__()
        self.client, self.rest, self.stops = c, begin_upload(c, other), threading.Event()
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while not self.stops.wait(0.02):
                self.client.send(self.rest[:1])
                self.rest = self.rest[1:]

    def end(self):
        """Returns what is still to be sent."""
        self.stops.set()
        self.join()
        return self.rest

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def test_a_stop_ends_it():
    """A stop is carried out, even while another program is about to take over."""
    for how in (signal.SIGTERM, signal.SIGUSR1, "shutdown"):
        with keeping("-A", control=True) as d:
            with Client(d.path) as c, Client(d.path) as idle:
                with HoldsUp(c, idle) as holder:
                    d.process.send_signal(signal.SIGUSR2)
                    wait_for(lambda: UPGRADED in d.log(), "it begins")
                    if how == "shutdown":
                        c.send(holder.end() + b"shutdown\r\n")
                    else:
                        d.process.send_signal(how)
                assert idle.rest() == b"", how
                assert d.process.wait(mayfly.PATIENCE) == 0
            assert d.log().count("is ready") == 1, d.log()
            assert not os.path.exists(d.path) and not os.path.exists(d.control_path)


@contextlib.contextmanager
def followed():
    """One whose stop waits for a replica, which hangs and does not have everything."""
    with keeping("-o", "failover_timeout=3000", tcp=True, control=True) as d, replicas.Node(of=d.port) as hung, \
            d.client() as c:
        hung.online()
        hung.process.send_signal(signal.SIGSTOP)
        try:
            assert c.set(b"k", b"v") == b"STORED"
            yield d
        finally:
            hung.process.send_signal(signal.SIGCONT)


def test_a_stop_that_waits_for_a_replica_ends_it():
    """The program agrees while the stop waits."""
    with followed() as d, d.operator() as o:
        assert o.ask(b"config set failover_on_stop yes") == b"OK"
        d.process.send_signal(signal.SIGUSR2)
        d.process.send_signal(signal.SIGTERM)
        assert d.process.wait(mayfly.PATIENCE) == 0
        assert d.log().count("is ready") == 1, d.log()


def test_none_takes_its_place_while_it_waits_for_a_replica():
    with mayfly.place("another") as program, followed() as d, d.operator() as o:
        with open(program, "w", encoding="ascii") as f:
            f.write("#!/bin/sh\nexec sleep 1000\n")
        os.chmod(program, 0o755)
        assert o.ask(b"upgrade") == b"OK"
        wait_for(lambda: UPGRADED in d.log(), "it waits for the replica, or has ended")
        assert o.ask(b"upgrade " + program.encode()) in (b"OK", None)
        wait_for(lambda: d.log().count("is ready") == 2, "the first that was named serves: " + d.log()[-500:])
        assert d.stop() == 0


# ---- connections that go along -----------------------------------------------------------------

def connections(c, n):
    """So many are open, that of the asking client among them; none that was closed is noticed later."""
    wait_for(lambda: c.stat("curr_connections") == n, "%d are open" % n)


def test_idle_connections_stay():
    """Text, meta, binary, over TCP, unix sockets and the control socket: ten times, and descriptors do not
    become more."""
    for tcp in (True, False):
        with keeping(tcp=tcp, control=True, is_visible=True) as d, contextlib.ExitStack() as stack:
            text, meta, silent = (stack.enter_context(d.client()) for _ in range(3))
            binary = stack.enter_context(BinaryClient(d.address))
            control = stack.enter_context(d.operator())
            text.set(b"k", b"v")
            assert meta.ask(b"mn") == b"MN"
            assert binary.call(b.store(b.SET, b"b", b"v")).status == b.OK
            assert control.ask(b"lastsave") is not None
            open_files = []
            connections(control, 5)
            for i in range(10):
                upgrade(d)
                connections(control, 5)
                assert d.says("upgrade, 5 connections continue")
                assert text.get(b"k") == b"v" and text.set(b"n%d" % i, b"w") == b"STORED"
                meta.send(b"mg b v\r\n")
                assert meta.line() == b"VA 1" and meta.line() == b"v"
                reply = binary.call(b.pack(b.GET, b"n%d" % i))
                assert reply.status == b.OK and reply.value == b"w", reply
                assert control.ask(b"lastsave") is not None
                open_files.append(len(os.listdir("/proc/%d/fd" % d.pid)))
            assert silent.ask(b"version").startswith(b"VERSION")
            assert open_files[-1] == open_files[0], open_files
            assert d.log().count("5 connections passed on, 0 closed") == 10


def test_what_was_sent_in_part_is_completed():
    """Input that was already read is not lost: half a line, half a value, half a frame, the rest of a refused
    request, the pipelined rest of a batch."""
    halves = [
        (b"version\r\nget k", b"1 k2\r\nmn\r\n", b"VALUE k1 0 2\r\nv1\r\nVALUE k2 0 2\r\nv2\r\nEND\r\nMN\r\n"),
        (b"version\r\nset s 0 0 10\r\n01234", b"56789\r\nget s\r\n", b"STORED\r\nVALUE s 0 10\r\n0123456789\r\nEND\r\n"),
        (b"version\r\nset s2 0 0 30000\r\n" + b"x" * 15000, b"x" * 15000 + b"\r\nmn\r\n", b"STORED\r\nMN\r\n"),
        (b"version\r\nms s3 5\r\n01", b"234\r\nmg s3 v\r\n", b"HD\r\nVA 5\r\n01234\r\n"),
        (b"version\r\nset huge 0 0 5000000\r\n" + b"y" * 15000, b"y" * 4985000 + b"\r\nmn\r\n",
         b"SERVER_ERROR object too large for cache\r\nMN\r\n"),
        (b"version\r\n" + b"mn\r\n" * 3 + b"m", b"n\r\n", b"MN\r\n" * 4),
        (b"version\r\nget " + b"n " * 5000, b"k1\r\n", b"VALUE k1 0 2\r\nv1\r\nEND\r\n"),
    ]
    frame = b.pack(b.NOOP, opaque=3) + b.store(b.SET, b"bin", b"v" * 100) + b.pack(b.GET, b"bin")
    for tcp in (True, False):
        with keeping(tcp=tcp) as d:
            clients = [d.client() for _ in halves]
            binaries = [BinaryClient(d.address) for _ in (30, 60, 100)]
            clients[0].set(b"k1", b"v1")
            clients[0].set(b"k2", b"v2")
            for c, (first, _, _) in zip(clients, halves):
                c.send(first)
                assert c.line().startswith(b"VERSION")      # so the rest of the read waits
            for c, n in zip(binaries, (30, 60, 100)):
                c.send(frame[:n])
                assert c.frame().opaque == 3
            with d.client() as c:
                connections(c, len(clients) + len(binaries) + 1)
                upgrade(d)
            for c, (_, second, reply) in zip(clients, halves):
                c.send(second)
                assert c.exactly(len(reply)) == reply
            for c, n in zip(binaries, (30, 60, 100)):
                c.send(frame[n:])
                assert c.frame().status == b.OK
                assert c.frame().value == b"v" * 100
            assert d.says("passed on, 0 closed")


def test_a_large_value_on_its_way_arrives():
    """The value is received before its connection is passed on. Its client has more than a second."""
    with keeping() as d:
        def comes():
            with d.client() as c:
                with d.client() as other:
                    rest = begin_upload(c, other)
                begun, ready = d.log().count(WAITS), d.log().count("is ready")
                d.process.send_signal(signal.SIGUSR2)
                wait_for(lambda: d.log().count(WAITS) > begun, "it begins")
                with contextlib.suppress(OSError):
                    c.send(rest)
                    if c.line() == b"STORED":
                        wait_for(lambda: d.log().count("is ready") > ready, "another serves")
                        return c.get(b"big") == pattern(b"big", 900000)
            wait_for(lambda: d.log().count("is ready") > ready, "another serves")
            return False
        wait_for(comes, "the value is stored, and its client stays")


def test_others_are_served_while_it_waits():
    """A stalled upload delays only the end of the upgrade; a second request does not start another one."""
    with keeping() as d, d.client() as c:
        assert c.set(b"k", b"v") == b"STORED"

        def serves():
            with d.client() as slow, d.client() as new:
                begin_upload(slow, c)
                waited, begun, ready = d.log().count(WAITS), d.log().count(UPGRADED), d.log().count("is ready")
                d.process.send_signal(signal.SIGUSR2)
                wait_for(lambda: d.log().count(WAITS) > waited, "it waits")
                d.process.send_signal(signal.SIGUSR2)
                assert c.get(b"k") == b"v" and new.set(b"n", b"w") == b"STORED"
                is_before = d.log().count(UPGRADED) == begun
                wait_for(lambda: d.log().count("is ready") > ready, "another serves")
                assert c.get(b"n") == b"w" and new.get(b"k") == b"v"
                with contextlib.suppress(OSError):
                    assert slow.rest() == b""
                return is_before
        wait_for(serves, "they are served before it begins")


def test_a_stop_ends_the_wait():
    with keeping() as d, d.client() as c, d.client() as slow:
        begin_upload(slow, c)
        d.process.send_signal(signal.SIGUSR2)
        wait_for(lambda: WAITS in d.log(), "it waits")
        assert d.stop() == 0 and d.log().count("is ready") == 1 and not os.path.exists(d.path)


def test_answers_that_wait_are_sent():
    """A client that does not read its answers gets all of them from the next program."""
    with keeping() as d, d.client() as c:
        value = pattern(b"v", 5000)
        c.set(b"k", value)
        n = 400
        with Client(d.path, rcvbuf=4096) as slow:
            slow.send(b"get k\r\n" * n)
            wait_for(lambda: any(v == "conn_mwrite" for v in c.stats(b"conns").values()), "answers wait")
            connections(c, 2)
            for _ in range(2):
                upgrade(d)
            for _ in range(n):
                assert slow.get_reply() == {b"k": value}
            assert slow.ask(b"mn") == b"MN"
        assert d.says("passed on, 0 closed")


def test_who_takes_little_gets_all():
    """Large values of a get line whose client does not read: pinned values, and the remaining keys."""
    for command in (b"get", b"gats 1000"):
        with keeping() as d, d.client() as c:
            keys = [b"k%d" % i for i in range(8)]
            assert all(c.set(key, pattern(key, 700000)) == b"STORED" for key in keys)
            with Client(d.path, rcvbuf=4096) as slow:
                slow.send(command + b" " + b" ".join(keys) + b"\r\nmn\r\n")
                wait_for(lambda: "conn_mwrite" in c.stats(b"conns").values(), "answers wait")
                connections(c, 2)
                upgrade(d)
                assert slow.get_reply() == {key: pattern(key, 700000) for key in keys}
                assert slow.line() == b"MN" and slow.ask(b"mn") == b"MN"
            assert d.says("2 connections passed on, 0 closed")


def test_no_more_is_copied_than_may_be_kept():
    """Many clients that do not read one value: it is not copied for all of them."""
    value = pattern(b"k", 900000)
    answer = (b"VALUE k 0 900000\r\n" + value + b"\r\n") * 2 + b"END\r\n"
    with keeping("-o", "read_buf_mem_limit=4") as d, d.client() as c:
        assert c.set(b"k", value) == b"STORED"
        slow = [Client(d.path, rcvbuf=4096) for _ in range(20)]
        for s in slow:
            s.send(b"get k k\r\n")
        wait_for(lambda: list(c.stats(b"conns").values()).count("conn_mwrite") == 20, "answers wait")
        upgrade(d)
        whole = 0
        for s in slow:
            with contextlib.suppress(OSError, EOFError):
                assert s.exactly(len(answer)) == answer
                whole += 1
        # Together they may be just above the limit, and then one is cut as any slow reader.
        cut = c.shard_sum("mayfly_slow_drops") + c.stat("response_obj_oom")
        assert 2 <= whole <= 10 and cut <= 1, (whole, cut)
        assert d.says("upgrade, %d connections passed on" % (whole + cut + 1))


def test_a_load_sees_nothing_of_it():
    """No error, no miss of what was acknowledged, no other order, no end of a connection."""
    for tcp in (True, False):
        with keeping(tcp=tcp) as d, d.client() as c:
            connections(c, 1)
            with checked.Load(d, 6, checked.text, checked.meta, checked.binary, checked.many_keys) as load:
                for _ in range(8):
                    upgrade(d)
                    load.goes_on()
            assert d.log().count("upgrade, 7 connections passed on, 0 closed") == 8, d.log()


def test_blanks_behind_a_line_of_keys():
    """A get line may be interrupted when only such keys are left of it."""
    line, end = b"get " + b" ".join(b"k%d" % i for i in range(64)) + b"   \r\n", b"END\r\n"
    with keeping("-t", "1", tcp=True) as d:
        def ask(_, is_over):
            with d.client() as c:
                while not is_over.is_set():
                    c.send(line * 40)
                    got = c.exactly(40 * len(end))
                    assert got == 40 * end, got
        with mayfly.beside(ask, range(16)):
            for _ in range(6):
                upgrade(d)


def test_logins_stay():
    """A logged-in client need not log in again, unless user or password has changed; others must."""
    with mayfly.place("users", "ann:secret\nbob:other\n") as users, \
            mayfly.place("rules", "user bob read\ndefault all\n") as rules, \
            keeping("-Y", users, "--access", rules, control=True) as d, \
            d.client() as ann, d.client() as bob, d.client() as nobody:
        assert ann.set(b"login", b"ann secret") == bob.set(b"login", b"bob other") == b"STORED"
        assert nobody.ask(b"get k").startswith(b"CLIENT_ERROR unauth")
        for i in range(3):
            upgrade(d)
            assert ann.set(b"k%d" % i, b"v") == b"STORED" and bob.get(b"k%d" % i) == b"v"
            assert bob.ask(b"touch k%d 0" % i) == b"CLIENT_ERROR not allowed to write"
            assert ann.get(b"k%d" % i) == b"v"
            assert nobody.ask(b"get k").startswith(b"CLIENT_ERROR unauth")
        mayfly.replace(users, "ann:changed\nbob:other\n")
        upgrade(d)
        assert ann.ask(b"get k1") == b"CLIENT_ERROR unauthenticated" and ann.rest() == b""
        assert bob.get(b"k1") == b"v"


def test_failed_logins_that_wait_are_answered():
    """Those that auth_delay keeps waiting get their answer, and go along."""
    with mayfly.place("users", "u:p\n") as users, \
            keeping("-Y", users, "-o", "auth_delay=60000,auth_timeout=0", tcp=True, control=True) as d:
        failure = b"CLIENT_ERROR authentication failure"
        for _ in range(2):
            with d.client() as c:
                assert [c.set(b"login", b"u wrong") for _ in range(5)] == [failure] * 5
        with d.client() as c, d.operator() as o:
            c.send(b"set login 0 0 7\r\nu wrong\r\n")
            wait_for(lambda: o.stat("mayfly_auth_throttled") == 1, "it waits")
            upgrade(d)
            assert c.line() == failure
            assert c.set(b"login", b"u p") == b"STORED" and c.set(b"k", b"v") == b"STORED"


def test_beyond_the_limit_they_are_closed():
    with mayfly.place("conf", "conn-limit = 100\n") as options, keeping("--config", options, control=True) as d:
        clients = [d.client() for _ in range(8)]
        assert all(c.ask(b"mn") == b"MN" for c in clients)
        connections(clients[0], len(clients))
        mayfly.replace(options, "conn-limit = 5\n")
        upgrade(d)
        served = 0
        for c in clients:
            with contextlib.suppress(OSError):
                served += c.ask(b"mn") == b"MN"
        assert served == 5, served
        assert d.says("upgrade, 3 connections were closed (beyond -c: 3")


def test_beyond_the_limit_of_their_address_answers_are_cut():
    """They end where they are: no other answer comes in the middle of them."""
    with mayfly.place("conf", "conns_per_address = 0\n") as options, \
            keeping("--config", options, tcp=True, control=True) as d:
        value, n = pattern(b"v", 5000), 200
        whole = b"VALUE k 0 5000\r\n" + value + b"\r\nEND\r\n"
        c, uploads = d.client(), d.client()
        c.set(b"k", value)
        slow = [d.client(rcvbuf=4096) for _ in range(3)]
        for s in slow:
            s.send(b"get k\r\n" * n)
        with d.operator() as o:
            wait_for(lambda: list(o.stats(b"conns").values()).count("conn_mwrite") == 3, "answers wait")
        holder = HoldsUp(uploads, c)
        mayfly.replace(options, "conns_per_address = 1\n")
        d.process.send_signal(signal.SIGUSR2)
        wait_for(lambda: UPGRADED in d.log(), "it begins")
        # They are with the next program now, but it has to wait: there will be room for more.
        for s in slow:
            with contextlib.suppress(BlockingIOError):
                s.sock.setblocking(False)
                while s.more():
                    pass
        holder.end()
        wait_for(lambda: d.log().count("is ready") == 2, "another serves")
        ended = 0
        for s in slow:
            s.sock.settimeout(mayfly.PATIENCE)
            with contextlib.suppress(ConnectionError):
                while len(s.buf) < n * len(whole) and s.more():
                    pass
            assert s.buf == (whole * n)[:len(s.buf)], s.buf[-100:]
            ended += len(s.buf) < n * len(whole)
        assert ended >= 2, ended


def test_without_a_listener_they_are_closed():
    """A listener that now has another protocol does not count."""
    with mayfly.place("conf", "protocol = auto\n") as options, keeping("--config", options, control=True) as d, \
            d.client() as text, BinaryClient(d.path) as binary, d.client() as silent, d.operator() as o:
                assert text.ask(b"mn") == b"MN"
                assert binary.call(b.pack(b.NOOP)).status == b.OK
                assert o.ask(b"lastsave") is not None
                connections(o, 4)
                mayfly.replace(options, "protocol = ascii\n")
                upgrade(d)
                assert binary.rest() == b""
                assert text.ask(b"mn") == b"MN" and silent.ask(b"mn") == b"MN" and o.ask(b"lastsave") is not None
                assert d.says("no listener for them: 1")


def test_what_cannot_go_along_is_ended():
    """One that watches, and one that does not go on with its value."""
    with keeping(control=True) as d:
        with d.client() as c, d.client() as watcher, d.client() as slow:
            assert watcher.ask(b"watch evictions") == b"OK"
            begin_upload(slow, c)
            connections(c, 3)
            upgrade(d)
            with contextlib.suppress(OSError):
                assert watcher.rest() == b""
            with contextlib.suppress(OSError):
                assert slow.rest() == b""
            assert c.ask(b"get big") == b"END"
            assert d.says("upgrade, 1 connections passed on, 2 closed")


def test_tls_is_ended_cleanly():
    made = tls.Certificates()
    context = made.context(authority=None)
    with keeping(*made.serve("server"), tcp=True, wait=False, control=True) as d:
        d.wait_for_operator()
        with d.client() as c, d.operator() as o:
            c.sock = context.wrap_socket(c.sock, suppress_ragged_eofs=False)
            assert c.set(b"k", b"v") == b"STORED"
            connections(o, 2)
            upgrade(d)
            assert c.rest() == b""      # and no error
            with d.client() as again:
                again.sock = context.wrap_socket(again.sock)
                assert again.get(b"k") == b"v"
            assert o.ask(b"lastsave") is not None
            assert d.says("upgrade, 1 connections passed on, 1 closed")


def test_who_a_balancer_said_stays():
    """Also when its header has arrived only in part."""
    header = b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 11211\r\n"
    with keeping("-l", "proxied:127.0.0.1:0", "--proxy-from", "127.0.0.0/8", tcp=True, control=True, wait=False) as d:
        d.wait_for_operator()
        ports = d.ports()
        with Client(("127.0.0.1", ports[1])) as c, Client(("127.0.0.1", ports[1])) as half, d.operator() as o:
            c.send(header)
            assert c.ask(b"mn") == b"MN"
            half.send(header[:20])
            wait_for(lambda: o.stat("curr_connections") == 3, "both are there")
            for _ in range(2):
                upgrade(d)
                assert c.ask(b"mn") == b"MN"
            half.send(header[20:].replace(b"4711", b"4712"))
            assert half.ask(b"mn") == b"MN"
            shown = [v for k, v in o.stats(b"conns").items() if k.endswith(":addr")]
            assert "tcp:192.0.2.7:4711" in shown and "tcp:192.0.2.7:4712" in shown, shown


def test_without_memory_for_connections_they_are_closed():
    """If the next program has no memory for a connection, the client is disconnected and does not wait forever."""
    missing = {"(their saved state is damaged)", "are closed (no memory)"}
    nth = seen = 0
    with NoMem() as m:
        while missing and nth <= seen:
            with keeping(tcp=True, **m.how) as d, d.client() as c:
                assert c.set(b"k", b"v") == b"STORED"
                wait_for(lambda d=d: "is ready" in d.log(), "that it serves is in the log")
                m.arm(nth)
                d.process.send_signal(signal.SIGUSR2)
                wait_for(lambda d=d: d.log().count("is ready") > 1 or "refused" in d.log() or not d.is_alive(), "it is over")
                m.disarm()
                with contextlib.suppress(ConnectionError):
                    assert c.ask(b"mn") in (b"MN", None)
                missing = {text for text in missing if text not in d.log()}
            seen = seen or m.get("seen")
            nth += 1 if nth > 0 else seen // 4      # before that comes the program that is asked
    assert not missing, missing


mayfly.main(globals(), beside=("test_a_stop_ends_it",))
