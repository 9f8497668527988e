#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Command lines against the program itself: which are refused, with
# which status and message, and which start a server that serves and stops. memcached has to refuse
# what both know with the same status.

set -u
. "${MAYFLY_SRCDIR:-.}/tests/common/tap.sh"
mayflyd=${MAYFLY_BUILDDIR:-.}/daemon/mayflyd

if [ ! -x "$mayflyd" ]; then
    skip_all "$mayflyd is not built"
fi
if ! command -v nc >/dev/null 2>&1; then
    skip_all "nc is not installed"
fi

dir=$(mktemp -d) || exit 1
pid=
mkfifo "$dir/log" || exit 1
cleanup() {
    if [ -n "$pid" ]; then
        kill -KILL "$pid" 2>/dev/null
    fi
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# Root has to name a user; most of these command lines test something else.
user=
if [ "$(id -u)" = 0 ]; then
    user='-u root'
fi

# refused STATUS MESSAGE ARGUMENT...
refused() {
    status=$1
    message=$2
    shift 2
    # shellcheck disable=SC2086 # user is two words or none
    timeout 100 "$mayflyd" $user "$@" >"$dir/out" 2>&1 </dev/null
    got=$?
    if [ "$got" != "$status" ]; then
        complain "mayflyd $*: status $got, not $status ($(head -n 1 "$dir/out"))"
    elif ! grep -qF -- "$message" "$dir/out"; then
        complain "mayflyd $*: does not say \"$message\" but \"$(head -n 1 "$dir/out")\""
    fi
    verdict "mayflyd $*"
}

# The same, and memcached ends with the same status.
refused_by_both() {
    refused "$@"
    shift 2
    if ! command -v memcached >/dev/null 2>&1; then
        skip_test "memcached $*" "memcached is not installed"
        return
    fi
    # shellcheck disable=SC2086
    timeout 100 memcached $user -p 0 -s "$dir/oracle" "$@" >"$dir/out" 2>&1 </dev/null
    got=$?
    if [ "$got" != "$status" ]; then
        complain "memcached $*: status $got, not $status ($(head -n 1 "$dir/out"))"
    fi
    verdict "memcached $*"
}

# printed TEXT ARGUMENT...: ends with 0 and has that text on standard output.
printed() {
    message=$1
    shift
    timeout 100 "$mayflyd" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    got=$?
    if [ "$got" != 0 ] || [ -s "$dir/err" ] || ! grep -qF -- "$message" "$dir/out"; then
        complain "mayflyd $*: status $got, not printing \"$message\""
    fi
    verdict "mayflyd $*"
}

# ask COMMAND: prints the answer of the running server.
ask() {
    printf '%s\r\nquit\r\n' "$1" | timeout 100 nc -U "$dir/socket" | tr -d '\r'
}

# gone FILE: waits until a stopping server has removed it.
gone() {
    turns=0
    while [ -e "$1" ] && [ "$turns" -lt 5000 ]; do
        turns=$((turns + 1))
        sleep 0.02
    done
    [ ! -e "$1" ]
}

# left_nothing ARGUMENT...: a server that ended has removed its files.
left_nothing() {
    for left in "$dir/pid" "$dir/socket"; do
        if [ -e "$left" ]; then
            complain "mayflyd $*: leaves ${left##*/}"
            rm -f "$left"
        fi
    done
}

# serves LINE ARGUMENT...: starts on a socket, shows that line in `stats settings`, and stops on
# SIGTERM with status 0, leaving no file. Its log says when it is ready.
serves() {
    line=$1
    shift
    : >"$dir/out"
    # shellcheck disable=SC2086
    "$mayflyd" $user -v -P "$dir/pid" -s "$dir/socket" -t 1 "$@" >/dev/null 2>"$dir/log" \
        </dev/null &
    pid=$!
    exec 3<"$dir/log"
    is_ready=no
    while read -r said <&3; do
        printf '%s\n' "$said" >>"$dir/out"
        case $said in
            *'server, is ready'*)
                is_ready=yes
                break
                ;;
        esac
    done
    exec 3<&-
    if [ "$is_ready" = yes ]; then
        if [ "$(cat "$dir/pid" 2>/dev/null)" != "$pid" ]; then
            complain "mayflyd $*: is not in its pid file"
        fi
        if ! ask 'stats settings' | grep -qxF -- "STAT $line"; then
            complain "mayflyd $*: does not show \"$line\""
        fi
        kill -TERM "$pid"
    else
        complain "mayflyd $*: does not start ($(tail -n 1 "$dir/out"))"
    fi
    wait "$pid"
    got=$?
    pid=
    if [ "$is_ready" = yes ] && [ "$got" != 0 ]; then
        complain "mayflyd $*: stops with status $got"
    fi
    left_nothing "$@"
    verdict "mayflyd $*"
}

# ---- refused: memcached takes the part of these that it can read ---------------------------------

