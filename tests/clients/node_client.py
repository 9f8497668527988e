#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Node.js: memjs (binary) and memcached (text), which bootstrap fetches from the npm registry into
the build tree."""
import os

import mayfly
from foreign import drive

MODULES = {"NODE_PATH": os.environ.get("MAYFLY_NODE_MODULES") or
           os.path.abspath(os.path.join(mayfly.BUILD, "node", "node_modules"))}


def test_memjs():
    drive("memjs.js", "node", env=MODULES)


def test_memcached():
    drive("memcached.js", "node", env=MODULES)


mayfly.main(globals())
