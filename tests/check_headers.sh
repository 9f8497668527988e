#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Every header compiles alone: it includes what it needs, so the order of includes never matters.

set -eu
build=${MAYFLY_BUILDDIR:-.}
cd "${MAYFLY_SRCDIR:-.}"
. tests/common/tap.sh

# Each is a source of its own to the compiler, which names those that fail. The flags are lists of words.
# shellcheck disable=SC2086
find lib proto daemon ctl tools tests -name '*.h' | sort |
    xargs ${CC:-cc} ${MAYFLY_CFLAGS:--std=gnu11 -D_GNU_SOURCE} -include "$build/config.h" -I. \
        -Wno-unused-function -fsyntax-only -x c ||
    complain "a header does not compile alone"
verdict "headers compile alone"
end_of_tests
