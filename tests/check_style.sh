#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The house style, as far as a script can tell: licence line, size of files, width, white space,
# words that do not belong, braces around every body, order of includes, and clang-format 14.

set -eu
cd "${MAYFLY_SRCDIR:-.}"
. tests/common/tap.sh

sources=$(find lib proto daemon ctl tools tests -name '*.[ch]' -print | sort)
tables=$(find lib proto daemon ctl tools tests -name '*.def' -print | sort)
scripts=$(find bootstrap .ci/run tests -type f \( -name bootstrap -o -name run -o -name '*.sh' \
    -o -name '*.py' -o -name '*.awk' \) -print | sort)

# shellcheck disable=SC2086
awk 'function end_file() {
         if (lines > 800) { printf "%s: %d lines; over 800 a file is split by job\n", file, lines; n++ }
     }
     FNR == 1 {
         end_file()
         file = FILENAME
         if ($0 != "/* SPDX-License-Identifier: BSD-3-Clause */") {
             printf "%s:1: the licence line is missing\n", FILENAME; n++
         }
     }
     { lines = FNR }
     END { end_file(); exit n > 0 }' $sources $tables || complain "sources and tables"
# shellcheck disable=SC2086
awk 'FNR <= 3 && $0 == "# SPDX-License-Identifier: BSD-3-Clause" { has[FILENAME] = 1 }
     END {
         for (i = 1; i < ARGC; i++) {
             if (!(ARGV[i] in has)) { printf "%s:1: the licence line is missing\n", ARGV[i]; n++ }
         }
         exit n > 0
     }' $scripts || complain "scripts"
# What a fuzzer that crashed has left behind is no seed.
large=$(find tests/fuzz/*.in -type f -size +1024k -print)
if [ -n "$large" ]; then
    complain "seeds of more than a megabyte: $large"
fi
verdict "licence lines, lengths of files"

# Tables are as wide as their rows; everything else keeps to 96 columns.
# shellcheck disable=SC2086
awk 'length($0) > 96 { printf "%s:%d: %d columns, 96 is the limit\n", FILENAME, FNR, length($0); n++ }
     END { exit n > 0 }' $sources || complain "lines are too long"

tab=$(printf '\t')
# shellcheck disable=SC2086
if grep -nE "$tab|[ $tab]+\$" $sources $tables; then
    complain "tabs, or white space at the end of lines"
fi
verdict "width and white space"

# A banner of a section is one line, filled to the last column.
# shellcheck disable=SC2086
awk '/^( \*|\/\*) ----/ && (!/^\/\* ---- [^ -].* -+ \*\/$/ || length($0) != 96) {
         printf "%s:%d: a banner is one line, /* ---- x ---- ... */, of 96 columns\n", FILENAME, FNR; n++ }
     END { exit n > 0 }' $sources || complain "banners"
verdict "banners"

# Attributes have one spelling each.
# shellcheck disable=SC2086
if grep -n '__attribute__' $sources | grep -v '^lib/base/check\.h:'; then
    complain "an attribute without its macro from lib/base/check.h"
fi
verdict "attributes"

# Work to be done is an issue with a number, not a note in the code.
# shellcheck disable=SC2086
if grep -nE '\<(TODO|FIXME|XXX)\>' $sources $tables $scripts | grep -vE 'TODO\(#[0-9]+\)|check_style\.sh:'; then
    complain "notes without the number of an issue"
fi
verdict "notes"

# shellcheck disable=SC2086
awk -f tests/braces.awk $sources || complain "bodies without braces"
verdict "braces"

# shellcheck disable=SC2086
LC_ALL=C awk -f tests/includes.awk $sources || complain "includes are not in order"
verdict "order of includes"

format=
for name in clang-format-14 clang-format; do
    if "$name" --version 2>/dev/null | grep -q 'version 14\.'; then
        format=$name
        break
    fi
done
if [ -n "$format" ]; then
    # shellcheck disable=SC2086
    "$format" --style=file --dry-run --Werror $sources 2>&1 | grep 'error:' >/dev/null && {
        # shellcheck disable=SC2086
        for file in $sources; do
            "$format" --style=file --dry-run --Werror "$file" >/dev/null 2>&1 ||
                complain "$file: not formatted (make format)"
        done
    }
    verdict "layout"
else
    skip_test "layout" "inapplicable: there is no clang-format 14"
fi
end_of_tests
