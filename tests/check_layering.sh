#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Nothing includes upward: reads the #include lines of lib/, proto/ and daemon/ and fails on a
# forbidden edge. Also: who may name which library.

set -eu
cd "${MAYFLY_SRCDIR:-.}"
. tests/common/tap.sh

# Prints "file:header" for every project include (quotes) below a folder.
own_includes() {
    find "$1" -name '*.[ch]' -exec grep -Hno '^ *# *include *"[^"]*"' {} + |
        sed 's/^\([^:]*\):[0-9]*: *# *include *"\([^"]*\)"/\1:\2/'
}

# The same for system includes (angle brackets).
system_includes() {
    find "$1" -name '*.[ch]' -exec grep -Hno '^ *# *include *<[^>]*>' {} + |
        sed 's/^\([^:]*\):[0-9]*: *# *include *<\([^>]*\)>/\1:\2/'
}

for folder in lib proto daemon; do
    if [ ! -d "$folder" ]; then
        continue
    fi
    for edge in $(own_includes "$folder"); do
        file=${edge%%:*}
        header=${edge#*:}
        case $folder/$header in
            lib/lib/*) ;;
            proto/proto/*) ;;
            proto/lib/base/check.h | proto/lib/base/err.h | proto/lib/base/span.h | proto/lib/base/num.h | proto/lib/base/buf.h) ;;
            daemon/daemon/* | daemon/proto/* | daemon/lib/*) ;;
            *) complain "$file: must not include \"$header\"" ;;
        esac
    done
    for edge in $(system_includes "$folder"); do
        file=${edge%%:*}
        header=${edge#*:}
        case $header in
            mimalloc*) [ "$file" = lib/base/mem.c ] || complain "$file: only lib/base/mem.c names mimalloc" ;;
            urcu*) case $file in lib/base/rcu.[ch]) ;; *) complain "$file: only lib/base/rcu.[ch] name liburcu" ;; esac ;;
            xxhash*) [ "$file" = lib/base/hash.h ] || complain "$file: only lib/base/hash.h names xxhash" ;;
            uv.h | uv/*)
                [ "$folder" = daemon ] || complain "$file: only daemon/ knows libuv"
                ;;
            systemd/*)
                [ "$folder" = daemon ] || complain "$file: only daemon/ knows systemd"
                ;;
            lib/* | proto/* | daemon/*)
                complain "$file: a header of the project in angle brackets: $header"
                ;;
        esac
    done
done

# Of libuv's functions only uv_async_send() may be called for another thread's loop.
for file in $(grep -lE '\<uv_async_send *\(' daemon/*.c daemon/*/*.c 2>/dev/null || true); do
    [ "$file" = daemon/base/mailbox.c ] || complain "$file: only daemon/base/mailbox.c calls uv_async_send()"
done

# Allocation is counted and replaced in one place.
for file in $(grep -lE '(^|[^a-z_.>])(malloc|calloc|realloc|free|strdup|strndup)\(' \
    lib/*/*.[ch] proto/*.[ch] daemon/*.[ch] daemon/*/*.[ch] 2>/dev/null || true); do
    [ "$file" = lib/base/mem.c ] || complain "$file: allocates without lib/base/mem.h"
done

verdict "nothing includes upward"
end_of_tests
