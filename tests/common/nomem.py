# SPDX-License-Identifier: BSD-3-Clause
"""Failing allocations in a running daemon; see nomem.c."""
import mmap
import os
import struct
import tempfile

import mayfly

PROGRAM = os.path.join(mayfly.BUILD, "tests", "common", "mayflyd-nomem")
FIELDS = ("counting", "nth", "times", "seen", "fired")
EVER = 1 << 40


class NoMem:
    """Failures for a daemon that gets .how."""

    def __init__(self):
        handle, self.path = tempfile.mkstemp(prefix="mayfly-nomem.")
        os.ftruncate(handle, mmap.PAGESIZE)
        self.page = mmap.mmap(handle, mmap.PAGESIZE)
        os.close(handle)
        self.how = {"program": PROGRAM, "env": {"MAYFLY_NOMEM": self.path}}

    def get(self, field):
        return struct.unpack_from("Q", self.page, 8 * FIELDS.index(field))[0]

    def put(self, field, value):
        struct.pack_into("Q", self.page, 8 * FIELDS.index(field), value)

    def arm(self, nth, thread="", times=1):
        """From now on the n-th of all calls of threads whose name has this prefix fails, and more if times says so. 0
        only counts."""
        self.disarm()
        struct.pack_into("16s", self.page, 8 * len(FIELDS), thread.encode())
        self.put("nth", nth)
        self.put("times", times)
        self.put("seen", 0)
        self.put("fired", 0)
        self.put("counting", 1)

    def disarm(self):
        self.put("counting", 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.page.close()
        os.unlink(self.path)
