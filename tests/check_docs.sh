#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What the daemon prints about itself is what the tree says: tables of the manual, the licence.

set -eu
src=${MAYFLY_SRCDIR:-.}
mayflyd=${MAYFLY_BUILDDIR:-.}/daemon/mayflyd

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0

"$mayflyd" --describe=options >"$dir/options"
if ! diff -u "$src/man/mayflyd-options.inc" "$dir/options"; then
    echo "man/mayflyd-options.inc is stale: write mayflyd --describe=options to it"
    bad=1
fi

# Behind the line with the version stands COPYING, word for word.
"$mayflyd" -i | sed -e '1,/^Copyright/{/^Copyright/!d}' >"$dir/licence"
if ! diff -u "$src/COPYING" "$dir/licence"; then
    echo "mayflyd -i prints another licence than COPYING"
    bad=1
fi
exit "$bad"
