#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The build names every file of the tree: what no Makefile.inc knows is neither built nor run nor
# in the tarball, and nobody would notice.

set -eu
cd "${MAYFLY_SRCDIR:-.}"

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

bad=0
for file in $(find lib proto daemon tests tools etc systemd man -type f ! -name Makefile.inc \
    ! -name '*~' ! -name '*.pyc' ! -name '*.o' ! -name .dirstamp ! -name '*.Po' 2>/dev/null | sort); do
    is_named "$file" && continue
    is_within_named_folder "$file" && continue
    case $file in
        # made by the build when it runs in the tree
        systemd/mayflyd.service | man/mayflyd.8 | man/mayfly-protocol.7) continue ;;
        *.log | *.trs) continue ;;
    esac
    printf '%s: named by no makefile\n' "$file"
    bad=1
done
exit "$bad"
