#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Every header compiles alone: it includes what it needs, so the order of includes never matters.
# Most are the first include of the source of the same name, so the build has shown it. This checks the others.

set -eu
build=${MAYFLY_BUILDDIR:-.}
cd "${MAYFLY_SRCDIR:-.}"
. tests/common/tap.sh

# Prints the headers that are not the first include of a source.
others() {
    # shellcheck disable=SC2016 # awk knows them
    find lib proto daemon ctl tools tests -name '*.[ch]' -print | sort | xargs awk '
        FNR == 1 { has_first = 0; if (FILENAME ~ /\.h$/) { header[FILENAME] = 1 } }
        /^#include/ && FILENAME ~ /\.c$/ && !has_first {
            has_first = 1
            own = FILENAME
            sub(/c$/, "h", own)
            first[own] = $0 == "#include \"" own "\""
        }
        END { for (name in header) { if (!first[name]) { print name } } }' | sort
}

# Each is a source of its own to the compiler, which names those that fail. The flags are lists of words.
# shellcheck disable=SC2086
others |
    xargs ${CC:-cc} ${MAYFLY_CFLAGS:--std=gnu11 -D_GNU_SOURCE} -include "$build/config.h" -I. \
        -Wno-unused-function -fsyntax-only -x c ||
    complain "a header does not compile alone"
verdict "headers compile alone"
end_of_tests
