#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Rights: rules for users, certificates and listeners (--access), prefixes, commands of operators (-o admin_commands)
and their audit log (-o audit_log). Every command of the tables is sent with every set of rights, over each protocol:
a new command must be added to EXAMPLES here."""
import os
import re
import shutil
import socket
import ssl
import struct
import tempfile

import binary
import mayfly
import tls
from mayfly import Client, Daemon, wait_for

SOURCES = os.environ.get("MAYFLY_SRCDIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
READ, WRITE, ADMIN, REPLICATE = 1, 2, 4, 16
WORDS = {READ: "read", WRITE: "write", ADMIN: "admin", REPLICATE: "replicate"}
NO_READ = b"CLIENT_ERROR not allowed to read"
NO_WRITE = b"CLIENT_ERROR not allowed to write"
NO_ADMIN = b"CLIENT_ERROR not allowed: for operators"
NO_REPLICATE = b"CLIENT_ERROR not allowed: for replicas"
NO_CONFIG = b"CLIENT_ERROR config is for operators: connect to the control socket (mayflyd --control)"
NO_KEY = b"CLIENT_ERROR not allowed to use this key"
REFUSALS = (NO_READ, NO_WRITE, NO_ADMIN, NO_REPLICATE, NO_KEY)
AUTH_FAILURE = 0x20


def rights_words(rights):
    return ",".join(WORDS[r] for r in WORDS if r & rights) or "none"


class Ruled(Daemon):
    """A daemon with a file of rules, over a unix socket by default."""

    def __init__(self, rules, *args, users=None, **kw):
        self.rules_folder = tempfile.mkdtemp(prefix="mayfly-rights.")
        self.rules = os.path.join(self.rules_folder, "access")
        self.users = os.path.join(self.rules_folder, "users")
        self.write(rules)
        args = ("--access", self.rules) + args
        if users is not None:
            self.write(users, self.users)
            args += ("-Y", self.users)
        super().__init__(*args, **kw)

    def write(self, text, path=None):
        mayfly.write(path or self.rules, text.encode("latin-1"))

    def login(self, user, password=b"pass"):
        c = self.client()
        value = user + b" " + password
        c.send(b"set auth 0 0 %d\r\n%s\r\n" % (len(value), value))
        got = c.line()
        assert got == b"STORED", got
        return c

    def kill(self):
        super().kill()
        shutil.rmtree(self.rules_folder, True)


def start_status(rules, *args):
    with mayfly.place("access", rules.encode("latin-1")) as path:
        status, said = mayfly.run("-s", path + ".socket", "--access", path, "--check-config", *args, cwd=os.path.dirname(path))
        return status, said.replace(path, "FILE")


# ---- the file ---------------------------------------------------------------------------------------

def test_errors_name_file_and_line():
    status, said = start_status("# rules\nuser a read\nuser b raed\n\nusr c read\nuser d\nuser a write\n"
                                "listener x all prefix=y\nuser e all,read\nuser \"f read\nuser g read prefix=\n"
                                "user h read app1:\n")
    assert status == 1, (status, said)
    for line in ('FILE:3: "raed" is no right (read, write, admin and replicate, all, or none)',
                 'FILE:5: "usr" is no user, certificate, listener or default',
                 "FILE:6: a list of rights is missing", "FILE:7: user a has a rule in line 2",
                 "FILE:8: a listener has no prefix", "FILE:9: all stands alone", 'FILE:10: a " is missing',
                 "FILE:11: a prefix has 1 to 250 bytes", 'FILE:12: "app1:" is no prefix=...'):
        assert line in said, (line, said)
    status, said = start_status("user a read prefix=a: prefix=b:\ndefault none\nlistener unix all\n")
    assert status == 0, (status, said)


def test_a_file_that_is_not_there():
    status, said = mayfly.run("--access", "/nonexistent/access", "--check-config")
    assert status == 1 and "could not read /nonexistent/access" in said, (status, said)


# ---- every command with every right -----------------------------------------------------------------

def table(name):
    """The rows of a table: lists of their columns."""
    with open(os.path.join(SOURCES, "proto", name)) as f:
        rows = re.findall(r"^(?:COMMAND|EXTENSION|OPCODE)\((.*)\)$", f.read(), re.M)
    return [[column.strip() for column in row.split(",")] for row in rows]


def needs_of(column):
    return sum({"NEED_READ": READ, "NEED_WRITE": WRITE, "NEED_ADMIN": ADMIN, "NEED_REPLICATE": REPLICATE,
                "NEED_NOTHING": 0}[word.strip()] for word in column.split("|"))


NEEDS = {row[0]: needs_of(row[4]) for row in table("command.def")}

# One or more lines of each command of the text protocols, and what they take beyond its row.
EXAMPLES = {
    "GET": [(b"get k", 0), (b"get k k2", 0)], "GETS": [(b"gets k", 0)],
    "GAT": [(b"gat 0 k", 0)], "GATS": [(b"gats 0 k k2", 0)],
    "SET": [(b"set k 0 0 1\r\nv", 0), (b"set k 1 2 1\r\nv", 0)], "ADD": [(b"add k 0 0 1\r\nv", 0)],
    "REPLACE": [(b"replace k 0 0 1\r\nv", 0)], "APPEND": [(b"append k 0 0 1\r\nv", 0)],
    "PREPEND": [(b"prepend k 0 0 1\r\nv", 0)], "CAS": [(b"cas k 0 0 1 1\r\nv", 0)],
    "DELETE": [(b"delete k", 0)], "INCR": [(b"incr k 1", 0)], "DECR": [(b"decr k 1", 0)],
    "TOUCH": [(b"touch k 0", 0)], "FLUSH_ALL": [(b"flush_all", 0)],
    "FLUSH_PREFIX": [(b"flush_prefix x", 0)], "VERSION": [(b"version", 0)],
    "VERBOSITY": [(b"verbosity 0", 0)],
    "STATS": [(b"stats", 0), (b"stats settings", 0), (b"stats items", 0), (b"stats slabs", 0), (b"stats sizes", 0),
              (b"stats conns", 0), (b"stats expire", 0), (b"stats shards", 0), (b"stats latency", 0),
              (b"stats persistence", 0), (b"stats moves", 0), (b"stats replication", 0), (b"stats reset", ADMIN),
              (b"stats detail on", ADMIN), (b"stats detail dump", 0), (b"stats detail off", ADMIN),
              (b"stats cachedump 1 1", ADMIN), (b"stats sizes_enable", ADMIN), (b"stats sizes_disable", ADMIN)],
    "CACHE_MEMLIMIT": [(b"cache_memlimit 64", 0)], "SHUTDOWN": [(b"shutdown", 0)], "QUIT": [],
    "SLABS": [(b"slabs automove 1", 0)], "LRU": [(b"lru mode flat", 0)],
    "LRU_CRAWLER": [(b"lru_crawler crawl all", 0), (b"lru_crawler metadump all", 0), (b"lru_crawler mgdump all", 0)],
    "WATCH": [(b"watch fetchers", 0)], "REFRESH_CERTS": [(b"refresh_certs", 0)], "EXTSTORE": [(b"extstore", 0)],
    "MG": [(b"mg k v", 0), (b"mg k", 0), (b"mg k v T30", WRITE), (b"mg k N30 v", WRITE), (b"mg k p1000", WRITE),
           (b"mg azE= b v", 0)],
    "MS": [(b"ms k 1\r\nv", 0), (b"ms k 1 T0 c\r\nv", 0)], "MD": [(b"md k", 0)], "MA": [(b"ma k", 0)],
    "MN": [(b"mn", 0)], "ME": [(b"me k", 0)],
    "EXPIRE": [(b"expire k 10", 0)], "PEXPIRE": [(b"pexpire k 10000", 0)],
    "EXPIREAT": [(b"expireat k 99999999999", 0)], "PEXPIREAT": [(b"pexpireat k 99999999999999", 0)],
    "PERSIST": [(b"persist k", 0)], "TTL": [(b"ttl k", 0)], "PTTL": [(b"pttl k", 0)],
    "EXPIRETIME": [(b"expiretime k", 0)], "PEXPIRETIME": [(b"pexpiretime k", 0)],
    "UNLINK": [(b"unlink k k2", 0)], "CONFIG": [(b"config get hz", 0), (b"config reload", 0), (b"config rewrite", 0)], "LATENCY": [(b"latency reset", 0)],
    "SLOWLOG": [(b"slowlog reset", 0), (b"slowlog get 1", 0)], "EXPIRE_HOLD": [(b"expire_hold 0", 0)],
    "BGSAVE": [(b"bgsave", 0), (b"bgsave cancel", 0)], "SAVE": [(b"save", 0)], "LASTSAVE": [(b"lastsave", 0)],
    "RESTORE": [(b"restore end", 0), (b"restore begin 1000", 0)],
    "BGREWRITEAOF": [(b"bgrewriteaof", 0)],
    "PSYNC": [(b"psync", 0)], "SYNC": [(b"sync", 0)], "REPLCONF": [(b"replconf ack 0", 0), (b"replconf failover 0 10", ADMIN)],
    "REPLICAOF": [(b"replicaof no one", 0)], "PROMOTE": [(b"promote", 0)], "FAILOVER": [(b"failover", 0)],
    "WAIT": [(b"wait 0 0", 0)], "ROLE": [(b"role", 0)],
    "MOVES": [(b"moves", 0), (b"moves cancel", ADMIN)],
    "UPGRADE": [(b"upgrade", 0), (b"upgrade /nowhere", 0)],
}
SETS = (0, READ, WRITE, READ | WRITE, ADMIN, READ | ADMIN, WRITE | ADMIN, READ | WRITE | ADMIN, REPLICATE,
        READ | WRITE | REPLICATE)


def test_there_is_an_example_of_every_command():
    assert set(EXAMPLES) == set(NEEDS), set(EXAMPLES) ^ set(NEEDS)


def first_line_is_refusal(c, line):
    """Send it, and mn after it: was it refused? The answer ends with MN."""
    c.send(line + b"\r\nmn\r\n")
    answer = []
    while not answer or answer[-1] != b"MN":
        answer.append(c.line())
    return answer[0] if answer[0] in REFUSALS else None


def check_text(d, rights, login=None):
    if rights & ADMIN:
        rights |= REPLICATE
    for name, examples in EXAMPLES.items():
        for line, more in examples:
            needs = NEEDS[name] | more
            if more == ADMIN:
                needs = ADMIN
            with d.client() if login is None else d.login(login) as c:
                if name == "WATCH" or line.endswith(b"dump all"):     # what comes after it is not looked at
                    c.send(line + b"\r\n")
                    got = c.line()
                    got = got if got in REFUSALS else None
                else:
                    got = first_line_is_refusal(c, line)
            missing = needs & ~rights
            want = NO_ADMIN if missing & ADMIN else NO_REPLICATE if missing & REPLICATE else NO_READ if missing & READ else NO_WRITE if missing else None
            assert got == want, (rights_words(rights), line, got, want)


def test_text_and_meta_with_every_right():
    for rights in SETS:
        with Ruled("default %s\n" % rights_words(rights), "-t", "1") as d:
            check_text(d, rights)


def test_rights_of_users():
    rules = "".join("user u%d %s\n" % (r, rights_words(r)) for r in (0, READ, READ | WRITE, 7, REPLICATE)) + "default none\n"
    users = "".join("u%d:pass\n" % r for r in (0, 1, 3, 7, 16)) + "other:pass\n"
    with Ruled(rules, "-t", "1", users=users) as d:
        for r in (0, READ, READ | WRITE, 7, REPLICATE):
            check_text(d, r, b"u%d" % r)
        check_text(d, 0, b"other")


OPCODES = {int(row[0], 16): row for row in table("opcodes.def")}


def example_of_opcode(row):
    """A frame of this opcode that is valid."""
    number, extras, key, value = int(row[0], 16), row[5], row[6], row[7]
    n = 4 if extras == "MAYBE_4" else int(extras)
    return binary.pack(number, b"k" if key == "A_KEY" else b"", bytes(n), b"v" if value == "A_VALUE" else b"")


def status_of(d, frame):
    """The status of its answer, None: it was quiet. A noop comes after it."""
    with binary.BinaryClient(d.address) as c:
        c.send(frame + binary.pack(0x0a, opaque=77))
        first = c.exactly(24)
        return None if first[12:16] == struct.pack(">I", 77) else struct.unpack(">H", first[6:8])[0]


def test_binary_with_every_right():
    without_row = {row[1] for row in OPCODES.values() if row[2] == "NONE"}
    # Those must do nothing that takes a right.
    assert without_row == {"NOOP", "SASL_LIST", "SASL_AUTH", "SASL_STEP"}, without_row
    for rights in SETS:
        with Ruled("default %s\n" % rights_words(rights), "-t", "1") as d:
            for row in OPCODES.values():
                if row[2] in ("NONE", "QUIT"):
                    continue
                got = status_of(d, example_of_opcode(row))
                is_refused = NEEDS[row[2]] & ~rights != 0
                assert (got == AUTH_FAILURE) == is_refused, (rights_words(rights), row, got)
            if rights & READ:
                assert (status_of(d, binary.pack(0x10, b"reset")) == AUTH_FAILURE) == (not rights & ADMIN)


def test_what_is_refused_does_nothing():
    """Also requests that are refused for another reason, or whose value is large or arrives later."""
    with Ruled("user reader read\nuser writer all\n", "-t", "1", users="reader:pass\nwriter:pass\n") as d, \
            d.login(b"writer") as w, d.login(b"reader") as r:
        assert w.set(b"k", b"v") == b"STORED"
        assert r.set(b"k", b"x") == NO_WRITE
        assert r.set(b"k", b"x" * 500000) == NO_WRITE            # comes as a body
        assert r.set(b"k", b"x" * 3000000) == NO_WRITE           # is too large: a set drops the old value
        r.send(b"ms k 3000000\r\n" + b"x" * 3000000 + b"\r\n")
        assert r.line() == NO_WRITE
        r.send(b"set k 0 0 1\r\nxx\r\n")
        assert r.line() == NO_WRITE
        r.send(b"mn\r\n")
        while r.line() != b"MN":
            pass
        r.send(b"set k 0 0 10\r\nhalf")
        r.send(b" of it\r\n" + b"get k\r\n")
        assert r.line() == NO_WRITE
        assert r.get_reply() == {b"k": b"v"}
        r.send(b"set k 0 0 1 noreply\r\nx\r\nget k\r\n")
        assert r.get_reply() == {b"k": b"v"}
        r.send(b"delete k\r\nget k\r\nincr k 1\r\nmg k v\r\nmd k q\r\nmn\r\n" * 20)      # a batch
        for _ in range(20):
            assert r.line() == NO_WRITE
            assert r.get_reply() == {b"k": b"v"}
            assert [r.line() for _ in range(5)] == [NO_WRITE, b"VA 1", b"v", NO_WRITE, b"MN"]
        assert w.get(b"k") == b"v"
        assert w.stat("mayfly_access_refused") == 7 + 60


# ---- prefixes ---------------------------------------------------------------------------------------

KEYED = [b"get %s", b"gets %s", b"gat 0 %s", b"set %s 0 0 1\r\nv", b"add %s 0 0 1\r\nv", b"append %s 0 0 1\r\nv",
         b"cas %s 0 0 1 1\r\nv", b"delete %s", b"incr %s 1", b"touch %s 0", b"mg %s v", b"mg %s v T30",
         b"ms %s 1\r\nv", b"md %s", b"ma %s", b"me %s", b"expire %s 10", b"ttl %s", b"persist %s", b"unlink %s",
         b"set %s 0 0 600000\r\n" + b"v" * 600000]


def test_prefixes():
    rules = "user app read,write prefix=app1: prefix=shared:\nuser boss all prefix=app1:\n"
    with Ruled(rules, "-t", "1", users="app:pass\nboss:pass\nfree:pass\n") as d, d.login(b"app") as c, \
            d.login(b"free") as free:
        for line in KEYED:
            for key, is_allowed in ((b"app1:x", True), (b"shared:", True), (b"app1", False), (b"app2:x", False),
                                    (b"xapp1:", False)):
                got = first_line_is_refusal(c, line % key)
                assert got == (None if is_allowed else NO_KEY), (line[:40], key, got)
        # One key of many is enough, and nothing is done for the others.
        assert free.set(b"app1:a", b"1") == b"STORED" and free.set(b"other", b"2") == b"STORED"
        assert c.get(b"app1:a", b"shared:b") == {b"app1:a": b"1"}
        assert c.ask(b"get app1:a other") == NO_KEY
        assert c.ask(b"gat 0 other app1:a") == NO_KEY
        assert c.ask(b"unlink app1:a other") == NO_KEY
        assert free.get(b"app1:a") == b"1"
        long_line = b" ".join([b"app1:%d" % i for i in range(3000)])
        assert c.get(*long_line.split()) == {}
        assert c.ask(b"get " + long_line + b" other") == NO_KEY
        # A base64 key counts as the decoded key.
        assert first_line_is_refusal(c, b"mg YXBwMTph b v") is None
        assert first_line_is_refusal(c, b"mg b3RoZXI= b v") == NO_KEY
        # Commands without a key that tell of others, or touch them.
        for line in (b"stats items", b"stats slabs", b"stats sizes", b"stats conns", b"stats replication", b"stats detail dump",
                     b"stats cachedump 1 0", b"lru_crawler metadump all", b"lru_crawler mgdump hash", b"flush_all",
                     b"watch fetchers", b"stats reset", b"stats detail on"):
            assert first_line_is_refusal(c, line) == NO_ADMIN, line
        for line in (b"stats", b"stats settings", b"stats expire", b"version", b"mn"):
            assert first_line_is_refusal(c, line) is None, line
        with d.login(b"boss") as boss:
            assert first_line_is_refusal(boss, b"stats items") is None
            assert first_line_is_refusal(boss, b"lru_crawler metadump all") is None
            assert first_line_is_refusal(boss, b"get other") == NO_KEY


def test_prefixes_in_binary():
    with Ruled("default read,write prefix=app1: prefix=\"\\x00\\xff \"\n", "-t", "1") as d:
        for row in OPCODES.values():
            if row[2] == "NONE" or row[6] != "A_KEY":
                continue
            extras = b"" if row[5] == "0" else bytes(int(row[5]))
            for key, is_allowed in ((b"app1:x", True), (b"\x00\xff x", True), (b"app2:x", False), (b"\x00\xfe x", False)):
                frame = binary.pack(int(row[0], 16), key, extras, b"v" if row[7] == "A_VALUE" else b"")
                got = status_of(d, frame)
                assert (got != AUTH_FAILURE) == is_allowed, (row, key, got)
        assert status_of(d, binary.pack(0x10)) == 0
        assert status_of(d, binary.pack(0x10, b"items")) == AUTH_FAILURE


# ---- listeners, datagrams ---------------------------------------------------------------------------

def test_listeners():
    with Ruled("listener public read\nlistener tcp read,write\nuser boss all\n", "-l", "tag[public]:127.0.0.1",
               "-p", "-1", "-t", "1", tcp=True) as d, d.client() as c:
        check_text(d, READ | WRITE)     # -l of the harness comes first, and its port is the one that is used
        assert c.set(b"k", b"v") == b"STORED"
    with Ruled("listener public read\n", "-l", "tag[public]:127.0.0.1:0", "-t", "1") as d:
        check_text(d, READ | WRITE | ADMIN)     # over the unix socket
    with Ruled("listener unix read\n", "-t", "1", users="boss:pass\n") as d:
        check_text(d, READ, b"boss")
    # What a listener does not grant nobody has on it.
    with Ruled("listener unix read,write\nuser boss read,admin\n", "-t", "1", users="boss:pass\n") as d:
        check_text(d, READ, b"boss")


def test_rules_for_listeners_that_are_not_there():
    """The author of such a rule meant to limit a client: the log says so at the start and after a reload."""
    with Ruled("listener pubilc read\nlistener unix all\n", "-t", "1") as d:
        wait_for(lambda: 'access, there is no listener "pubilc" (line 1)' in d.log(), "it is logged")
        assert '"unix"' not in d.log(), d.log()
        d.write("listener unix all\n\nlistener udp none\n")
        d.reload('access, there is no listener "udp" (line 3)')


def udp_ask(port, payload):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(mayfly.PATIENCE)
        s.sendto(struct.pack(">HHHH", 5, 0, 1, 0) + payload, ("127.0.0.1", port))
        return s.recv(65536)[8:]


def test_datagrams():
    with Ruled("listener udp read\n", "-U", "-1", "-t", "1", tcp=True) as d, d.client() as c:
        port = d.ports("UDP INET")[0]
        assert c.set(b"k", b"v") == b"STORED"
        assert udp_ask(port, b"get k\r\n") == b"VALUE k 0 1\r\nv\r\nEND\r\n"
        assert udp_ask(port, b"set k 0 0 1\r\nx\r\n") == NO_WRITE + b"\r\n"
        assert udp_ask(port, b"set k 0 0 3000000\r\nx\r\n") == NO_WRITE + b"\r\n"
        assert udp_ask(port, binary.pack(0x04, b"k"))[6:8] == struct.pack(">H", AUTH_FAILURE)
        assert c.get(b"k") == b"v" and c.stat("mayfly_access_refused") == 3


# ---- certificates -----------------------------------------------------------------------------------

class Certificates(tls.Certificates):
    def __init__(self):
        super().__init__()
        self.make("ca")
        self.make("server", "ca")
        self.make("reader", "ca", "/CN=Build Machine 7")
        self.make("named", "ca", "/O=x/CN=nothing", "DNS:writer.example,email:w@example,URI:urn:x")
        self.make("both", "ca", "/CN=first", "DNS:second")
        self.make("unknown", "ca")

    def client(self, d, certificate):
        c = Client(d.address)
        c.sock = self.context(certificate).wrap_socket(c.sock)
        return c

    def options(self, mode):
        return ("-Z", "-t", "1", "-o", "ssl_chain_cert=%s,ssl_key=%s,ssl_ca_cert=%s,ssl_verify_mode=%d" % (
            self.path("server.pem"), self.path("server.key"), self.path("ca.pem"), mode))


def test_certificates():
    made = Certificates()
    rules = ('certificate "Build Machine 7" read\ncertificate writer.example write\ncertificate second read,write\n'
             "certificate first all\nlistener tls all\ndefault none\nlistener plain none\n")
    with Ruled(rules, *made.options(1), "-l", "notls:tag[plain]:127.0.0.1:0", "-o", "audit_log", control=True, tcp=True,
               wait=False) as d:
        wait_for(d.find_port, "it listens")
        ports = d.ports()

        def rights_of(certificate, port):
            d.port = port
            with made.client(d, certificate) as c:
                refused = [first_line_is_refusal(c, line) for line in (b"get k", b"set k 0 0 1\r\nv", b"verbosity 0")]
                return sum(bit for bit, reply in zip((READ, WRITE, ADMIN), refused) if reply is None)
        # One of the two ports speaks TLS.
        for tls_port in ports:
            d.port = tls_port
            try:
                made.client(d, None).close()
                break
            except (OSError, ssl.SSLError):
                continue
        assert rights_of("reader", tls_port) == READ
        assert rights_of("named", tls_port) == WRITE
        assert rights_of("both", tls_port) == READ | WRITE      # the first line of the file counts
        assert rights_of(None, tls_port) == 7                   # nobody in particular: the listener's
        assert rights_of("unknown", tls_port) == 7
        # New rules apply to open connections.
        with made.client(d, "reader") as c:
            assert c.ask(b"get none") == b"END"
            d.write(rules.replace('"Build Machine 7" read', '"Build Machine 7" write,admin'))
            d.reload("(7 rules)")
            assert c.ask(b"get none") == NO_READ
            assert c.ask(b"verbosity 0") == b"OK"
        wait_for(lambda: 'command="verbosity 0" certificate="Build?Machine?7"' in d.log(), "it is logged")


# ---- reload -----------------------------------------------------------------------------------------

def test_new_rules_hold_at_once():
    with Ruled("user a read\n", "-t", "2", users="a:pass\nb:pass\n") as d, d.login(b"a") as a, d.login(b"b") as b:
        assert a.set(b"k", b"v") == NO_WRITE and b.set(b"k", b"v") == b"STORED"
        d.write("user a all\nuser b read prefix=x:\n")
        d.reload("(2 rules)")
        assert a.set(b"k", b"w") == b"STORED"
        assert b.set(b"x:", b"v") == NO_WRITE and b.ask(b"get k") == NO_KEY and b.ask(b"get x:") == b"END"
        # What is malformed or seems cut off leaves the rules as they are.
        for text, says in (("user a none\nuser b\n", "access:2: a list of rights is missing"), ("", "it has no rules"),
                           ("user a none\nuser b read,wri", "access:2:"), ("user a none\nuser b all", "has no end")):
            d.write(text)
            d.reload(says)
            assert a.set(b"k", b"x") == b"STORED", text
            assert b.ask(b"get k") == NO_KEY
        # Clients that watch, restore or are sent a snapshot are closed when they lose the right to.
        for n in range(20):
            assert a.set(b"large%d" % n, os.urandom(500000)) == b"STORED"
        with d.login(b"a") as watcher, d.login(b"a") as restorer, d.login(b"a") as saver:
            assert watcher.ask(b"watch fetchers") == b"OK" and restorer.ask(b"restore begin 1000") == b"OK"
            assert saver.ask(b"save -").startswith(b"PART ")
            d.write("user a read\nuser b all\n")
            d.reload("(2 rules)")
            assert b"END 21\r\n" not in saver.rest()
            for c in (watcher, restorer):
                while True:
                    try:
                        if c.line() is None:
                            break
                    except EOFError:
                        break
        assert a.ask(b"verbosity 1") == NO_ADMIN
        assert b.ask(b"get k") == b"VALUE k 0 1" and b.line() == b"x" and b.line() == b"END"


def flushed(c, prefix, peek):
    """Does flush_prefix take a key with this prefix away? peek: a client that sees all keys."""
    assert peek.set(prefix + b"key", b"x") == b"STORED"
    got = c.ask(b"flush_prefix " + prefix)
    assert got in (b"OK", NO_ADMIN), got
    assert peek.get(prefix + b"key") == (None if got == b"OK" else b"x"), (prefix, got)
    return got == b"OK"


def test_who_may_flush_a_prefix():
    """Operators; and a client that may write, what begins with a prefix of its rule."""
    rules = ("user app read,write prefix=app1: prefix=shared:\nuser reader read prefix=app1:\nuser writer write prefix=app1:\n"
             "user all read,write\nuser boss read,admin prefix=x:\n")
    users = "".join(name + ":pass\n" for name in ("app", "reader", "writer", "all", "boss", "free"))
    with Ruled(rules, "-t", "1", "-o", "admin_commands=control", users=users) as d, d.login(b"free") as free:
        for user, mine in ((b"app", (b"app1:", b"app1:user:7:", b"shared:")), (b"reader", ()), (b"writer", (b"app1:", b"app1:user:7:")),
                           (b"all", ()), (b"free", ()),
                           (b"boss", (b"app1:", b"app1:user:7:", b"shared:", b"app1", b"a", b"app2:", b"xapp1:"))):
            with d.login(user) as c:
                for prefix in (b"app1:", b"app1:user:7:", b"shared:", b"app1", b"a", b"app2:", b"xapp1:"):
                    assert flushed(c, prefix, free) == (prefix in mine), (user, prefix)
                c.send(b"flush_prefix app2: noreply\r\nmn\r\n")
                assert c.line() == b"MN"
                assert first_line_is_refusal(c, b"flush_all") == (None if user == b"boss" else NO_ADMIN), user


# ---- commands of operators --------------------------------------------------------------------------

def test_admin_commands_of_the_control_socket():
    with mayfly.place("control") as control:
        with Daemon("-t", "1", "-o", "admin_commands=control", "--control", control) as d:
            check_text(d, READ | WRITE)
            assert (status_of(d, binary.pack(0x08))) == AUTH_FAILURE
            with Client(control) as c:
                for line in (b"verbosity 0", b"cache_memlimit 64", b"lru mode flat", b"stats reset", b"stats detail on",
                             b"lru_crawler crawl all", b"flush_all", b"expire_hold 0"):
                    assert first_line_is_refusal(c, line) is None, line
                assert c.stats(b"settings")["admin_commands"] == "control"
                # It can be changed while the server runs.
                assert c.ask(b"config set admin_commands all") == b"OK"
                check_text(d, READ | WRITE | ADMIN)
                assert c.ask(b"config set admin_commands control") == b"OK"
                check_text(d, READ | WRITE)
            with Client(control) as c:
                c.send(b"shutdown\r\n")
                assert c.rest() == b""
            wait_for(lambda: d.process.poll() == 0, "it stops")


def test_rules_grant_admin_commands():
    with Ruled("user boss all\nuser app read,write\n", "-t", "1", "-o", "admin_commands=control",
               users="boss:pass\napp:pass\nother:pass\n") as d:
        check_text(d, READ | WRITE | ADMIN, b"boss")
        check_text(d, READ | WRITE, b"app")
        check_text(d, READ | WRITE, b"other")
    with Ruled("listener unix all\n", "-t", "1", "-o", "admin_commands=control") as d:
        check_text(d, READ | WRITE | ADMIN)


def may_config(d, login=None):
    """True: config reached the check of rights; False: it is for operators."""
    with d.client() if login is None else d.login(login) as c:
        got = c.ask(b"config get hz")
        if got == b"CONFIG hz 10":
            assert c.line() == b"END" and c.ask(b"config set hz 11") == b"OK" and c.ask(b"config reset hz") == b"OK"
            assert c.ask(b"config reload") == b"OK"
            assert c.ask(b"config rewrite").startswith(b"CLIENT_ERROR there is no configuration file")
            return True
        assert got in (NO_ADMIN, NO_CONFIG), got
        assert c.ask(b"config set hz 11") == c.ask(b"config reload") == c.ask(b"config rewrite") == got
        return False


def test_config_takes_a_listener_and_a_user():
    """Away from the control socket: both of them have to be marked by admin."""
    users = "boss:pass\napp:pass\nother:pass\n"
    for rules, who in (("listener tcp all\nuser boss all\nuser app read,write\n", {b"boss"}),
                       ("listener tcp admin\nuser boss read,admin\n", {b"boss"}),
                       ("user boss all\n", set()),
                       ("listener tcp all\ndefault all\n", set()),
                       ("listener tcp read,write\nuser boss all\n", set()),
                       ("listener unix all\nuser boss all\n", set())):
        with Ruled(rules, "-t", "1", tcp=True, users=users) as d:
            assert {name for name in (b"boss", b"app", b"other") if may_config(d, name)} == who, rules
    with Ruled("listener unix all\ndefault all\n", "-t", "1") as d:
        assert not may_config(d)
    # It ends when the rules say so.
    with Ruled("listener tcp all\nuser boss all\n", "-t", "1", tcp=True, users=users) as d:
        assert may_config(d, b"boss")
        with d.login(b"boss") as c:
            d.write("listener tcp read,write\nuser boss all\n")
            d.reload("(2 rules)")
            assert c.ask(b"config get hz") == NO_ADMIN
            c.send(b"config set hz 11\r\nconfig rewrite\r\nconfig reload\r\n")
            assert [c.line() for _ in range(3)] == [NO_ADMIN] * 3


def test_default_is_as_memcached():
    with Daemon("-t", "1") as d, d.client() as c:
        settings = c.stats(b"settings")
        assert (settings["admin_commands"], settings["access"], settings["audit_log"]) == ("all", "NULL", "no")
        check_text(d, READ | WRITE | ADMIN)


# ---- the log ----------------------------------------------------------------------------------------

def test_audit():
    with Ruled("user app read,write prefix=app:\n", "-t", "1", "-o", "audit_log", users="app:pass\nboss:pass\n",
               control=True, tcp=True) as d, d.login(b"boss") as boss, d.login(b"app") as app:
        assert app.ask(b"flush_all") == NO_ADMIN
        assert boss.ask(b"flush_all 0") == b"OK"
        assert app.ask(b"flush_prefix other:") == NO_ADMIN and app.ask(b"flush_prefix app:") == b"OK"
        assert boss.ask(b"stats reset") == b"RESET"
        assert boss.ask(b"cache_memlimit 64") == b"OK"
        assert "pid" in boss.stats()
        with d.client() as c:
            c.send(b"set a 0 0 15\r\nbo\"ss\x01 guess-me\r\n")
            assert c.line() == b"CLIENT_ERROR authentication failure"
        port = boss.sock.getsockname()[1]
        wanted = ['audit, login user="boss" peer=127.0.0.1:%d listener=tcp method=text outcome=accepted' % port,
                  'audit, login user="bo?ss?" peer=127.0.0.1:',
                  'audit, command="flush_all" user="app" peer=127.0.0.1:',
                  'audit, command="flush_all 0" user="boss" peer=127.0.0.1:%d listener=tcp outcome=executed' % port,
                  'audit, command="flush_prefix other:" user="app"', 'audit, command="flush_prefix app:" user="app"',
                  'audit, command="stats reset" user="boss"', 'audit, command="cache_memlimit 64" user="boss"',
                  "outcome=refused", "outcome=failed"]
        wait_for(lambda: all(line in d.log() for line in wanted), "all is logged")
        log = d.log()
        assert "guess-me" not in log and ":pass" not in log and " pass" not in log, log
        assert 'command="stats"' not in log and 'command="get' not in log, log
        with d.operator() as c:
            assert c.ask(b"config set audit_log no") == b"OK"
        assert boss.ask(b"flush_all 1") == b"OK"
        assert boss.ask(b"mn") == b"MN"
        assert "flush_all 1" not in d.log()


def test_a_flood_is_bounded():
    """A client that gives commands, or fails, as fast as it can: few lines, and the rest is counted."""
    with Daemon("-t", "1", "-o", "audit_log") as d, d.client() as c:
        c.send(b"verbosity 0\r\n" * 5000 + b"mn\r\n")
        while c.line() != b"MN":
            pass
        left_out = c.stat("mayfly_log_left_out")
        lines = d.log().count('audit, command="verbosity 0"')
        assert lines <= 200 and left_out >= 4000, (lines, left_out)


mayfly.main(globals())
