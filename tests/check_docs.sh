#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What the daemon prints about itself is what the tree has: the generated parts of the manual, and
# the licence.

set -eu
src=${MAYFLY_SRCDIR:-.}
. "$src/tests/common/tap.sh"
mayflyd=${MAYFLY_BUILDDIR:-.}/daemon/mayflyd

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

for part in options synopsis; do
    "$mayflyd" --describe=$part >"$dir/$part"
    if ! diff -u "$src/man/mayflyd-$part.inc" "$dir/$part"; then
        complain "man/mayflyd-$part.inc is stale: run make docs"
    fi
    verdict "man/mayflyd-$part.inc"
done

# After the line with the version comes COPYING, word for word.
"$mayflyd" -i | sed -e '1,/^Copyright/{/^Copyright/!d}' >"$dir/licence"
if ! diff -u "$src/COPYING" "$dir/licence"; then
    complain "mayflyd -i prints a licence that is not COPYING"
fi
verdict "licence"
end_of_tests
