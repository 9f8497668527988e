#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write recorded.txt: what memcached 1.6.45 answers where the memcached of this system does not.

MEMCACHED names the program of 1.6.45; the other one is found in PATH. Run by hand when streams are
added: MEMCACHED=/path/to/1.6.45/memcached tests/differ/record.py
"""
import os
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
import binary_streams                                                   # noqa: E402
import intended                                                         # noqa: E402
import recorded                                                         # noqa: E402
import streams                                                          # noqa: E402
from differ import normal, play                                         # noqa: E402
from peers import PEER_FLAGS, Server                                    # noqa: E402

HEAD = """# SPDX-License-Identifier: BSD-3-Clause
# Answers of memcached 1.6.45 that an older one gives otherwise; see recorded.py. Not for editing.
"""


def everything():
    yield from streams.scripts()
    yield from (("binary " + name, stream) for name, stream in binary_streams.scripts())
    for row in intended.DIFFERENCES + binary_streams.DIFFERENCES:
        if row.peer is not None:
            yield "intended: " + row.reason, [row.sent]


def rows(old, new):
    seen = set()
    for name, stream in everything():
        key = recorded.digest(stream)
        if key in seen:
            continue
        seen.add(key)
        theirs, reference = (normal(play(server, stream)) for server in (old, new))
        if theirs != reference:
            yield "%s\t%s\t%r\n" % (key, ascii(name)[:100].replace("\t", " "), reference)


def main():
    programs = (shutil.which("memcached"), os.environ["MEMCACHED"])
    with tempfile.TemporaryDirectory(prefix="mayfly-record.") as folder:
        servers = []
        try:
            for name, program in zip(("old", "new"), programs):
                servers.append(Server(name, program, PEER_FLAGS, folder))
                servers[-1].wait_until_ready()
            old, new = servers
            if recorded.is_reference(old) or not recorded.is_reference(new):
                sys.exit("MEMCACHED is not 1.6.45, or the one in PATH is not older")
            text = HEAD + "".join(rows(old, new))
        finally:
            for server in servers:
                server.stop()
    with open(recorded.PATH, "w") as f:
        f.write(text)


if __name__ == "__main__":
    main()
