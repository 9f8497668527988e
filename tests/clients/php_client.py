#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""PHP: the memcached extension, text and binary, with consistent hashing."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import mayfly                                                           # noqa: E402
from foreign import drive                                               # noqa: E402


def test_php_memcached():
    drive("memcached.php", "php", modes=("text", "binary"))


mayfly.main(globals())
