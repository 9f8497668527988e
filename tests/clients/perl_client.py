#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Perl: Cache::Memcached, the first client of all, and Cache::Memcached::Fast."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import mayfly                                                           # noqa: E402
from foreign import drive                                               # noqa: E402


def test_cache_memcached():
    drive("cache_memcached.pl", "perl")


def test_cache_memcached_fast():
    drive("cache_memcached_fast.pl", "perl")


mayfly.main(globals())
