#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The number of worker threads changes while the server serves: `config set threads`, a file that is
read again. Connections go from worker to worker, and none is closed; each client checks that it gets
its replies, all of them and in order."""
import contextlib
import random
import re
import resource
import signal
import socket
import struct
import time

import mayfly
from checked import Load, binary, many_keys, meta, text, upload
from mayfly import Daemon, wait_for

SANITIZED = mayfly.is_sanitized()
MANY = 24 if SANITIZED else 64              # as high as the tests go
IDLE = 100 if SANITIZED else 400            # clients that say nothing most of the time


def threads(c, n):
    assert c.ask(b"config set threads %d" % n) == b"OK"


def figures(c):
    got = c.stats()
    return {name: int(got[name]) for name in
            ("threads", "mayfly_threads_wanted", "mayfly_threads_created", "mayfly_threads_leaving",
             "mayfly_conns_moved", "curr_connections")}


def wait_until_settled(c):
    """No worker has an object that belongs to another worker."""
    wait_for(lambda: figures(c)["mayfly_threads_leaving"] == 0, "the other workers are parked")


# ---- tests ---------------------------------------------------------------------------------------

def test_up_and_down_under_load():
    with Daemon("-t", "1", "-m", "256", control=True) as d, d.operator() as c, \
            Load(d, 15, text, meta, binary, upload, many_keys) as load:
        idle = [d.client() for _ in range(IDLE)]
        assert all(one.ask(b"mn") == b"MN" for one in idle)
        for n in (4, 1, MANY, 2, 3, 1):
            threads(c, n)
            load.goes_on()
            wait_until_settled(c)
            got = figures(c)
            assert (got["threads"], got["mayfly_threads_wanted"]) == (n, n), got
            wait_for(lambda: figures(c)["curr_connections"] == IDLE + 16, "none is on its way")
        assert got["mayfly_threads_created"] == MANY and got["mayfly_conns_moved"] > IDLE, got
        for one in idle:
            assert one.ask(b"mn") == b"MN"
            one.close()


def shares(c, workers):
    """Connections of each worker."""
    got = c.stats(b"shards")
    return [int(got["%d:curr_connections" % i]) for i in range(workers)]


def test_connections_are_dealt_evenly():
    with Daemon("-t", "1", control=True) as d, d.operator() as c:
        idle = [d.client() for _ in range(120)]
        assert all(one.ask(b"mn") == b"MN" for one in idle)
        threads(c, 4)
        wait_for(lambda: max(shares(c, 4)) - min(shares(c, 4)) <= 4, "each has a quarter")
        threads(c, 2)
        wait_for(lambda: max(shares(c, 2)) - min(shares(c, 2)) <= 4 and sum(shares(c, 4)[2:]) == 0, "each has a half")
        more = [d.client() for _ in range(20)]
        assert all(one.ask(b"mn") == b"MN" for one in idle + more)
        assert sum(shares(c, 4)[2:]) == 0 and sum(shares(c, 2)) == 141, shares(c, 4)


def test_two_operators_who_disagree():
    """The last request counts, and neither operator waits for the change of the other."""
    with Daemon("-t", "2", control=True) as d, Load(d, 10, text, meta, binary, upload, many_keys) as load:
        def change(seed):
            rng = random.Random(seed)
            with d.operator() as c:
                for _ in range(60):
                    threads(c, rng.choice((1, 2, 3, 5, 9, 17)))
                    time.sleep(0.01)    # as often as that; no verdict rests on it
        mayfly.in_parallel(change, (1, 2))
        load.goes_on()
        with d.operator() as c:
            threads(c, 3)
            wait_until_settled(c)
            wait_for(lambda: figures(c)["curr_connections"] == 11, "the two operators have gone")


def test_what_is_under_way_stays_until_it_is_over():
    with Daemon("-t", "4", "-m", "256", control=True) as d, d.operator() as c:
        value = mayfly.pattern(b"v", 400000)
        others = [d.client() for _ in range(16)]    # four on each worker
        watchers, uploads = others[:8], others[8:]
        assert all(one.ask(b"watch mutations") == b"OK" for one in watchers)
        for i, one in enumerate(uploads):
            one.send(b"set up%d 0 0 %d\r\n" % (i, len(value)) + value[:200000])
        wait_for(lambda: int(c.stats(b"shards")["0:mayfly_body_pending_bytes"]) > 0, "values are on their way")
        threads(c, 1)
        wait_for(lambda: sum(shares(c, 4)[1:]) == 6, "who watches has gone, and who uploads is where it was")
        assert figures(c)["mayfly_threads_leaving"] == 3
        for i, one in enumerate(uploads):
            one.send(value[200000:] + b"\r\nget up%d\r\n" % i)
            assert one.line() == b"STORED"
            assert one.line() == b"VALUE up%d 0 %d" % (i, len(value))
            assert one.exactly(len(value) + 7) == value + b"\r\nEND\r\n"
        wait_for(lambda: sum(shares(c, 4)[1:]) == 0, "the uploads have gone to the first worker")
        for one in watchers:
            wait_for(lambda: one.buf.count(b"key=up") == len(uploads) or not one.more(), "all stores are shown")
            one.close()
        wait_until_settled(c)
        assert all(one.ask(b"mn") == b"MN" for one in uploads)


def gigabyte_heads(i):
    """Requests that announce a value of nearly a gigabyte, in each protocol."""
    size = (1 << 30) - 4096
    key = b"giga%d" % i
    return (b"set %s 0 0 %d\r\n" % (key, size), b"ms %s %d\r\n" % (key, size),
            struct.pack(">BBHBBHIIQII", 0x80, 0x01, len(key), 8, 0, 0, 8 + len(key) + size, 1, 0, 0, 0) + key)[i % 3]


def test_gigabytes_that_come_slowly():
    """Of each value a kilobyte comes at a time, while threads and shards change: none is closed or answered, and
    each is received where it is."""
    with Daemon("-t", "4", "-m", "4096", "-I", "1g", "-o", "shards=2", control=True) as d, d.operator() as c:
        c.send(b"".join(b"set i%d 0 0 1 noreply\r\nx\r\n" % i for i in range(5000)))
        uploads = [d.client() for _ in range(12)]
        received = int(c.stat("bytes_read"))
        for i, one in enumerate(uploads):
            one.send(gigabyte_heads(i))
        received += sum(len(gigabyte_heads(i)) for i in range(len(uploads)))
        for n, shards in ((1, 7), (6, 1), (2, 5), (5, 3), (1, 2)):
            for _ in range(3):
                for one in uploads:
                    one.send(b"v" * 1000)
                received += 1000 * len(uploads)
                wait_for(lambda: int(c.stat("bytes_read")) >= received, "all has been received")
            assert c.ask(b"config set threads %d shards %d" % (n, shards)) == b"OK"
            wait_for(lambda: c.stats(b"moves")["move_state"] == "idle", "items are in %d shards" % shards)
        for one in uploads:
            one.sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                assert False, (one.sock.recv(100), "it was answered or closed")
        assert figures(c)["mayfly_threads_leaving"] > 0
        for one in uploads:
            one.close()
        wait_until_settled(c)
        wait_for(lambda: c.shard_sum("mayfly_body_pending_bytes") == 0, "nothing is kept of them")
        assert int(c.stat("curr_items")) == 5000


def test_a_watcher_sees_what_new_workers_do():
    with Daemon("-t", "1", control=True) as d, d.operator() as c, d.client() as watcher:
        assert watcher.ask(b"watch mutations") == b"OK"
        threads(c, 6)
        clients = [d.client() for _ in range(60)]
        assert all(one.set(b"w%d" % i, b"x") == b"STORED" for i, one in enumerate(clients))
        wait_for(lambda: watcher.buf.count(b"key=w") == 60 or not watcher.more(), "each store is shown")
        assert b"skipped" not in watcher.buf
        # Watchers move between workers as well, and miss nothing.
        for n in range(200):
            if n % 10 == 0:
                threads(c, (1, 6, 2, 4)[n // 10 % 4])
            assert clients[n % 60].set(b"v%d" % n, b"x") == b"STORED"
        wait_for(lambda: watcher.buf.count(b"key=v") == 200 or not watcher.more(), "each store is shown")
        assert b"skipped" not in watcher.buf


def test_stalled_readers_are_moved_with_what_waits_for_them():
    with Daemon("-t", "4", "-m", "256", control=True) as d, d.operator() as c:
        large, small = mayfly.pattern(b"L", 900000), mayfly.pattern(b"S", 1000)
        assert c.set(b"large", large) == b"STORED" and c.set(b"small", small) == b"STORED"
        readers = [d.client(rcvbuf=4096) for _ in range(24)]
        for i, one in enumerate(readers):
            one.send(b"get large\r\nmn\r\n" if i % 2 == 0 else b"get" + b" small" * 3000 + b"\r\nmn\r\n")
        wait_for(lambda: int(c.stats()["response_obj_bytes"]) > 0, "replies wait")
        for n in (1, 3, 2, 4, 1):
            threads(c, n)
            wait_until_settled(c)
        for i, one in enumerate(readers):
            if i % 2 == 0:
                wanted = b"VALUE large 0 %d\r\n%s\r\nEND\r\n" % (len(large), large)
            else:
                wanted = b"VALUE small 0 1000\r\n%s\r\n" % small * 3000 + b"END\r\n"
            assert one.exactly(len(wanted)) == wanted and one.line() == b"MN"
        got = c.stats()
        assert int(got["response_obj_bytes"]) == 0 and int(got["mayfly_slow_drops"] if "mayfly_slow_drops" in got else 0) == 0


def test_dumps_go_along():
    # With other shards as well, an item may go from where they come yet to where they were.
    with Daemon("-t", "4", "-o", "shards=4", control=True) as d, d.operator() as c:
        for i in range(3000):
            c.send(b"set key%d 0 0 1 noreply\r\nx\r\n" % i)
        assert c.ask(b"mn") == b"MN"
        dumps = [d.client(rcvbuf=4096) for _ in range(8)]
        for one in dumps:
            one.send(b"lru_crawler metadump all\r\n")
        for n in (1, 4, 2, 1):
            threads(c, n)
            wait_until_settled(c)
        for one in dumps:
            assert one.line() == b"OK"
            lines = one.line().split(b"\n")     # the last one alone ends with both characters
            assert lines[-1] == b"END" and len({line.split()[0] for line in lines[:-1]}) == 3000, len(lines)


def test_expiry_has_a_home_all_the_time():
    with Daemon("-t", "4", control=True) as d, d.operator() as c:
        for step in range(12):
            for i in range(200):
                c.send(b"set e%d.%d 0 1 1 noreply\r\nx\r\n" % (step, i))
            threads(c, (1, 4, 2, 8)[step % 4])
        # They are never read, so the home workers have to find them.
        wait_for(lambda: int(c.stats()["curr_items"]) == 0, "all have expired")
        assert int(c.stats(b"expire")["expired_active"]) == 2400


def test_datagrams_are_read_by_those_who_serve():
    with Daemon("-t", "4", "-U", "-1", tcp=True, control=True) as d, d.operator() as c:
        port = d.ports("UDP INET")[0]

        def ask_all():
            for i in range(40):         # the kernel deals them to the sockets by the port
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                    s.settimeout(mayfly.PATIENCE)
                    s.sendto(struct.pack(">HHHH", i, 0, 1, 0) + b"version\r\n", ("127.0.0.1", port))
                    assert s.recv(2000)[8:].startswith(b"VERSION ")
        for n in (1, 6, 3, 1, 4):
            threads(c, n)
            wait_until_settled(c)
            ask_all()


def test_users_that_go_while_connections_move():
    with mayfly.place("users") as path:
        def users(*names):
            mayfly.replace(path, "".join("%s:secret\n" % name for name in names))
        users("a", "b")
        with Daemon("-t", "4", "-Y", path, control=True) as d:
            d.wait_for_operator()
            with d.operator() as o:
                clients = []
                for i in range(40):
                    name = b"ab"[i % 2:i % 2 + 1]
                    one = d.client()
                    one.send(b"set auth 0 0 8\r\n%s secret\r\n" % name)
                    assert one.line() == b"STORED"
                    clients.append((name, one))
                for n in (1, 4, 2):
                    threads(o, n)
                users("a")
                d.process.send_signal(signal.SIGHUP)
                for n in (3, 1, 4, 1):
                    threads(o, n)
                wait_for(lambda: "auth, " in d.log(), "the file was read")
                wait_until_settled(o)
                for name, one in clients:
                    answer = one.ask(b"mn")
                    assert answer == (b"MN" if name == b"a" else b"CLIENT_ERROR unauthenticated"), (name, answer)


def test_a_stop_meanwhile_answers_all_that_came():
    for turn in range(3 if SANITIZED else 8):
        with Daemon("-t", "4", control=True) as d, d.operator() as c:
            clients = [d.client() for _ in range(60)]
            for one in clients:
                assert one.ask(b"mn") == b"MN"
                one.send(b"set k 0 0 1\r\nx\r\nget k\r\nmn\r\n")
            threads(c, (1, 2, 8)[turn % 3])
            c.send(b"config set threads 3\r\nconfig set threads 1\r\n")
            d.process.send_signal(signal.SIGTERM)
            for one in clients:
                assert one.exactly(32) == b"STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\nMN\r\n"[:32]
                one.close()
            c.close()
            assert d.process.wait(mayfly.PATIENCE) == 0, d.log()


def test_an_upgrade_meanwhile_takes_all_along():
    with Daemon("-t", "4", "-e", "fdstore", control=True) as d:
        clients = [d.client() for _ in range(60)]
        with d.operator() as o:
            assert all(one.ask(b"mn") == b"MN" for one in clients)
            threads(o, 2)
            threads(o, 7)
            o.send(b"config set threads 3\r\n")
            d.process.send_signal(signal.SIGUSR2)
            assert o.line() == b"OK"
            wait_for(lambda: "connections continue" in d.log(), "the next program serves")
            for one in clients:
                assert one.ask(b"mn") == b"MN"
                one.close()
        with d.operator() as o:
            wait_for(lambda: figures(o)["threads"] == 3, "the number goes along")


def is_unchanged(o, clients):
    assert o.ask(b"config get hz") == b"CONFIG hz 10" and o.line() == b"END"
    got = figures(o)
    assert (got["threads"], got["mayfly_threads_wanted"], got["mayfly_threads_created"]) == (2, 2, 2), got
    return all(one.ask(b"mn") == b"MN" for one in clients)


def test_numbers_that_are_none():
    with Daemon("-t", "2", control=True) as d, d.operator() as o:
        for n in (b"0", b"513", b"-1", b"x", b""):
            assert o.ask(b"config set hz 77 threads " + n).startswith(b"CLIENT_ERROR"), n
        assert is_unchanged(o, [])
        assert o.ask(b"config set hz 77 threads 3 threads 4").startswith(b"CLIENT_ERROR threads: ")
        assert is_unchanged(o, [])
        assert o.ask(b"config reset threads max_threads") == b"CLIENT_ERROR max_threads: needs a restart"
        o.send(b"config set threads 0 noreply\r\nconfig set threads 3 noreply\r\n")
        wait_for(lambda: figures(o)["threads"] == 3, "a change without an answer")
        assert o.ask(b"config set threads 2") == b"OK"


def with_files(n):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))


def test_too_few_descriptors_change_nothing():
    """Those that the clients were promised are not taken away."""
    with Daemon("-t", "2", "-c", "20", control=True, before=with_files(200)) as d, d.operator() as o:
        clients = [d.client() for _ in range(10)]
        answer = o.ask(b"config set threads 60 hz 77")
        assert answer == b"CLIENT_ERROR threads: the limit on open files is 200 for this process", answer
        assert is_unchanged(o, clients)
        threads(o, 4)
        assert all(one.ask(b"mn") == b"MN" for one in clients)
        assert o.ask(b"config reset threads") == b"OK" and figures(o)["threads"] == 2


def test_no_descriptor_left_changes_nothing():
    """Where there were too few for -c from the start, it is tried; what was made is taken back."""
    with Daemon("-t", "2", "-c", "60", control=True, before=with_files(100)) as d, d.operator() as o:
        clients = [d.client() for _ in range(20)]
        for _ in range(5):
            answer = o.ask(b"config set threads 40 hz 77")
            assert answer.startswith(b"CLIENT_ERROR threads: cannot start worker "), answer
            assert is_unchanged(o, clients)
        threads(o, 3)
        assert all(one.ask(b"mn") == b"MN" for one in clients)


def test_no_memory_changes_nothing():
    mayfly.skip_if(SANITIZED, "sanitizers take address space")
    with Daemon("-t", "2", control=True) as d, d.operator() as o:
        clients = [d.client() for _ in range(20)]
        assert is_unchanged(o, clients)
        mapped = int(mayfly.read("/proc/%d/statm" % d.pid).split()[0]) * resource.getpagesize()
        soft, hard = resource.prlimit(d.pid, resource.RLIMIT_AS)
        resource.prlimit(d.pid, resource.RLIMIT_AS, (mapped + (8 << 20), hard))
        answer = o.ask(b"config set threads 200 hz 77")
        resource.prlimit(d.pid, resource.RLIMIT_AS, (soft, hard))
        assert answer.startswith(b"CLIENT_ERROR threads: cannot start worker "), answer
        assert is_unchanged(o, clients)
        threads(o, 6)
        assert all(one.ask(b"mn") == b"MN" for one in clients)


def test_no_more_than_max_threads_without_privileges():
    mayfly.skip_if(mayfly.has_address_sanitizer(), "the search for leaks needs system calls that the filter forbids")
    with Daemon("-t", "2", "-o", "drop_privileges,max_threads=5", control=True) as d, d.operator() as c, \
            Load(d, 8, text, meta) as load:
        assert figures(c)["mayfly_threads_created"] == 5 and figures(c)["threads"] == 2
        for n in (5, 1, 4):
            threads(c, n)
            load.goes_on()
        answer = c.ask(b"config set threads 6")
        assert answer.startswith(b"CLIENT_ERROR threads: ") and b"there are 5 (max_threads)" in answer, answer
        assert figures(c)["threads"] == 4


def test_a_file_that_is_read_again():
    with mayfly.place("mayfly.conf", "threads = 2\n") as path, Daemon("--config", path, control=True) as d, d.operator() as o:
        mayfly.write(path, "threads = 6\n")
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: figures(o)["threads"] == 6, "the file counts")
        threads(o, 3)
        assert o.ask(b"config rewrite") == b"OK"
        assert mayfly.read(path) == "threads = 3\n"
        assert o.ask(b"config reset *") == b"OK" and figures(o)["threads"] == 3
        wait_for(lambda: "options, * is reset to its configured value (config reset)" in d.log(), "the reset is logged")
        assert d.log().count("(config reset") == 1, "one line for a pattern"


def test_parked_workers_cost_little():
    mayfly.skip_if(SANITIZED, "sanitizers keep memory of their own")
    with Daemon("-t", "2", is_visible=True, control=True) as d, d.operator() as c:
        threads(c, MANY)
        load = [d.client() for _ in range(4 * MANY)]
        value = mayfly.pattern(b"v", 200000)
        for one in load:
            one.send(b"set %d 0 0 200000\r\n" % one.sock.fileno() + value + b"\r\nmn\r\n")
        assert all(one.line() == b"STORED" and one.line() == b"MN" for one in load)
        threads(c, 2)
        wait_until_settled(c)

        def woken():
            return sum(switches(d, "mayfly-w%d" % i) for i in range(2, MANY))

        def is_quiet():
            before = woken()
            time.sleep(1.2)     # longer than any timer of an idle server
            return woken() == before
        wait_for(is_quiet, "nothing wakes them")


# Resident of a parked worker at most. mimalloc 3 keeps some 40 KiB more of one that has served.
PARKED_BYTES = (128 if mayfly.has_text(b"libmimalloc.so.3") else 64) << 10
CREW = 200


def test_parked_workers_give_their_memory_back():
    mayfly.skip_if(SANITIZED, "sanitizers keep memory of their own")
    with Daemon("-t", "2", "-o", "shards=2", is_visible=True, control=True) as d, d.operator() as c:
        load = [d.client() for _ in range(3 * CREW)]
        assert all(one.ask(b"mn") == b"MN" for one in load)
        before = d.rss()

        def parked():
            return (d.rss() - before) / (CREW - 2)
        threads(c, CREW)
        wait_for(lambda: min(shares(c, CREW)) > 0, "each has some")
        assert c.set(b"k", b"v" * 5000) == b"STORED"
        reply = (b"VALUE k 0 5000\r\n" + b"v" * 5000 + b"\r\n") * 10 + b"END\r\n"
        for one in load:
            one.send(b"set k 0 0 5000 noreply\r\n" + b"v" * 5000 + b"\r\nget" + b" k" * 10 + b"\r\n")
        assert all(one.exactly(len(reply)) == reply for one in load)
        assert parked() > PARKED_BYTES
        threads(c, 2)
        wait_until_settled(c)
        wait_for(lambda: parked() < PARKED_BYTES, "those that have served give back")
        assert all(one.ask(b"mn") == b"MN" for one in load)


def test_workers_parked_from_the_start_have_little_memory():
    mayfly.skip_if(SANITIZED, "sanitizers keep memory of their own")
    resident = []
    for n in (2, CREW):
        with Daemon("-t", "2", "-o", "shards=2,drop_privileges,max_threads=%d" % n, is_visible=True, control=True) as d, \
                d.operator() as c:
            assert figures(c)["mayfly_threads_created"] == n
            wait_until_settled(c)
            resident.append(d.rss())
    each = (resident[1] - resident[0]) / (CREW - 2)
    assert each < PARKED_BYTES, "%d bytes resident for a parked worker" % each


def switches(d, name):
    """Number of times that a thread of this name went to sleep."""
    return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", d.of_thread(name, "status"), re.M).group(1))


if "drop_privileges" in " ".join(mayfly.MORE_ARGS):
    mayfly.skip_all(mayfly.Inapplicable("with drop_privileges no thread can be made"))
mayfly.main(globals())
