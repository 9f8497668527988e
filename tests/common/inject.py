# SPDX-License-Identifier: BSD-3-Clause
"""Disk faults for a running daemon; see inject.c."""
import contextlib
import mmap
import os
import struct
import tempfile

import mayfly

LIBRARY = os.path.join(mayfly.BUILD, "tests", "common", "inject.so")
DIED = 99

KINDS = ("open", "read", "write", "sync", "range", "rename", "unlink", "truncate", "allocate", "map")
HOWS = ("fail", "short", "die", "hang")
FIELDS = ("kinds", "nth", "times", "how", "number", "seen", "fired", "resynced", "unsynced", "hanging")
PART_MAX = 128
EVER = 1 << 40


class Inject:
    """Faults for the files of a folder; daemons get .env."""

    def __init__(self, folder):
        handle, self.path = tempfile.mkstemp(prefix="mayfly-inject.")
        os.ftruncate(handle, mmap.PAGESIZE)
        self.page = mmap.mmap(handle, mmap.PAGESIZE)
        os.close(handle)
        self.env = {"LD_PRELOAD": os.path.abspath(LIBRARY), "MAYFLY_INJECT": self.path, "MAYFLY_INJECT_DIR": folder}

    def get(self, field):
        return struct.unpack_from("Q", self.page, 8 * FIELDS.index(field))[0]

    def put(self, field, value):
        struct.pack_into("Q", self.page, 8 * FIELDS.index(field), value)

    def arm(self, kinds, nth, how="fail", number=0, times=1, part=""):
        """From now on the n-th of all calls of these kinds fails, and more if times says so. nth=0 only counts
        them."""
        self.put("nth", 0)
        struct.pack_into("%ds" % PART_MAX, self.page, 8 * len(FIELDS), part.encode())
        self.put("kinds", sum(1 << KINDS.index(kind) for kind in kinds))
        self.put("times", times)
        self.put("how", HOWS.index(how))
        self.put("number", number)
        self.put("seen", 0)
        self.put("fired", 0)
        self.put("nth", nth)

    def disarm(self):
        self.put("nth", 0)

    def check(self):
        """What must never happen."""
        assert self.get("resynced") == 0, "a file was called durable after a fault of it"
        assert self.get("unsynced") == 0, "a file was renamed before it was durable"


@contextlib.contextmanager
def inject(folder):
    i = Inject(folder)
    try:
        yield i
        i.check()
    finally:
        i.page.close()
        os.unlink(i.path)


def skip_without():
    if mayfly.is_sanitized():
        mayfly.skip_all(mayfly.Inapplicable("a sanitizer wants to be the first library"))
