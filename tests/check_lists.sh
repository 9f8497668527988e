#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Nothing is forgotten: the build names every file of the tree (a file that no makefile names is
# neither built nor run nor in the tarball), every unit test is in the folder of what it tests, and
# every test registers itself.

set -eu
cd "${MAYFLY_SRCDIR:-.}"
. tests/common/tap.sh

names=$(mktemp)
trap 'rm -f "$names"' EXIT
cat Makefile.am ./*/Makefile.inc | tr -s '[:space:]' '\n' | sort -u >"$names"

# A program without a _SOURCES line is built from the file of its name.
is_named() {
    grep -qxF "$1" "$names" || grep -qxF "${1%.c}" "$names"
}

# The seeds of a fuzz target are named by their folder.
is_within_named_folder() {
    folder=${1%/*}
    while [ "$folder" != "${folder%/*}" ]; do
        if grep -qxF "$folder" "$names"; then
            return 0
        fi
        folder=${folder%/*}
    done
    return 1
}

for file in $(find lib proto daemon ctl tests tools etc systemd man -type f ! -name Makefile.inc \
    ! -name '*~' ! -name '*.pyc' ! -name '*.o' ! -name .dirstamp ! -name '*.Po' 2>/dev/null | sort); do
    is_named "$file" && continue
    is_within_named_folder "$file" && continue
    case $file in
        # made by a build in the tree itself
        systemd/mayflyd.service | man/mayfly.conf.5 | man/mayflyctl.1 | man/mayflyd.8 | man/mayfly-protocol.7 | man/mayfly-stats.7) continue ;;
        *.log | *.trs) continue ;;
    esac
    complain "$file: named by no makefile"
done
verdict "makefiles name every file"

for file in $(find tests/lib tests/proto tests/daemon tests/ctl -name 'test_*.c' | sort); do
    folder=${file#tests/}
    [ -d "${folder%/*}" ] || complain "$file: there is no folder ${folder%/*}"
done
verdict "unit tests mirror the source"

# TEST() of tests/common/unit.h, and nothing else, makes sure that a test runs.
others=$(grep -rlE '\<(START_TEST|tcase_add_\w+)\>' tests --include='*.c' |
    grep -vx 'tests/common/unit\.c' || true)
[ -z "$others" ] || complain "tests without TEST(): $others"
verdict "unit tests register themselves"
end_of_tests
