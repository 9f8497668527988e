# SPDX-License-Identifier: BSD-3-Clause
"""Clocks of another host for a running daemon; see clocks.c."""
import mmap
import os
import re
import struct
import tempfile

import mayfly

LIBRARY = os.path.join(mayfly.BUILD, "tests", "common", "clocks.so")
NS = 1000 ** 3


class Clocks:
    """The clocks of a daemon that gets .env: offset in seconds from this machine's clock, may be negative. The wall
    clock can be set while it runs."""

    def __init__(self, wall=0, boot=0):
        handle, self.path = tempfile.mkstemp(prefix="mayfly-clocks.")
        os.ftruncate(handle, mmap.PAGESIZE)
        self.page = mmap.mmap(handle, mmap.PAGESIZE)
        os.close(handle)
        struct.pack_into("q", self.page, 8, int(boot * NS))
        self.set_wall(wall)
        self.env = {"LD_PRELOAD": os.path.abspath(LIBRARY), "MAYFLY_CLOCKS": self.path}

    def set_wall(self, seconds):
        struct.pack_into("q", self.page, 0, int(seconds * NS))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.page.close()
        os.unlink(self.path)


def skip_without():
    with open(mayfly.PROGRAM, "rb") as f:
        if re.search(rb"libasan\.so\.\d", f.read()):
            mayfly.skip_all(mayfly.Inapplicable("the address sanitizer wants to be the first library"))
