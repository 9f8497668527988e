#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mayfly-check (mayflyctl check): its output for files saved by a server, compared with what a server then loads.
tests/ctl/test_examine.c shows that each damaged byte is found."""
import json
import os
import subprocess
import tempfile

import mayfly

PROGRAM = os.path.join(mayfly.BUILD, "ctl", "mayfly-check")
WHOLE, DAMAGED, USAGE, OTHER, UNREADABLE = 0, 1, 64, 65, 66
KEYS = 20000


def check(*args):
    """Exit status, output, errors."""
    done = subprocess.run([PROGRAM, *args], stdin=subprocess.DEVNULL, capture_output=True, check=False,
                          timeout=mayfly.PATIENCE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Folder(tempfile.TemporaryDirectory):
    def __enter__(self):
        self.path = self.name
        return self

    def put(self, name, data):
        path = os.path.join(self.path, name)
        mayfly.write(path, data)
        return path

    def daemon(self, *args, **kw):
        return mayfly.Daemon("-t", "1", "-m", "64", "-o", "dir=" + self.path, *args, control=True, **kw)

    def save(self):
        """A snapshot of KEYS items, and its bytes."""
        with self.daemon() as d, d.operator() as o:
            for at in range(0, KEYS, 1000):
                o.send(b"".join(b"ms key%d 20 T1000 q\r\nvaluevaluevaluevalue\r\n" % n
                                for n in range(at, at + 1000)) + b"mn\r\n")
                assert o.line() == b"MN"
            o.set(b"large", b"x" * 600000)
            mayfly.wait_for(lambda: o.stats(b"persistence")["aof_pending_bytes"] == "0", "it is in the log")
            assert o.ask(b"save") == b"OK"
        path = os.path.join(self.path, "mayfly.snapshot")
        return path, mayfly.read_bytes(path)


def test_a_saved_file_is_whole():
    with Folder() as f:
        path, data = f.save()
        status, out, err = check(path)
        assert (status, err) == (WHOLE, ""), (status, err)
        assert out.startswith(path + ": whole\n"), out
        assert "items        20001: 0 expired by now, 1 without a deadline, 1 in parts" in out, out
        status, out, err = check("--json", path)
        (said,) = json.loads(out)
        assert (status, err) == (WHOLE, ""), (status, err)
        assert said["verdict"] == "whole" and said["items"] == KEYS + 1 and said["bytes"] == len(data), said
        assert check("--quiet", path) == (WHOLE, "", "")


def test_what_it_says_of_damage_is_what_a_start_salvages():
    with Folder() as f:
        path, data = f.save()
        at = len(data) // 2
        f.put("mayfly.snapshot", data[:at] + bytes([data[at] ^ 16]) + data[at + 1:])
        status, out, _ = check(path)
        first, second = out.split("\n")[:2]
        assert status == DAMAGED and first.startswith(path + ": block "), out
        # The byte may be one of those that a block begins with.
        assert first.endswith((": checksum differs", ": no block begins here")), first
        assert "load=salvage recovers the" in second, second
        (said,) = json.loads(check("-j", path)[1])
        assert 0 < said["items_salvaged"] < KEYS, said
        assert "block %d at %d: " % (said["fault_block"], said["fault_offset"]) in first, said
        with f.daemon("-o", "load=salvage") as d, d.operator() as o:
            assert int(o.stats(b"persistence")["rdb_last_load_keys_loaded"]) == said["items_salvaged"]


def test_logs_of_keys():
    """The log beside a snapshot, written while we look: whole, or cut within its last block."""
    with Folder() as f:
        with f.daemon("-o", "appendonly=keys,save_on_stop=no") as d, d.operator() as o:
            assert o.ask(b"save") == b"OK"
            for n in range(100):
                o.set(b"key%d" % n, b"x")

            def logs():
                names = sorted(n for n in os.listdir(f.path) if ".log." in n and not n.endswith("~"))
                status, out, _ = check("--json", *(os.path.join(f.path, n) for n in names))
                return [one for one in json.loads(out or "[]") if one.get("kind") == "log"]

            mayfly.wait_for(lambda: sum(one["keys"] for one in logs()) >= 100, "the keys are in a log")
            d.crash()
        (snapshot,) = json.loads(check("--json", os.path.join(f.path, "mayfly.snapshot"))[1])
        numbers = [one["log"] for one in logs()]
        assert snapshot["kind"] == "snapshot" and snapshot["log"] in numbers, (snapshot, numbers)
        last = max(logs(), key=lambda one: one["log"])
        status, out, _ = check(last["file"])
        assert status == WHOLE and out.startswith(last["file"] + ": whole log\n"), out
        data = mayfly.read_bytes(last["file"])
        status, out, _ = check(f.put("mayfly.snapshot.log.77", data[:-1]))
        assert status == DAMAGED and "the file ends here" in out and "aof_load_truncated" in out, out
        (said,) = json.loads(check("--json", f.path + "/mayfly.snapshot.log.77")[1])
        assert said["torn_end"] and 64 <= said["bytes_synced"] < len(data), said


def test_logs_of_states():
    with Folder() as f:
        with f.daemon("-o", "appendonly=full,save_on_stop=no") as d, d.operator() as o:
            o.set(b"key", b"x")
            o.set(b"large", b"x" * 600000)
            mayfly.wait_for(lambda: o.stats(b"persistence")["aof_pending_bytes"] == "0", "it is in the log")
            assert o.ask(b"flush_prefix key1") == b"OK" and o.ask(b"flush_prefix other:") == b"OK"
            assert o.ask(b"flush_all") == b"OK"
            o.set(b"key", b"y")
            assert o.ask(b"delete key") == b"DELETED"
        (log,) = (os.path.join(f.path, n) for n in os.listdir(f.path) if ".log." in n)
        (said,) = json.loads(check("--json", log)[1])
        assert said["verdict"] == "whole" and said["items_in_parts"] == 1, said
        assert said["blocks"]["prefix"] == 2, said
        assert said["blocks"]["flush"] == 1 and said["flush_unix_ms"] is None, said
        assert said["keys_gone"] >= 1 and said["keys"] == 0, said
        status, out, _ = check(log)
        assert status == WHOLE and "removed keys" in out and "values " in out, out


def test_the_logs_of_a_snapshot_are_checked_with_it():
    """As a start would find them: 1 if one is missing, damaged or of another snapshot, and no file is changed."""
    with Folder() as f:
        snapshot = os.path.join(f.path, "mayfly.snapshot")
        for _ in range(2):      # two logs: each start begins one
            with f.daemon("-o", "appendonly=full,appendfsync=always,save_on_stop=no") as d, d.operator() as o:
                for n in range(20):
                    o.set(b"key%d" % n, b"x" * 100)
                d.crash()
        first, last = sorted(n for n in os.listdir(f.path) if ".log." in n)
        good = {name: open(os.path.join(f.path, name), "rb").read() for name in (first, last)}
        assert check("-q", snapshot) == (WHOLE, "", "")
        (said,) = json.loads(check("-j", snapshot)[1])
        assert said["logs"] == 2 and said["logs_fault"] is None and not said["torn_end"], said

        def with_logs(**changed):
            for name, data in {"first": first, "last": last}.items():
                content = changed.get(name, good[data])
                if content is None:
                    os.unlink(os.path.join(f.path, data))
                else:
                    f.put(data, content)
            return check(snapshot)

        def flipped(data, at):
            return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]

        number = {first: first.split(".")[-1], last: last.split(".")[-1]}
        for changed, text in (({"first": None}, "log %s is missing" % number[first]),
                              ({"first": good[first][:-1]}, "log %s: block" % number[first]),
                              ({"first": flipped(good[first], 130)}, "checksum differs"),
                              ({"last": flipped(good[last], 30)}, "log %s: header" % number[last]),
                              ({"last": good[first]}, "log %s belongs to another" % number[last])):
            status, out, _ = with_logs(**changed)
            assert status == DAMAGED and out.startswith(snapshot + ": whole, but ") and text in out, (changed, out)
            assert check("-q", snapshot)[0] == DAMAGED and check("-q", snapshot)[1] != ""
            (said,) = json.loads(check("-j", snapshot)[1])
            assert said["verdict"] == "damaged" and text in said["logs_fault"], said
            with f.daemon("-o", "appendonly=full,load=strict", wait=False) as d:
                assert d.process.wait(mayfly.PATIENCE) == OTHER
        # A start cuts that.
        status, out, _ = with_logs(last=good[last] + b"torn")
        assert status == WHOLE and "incomplete end" in out, out
        assert os.path.getsize(os.path.join(f.path, last)) == len(good[last]) + 4
        # From its folder, without one, and elsewhere.
        done = subprocess.run([os.path.abspath(PROGRAM), "mayfly.snapshot"], cwd=f.path, capture_output=True,
                              check=False, timeout=mayfly.PATIENCE)
        assert done.returncode == WHOLE and b"2 logs" in done.stdout, done
        with Folder() as other:
            copy = other.put("copy", open(snapshot, "rb").read())
            assert check(copy)[0] == DAMAGED and "is missing" in check(copy)[1]


def test_other_files_are_named():
    with Folder() as f:
        rdb = f.put("dump.rdb", b"REDIS0011\xfa\x09redis-ver\x057.0.1")
        empty = f.put("empty", b"")
        text = f.put("te\nxt", b"just a text\n")
        assert check(rdb)[:2] == (OTHER, rdb + ": is a Redis RDB file\n")
        assert check(empty)[:2] == (OTHER, empty + ": is empty\n")
        assert check(text)[:2] == (OTHER, text.replace("\n", "\\n") + ": is not a snapshot of mayfly\n")
        assert check(f.path)[:2] == (UNREADABLE, f.path + ": Is a directory\n")
        gone = os.path.join(f.path, "gone")
        assert check(gone)[:2] == (UNREADABLE, gone + ": No such file or directory\n")
        status, out, _ = check(rdb, gone, empty)
        assert status == UNREADABLE and len(out.splitlines()) == 3, out
        said = json.loads(check("--json", rdb, gone)[1])
        assert [one["verdict"] for one in said] == ["other", "unreadable"], said


def test_the_command_line():
    status, out, err = check("--help")
    assert status == 0 and out.startswith("usage: mayflyctl [OPTION...] check FILE...") and err == "", (status, err)
    status, out, _ = check("--version")
    assert status == 0 and out.startswith("mayflyctl "), out
    status, out, err = check()
    assert status == USAGE and out == "" and err.startswith("mayflyctl: usage:"), err
    assert check("--no-such")[0] == USAGE
    assert check("-h") == check("--help")
    done = subprocess.run([os.path.join(mayfly.BUILD, "ctl", "mayflyctl"), "check"], capture_output=True, check=False,
                          timeout=mayfly.PATIENCE)
    assert done.returncode == 2 and done.stderr.startswith(b"mayflyctl: usage:"), done
    with Folder() as f, open("/dev/full", "wb") as full:
        path = f.put("empty", b"")
        done = subprocess.run([PROGRAM, path], stdout=full, stderr=subprocess.PIPE, check=False,
                              timeout=mayfly.PATIENCE)
        assert done.returncode == 74 and b"cannot be written" in done.stderr, done


mayfly.main(globals())
