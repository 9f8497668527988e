#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The manual pages, as built, pass the checks of mandoc.

set -eu
. "${MAYFLY_SRCDIR:-.}/tests/common/tap.sh"

if ! command -v mandoc >/dev/null 2>&1; then
    skip_all "mandoc is not installed"
fi
for page in "${MAYFLY_BUILDDIR:-.}"/man/*.[1-8]; do
    mandoc -T lint -W warning "$page" || complain "$page"
    verdict "${page##*/}"
done
end_of_tests
