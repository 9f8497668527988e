#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What balancers ask a pair of servers over HTTP, and the recipes of docs/operating.md with HAProxy and keepalived
as they stand there, on hosts made of network namespaces."""
import contextlib
import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
import mayfly                                                           # noqa: E402
from mayfly import Client, Daemon, PROGRAM, Skip, wait_for              # noqa: E402
from proxy import Plan, Proxy                                           # noqa: E402

GUIDE = os.path.join(HERE, "..", "..", "docs", "operating.md")


# ---- the pages -----------------------------------------------------------------------------------

def ask(d, path, method="GET"):
    """Status, Allow and body of an answer of its metrics."""
    port = int(re.search(r"metrics, listens on tcp:127\.0\.0\.1:(\d+)", d.log()).group(1))
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=mayfly.PATIENCE)) as c:
        c.request(method, path)
        answer = c.getresponse()
        return answer.status, answer.headers["Allow"], answer.read().decode()


@contextlib.contextmanager
def server(*args):
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        done = subprocess.run([PROGRAM, "--check-config", "--metrics", "127.0.0.1:0", "-s", os.path.join(folder, "s")] +
                              mayfly.ROOT, capture_output=True, text=True,
                              timeout=mayfly.PATIENCE, check=False)
    mayfly.skip_if("not built with" in done.stderr, "not built with metrics")
    with Daemon("--metrics", "127.0.0.1:0", *args, tcp=True, control=True) as d:
        yield d


def role(d):
    with d.operator() as o:
        return o.ask(b"role").split()[1:3]


def wait_until_online(d):
    wait_for(lambda: role(d) == [b"replica", b"online"], "it is online")


def test_who_is_the_primary():
    with server() as a, server("-o", "replicaof=127.0.0.1:%d" % a.port) as b:
        wait_until_online(b)
        for method in ("GET", "HEAD", "OPTIONS"):
            for d, path, status in ((a, "/primary", 200), (a, "/replica", 503), (a, "/replica?lag=60000", 503),
                                    (b, "/primary", 503), (b, "/replica", 200), (b, "/replica?lag=60000", 200)):
                got = ask(d, path, method)
                assert got[:2] == (status, "GET, HEAD, OPTIONS"), (method, path, got)
                assert method != "HEAD" or got[2] == "", got
        assert ask(a, "/primary")[2] == ask(a, "/replica")[2] == "primary\n"
        assert ask(b, "/primary")[2].startswith("replica, online"), ask(b, "/primary")
        assert re.fullmatch(r"replica, online, lag \d+ ms\n", ask(b, "/replica")[2]), ask(b, "/replica")
        with b.operator() as o:
            assert o.ask(b"promote") == b"OK"
        assert (ask(b, "/primary")[0], ask(b, "/replica")[0]) == (200, 503)
        wait_until_online(a)
        assert (ask(a, "/primary")[0], ask(a, "/replica")[0]) == (503, 200)


def test_how_far_a_replica_is_behind():
    """A stopped primary sends nothing and the link stays open, so the items of the replica become stale."""
    with server() as a, server("-o", "replicaof=127.0.0.1:%d" % a.port) as b:
        wait_until_online(b)
        wait_for(lambda: ask(b, "/replica?lag=5000")[0] == 200, "it has all that there is")
        os.kill(a.pid, signal.SIGSTOP)
        try:
            late = wait_for(lambda: (got := ask(b, "/replica?lag=2000"))[0] == 503 and got, "it lags")
            assert re.fullmatch(r"replica, online, lag \d+ ms is more than asked for\n", late[2]), late
            assert int(re.search(r"\d+", late[2]).group()) > 2000, late
            assert ask(b, "/replica")[0] == 200 == ask(b, "/replica?lag=4294967295")[0]
            assert ask(b, "/replica?lag=2000", "OPTIONS")[0] == 503
        finally:
            os.kill(a.pid, signal.SIGCONT)
        wait_for(lambda: ask(b, "/replica?lag=2000")[0] == 200, "it has all again")
        a.kill()
        cut = wait_for(lambda: (got := ask(b, "/replica"))[0] == 503 and got, "there is no link")
        assert re.match(r"replica, (cut|stale)", cut[2]), cut


def test_the_lag_is_known_once_it_is_online():
    with server() as a, Proxy(a.port) as p:
        p.plans = [Plan(stall_after=b"END ")]       # nothing comes after what it has from the start
        with server("-o", "replicaof=127.0.0.1:%d" % p.port) as b:
            wait_until_online(b)
            assert ask(b, "/replica?lag=60000")[0] == 200, ask(b, "/replica?lag=60000")


def test_queries_are_checked():
    with server() as d:
        for path in ("/replica?lag=", "/replica?lag", "/replica?lag=x", "/replica?lag=-1", "/replica?lag=1.5",
                     "/replica?lag=4294967296", "/replica?lag=1&lag=1", "/replica?lag=1%00", "/replica?log=1",
                     "/replica?lag=1&x=1", "/primary?lag=1", "/primary?x"):
            for method in ("GET", "OPTIONS"):
                assert ask(d, path, method)[0] == 400, (method, path)
        assert ask(d, "/replica?lag=%31")[0] == 503
        assert ask(d, "/primary/")[0] == ask(d, "/replicas")[0] == 404


def test_options_of_the_other_pages():
    with server() as d:
        for path in ("/", "*", "/metrics"):
            assert ask(d, path, "OPTIONS") == (204, "GET, HEAD, OPTIONS", ""), path
        assert ask(d, "/healthz", "OPTIONS")[::2] == (200, "ok\n")
        assert ask(d, "/readyz", "OPTIONS")[::2] == (200, "ready\n")
        assert ask(d, "/x", "OPTIONS")[0] == 404
        assert ask(d, "/primary", "POST")[:2] == (405, "GET, HEAD, OPTIONS")


# ---- the recipes ---------------------------------------------------------------------------------

# Each scene runs in namespaces of its own, as another process of this script: with its own network, so that it
# can use the addresses and ports of the guide, and its own processes, which end with it.
PREPARE = """set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
exec "$@"
"""


def blocks_of_guide():
    """The files that the guide shows, by name."""
    return dict(re.findall(r"^```text (\S+)\n(.*?)^```$", mayfly.read(GUIDE), re.M | re.S))


def play(scene, *programs):
    """Run a scene, or say what it lacks."""
    mayfly.skip_if(os.geteuid() != 0, "only root can make hosts of namespaces")
    done = subprocess.run(["unshare", "-m", "-n", "-p", "--fork", "sh", "-c",
                           "ip link add x0 type veth peer name x1 && ip link add x2 type bridge"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    mayfly.skip_if(done.returncode != 0, "no namespaces, or no links in them: " + done.stdout.strip())
    for program in programs:
        if shutil.which(program, path=PATH) is None:
            raise Skip("%s is not installed" % program)
    with server():
        pass                # metrics are built in
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        said = os.path.join(folder, "said")
        with open(said, "w") as to:
            done = subprocess.run(["unshare", "-m", "-n", "-p", "--kill-child", "--mount-proc", "sh", "-c", PREPARE, "sh",
                                   sys.executable, os.path.abspath(__file__), SCENE, scene],
                                  env={**os.environ, "TMPDIR": folder, "PATH": PATH}, stdout=to, stderr=to, check=False,
                                  timeout=3 * mayfly.PATIENCE)
        assert done.returncode == 0, mayfly.read(said)


PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
SCENE = "--scene"
PORT, METRICS = 11211, 9150
VIRTUAL = "10.0.0.10"


def shell(*command):
    subprocess.run(command, check=True)


def says(address, line, port=PORT):
    """The first line that a server or a balancer answers; None: it does not."""
    try:
        with Client((address, port), 2) as c:
            return c.ask(line)
    except OSError:
        return None


def put(address, key, value, port=PORT):
    def stored():
        try:
            with Client((address, port), 2) as c:
                return c.set(key, value) == b"STORED"
        except OSError:
            return False
    wait_for(stored, "%s is stored at %s:%d" % (key, address, port))


def value(address, key, port=PORT):
    try:
        with Client((address, port), 2) as c:
            return c.get(key)
    except (OSError, AssertionError):
        return None


class Host:
    """A host: a network and a /run of its own, a server that follows the other one, and keepalived."""

    def __init__(self, n, address, other):
        self.address, self.other, self.folder = address, other, tempfile.mkdtemp()
        self.log = os.path.join(self.folder, "log")
        self.server = self.keeper = None
        # This process keeps its namespaces.
        self.init = subprocess.Popen(["unshare", "-n", "-m", "sh", "-c",
                                      "mount -t tmpfs tmpfs /run && mkdir /run/mayfly && exec sleep infinity"],
                                     stdin=subprocess.DEVNULL)
        self.root = "/proc/%d/root" % self.init.pid
        self.inside = ["nsenter", "-t", str(self.init.pid), "-n", "-m"]
        wait_for(lambda: os.path.exists(self.root + "/run/mayfly"), "the host is there")
        shell("ip", "link", "add", "h%d" % n, "type", "veth", "peer", "name", "eth0", "netns", str(self.init.pid))
        shell("ip", "link", "set", "h%d" % n, "master", "br0", "up")
        shell(*self.inside, "ip", "link", "set", "lo", "up")
        shell(*self.inside, "ip", "address", "add", address + "/24", "dev", "eth0")
        shell(*self.inside, "ip", "link", "set", "eth0", "up")

    def start(self):
        """With only its configuration file: it follows the other one."""
        with open(self.log, "a") as log:
            self.server = subprocess.Popen(
                self.inside + [os.path.abspath(PROGRAM), "-u", "root", "-m", "64", "-t", "1",
                               "-l", "0.0.0.0", "-p", str(PORT),
                               "--metrics", "127.0.0.1:%d,%s:%d" % (METRICS, self.address, METRICS),
                               "--control", "/run/mayfly/control",
                               "-o", "replicaof=%s:%d" % (self.other, PORT)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: says(self.address, b"version"), "%s serves" % self.address)

    def kill(self):
        self.server.kill()
        self.server.wait()

    def role(self):
        return b" ".join((says(self.address, b"role") or b"ROLE none none").split()[1:3]).decode()

    def wait_until(self, role):
        wait_for(lambda: self.role() == role, "%s is %s, not %s" % (self.address, role, self.role()))

    def operate(self, line):
        with Client(self.root + "/run/mayfly/control") as o:
            return o.ask(line)

    def install(self):
        """The files of the guide, in an /etc of this host."""
        shell(*self.inside, "sh", "-c", "mkdir /run/u /run/w && mount -t overlay overlay "
              "-o lowerdir=/etc,upperdir=/run/u,workdir=/run/w /etc && mkdir -p /etc/keepalived")
        files = blocks_of_guide()
        for path in ("/etc/keepalived/mayfly", "/etc/keepalived/keepalived.conf"):
            with open(self.root + path, "w") as f:
                f.write(files[path].replace("other='10.0.0.2 11211'", "other='%s %d'" % (self.other, PORT)))
        os.chmod(self.root + "/etc/keepalived/mayfly", 0o755)

    def keep(self):
        with open(os.path.join(self.folder, "keepalived"), "a") as log:
            self.keeper = subprocess.Popen(self.inside + ["keepalived", "-n", "-l", "-f", "/etc/keepalived/keepalived.conf"],
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop_keeping(self):
        self.keeper.send_signal(signal.SIGTERM)
        self.keeper.wait()

    def has_address(self):
        return (" %s/" % VIRTUAL) in subprocess.run(self.inside + ["ip", "-o", "address", "show"], capture_output=True,
                                                    text=True, check=True).stdout


def hosts():
    """Two hosts, beside this one, on a network."""
    shell("ip", "link", "set", "lo", "up")
    shell("ip", "link", "add", "br0", "type", "bridge")
    shell("ip", "address", "add", "10.0.0.254/24", "dev", "br0")
    shell("ip", "link", "set", "br0", "up")
    both = Host(1, "10.0.0.1", "10.0.0.2"), Host(2, "10.0.0.2", "10.0.0.1")
    for h in both:
        h.start()
    return both


@contextlib.contextmanager
def shown(both):
    """When a scene fails, show what its hosts say."""
    try:
        yield
    except BaseException:
        for h in both:
            print(h.address, h.role(), "\n".join(read(os.path.join(h.folder, name))[-4000:] for name in os.listdir(h.folder)))
        raise


def pair():
    one, two = hosts()
    assert one.operate(b"replicaof no one") == b"OK"
    two.wait_until("replica online")
    return one, two


def balance(name):
    """Start HAProxy with a file of the guide."""
    path = os.path.join(tempfile.mkdtemp(), "haproxy.cfg")
    mayfly.write(path, blocks_of_guide()[name])
    done = subprocess.run(["haproxy", "-c", "-f", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0 and "WARNING" not in done.stdout, done.stdout
    return subprocess.Popen(["haproxy", "-db", "-f", path], stdin=subprocess.DEVNULL)


CACHE, READS = 11200, 11201


def wait_until_alone(role, port):
    """Both servers count as up until the first checks, and for a moment after a failover. Then clients go to them
    in turn."""
    wait_for(lambda: all((says("127.0.0.1", b"role", port) or b"").startswith(b"ROLE " + role) for _ in range(4)),
             "only one is asked at %d" % port)


def fail_over(one, two):
    """By HAProxy's port, a planned failover and an unplanned one, and a primary that comes back empty."""
    wait_until_alone(b"primary", CACHE)
    put("127.0.0.1", b"a", b"1", CACHE)
    assert one.operate(b"wait 1 60000") == b"WAIT 1"
    # Planned: connected clients are disconnected, and reach the new primary.
    with Client(("127.0.0.1", CACHE)) as stays:
        assert stays.get(b"a") == b"1"
        assert two.operate(b"promote") == b"OK"
        with contextlib.suppress(OSError):
            assert stays.rest() == b""
    wait_until_alone(b"primary", CACHE)
    put("127.0.0.1", b"b", b"2", CACHE)
    assert value(two.address, b"b") == b"2" and value("127.0.0.1", b"a", CACHE) == b"1"
    one.wait_until("replica online")
    assert two.operate(b"wait 1 60000") == b"WAIT 1"
    # Unplanned: nobody is asked until somebody is promoted.
    two.kill()
    one.wait_until("replica cut")
    wait_for(lambda: says("127.0.0.1", b"version", CACHE) is None, "there is no primary")
    assert one.operate(b"replicaof no one") == b"OK"
    put("127.0.0.1", b"a", b"3", CACHE)
    assert value(one.address, b"a") == b"3" and value("127.0.0.1", b"b", CACHE) == b"2"
    # The old primary comes back, and does not win.
    two.start()
    two.wait_until("replica online")
    assert value("127.0.0.1", b"a", CACHE) == b"3" == value(two.address, b"a")
    # The primary restarts empty before anybody is promoted: the replica keeps what it has.
    one.kill()
    one.start()
    two.wait_until("replica cut")
    wait_for(lambda: "not in sync" in read(one.log), "it has asked to follow the replica")
    assert one.role() == "replica connecting" and value(one.address, b"a") is None
    assert value(two.address, b"a") == b"3"
    wait_for(lambda: says("127.0.0.1", b"version", CACHE) is None, "nobody is asked")
    assert two.operate(b"replicaof no one") == b"OK"
    wait_for(lambda: value("127.0.0.1", b"a", CACHE) == b"3", "the warm one is asked")
    one.wait_until("replica online")
    assert value(one.address, b"a") == b"3"


