#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sockets and descriptors: the mode of a unix socket, stale ones, long paths, descriptors 0 to 2
closed at the start, an environment left over from a service manager."""
import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile

import mayfly
from mayfly import Client, Daemon, wait_for


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_mode_of_a_unix_socket():
    with Daemon() as d:
        assert mode_of(d.path) == 0o700, oct(mode_of(d.path))
    for given, want in (("0660", 0o660), ("777", 0o777), ("600", 0o600)):
        with Daemon("-a", given, before=lambda: os.umask(0o077)) as d:
            assert mode_of(d.path) == want, oct(mode_of(d.path))


def test_unix_socket_turns_tcp_off():
    with Daemon(is_visible=True) as d:
        inodes = set()
        for fd in os.listdir("/proc/%d/fd" % d.pid):
            try:
                target = os.readlink("/proc/%d/fd/%s" % (d.pid, fd))
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
        for table in ("tcp", "tcp6", "udp", "udp6"):
            with open("/proc/net/" + table) as f:
                for line in f.readlines()[1:]:
                    assert line.split()[9] not in inodes, table + " socket open: " + line


def test_regular_file_is_left_alone():
    with mayfly.place("precious", "data") as path:
        status, said = mayfly.run("-s", path)
        assert status != 0 and said
        assert mayfly.read(path) == "data"


def test_longest_path():
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        path = os.path.join(folder, "s" * (107 - len(folder) - 1))
        assert len(path) == 107
        with Daemon(path=path) as d, d.client() as c:
            assert c.set(b"k", b"v") == b"STORED"
            assert c.stats(b"conns")


def test_descriptors_closed_at_start():
    """The first descriptor opened must not become 0, 1 or 2: logs would go to clients."""
    def close_all():
        for fd in (0, 1, 2):
            os.close(fd)
    with Daemon("-vv", "-t", "2", before=close_all, is_visible=True) as d:
        clients = [d.client() for _ in range(5)]
        for i, c in enumerate(clients):
            assert c.set(b"k%d" % i, b"v") == b"STORED"
            c.send(b"nonsense\r\nget k%d\r\n" % i)
            assert c.line() == b"ERROR"
            assert c.get_reply() == {b"k%d" % i: b"v"}
        for c in clients:
            c.send(b"quit\r\n")
            assert c.rest() == b"", "something that is no answer came"
            c.close()
        for fd in ("0", "1", "2"):
            path = "/proc/%d/fd/%s" % (d.pid, fd)
            assert not os.path.lexists(path) or not os.readlink(path).startswith("socket:"), fd


def test_left_over_environment():
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        for env in ({"NOTIFY_SOCKET": os.path.join(folder, "nobody-listens")},
                    {"NOTIFY_SOCKET": "nonsense"},
                    {"LISTEN_FDS": "nonsense", "LISTEN_PID": "1"},
                    {"LISTEN_FDS": "99999999999", "LISTEN_PID": "-1"}):
            with Daemon(env=env) as d, d.client() as c:
                assert c.set(b"k", b"v") == b"STORED", env
                assert d.is_alive()


def test_tells_the_service_manager_when_it_serves_and_stops():
    with mayfly.place("notify") as path, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(path)
        s.settimeout(mayfly.PATIENCE)
        with Daemon(env={"NOTIFY_SOCKET": path}, wait=False) as d:
            said = b""
            while b"READY=1" not in said:
                said += s.recv(4096) + b"\n"
            assert b"STOPPING=1" not in said
            with d.client() as c:
                assert c.ask(b"version").startswith(b"VERSION")
                # A graceful stop is one, too, while clients are still served.
                d.process.send_signal(signal.SIGUSR1)
                while b"STOPPING=1" not in said:
                    said += s.recv(4096) + b"\n"
                assert c.ask(b"version").startswith(b"VERSION")


def test_ports_of_somebody_else():
    """Refused with memcached's exit status, for any user, and with -d as well."""
    with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen(1)
        udp.bind(("127.0.0.1", 0))
        taken, taken_udp = (str(s.getsockname()[1]) for s in (tcp, udp))
        for options, said in ((["-p", taken], "TCP port " + taken),
                              (["-p", taken, "-l", "127.0.0.1"], "listen on 127.0.0.1: port " + taken),
                              (["-p", "-1", "-l", "127.0.0.1:0,127.0.0.1:" + taken], "127.0.0.1:" + taken),
                              (["-p", taken, "-d"], "TCP port " + taken),
                              (["-p", "0", "-U", taken_udp], "UDP port " + taken_udp)):
            done = mayfly.run(*options)
            assert done[0] == 71 and said in done[1], (options, done)


