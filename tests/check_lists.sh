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

# A program without a _SOURCES line is built from the file of its name; the seeds of a fuzz target are named by
# their folder. What a build in the tree itself makes is not named.
find lib proto daemon ctl tests tools etc systemd man -type f ! -name Makefile.inc ! -name '*~' ! -name '*.pyc' \
    ! -name '*.o' ! -name .dirstamp ! -name '*.Po' ! -name '*.log' ! -name '*.trs' 2>/dev/null | sort |
    awk -v names="$names" '
        function is_named(path) {
            while (index(path, "/") != 0) {
                if (path in named) {
                    return 1
                }
                sub("/[^/]*$", "", path)
            }
            return 0
        }
        BEGIN {
            while ((getline name < names) > 0) {
                named[name] = 1
            }
        }
        /^systemd\/mayflyd(@)?\.service$/ || /^man\/[a-z.-]*\.[0-9]$/ { next }
        {
            program = $0
            sub("[.]c$", "", program)
        }
        !is_named($0) && !(program in named) { print $0 ": named by no makefile"; n++ }
        END { exit n > 0 }' || complain "files that no makefile names"
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
