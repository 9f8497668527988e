#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ruby: dalli, which speaks the binary protocol (and the meta one in later versions)."""
import mayfly
from foreign import drive


def test_dalli():
    drive("dalli.rb", "ruby")


mayfly.main(globals())
