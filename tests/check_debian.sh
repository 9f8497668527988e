#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The Debian package says what the tree says: its version, what it is built with, and what it names.

set -eu
cd "${MAYFLY_SRCDIR:-.}"
. tests/common/tap.sh

if [ ! -d debian ]; then
    skip_all "inapplicable: a tarball has no debian/"
fi

version=$(sed -n 's/^AC_INIT(\[mayfly\], \[\(.*\)\])/\1/p' configure.ac)
packaged=$(sed -n '1s/^mayfly (\(.*\)-[^-]*) .*/\1/p' debian/changelog)
if [ -z "$version" ] || [ "$version" != "$packaged" ]; then
    complain "configure.ac has $version, debian/changelog $packaged"
fi
verdict "the version"

# What bootstrap installs for a build. These the package gets by others, or with the base system.
implied=' gcc libc6-dev make autoconf automake pkg-config '
for pair in $(sed -n "/^build_packages='/,/'\$/p" bootstrap | tr -d "'" | sed 's/^build_packages=//'); do
    package=${pair%%:*}
    case $implied in
        *" $package "*) ;;
        *) grep -q "^ $package\(,\| \|\$\)" debian/control || complain "debian/control: $package is not in Build-Depends" ;;
    esac
done
verdict "what it is built with"

while read -r file _; do
    [ -e "$file" ] || complain "a list in debian/ names $file, which is not there"
done <<LISTS
$(cat debian/mayfly.install debian/mayfly.docs debian/mayfly.examples)
LISTS
[ -x debian/rules ] || complain "debian/rules cannot be run"
named=$(sed -n 's/^Tests: //p' debian/tests/control | tr ' ' '\n' | sort)
there=$(find debian/tests -type f ! -name control -printf '%f\n' | sort)
[ "$named" = "$there" ] || complain "debian/tests/control does not name the tests beside it"
for test in $named; do
    [ -x "debian/tests/$test" ] || complain "debian/tests/$test cannot be run"
done
verdict "what it names"

# What the package's script does to a root without a package, by commands that only write down how they
# were called. $1: the system manager runs (run) or not (image); $2: what else is there; $3: the version
# that was installed before.
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
after_installation() {
    rm -rf "${root:?}"/*
    mkdir -p "$root/bin" "$root/proc/net" "$root/etc/mayfly" "$root/run"
    [ "$1" = image ] || mkdir -p "$root/run/systemd/system"
    for command in deb-systemd-helper deb-systemd-invoke systemctl mayflyd; do
        cat >"$root/bin/$command" <<'STUB'
#!/bin/sh
echo "${0##*/} $*" >>"$DPKG_ROOT/calls"
case "${0##*/} $*" in
    mayflyd*) cat "$DPKG_ROOT/etc/mayfly/mayfly.conf" ;;
    *is-active*) [ -e "$DPKG_ROOT/active" ] ;;
    *is-enabled\ memcached*) [ -e "$DPKG_ROOT/memcached-enabled" ] ;;
esac
STUB
        chmod +x "$root/bin/$command"
    done
    echo 'port = 11211     # default' >"$root/etc/mayfly/mayfly.conf"
    # Port 11211 on the loopback address: a connection, then perhaps a server.
    echo '   0: 0100007F:2BCB 0100007F:8F52 01 00000000:00000000' >"$root/proc/net/tcp"
    echo '   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A' \
        >"$root/proc/net/tcp6"
    case $2 in
        server) echo '   1: 0100007F:2BCB 00000000:0000 0A 00000000:00000000' >>"$root/proc/net/tcp" ;;
        server6) sed -i 's/:0016/:2BCB/' "$root/proc/net/tcp6" ;;
        other-port)
            echo '   1: 0100007F:2BCB 00000000:0000 0A 00000000:00000000' >>"$root/proc/net/tcp"
            echo 'port = 11311 # /etc/mayfly/mayfly.conf:1' >"$root/etc/mayfly/mayfly.conf"
            ;;
        itself)
            echo '   1: 0100007F:2BCB 00000000:0000 0A 00000000:00000000' >>"$root/proc/net/tcp"
            : >"$root/active"
            ;;
        memcached-enabled) : >"$root/memcached-enabled" ;;
    esac
    DPKG_ROOT=$root PATH=$root/bin:$PATH sh debian/mayfly.postinst configure "$3" 2>"$root/said" ||
        complain "$*: the script fails: $(cat "$root/said")"
}

# $1: enabled, started, both or neither; the rest as above.
expect_after() {
    want=$1
    shift
    after_installation "$@"
    got=
    grep -q '^deb-systemd-helper enable mayflyd.service' "$root/calls" && got=enabled
    if grep -q '^deb-systemd-invoke start mayflyd.service' "$root/calls"; then
        got=${got:+both}
        got=${got:-started}
    fi
    [ "${got:-neither}" = "$want" ] || complain "$*: ${got:-neither}, not $want"
    case $want in
        neither) grep -q 'systemctl enable --now mayflyd' "$root/said" || complain "$*: it does not say what to do" ;;
        *) [ ! -s "$root/said" ] || complain "$*: it says $(cat "$root/said")" ;;
    esac
}
expect_after both run nothing ''
expect_after neither run server ''
expect_after neither run server6 ''
expect_after both run other-port ''
expect_after started run nothing 0.1.0-1
expect_after started run itself 0.1.0-1
expect_after neither run server 0.1.0-1
expect_after enabled image server ''
expect_after neither image memcached-enabled ''
verdict "an installation takes no port from another server"

# debhelper makes no stop for a service that it does not start.
grep -q 'no-start --restart-after-upgrade mayflyd.service' debian/rules || complain "an upgrade restarts nothing"
after_installation run itself 0.1.0-1
: >"$root/calls"
for why in upgrade remove; do
    DPKG_ROOT=$root PATH=$root/bin:$PATH sh debian/mayfly.prerm "$why" || complain "mayfly.prerm $why fails"
    stops=$(grep -c '^deb-systemd-invoke stop .*mayflyd.service' "$root/calls") || true
    case $why:$stops in
        upgrade:0 | remove:1) ;;
        *) complain "mayfly.prerm $why: $stops stops of the service" ;;
    esac
done
verdict "a removal stops the service, an upgrade restarts it"

mkdir -p "$root/var/lib/mayfly/memory"
: >"$root/var/lib/mayfly/mayfly.snapshot"
DPKG_ROOT=$root sh debian/mayfly.postrm remove || complain "the removal fails"
[ -e "$root/var/lib/mayfly/mayfly.snapshot" ] || complain "a removal takes the data"
DPKG_ROOT=$root sh debian/mayfly.postrm purge || complain "the purge fails"
[ ! -e "$root/var/lib/mayfly" ] || complain "a purge leaves the data"
verdict "a purge removes the data, a removal does not"
end_of_tests
