#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The manual pages, as built, are clean to mandoc's eye.

set -eu

if ! command -v mandoc >/dev/null 2>&1; then
    echo "mandoc is not here"
    exit 77
fi
for page in "${MAYFLY_BUILDDIR:-.}"/man/*.[1-8]; do
    mandoc -T lint -W warning "$page"
done
