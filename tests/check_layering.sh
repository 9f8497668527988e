#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Folders depend on each other in one direction. The table below says what each folder may use;
# the check reads the #include lines of the sources and, where there is a build, the symbols of
# the object files, so that a call past the headers is found too. Inside a folder it counts the
# files that call each other in circles. It also says which folder may name which library.

set -eu
build=${MAYFLY_BUILDDIR:-}
cd "${MAYFLY_SRCDIR:-.}"
. tests/common/tap.sh

# FOLDER: what it may use besides itself. A folder stands below those it uses, so the table has no
# circles as long as every name on the right stands on the left in an earlier line.
layers='
lib/base:
lib/link: lib/base
lib/memory: lib/base
lib/index: lib/base lib/memory
lib/expiry: lib/base lib/memory
lib/shard: lib/base lib/memory lib/index lib/expiry
lib/engine: lib/base lib/memory lib/index lib/expiry lib/shard
lib/store: lib/base lib/memory lib/index lib/expiry lib/shard lib/engine
lib/reshard: lib/base lib/memory lib/index lib/expiry lib/shard lib/engine lib/store
lib/ship: lib/base lib/memory lib/index lib/shard lib/engine lib/store
lib/format: lib/base lib/memory lib/engine lib/ship
lib/log: lib/base lib/shard lib/engine lib/ship lib/format
lib/snapshot: lib/base lib/memory lib/index lib/expiry lib/shard lib/engine lib/store lib/ship lib/format lib/log
lib/replica: lib/base lib/memory lib/index lib/expiry lib/shard lib/engine lib/ship lib/format lib/snapshot
proto: lib/base
daemon/base: lib/base
daemon/options: lib/base lib/format lib/log daemon/base
daemon/access: lib/base daemon/base daemon/options
daemon/net: lib/base lib/memory lib/shard daemon/base daemon/options daemon/access
daemon/persist: lib/base lib/engine lib/format lib/log lib/snapshot lib/replica daemon/base daemon/options daemon/access
daemon/worker: lib/base lib/memory lib/expiry lib/shard lib/engine lib/reshard proto daemon/base daemon/options daemon/access daemon/net daemon/persist
daemon/replica: lib/base lib/link lib/engine lib/format lib/replica daemon/base daemon/options daemon/persist daemon/worker
daemon/stats: lib/base lib/memory lib/shard lib/engine lib/store proto daemon/base daemon/options daemon/access daemon/net daemon/persist daemon/worker daemon/replica
daemon/command: lib/base lib/memory lib/shard lib/engine lib/store lib/reshard lib/replica proto daemon/base daemon/options daemon/access daemon/net daemon/persist daemon/worker daemon/replica daemon/stats
daemon/conn: lib/base lib/memory lib/shard lib/engine lib/store proto daemon/base daemon/options daemon/access daemon/net daemon/persist daemon/worker daemon/stats daemon/command
daemon/service: lib/base lib/link lib/engine lib/reshard proto daemon/base daemon/options daemon/access daemon/net daemon/persist daemon/worker daemon/replica daemon/stats daemon/command daemon/conn
daemon: lib/base daemon/base daemon/options daemon/service
ctl: lib/base lib/link lib/format lib/log lib/snapshot proto
tools: lib/base daemon/base daemon/options daemon/stats ctl
'

# FOLDER: how many of its files (a source and its header are one) are in circles of calls.
# Folders that are not named have none. A number may only become smaller, and is lowered here.
circles='
ctl: 4
daemon/command: 3
daemon/net: 4
daemon/options: 2
daemon/service: 6
daemon/worker: 6
lib/shard: 5
'

# Of lib/base the parsers may use only these headers.
proto_headers='lib/base/check.h lib/base/err.h lib/base/load.h lib/base/num.h lib/base/span.h'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Each line of a file is a complaint.
complain_of() {
    while read -r line; do
        complain "$line"
    done <"$1"
}

# ---- the table itself --------------------------------------------------------------------------

printf '%s' "$layers" | awk -F: '
    NF == 0 { next }
    {
        n = split($2, used, " ")
        for (i = 1; i <= n; i++) {
            if (!(used[i] in seen)) {
                printf "%s may not use %s: it does not stand above it in the table\n", $1, used[i]
                bad = 1
            }
        }
        seen[$1] = 1
    }
    END { exit bad }' >"$work/table" || complain_of "$work/table"