refused 64 '-5 is out of range' -m -5
refused 64 '"12abc" is not a number' -m 12abc
refused 64 '"abc" is not a number' -p abc
refused 64 '99999 is out of range' -U 99999
refused 64 '"" is not a number' --port=
refused 64 'is not an octal number' -a 999
refused 64 'is not one character' -D ab
refused 1 '-1 is out of range' -n -1
refused 1 'mayflyd: stray: not an option' stray
refused 1 'mayflyd: stray: not an option' -m 64 stray
refused 1 '"abc" is not a number' -o idle_timeout=abc

# ---- refused by both ---------------------------------------------------------------------------

refused_by_both 64 '-m: the largest item (-I 1m) is more than half' -m 1
refused_by_both 64 'is not a number' -m abc
refused_by_both 64 'out of range' -p 65536
refused_by_both 1 'out of range' -c 0
refused_by_both 1 'out of range' -t 0
refused_by_both 1 'out of range' -R 0
refused_by_both 1 'out of range' -n 0
refused_by_both 1 'out of range' -f 1
refused_by_both 64 'out of range' -I 1023
refused_by_both 64 'out of range' -I 1025m -m 4096
refused_by_both 64 '-I: the largest item (-I 33m) is more than half' -I 33m
refused_by_both 64 'is not one of' -B foo
refused_by_both 1 'out of range' -N 0
refused_by_both 64 'cannot be greater than number of threads' -N 5
refused_by_both 1 '-p: a value is missing' -p
refused_by_both 1 'mayflyd: -q: unknown option' -q
refused_by_both 1 'mayflyd: --bogus: unknown option' --bogus
refused_by_both 1 '-o foo: unknown option' -o foo
refused_by_both 1 '-o: the name of an option is missing' -o lru_crawler,,track_sizes
refused_by_both 1 '-o relaxed_privilege: unknown option' -o relaxed_privilege
refused_by_both 1 'a value is missing' -o hashpower
refused_by_both 1 'out of range' -o hashpower=11
refused_by_both 1 'out of range' -o hashpower=33
refused_by_both 1 'out of range' -o slab_automove=9
refused_by_both 1 'out of range' -o slab_automove_ratio=2
refused_by_both 1 'out of range' -o slab_automove_window=1
refused_by_both 1 'out of range' -o tail_repair_time=5
refused_by_both 1 'is not one of' -o hash_algorithm=foo
refused_by_both 1 'out of range' -o lru_crawler_sleep=2000000
refused_by_both 1 'out of range' -o hot_lru_pct=80
refused_by_both 1 'out of range' -o hot_max_factor=0
refused_by_both 64 'cannot be more than 80% combined' -o hot_lru_pct=60,warm_lru_pct=60
refused_by_both 64 '-o temporary_ttl: requires lru_maintainer' -o temporary_ttl=9,no_lru_maintainer
refused_by_both 1 'a value is missing' -o read_buf_mem_limit
refused_by_both 1 'is not a number' -o watcher_logbuf_size=abc
refused_by_both 71 '-c: 2000000000 connections are more than the limit on open files allows' -c 2000000000
refused_by_both 1 'No such file' -s "$dir/socket" -Y "$dir/no/such/file"
refused_by_both 1 '-Y: a value is missing' -Y
refused_by_both 64 'SASL' -S -B auto
refused_by_both 64 'SASL' -S -B ascii
refused_by_both 64 'SASL' -S -U 11211
refused 64 'SASL' -S -U -1
refused_by_both 64 'cannot allow the BINARY protocol' -Y "$dir/users" -B auto
refused_by_both 64 'cannot allow the BINARY protocol' -Y "$dir/users" -B binary
refused_by_both 64 'cannot use UDP with a file of users' -Y "$dir/users" -U 11211
refused 64 'cannot use UDP with a file of users' -Y "$dir/users" -U -1
refused 71 'speak one protocol' -Y "$dir/users" -l 'proto[auto]:127.0.0.1:0'
refused 71 'speak one protocol' -S -l 'proto[ascii]:127.0.0.1:0'
refused 71 'speak one protocol' -S -l 'proto[auto]:127.0.0.1:0'

# ---- refused: not built in ----------------------------------------------------------------------

refused 64 'not built with external storage' -o ext_path=/x:1G
refused 64 'not built with proxy' -o proxy_config=x

# ---- TLS ----------------------------------------------------------------------------------------

if "$mayflyd" -Z 2>&1 </dev/null | grep -q 'not built with TLS'; then
    refused 64 'not built with TLS' -Z
    refused 64 'not built with TLS' -o ssl_chain_cert=x
else
    refused 64 'without a certificate' -Z
    refused_by_both 64 'without a TCP port' -Z -p 0 -s "$dir/s" -o ssl_chain_cert=x
    refused_by_both 1 '-o ssl_chain_cert: a value is missing' -o ssl_chain_cert
    refused_by_both 1 '4 is out of range (0 to 3)' -o ssl_verify_mode=4
    refused_by_both 1 'is not one of 0 1 2 3' -o ssl_min_version=4
    refused_by_both 1 'is not a number' -o ssl_wbuf_size=x
    refused 64 'mayflyd: -Z: Error loading the certificate chain: /no/such : ' -Z -o ssl_chain_cert=/no/such
fi

# ---- addresses and sockets ----------------------------------------------------------------------

