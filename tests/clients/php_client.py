#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""PHP: the memcached extension, text and binary, with consistent hashing."""
import mayfly
from foreign import drive


def test_php_memcached():
    drive("memcached.php", "php", modes=("text", "binary"))


mayfly.main(globals())