verdict "the table has no circles"

# Prints the edges "from to" that the table allows, each folder to itself among them.
printf '%s' "$layers" | awk -F: '
    NF { print $1, $1; n = split($2, used, " "); for (i = 1; i <= n; i++) print $1, used[i] }' \
    >"$work/allowed"

for folder in $(find lib proto daemon ctl tools -name '*.[ch]' -exec dirname {} + | sort -u); do
    grep -qxF "$folder $folder" "$work/allowed" ||
        complain "$folder: not in the table of tests/check_layering.sh"
done
verdict "every folder stands in the table"

# ---- includes ----------------------------------------------------------------------------------

# Prints "file header" for every include of the project.
find lib proto daemon ctl tools -name '*.[ch]' -exec grep -Hno '^ *# *include *"[^"]*"' {} + |
    sed 's/^\([^:]*\):[0-9]*: *# *include *"\([^"]*\)"/\1 \2/' >"$work/includes"

awk -v allowed="$work/allowed" -v proto="$proto_headers" '
    function folder(path) {
        sub("/[^/]*$", "", path)
        return path
    }
    BEGIN {
        while ((getline edge < allowed) > 0) {
            may[edge] = 1
        }
        n = split(proto, list, " ")
        for (i = 1; i <= n; i++) {
            may_proto[list[i]] = 1
        }
    }
    !((folder($1) " " folder($2)) in may) ||
    (folder($1) == "proto" && $2 ~ "^lib/" && !($2 in may_proto)) {
        printf "%s: must not include \"%s\"\n", $1, $2
        bad = 1
    }
    END { exit bad }' "$work/includes" >"$work/wrong" || complain_of "$work/wrong"
verdict "nothing includes upward"

# ---- calls -------------------------------------------------------------------------------------

# Which object uses a symbol that another one defines: the same edges, as the linker sees them.
if [ -n "$build" ] && command -v nm >/dev/null 2>&1; then
    # What is left of a source that is gone or has moved does not count.
    (cd "$build" && find lib proto daemon ctl tools -name '*.o' 2>/dev/null | sort) |
        while read -r object; do
            [ ! -f "${object%.o}.c" ] || printf '%s\n' "$object"
        done >"$work/objects"
    (cd "$build" && xargs nm -A <"$work/objects" 2>/dev/null) >"$work/symbols" || true
    [ -s "$work/symbols" ] || complain "no object file in $build"
    awk -v allowed="$work/allowed" '
        function folder(path) {
            sub("/[^/]*$", "", path)
            return path
        }
        BEGIN {
            while ((getline edge < allowed) > 0) {
                may[edge] = 1
            }
        }
        {
            split($0, part, ":")
            object = part[1]
            kind = $(NF - 1)
            name = $NF
        }
        kind ~ /^[TDBRVW]$/ { home[name] = object }
        kind == "U" { uses[object " " name] = 1 }
        END {
            for (use in uses) {
                split(use, side, " ")
                if (!(side[2] in home)) {
                    continue
                }
                edge = folder(side[1]) " " folder(home[side[2]])
                if (!(edge in may)) {
                    sub("[.]o$", ".c", side[1])
                    printf "%s: must not use %s() of %s\n", side[1], side[2], folder(home[side[2]])
                    bad = 1
                }
            }
            exit bad
        }' "$work/symbols" >"$work/wrong" || complain_of "$work/wrong"
    verdict "nothing calls upward"
else
    skip_test "nothing calls upward" "no build or no nm"
fi

# Which files of a folder call each other in circles: tests/circles.awk. Of two files that define the same
# function, as one with a library and one without, the later counts: so the order is that of the names.
find lib proto daemon ctl tools -name '*.[ch]' | sort | xargs awk -f tests/circles.awk >"$work/circles"
printf '%s' "$circles" | awk -F': *' -v now="$work/circles" '
    NF { may[$1] = $2 }
    END {
        while ((getline line < now) > 0) {
            split(line, part, " ")
            is[part[1]] = part[2]
            if (part[2] > may[part[1]] + 0) {
                printf "%s: %d files are in circles of calls, %d may be\n", part[1], part[2],
                    may[part[1]]
            }
        }
        for (folder in may) {
            if (is[folder] + 0 < may[folder] + 0) {
                printf "%s: %d files are left in circles: lower its number here\n", folder,
                    is[folder]
            }
        }
    }' >"$work/wrong"
