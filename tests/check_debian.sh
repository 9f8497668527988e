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
for file in debian/rules debian/tests/serves; do
    [ -x "$file" ] || complain "$file cannot be run"
done
verdict "what it names"
end_of_tests
