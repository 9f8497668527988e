# SPDX-License-Identifier: BSD-3-Clause
"""Clients written in other languages: each has a script of its own in tests/clients/ that gets the
addresses of some daemons, checks what its library offers, and ends with a line "N checks". Here are
the daemons, and the call of such a script."""
import contextlib
import importlib
import os
import shutil
import subprocess
import sys

from mayfly import Daemon, Skip, skip_all

CLIENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients")
MISSING = 77        # the exit status of a script whose library is not installed


def need_module(name, package):
    """A Python client's module, Debian's also when another Python comes first on the PATH; without
    it the whole script is skipped."""
    sys.path.append("/usr/lib/python3/dist-packages")
    try:
        return importlib.import_module(name)
    except ImportError:
        skip_all(package + " is not installed")


@contextlib.contextmanager
def daemons(count, *args):
    """This number of daemons on separate TCP ports."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Daemon(*args, tcp=True)) for _ in range(count)]


def addresses(group):
    return ["127.0.0.1:%d" % d.port for d in group]


def run_script(interpreter, script, *args, env=None, patience=300):
    """Run a client's script; fails unless it succeeded and counted its checks."""
    program = shutil.which(interpreter)
    if program is None:
        raise Skip(interpreter + " is not installed")
    done = subprocess.run([program, os.path.join(CLIENTS, script), *args], timeout=patience,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, **(env or {})))
    said = done.stdout.decode("latin-1")
    if done.returncode == MISSING:
        raise Skip(said.strip().splitlines()[-1] if said.strip() else "not installed")
    assert done.returncode == 0, said
    last = said.strip().splitlines()[-1]
    words = last.split()
    assert len(words) == 2 and words[1] == "checks" and int(words[0]) > 0, said
    print("        %s: %s" % (script, last))
    sys.stdout.flush()
    return int(words[0])


def drive(script, interpreter, *, modes=("",), env=None):
    """The test that most clients share: one daemon, then three, in each mode of the script."""
    for mode in modes:
        for count in (1, 3):
            with daemons(count) as group:
                run_script(interpreter, script, *([mode] if mode else []), *addresses(group), env=env)