if [ -s "$work/wrong" ]; then
    complain_of "$work/wrong"
    complain "the calls: awk -v calls=1 -f tests/circles.awk FOLDER/*.[ch]"
fi
verdict "no circle of calls has grown"

# ---- libraries ---------------------------------------------------------------------------------

find lib proto daemon ctl tools -name '*.[ch]' -exec grep -Hno '^ *# *include *<[^>]*>' {} + |
    sed 's/^\([^:]*\):[0-9]*: *# *include *<\([^>]*\)>/\1 \2/' >"$work/system"
while read -r file header; do
    case $header in
        mimalloc*) [ "$file" = lib/base/mem.c ] || complain "$file: only lib/base/mem.c names mimalloc" ;;
        urcu*)
            case $file in
                lib/base/rcu.[ch]) ;;
                *) complain "$file: only lib/base/rcu.[ch] name liburcu" ;;
            esac
            ;;
        xxhash*) [ "$file" = lib/base/hash.h ] || complain "$file: only lib/base/hash.h names xxhash" ;;
        openssl/*)
            case $file in
                daemon/* | lib/link/link_tls.c) ;;
                *) complain "$file: only daemon/ and lib/link/link_tls.c know $header" ;;
            esac
            ;;
        curses.h | ncurses* | term.h)
            [ "$file" = ctl/top_screen.c ] ||
                complain "$file: only ctl/top_screen.c names ncurses"
            ;;
        readline/*)
            [ "$file" = ctl/line_readline.c ] ||
                complain "$file: only ctl/line_readline.c names readline"
            ;;
        uv.h | uv/* | systemd/* | sasl/*)
            case $file in
                daemon/*) ;;
                *) complain "$file: only daemon/ knows $header" ;;
            esac
            ;;
        zstd.h)
            [ "$file" = lib/format/pack.c ] ||
                complain "$file: only lib/format/pack.c names libzstd"
            ;;
        microhttpd.h)
            [ "$file" = daemon/stats/metrics.c ] ||
                complain "$file: only daemon/stats/metrics.c names libmicrohttpd"
            ;;
        seccomp.h)
            [ "$file" = daemon/service/filter.c ] ||
                complain "$file: only daemon/service/filter.c names libseccomp"
            ;;
        lib/* | proto/* | daemon/* | ctl/*)
            complain "$file: a header of the project in angle brackets: $header"
            ;;
    esac
done <"$work/system"
verdict "libraries are named where they belong"

# Of libuv's functions only uv_async_send() may be called for another thread's loop.
find daemon -name '*.c' -exec grep -lE '\<uv_async_send *\(' {} + >"$work/files" || true
while read -r file; do
    [ "$file" = daemon/base/mailbox.c ] ||
        complain "$file: only daemon/base/mailbox.c calls uv_async_send()"
done <"$work/files"

verdict "loops are woken by mailboxes only"

# Threads are made in one place: named, without signals, from the start where privileges go.
find lib proto daemon ctl tools -name '*.[ch]' -exec grep -lE '^[^*]*\<(pthread|uv_thread)_create *\(' {} + \
    >"$work/files" || true
while read -r file; do
    [ "$file" = lib/base/thread.c ] || complain "$file: makes a thread without lib/base/thread.h"
done <"$work/files"
verdict "threads are made by lib/base/thread.h"

# Allocation is counted and replaced in one place.
find lib proto daemon ctl tools -name '*.[ch]' -exec \
    grep -lE '(^|[^a-z_.>])(malloc|calloc|realloc|free|strdup|strndup)\(' {} + >"$work/files" || true
while read -r file; do
    case $file in
        lib/base/mem.c) ;;
        daemon/base/loop.c) ;;  # libuv releases what it is given
        ctl/line_readline.c) ;; # readline allocates, and releases what it is given
        *) complain "$file: allocates without lib/base/mem.h" ;;
    esac
done <"$work/files"
verdict "memory comes from lib/base/mem.h"
end_of_tests
