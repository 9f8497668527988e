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
$(cat debian/mayfly.install debian/mayfly.docs)
LISTS
[ -x debian/rules ] || complain "debian/rules cannot be run"
named=$(sed -n 's/^Tests: //p' debian/tests/control | tr ' ' '\n' | sort)
there=$(find debian/tests -type f ! -name control -printf '%f\n' | sort)
[ "$named" = "$there" ] || complain "debian/tests/control does not name the tests beside it"
for test in $named; do
    [ -x "debian/tests/$test" ] || complain "debian/tests/$test cannot be run"
done
verdict "what it names"
end_of_tests
