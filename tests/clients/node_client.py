#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Node.js: memjs (binary) and memcached (text), which bootstrap fetches from the npm registry into
the build tree."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import mayfly                                                           # noqa: E402
from foreign import drive                                               # noqa: E402

MODULES = {"NODE_PATH": os.environ.get("MAYFLY_NODE_MODULES") or
           os.path.abspath(os.path.join(mayfly.BUILD, "node", "node_modules"))}


def test_memjs():
    drive("memjs.js", "node", env=MODULES)


def test_memcached():
    drive("memcached.js", "node", env=MODULES)


mayfly.main(globals())
