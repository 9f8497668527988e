#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Every header compiles alone: it includes what it needs, so the order of includes never matters.

set -eu
build=${MAYFLY_BUILDDIR:-.}
cd "${MAYFLY_SRCDIR:-.}"
. tests/common/tap.sh

for header in $(find lib proto daemon ctl tests -name '*.h' | sort); do
    # The flags are lists of words.
    # shellcheck disable=SC2086
    printf '#include "%s"\n' "$header" |
        ${CC:-cc} ${MAYFLY_CFLAGS:--std=gnu11 -D_GNU_SOURCE} -include "$build/config.h" -I. \
            -Wno-unused-function -fsyntax-only -x c - ||
        complain "$header: does not compile alone"
done
verdict "headers compile alone"
end_of_tests
