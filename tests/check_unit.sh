#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The unit files, as built: systemd understands them, and finds the services hardened.

set -eu
build=${MAYFLY_BUILDDIR:-.}
source=${MAYFLY_SRCDIR:-.}
. "$source/tests/common/tap.sh"

if ! command -v systemd-analyze >/dev/null 2>&1; then
    skip_all "systemd-analyze is not installed"
fi

# In tenths: of a service that opens its sockets, and of one that gets them.
opens=11
activated=4

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The program may not be installed yet, and systemd checks that it is there.
for unit in mayflyd.service mayflyd@.service; do
    sed "s|^ExecStart=[^ ]*|ExecStart=$build/daemon/mayflyd|" "$build/systemd/$unit" >"$dir/$unit"
done
cp "$dir/mayflyd@.service" "$dir/mayflyd@one.service"
cp "$source/systemd/mayflyd.socket" "$source/systemd/mayflyd-metrics.socket" "$dir"

for unit in mayflyd.service mayflyd@one.service mayflyd.socket mayflyd-metrics.socket; do
    out=$(SYSTEMD_UNIT_PATH="$dir:" systemd-analyze verify --man=no "$dir/$unit" 2>&1) || {
        printf '%s\n' "$out"
        complain "systemd does not understand $unit"
    }
    # It also reports lines that it does not know, without failing.
    if printf '%s\n' "$out" | grep -F "$dir/"; then
        complain "systemd ignores a line of $unit"
    fi
done
verdict "systemd understands the units"

# Each instance has its own options and folders, and nothing else differs.
if grep -nE '(/default/mayflyd|/run/mayfly|/mayfly\.conf|^(Runtime|State)Directory=mayfly)( |$)' "$dir/mayflyd@.service"; then
    complain "instances share something"
fi
diff "$dir/mayflyd.service" "$dir/mayflyd@.service" >"$dir/diff" || true
if grep '^[<>]' "$dir/diff" | grep -vE 'Description=|EnvironmentFile=|ExecStart=|(Runtime|State)Directory=|/var/lib/mayfly|-s /run/mayfly'; then
    complain "an instance differs in more than its name"
fi
verdict "instances have their own options and folders"

# exposure UNIT THRESHOLD
exposure() {
    if ! SYSTEMD_UNIT_PATH="$dir:" systemd-analyze security --offline=yes --no-pager --threshold="$2" \
        "$dir/$1" >"$dir/security"; then
        cat "$dir/security"
        complain "the exposure of $1 is over $2 tenths"
    fi
    tail -n 1 "$dir/security"
}
exposure mayflyd.service "$opens"
exposure mayflyd@one.service "$opens"
mkdir "$dir/mayflyd.service.d"
cp "$source/systemd/mayflyd-activated.conf" "$dir/mayflyd.service.d"
exposure mayflyd.service "$activated"
verdict "the services are hardened"
end_of_tests
