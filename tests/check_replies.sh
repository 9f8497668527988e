#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Every fixed reply is a row of proto/replies.def or proto/bin_replies.def, every row is sent by
# something, and no reply is spelled out anywhere else.

set -eu
cd "${MAYFLY_SRCDIR:-.}"
. tests/common/tap.sh

rows=$(mktemp)
trap 'rm -f "$rows"' EXIT

sources=$(find lib proto daemon -name '*.[ch]' -print | sort)

# A string that begins like a word and ends a line, or begins like an error. Lines made of parts
# and formats ("VALUE ", "PREFIX %s") are not fixed replies.
# shellcheck disable=SC2086
literals=$(grep -nE '"[[:alpha:]][^"%]*\\r\\n"|"(CLIENT_|SERVER_)?ERROR[ "\\]' $sources |
    grep -vE '^[^:]*:[0-9]*: *(/?\*)' || true)
if [ -n "$literals" ]; then
    complain "$literals"
    complain "replies outside of proto/replies.def and proto/bin_replies.def"
fi
verdict "replies are rows"

# The same text twice: one of the two rows would be changed alone one day.
twice=$(sed -n 's/^REPLY([A-Z_]*, *\("[^"]*"\))$/\1/p' proto/replies.def | sort | uniq -d)
[ -z "$twice" ] || complain "proto/replies.def: two rows for $twice"
verdict "rows are unique"

# shellcheck disable=SC2086
used=$(grep -hvE '^ *(/?\*)' $sources proto/meta_flags.def | grep -oE '\<(BIN_)?REPLY_[A-Z_]+(\([A-Z_]+\))?' |
    sed 's/REPLY_\(BYTES\|LEN\)(\(.*\))/REPLY_\2/' | sort -u)
sed -n 's/^\(BIN_REPLY\|REPLY\)(\([A-Z_]*\),.*/\1_\2/p' proto/replies.def proto/bin_replies.def |
    sort >"$rows"
unused=$(printf '%s\n' "$used" | comm -13 - "$rows")
[ -z "$unused" ] || complain "nothing sends these replies: $unused"
verdict "rows are used"
end_of_tests