def read(path):
    return mayfly.read(path)


def scene_haproxy():
    one, two = both = pair()
    balance("/etc/haproxy/haproxy.cfg")
    # Reads go to the replica alone, which answers no writes.
    wait_until_alone(b"replica online", READS)
    assert says("127.0.0.1", b"delete a", READS) == b"SERVER_ERROR read-only replica"
    with shown(both):
        fail_over(one, two)


def scene_haproxy_by_role():
    one, two = both = pair()
    balance("/etc/haproxy/by-role.cfg")
    with shown(both):
        fail_over(one, two)


def test_haproxy():
    play("haproxy", "ip", "nsenter", "haproxy")


def test_haproxy_by_role():
    play("haproxy_by_role", "ip", "nsenter", "haproxy")


# ---- keepalived ----------------------------------------------------------------------------------

def scene_keepalived():
    both = hosts()
    with shown(both):
        for h in both:
            h.install()
        run_keepalived(*both)


def is_served_by(h, other):
    wait_for(lambda: h.has_address() and not other.has_address(), "%s has the address" % h.address)
    h.wait_until("primary primary")
    other.wait_until("replica online")


def run_keepalived(one, two):
    one.keep()
    wait_for(one.has_address, "the first one has the address")
    one.wait_until("primary primary")
    two.keep()
    two.wait_until("replica online")
    put(VIRTUAL, b"a", b"1")
    # Planned: the address moves when keepalived stops, and the server hands over.
    one.stop_keeping()
    is_served_by(two, one)
    assert value(VIRTUAL, b"a") == b"1"
    one.keep()
    put(VIRTUAL, b"b", b"2")
    wait_for(lambda: value(one.address, b"b") == b"2", "the replica has it")
    # The server of the primary dies.
    two.kill()
    wait_for(one.has_address, "the address moves")
    one.wait_until("primary primary")
    put(VIRTUAL, b"b", b"3")
    assert value(VIRTUAL, b"a") == b"1"
    two.start()
    is_served_by(one, two)
    assert value(two.address, b"b") == b"3"
    # The primary restarts empty at once, as by systemd: the warm one takes over.
    one.kill()
    one.start()
    is_served_by(two, one)
    assert value(VIRTUAL, b"a") == b"1" == value(one.address, b"a") and value(VIRTUAL, b"b") == b"3"


def test_keepalived():
    play("keepalived", "ip", "keepalived", "nc", "nsenter")


if sys.argv[1:2] == [SCENE]:
    globals()["scene_" + sys.argv[2]]()
else:
    mayfly.main(globals(), beside=("test_haproxy", "test_haproxy_by_role", "test_keepalived"))
