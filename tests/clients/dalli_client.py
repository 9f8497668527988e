#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ruby: dalli, which speaks the binary protocol (and the meta one in later versions)."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import mayfly                                                           # noqa: E402
from foreign import drive                                               # noqa: E402


def test_dalli():
    drive("dalli.rb", "ruby")


mayfly.main(globals())
