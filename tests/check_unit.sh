#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The unit file, as built: systemd understands it, and finds it hardened to 2.0 or less.

set -eu
build=${MAYFLY_BUILDDIR:-.}
unit=$build/systemd/mayflyd.service

if ! command -v systemd-analyze >/dev/null 2>&1; then
    echo "systemd-analyze is not here"
    exit 77
fi

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The program may not be installed yet, and systemd looks whether it is there.
sed "s|^ExecStart=[^ ]*|ExecStart=$build/daemon/mayflyd|" "$unit" >"$dir/mayflyd.service"

out=$(systemd-analyze verify --man=no "$dir/mayflyd.service" 2>&1) || {
    printf '%s\n' "$out"
    exit 1
}
# It also complains, without failing, about lines that it does not know.
if printf '%s\n' "$out" | grep -F "$dir/mayflyd.service"; then
    exit 1
fi

# The threshold is in tenths.
if ! systemd-analyze security --offline=yes --no-pager --threshold=20 "$dir/mayflyd.service" \
    >"$dir/security"; then
    cat "$dir/security"
    exit 1
fi
tail -n 1 "$dir/security"
