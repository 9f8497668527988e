#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# All shell scripts of the tree pass shellcheck.

set -eu
cd "${MAYFLY_SRCDIR:-.}"
. tests/common/tap.sh

if ! command -v shellcheck >/dev/null 2>&1; then
    skip_all "shellcheck is not installed"
fi

scripts=$(find bootstrap .ci/run tests tools debian -type f -exec \
    awk 'FNR == 1 { if (/^#!.*\/(env )?(ba|da)?sh( |$)/) { print FILENAME } nextfile }' {} + 2>/dev/null | sort)
[ -n "$scripts" ] || complain "no script was found"
# shellcheck disable=SC2086
shellcheck --external-sources $scripts || complain "shellcheck has objections"
verdict "shellcheck"
end_of_tests
