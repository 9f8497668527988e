#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What is made of the tables is what the tree has: the generated parts of the manual, the completion of
# shells, the configuration file, and the licence. DESIGN.md and the notes of docs/decisions are short.

set -eu
src=${MAYFLY_SRCDIR:-.}
. "$src/tests/common/tap.sh"
mayflyd=${MAYFLY_BUILDDIR:-.}/daemon/mayflyd

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

docs=${MAYFLY_BUILDDIR:-.}/tools/docs
made() {
    if ! diff -u "$src/$1" "$dir/made"; then
        complain "$1 is stale: run make docs"
    fi
    verdict "$1"
}

for part in mayflyd-options mayflyd-synopsis mayflyd-settings mayflyd-stats mayflyctl-options mayflyctl-commands; do
    "$docs" "$part" >"$dir/made"
    made "man/$part.inc"
done

for file in etc/mayfly.conf etc/completion/mayflyctl.bash etc/completion/_mayflyctl; do
    "$docs" <"$src/$file.in" >"$dir/made"
    made "$file"
done

python3 "$src/tests/guides/tables.py" || complain "docs/migrating-from-memcached.md is stale: run make docs"
verdict "docs/migrating-from-memcached.md"

python3 "$src/tests/guides/probes.py" || complain "what is made of the table of probes is stale"
verdict "man/mayflyd-probes.inc, etc/bpftrace"

# Each line of the configuration file, alone and all together, says what is the default anyway.
values() {
    "$mayflyd" "$@" --print-config | sed 's/ *# .*//'
}
values >"$dir/defaults"
grep -c '^#[a-z]' "$src/etc/mayfly.conf" >"$dir/count"
[ "$(cat "$dir/count")" = "$(grep -c '^[a-z]' "$dir/defaults")" ] ||
    complain "it has $(cat "$dir/count") options, --print-config $(wc -l <"$dir/defaults") lines"
grep '^#[a-z]' "$src/etc/mayfly.conf" | sed 's/^#//' >"$dir/all"
while read -r line; do
    printf '%s\n' "$line" >"$dir/one"
    values --config "$dir/one" >"$dir/got"
    diff "$dir/defaults" "$dir/got" || complain "not the default: $line"
done <"$dir/all"
values --config "$dir/all" >"$dir/got"
diff "$dir/defaults" "$dir/got" || complain "all lines together are not the defaults"
verdict "etc/mayfly.conf has the defaults"

# The five minutes are recorded answers: those of the tree as it is.
rules=$(grep -c '^ *- \(alert\|record\):' "$src/etc/prometheus/mayfly.rules.yml")
grep -q "SUCCESS: $rules rules found" "$src/docs/five-minutes.md" ||
    complain "docs/five-minutes.md has another number of rules than $rules: run tests/bench/five-minutes"
verdict "docs/five-minutes.md"

# The design is read before a first change, so it has a bound. tests/check_paths.sh checks the names in it.
words=$(wc -w <"$src/DESIGN.md")
[ "$words" -le 10000 ] || complain "DESIGN.md has $words words, 10000 at most: move decisions to docs/decisions"
lines=$(awk '/^mayfly [0-9]/ { releases++ } releases == 1' "$src/NEWS" | wc -l)
[ "$lines" -le 40 ] || complain "NEWS has $lines lines for the latest release, 40 at most: the rest is for the manual"
verdict "DESIGN.md and NEWS are short"

# The numbers of the worker's turn are those of the table: "loop_units (1024)".
sed -n 's/^BUDGET(\([a-z_]*\), *\([0-9]*\), .*/\1 (\2)/p' "$src/lib/base/budgets.def" >"$dir/budgets"
cut -d' ' -f1 "$dir/budgets" >"$dir/names"
tr -d '`' <"$src/DESIGN.md" | grep -oE '[a-z_]+ \([0-9]+\)' | grep -wFf "$dir/names" >"$dir/said" || true
[ -s "$dir/said" ] || complain "DESIGN.md names no budget: this check looks for the wrong thing"
while read -r line; do
    grep -qxF "$line" "$dir/budgets" || complain "not in lib/base/budgets.def: $line"
done <"$dir/said"
verdict "DESIGN.md has the budgets of lib/base/budgets.def"

# A note is "## Subject", the rule in five sentences, "*Why.*", "*Cost.*", in this order and in 150 words.
for page in "$src"/docs/decisions/*.md; do
    awk '
        function end_of_note() {
            if (title == "") {
                return
            }
            if (words > 150) {
                print title ": " words " words, 150 at most"
            }
            if (sentences > 5) {
                print title ": a rule of " sentences " sentences, 5 at most"
            }
            if (parts != "Why Cost ") {
                print title ": has not the rule, one *Why.* and one *Cost.*, in this order"
            }
        }
        /^## / { end_of_note(); title = substr($0, 4); words = 0; sentences = 0; parts = ""; has_rule = 0; notes++ }
        { words += NF }
        /^\*(Why|Cost)\.\*/ { parts = parts (has_rule ? substr($1, 2, length($1) - 3) : "?") " "; next }
        /^[^#]/ { has_rule = 1 }
        parts == "" {
            gsub(/[ (][A-Z]\. /, " ") # initials of authors
            sentences += gsub(/[.!?]( |$)/, "")
        }
        /^###/ { print title ": a note has no parts with headings of their own" }
        END {
            end_of_note()
            if (notes == 0) {
                print "it has no note"
            }
        }' "$page" >"$dir/wrong"
    while read -r line; do
        complain "$line"
    done <"$dir/wrong"
    grep -qF "(docs/decisions/${page##*/})" "$src/DESIGN.md" || complain "DESIGN.md has no link to it"
    verdict "docs/decisions/${page##*/}"
done

# After the line with the version comes COPYING, word for word.
"$mayflyd" -i | sed -e '1,/^Copyright/{/^Copyright/!d}' >"$dir/licence"
if ! diff -u "$src/COPYING" "$dir/licence"; then
    complain "mayflyd -i prints a licence that is not COPYING"
fi
verdict "licence"
end_of_tests
