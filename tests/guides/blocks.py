# SPDX-License-Identifier: BSD-3-Clause
"""Runs the commands of a guide unchanged, and compares their output.

A block of the page that begins with ```console has commands, after "$ ", each followed by what it prints; a
line that ends in a backslash, or with a parenthesis open, goes on. In what is printed "..." stands for anything within a
line, and alone in a line for any number of lines. A block that begins with ```ini, ```yaml or ```text and
the name of a file is written to that file. Blocks that begin with anything else are for the reader.

The commands run in namespaces of their own: their own loopback network, so that they can use the ports
that a reader would, their own processes, which end with them, and an /etc and a /run that are put over
those of the machine. The folder tests/guides/stand-ins has what needs a running systemd. That takes
root.
"""
import contextlib
import ctypes
import fcntl
import os
import re
import shlex
import socket
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from mayfly import BUILD, Inapplicable, PROGRAM                         # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 300


class Command:
    def __init__(self, text, line):
        self.text, self.line, self.expected = text, line, []


def is_unfinished(text):
    """A backslash at its end, or a parenthesis that is open."""
    return text.endswith("\\") or text.count("(") > text.count(")")


def parse(page):
    """What a page has to run: ("file", name, text) and Commands, in their order."""
    found, kind, lines = [], None, []
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("```"):
            if kind is None:
                kind, lines = line[3:].split() or [""], []
            else:
                if len(kind) == 2 and kind[0] in ("ini", "yaml", "text"):
                    found.append(("file", kind[1], "\n".join(lines) + "\n"))
                kind = None
        elif kind == ["console"]:
            if line.startswith("$ "):
                found.append(Command(line[2:], number))
            elif not found[-1].expected and is_unfinished(found[-1].text):
                found[-1].text += "\n" + line
            else:
                found[-1].expected.append(line)
        elif kind is not None:
            lines.append(line)
    return found


def pattern(expected):
    """A regular expression for what a command has to print."""
    out = ""
    for line in expected:
        if line.strip() == "...":
            out += r"(?:[^\n]*\n)*?"
        else:
            out += ".*".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ \t]*\n"
    return out


def script_of(steps, folder):
    """A script for bash that runs all, with the output of each command in a file."""
    out = ["cd %s" % shlex.quote(os.path.join(folder, "home"))]
    for i, step in enumerate(steps):
        to = shlex.quote(os.path.join(folder, str(i)))
        if isinstance(step, Command):
            out.append("{ %s\n} >%s 2>&1 </dev/null\necho $? >%s.status" % (step.text, to, to))
        else:
            with open(os.path.join(folder, str(i)), "w") as f:
                f.write(step[2].replace("timeout: 400\n", "timeout: 60000\n"))     # twemproxy's, where much else runs
            name = shlex.quote(step[1])
            out.append("mkdir -p \"$(dirname %s)\" && cp %s %s" % (name, to, name))
    return "\n".join(out) + "\n"


PREPARE = """set -e
mount --make-rprivate /
mkdir {0}/upper {0}/work
mount -t overlay overlay -o lowerdir=/etc,upperdir={0}/upper,workdir={0}/work /etc
mount -t tmpfs tmpfs /run
rm -rf /etc/mayfly
cp -r {etc} /etc/mayfly
getent passwd mayfly >/dev/null || echo 'mayfly:x:31337:31337:mayfly cache:/:/usr/sbin/nologin' >>/etc/passwd
getent group mayfly >/dev/null || echo 'mayfly:x:31337:' >>/etc/group
install -d -o mayfly -g mayfly /run/mayfly
set +e
"""


def loopback_up():
    """In the child: the loopback of a new network is down."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x40000000) != 0:      # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "unshare")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))     # SIOCSIFFLAGS: up, running


def need_namespaces():
    if os.geteuid() != 0:
        raise Inapplicable("only root can run guides in namespaces of their own")
    done = subprocess.run(["unshare", "-n", "-m", "-p", "--fork", "true"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Inapplicable("no namespaces here: " + done.stdout.strip())


def run(path):
    """Run a guide; returns what is wrong, a text for each."""
    need_namespaces()
    with open(path) as f:
        steps = parse(f.read())
    assert any(isinstance(s, Command) for s in steps), path + " has nothing to run"
    with tempfile.TemporaryDirectory(prefix="mayfly-guide.") as folder:
        os.chmod(folder, 0o755)
        os.mkdir(os.path.join(folder, "home"))
        build = os.path.abspath(BUILD)
        configuration = os.path.join(folder, "etc")
        os.mkdir(configuration)
        with open(os.path.join(HERE, "..", "..", "etc", "mayfly.conf")) as f, \
                open(os.path.join(configuration, "mayfly.conf"), "w") as to:
            to.write(f.read())
        text = PREPARE.format(folder, etc=configuration) + script_of(steps, folder)
        path_of_programs = ":".join([os.path.join(HERE, "stand-ins"), os.path.dirname(os.path.abspath(PROGRAM)),
                                     os.path.join(build, "ctl"),
                                     os.environ["PATH"], "/usr/sbin"])
        output = os.path.join(folder, "output")
        with open(output, "w") as to, contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(["unshare", "-m", "-p", "--kill-child", "--mount-proc", "bash", "-c", text],
                           env={**os.environ, "PATH": path_of_programs, "UNITS": os.path.join(build, "systemd"),
                                "SOURCE": os.path.abspath(os.path.join(HERE, "..", ".."))},
                           stdin=subprocess.DEVNULL, stdout=to, stderr=to, timeout=PATIENCE,
                           preexec_fn=loopback_up, check=False)
        with open(output) as f:
            wrong = [text for text in [f.read()] if text]
        for i, step in enumerate(steps):
            if isinstance(step, Command):
                wrong += judge(step, os.path.join(folder, str(i)))
        return wrong


def judge(step, out):
    where = "line %d: %s\n" % (step.line, step.text)
    try:
        with open(out + ".status") as f:
            status = int(f.read())
        with open(out, errors="replace") as f:
            printed = f.read().replace("\r", "")
    except (OSError, ValueError):
        return [where + "it was not run to its end"]
    wrong = []
    if status != 0:
        wrong.append(where + "it ends with %d: %s" % (status, printed))
    elif not re.fullmatch(pattern(step.expected), printed if printed.endswith("\n") or not printed else printed + "\n"):
        wrong.append(where + "it should print\n%s\nand prints\n%s" % ("\n".join(step.expected), printed))
    return wrong
