#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Perl: Cache::Memcached, the first client of all, and Cache::Memcached::Fast."""
import mayfly
from foreign import drive


def test_cache_memcached():
    drive("cache_memcached.pl", "perl")


def test_cache_memcached_fast():
    drive("cache_memcached_fast.pl", "perl")


mayfly.main(globals())
