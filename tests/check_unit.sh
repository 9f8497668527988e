#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The unit file, as built: systemd understands it, and finds it hardened to 2.0 or less.

set -eu
build=${MAYFLY_BUILDDIR:-.}
unit=$build/systemd/mayflyd.service
. "${MAYFLY_SRCDIR:-.}/tests/common/tap.sh"

if ! command -v systemd-analyze >/dev/null 2>&1; then
    skip_all "systemd-analyze is not installed"
fi

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The program may not be installed yet, and systemd checks that it is there.
sed "s|^ExecStart=[^ ]*|ExecStart=$build/daemon/mayflyd|" "$unit" >"$dir/mayflyd.service"

out=$(systemd-analyze verify --man=no "$dir/mayflyd.service" 2>&1) || {
    printf '%s\n' "$out"
    complain "systemd does not understand it"
}
# It also reports lines that it does not know, without failing.
if printf '%s\n' "$out" | grep -F "$dir/mayflyd.service"; then
    complain "systemd ignores a line"
fi
verdict "systemd understands the unit"

# The threshold is in tenths.
if ! systemd-analyze security --offline=yes --no-pager --threshold=20 "$dir/mayflyd.service" \
    >"$dir/security"; then
    cat "$dir/security"
    complain "the exposure is over 2.0"
fi
tail -n 1 "$dir/security"
verdict "the unit is hardened"
end_of_tests
