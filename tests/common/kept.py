# SPDX-License-Identifier: BSD-3-Clause
"""A folder in which consecutive daemons keep their data."""
import contextlib
import os

import mayfly


class Kept:
    """A folder for the file, and consecutive daemons that use it."""

    def __init__(self, folder):
        self.folder = folder
        self.file = os.path.join(folder, "mayfly.snapshot")

    def daemon(self, *args, **kw):
        options = ["-o", "dir=" + self.folder]
        return mayfly.Daemon("-t", "2", "-m", "64", "-I", "8m", *options, *args, control=True, **kw)

    def has_file(self):
        return os.path.exists(self.file)

    def bytes(self):
        return mayfly.read_bytes(self.file)

    def write(self, data):
        mayfly.write(self.file, data)

    def names(self):
        return sorted(os.listdir(self.folder))


@contextlib.contextmanager
def kept():
    with mayfly.folder() as folder:
        yield Kept(folder)


def figures(c):
    return c.stats(b"persistence")


def figure(c, name):
    return int(figures(c)[name])


def status_of(d):
    """Exit status of a daemon that must not start to serve."""
    return d.process.wait(mayfly.PATIENCE)


def fill(c, count, size=1000):
    c.fill(b"k", count, b"v" * size)