# A host name that is too long is not looked up, so no answer of a network is waited for.
refused 71 '' -l "$(printf '%070d' 0 | tr 0 x).invalid"
refused 71 '' -s "$dir/no/such/folder"

# ---- users --------------------------------------------------------------------------------------

if [ -n "$user" ]; then
    user=
    refused_by_both 64 'mayflyd: -u: missing, and root does not serve'
    refused_by_both 67 'mayflyd: -u: there is no user no-such-user to switch to' -u no-such-user
    user='-u root'
else
    skip_test "users" "inapplicable: not root"
fi

# ---- information --------------------------------------------------------------------------------

printed 'mayflyd ' -V
printed 'memcached 1.6.45' --version
printed '--memory-limit' -h
printed 'Redistribution and use in source and binary forms' -i

# ---- what starts --------------------------------------------------------------------------------

serves "domain_socket $dir/socket"
serves 'maxbytes 104857600' -m 100
serves 'maxbytes 104857600' '-m 100' '-t 1'
serves 'umask 777' -a 777
serves 'evictions off' -M
serves 'cas_enabled no' --disable-cas
serves 'flush_enabled no' -F -X -W
serves 'detail_enabled yes' -D /
serves 'item_size_max 2097152' -I 2m
serves 'maxconns 10' -c 10
serves 'growth_factor 1.50' -f 1.5 -n 64 -L -N 1
serves 'growth_factor 1.30' --slab-growth-factor=1.3 --enable-largepages
serves 'binding_protocol ascii' -B ascii -U 0 -b 5 -R 7
serves 'lru_crawler no' -o no_lru_crawler,no_maxconns_fast,slab_reassign,modern
serves 'hash_algorithm xxh3' -o hash_algorithm=xxh3 -o temporary_ttl=100,no_hashexpand
serves 'lock_memory yes' -k -r
serves "memory_file $dir/memory" -e "$dir/memory"
serves 'expire_effort 3' --expire-effort=3 --hz 20 --no-dynamic-hz

# Nothing listens there: the start does not depend on it.
NOTIFY_SOCKET=/nonexistent/notify
export NOTIFY_SOCKET
serves 'verbosity 1'
unset NOTIFY_SOCKET

# Sockets that no service manager passed.
LISTEN_FDS=nonsense LISTEN_PID=-1
export LISTEN_FDS LISTEN_PID
serves 'verbosity 1'
LISTEN_FDS=99 LISTEN_PID=1
serves 'verbosity 1'
unset LISTEN_FDS LISTEN_PID

if [ -n "$user" ]; then
    user='-u nobody'
    chmod 0777 "$dir"
    serves 'num_threads 1'
    chmod 0700 "$dir"
    user='-u root'
else
    skip_test "another user" "inapplicable: not root"
fi

# ---- the background -----------------------------------------------------------------------------

# The command returns when the server answers; a pid file that cannot be written is only a message.
# shellcheck disable=SC2086
timeout 100 "$mayflyd" $user -d -A -P "$dir/none/pid" -s "$dir/socket" -t 1 >"$dir/out" 2>&1 \
    </dev/null
got=$?
if [ "$got" != 0 ]; then
    complain "a pid file that cannot be written ends the start (status $got)"
else
    grep -qF 'cannot write the pid file' "$dir/out" || complain "no message about the pid file"
    ask shutdown >/dev/null
    # A server that starts in its place meanwhile would lose its socket.
    gone "$dir/socket" || complain "mayflyd -d: does not stop"
fi
verdict "mayflyd -d, no pid file"

# The same with a pid file; removing it is the last thing that the server does.
# shellcheck disable=SC2086
timeout 100 "$mayflyd" $user -d -A -P "$dir/pid" -s "$dir/socket2" -t 1 >"$dir/out" 2>&1 </dev/null
got=$?
pid=$(cat "$dir/pid" 2>/dev/null)
if [ "$got" != 0 ] || [ -z "$pid" ] || [ -s "$dir/out" ]; then
    complain "mayflyd -d: status $got, pid \"$pid\" ($(head -n 1 "$dir/out"))"
else
    kill -TERM "$pid"
    if gone "$dir/pid"; then
        pid=
    else
        complain "mayflyd -d: does not stop"
    fi
fi
verdict "mayflyd -d, with a pid file"

# Closed standard descriptors: no socket gets their numbers, so no message of the server reaches a
# client, whatever happens at -vvv.
# shellcheck disable=SC2086
"$mayflyd" $user -d -vvv -A -s "$dir/socket" -t 1 <&- >&- 2>&-
got=$?
said=$(ask version)
if [ "$got" != 0 ] || [ "$said" != 'VERSION 1.6.45' ]; then
    complain "closed descriptors: status $got, \"$said\""
fi
if [ "$got" = 0 ]; then
    ask shutdown >/dev/null
    gone "$dir/socket" || complain "closed descriptors: does not stop"
fi
verdict "mayflyd -d, standard descriptors closed"

# An address that cannot be opened: the parent reports it.
user_saved=$user
user="$user -d"
refused 71 '' -s "$dir/no/such/folder"
user=$user_saved

end_of_tests