def test_sockets_of_a_service_manager():
    """Passed descriptors that listen are served, and no others are opened; one that does not listen is
    left alone."""
    # What the service manager does, in the process that becomes the daemon. It announces one
    # descriptor more than it passes.
    manager = ("import os, sys\n"
               "for i in range(3):\n"
               "    os.dup2(int(sys.argv[1 + i]), 3 + i)\n"
               "env = dict(os.environ, LISTEN_PID=str(os.getpid()), LISTEN_FDS='4')\n"
               "os.execve(sys.argv[4], sys.argv[4:], env)\n")
    with tempfile.TemporaryDirectory(prefix="mayfly-it.") as folder:
        path = os.path.join(folder, "s")
        with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix, \
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            unix.bind(path)
            udp.bind(("127.0.0.1", 0))
            tcp.listen(16)
            unix.listen(16)
            port = tcp.getsockname()[1]
            high = [fcntl.fcntl(s.fileno(), fcntl.F_DUPFD, 20) for s in (tcp, udp, unix)]
            with open(os.path.join(folder, "log"), "wb") as log:
                process = subprocess.Popen([sys.executable, "-c", manager] + [str(n) for n in high] +
                                           [mayfly.PROGRAM, "-v", "-p", str(port), "-t", "2"] + mayfly.ROOT,
                                           stdin=subprocess.DEVNULL, stderr=log, pass_fds=high)
            for fd in high:
                os.close(fd)
        try:
            with mayfly.Client(("127.0.0.1", port)) as c, mayfly.Client(path) as local:
                assert c.set(b"k", b"v") == b"STORED"
                assert local.get(b"k") == b"v"
                listening = [k for k, v in c.stats(b"conns").items() if k.endswith(":state") and v == "conn_listening"]
                assert len(listening) == 2, listening
            process.terminate()
            assert process.wait(mayfly.PATIENCE) == 0
            # The file belongs to the manager, which may start the daemon again.
            assert stat.S_ISSOCK(os.stat(path).st_mode)
            said = mayfly.read(os.path.join(folder, "log"))
            for fd in (4, 6):
                assert "ignored passed descriptor %d" % fd in said, said
        finally:
            process.kill()
            process.wait()


def test_several_addresses():
    with Daemon("-l", "127.0.0.2", tcp=True) as d, d.client() as c:
        assert c.set(b"k", b"v") == b"STORED"
        ports = d.ports()
        assert len(ports) == 2, ports
        with Client(("127.0.0.2", ports[1])) as other:
            assert other.get(b"k") == b"v"


def test_clients_by_ipv6():
    """They are served, and shown by their addresses."""
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
    except OSError:
        raise mayfly.Inapplicable("no IPv6 here")
    with Daemon("-l", "[::1]:0", "-t", "1", tcp=True) as d, d.client() as watcher, d.client() as c:
        port = d.ports("TCP INET6")[0]
        assert watcher.ask(b"watch connevents") == b"OK"
        with socket.create_connection(("::1", port), mayfly.PATIENCE) as s:
            s.sendall(b"set k 0 0 1\r\nv\r\n")
            assert s.recv(100) == b"STORED\r\n"
            mine = s.getsockname()[1]
            shown = sorted(v for v in c.stats(b"conns").values() if v.startswith("tcp6:"))
            # Which sockets listen, which are connected, and to what.
            here = "tcp6:[::1]:%d" % port
            assert shown == sorted([here, here, "tcp6:[::1]:%d" % mine]), shown
        told = b" type=conn_new rip=::1 rport=%d transport=tcp " % mine
        while told not in watcher.buf:
            assert watcher.more(), watcher.buf


def test_sockets_with_a_protocol_and_a_tag_of_their_own():
    noop = b"\x80\x0a" + b"\0" * 22
    with Daemon("-l", "proto[binary]:tag[bin]:127.0.0.1:0,tag[txt]:proto[ascii]:127.0.0.1:0,"
                "proto[auto]:127.0.0.1:0", tcp=True) as d:
        ports = d.ports()
        assert len(ports) == 4, ports
        binary, ascii_only, either = ports[1:]

        def answer_to(port, data):
            with mayfly.Client(("127.0.0.1", port)) as c:
                c.send(data)
                c.sock.shutdown(socket.SHUT_WR)
                return c.rest()
        assert answer_to(binary, noop)[:2] == b"\x81\x0a"
        assert b"VERSION" not in answer_to(binary, b"version\r\n")
        assert answer_to(ascii_only, b"version\r\n").startswith(b"VERSION ")
        assert not answer_to(ascii_only, noop).startswith(b"\x81")
        assert answer_to(either, noop)[:2] == b"\x81\x0a"
        assert answer_to(either, b"version\r\n").startswith(b"VERSION ")
        with mayfly.Client(("127.0.0.1", ascii_only)) as tagged:
            def tags():
                return sorted(v for k, v in tagged.stats(b"conns").items() if k.endswith(":tag"))
            # Two listen, one is connected; earlier ones may still be closing.
            wait_for(lambda: tags() == ["bin", "txt", "txt"], "the tags")


def test_prefixes_that_are_wrong():
    for address in ("proto[foo]:127.0.0.1:0", "proto[ascii:127.0.0.1", "tag[]:127.0.0.1:0",
                    "tag[%s]:127.0.0.1:0" % ("x" * 32), "proto[ascii]127.0.0.1", "notls:", "tag[a]:"):
        done = mayfly.run("-p", "-1", "-l", address)
        assert done[0] == 71 and "cannot listen on" in done[1], (address, done)


def test_a_protocol_is_no_way_around_authentication():
    with mayfly.place("users", "user:password\n") as users:
        for how, protocol in ((["-Y", users], "binary"), (["-Y", users], "auto"), (["-S"], "ascii"), (["-S"], "auto")):
            done = mayfly.run("-p", "-1", "-l", "proto[%s]:127.0.0.1" % protocol, *how)
            assert done[0] in (64, 71) and done[1], (how, protocol, done)


mayfly.main(globals())
