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

scripts=
for file in bootstrap .ci/run $(find tests tools debian -type f 2>/dev/null | sort); do
    if head -n 1 "$file" | grep -qE '^#!.*/(env )?(ba|da)?sh( |$)'; then
        scripts="$scripts $file"
    fi
done
# shellcheck disable=SC2086
shellcheck --external-sources $scripts || complain "shellcheck has objections"
verdict "shellcheck"
end_of_tests
