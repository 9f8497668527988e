#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What the documents name exists: files and folders, link targets and their headings, and in
# backticks functions (with parentheses), identifiers (with an underscore) and options (--name and
# -o name). A function that is said to be in a file, "`f()` in `file`" or "`f()` (`file`)", is found
# there. And what the source calls a heading of a document ("..." in docs/decisions/shard.md) is one.

set -eu
cd "${MAYFLY_SRCDIR:-.}"
. tests/common/tap.sh

documents="README.md DESIGN.md HACKING.md NEWS $(echo docs/*.md docs/decisions/*.md)"
folders="lib proto daemon ctl tests man systemd etc"

LC_ALL=C # so that all lists are in one order
export LC_ALL
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# ---- what there is -----------------------------------------------------------------------------

# shellcheck disable=SC2086
find $folders .ci bootstrap configure.ac Makefile.am -type f ! -name '*.o' ! -name '*~' \
    ! -name '*.pyc' ! -name check_paths.sh >"$dir/files"
# shellcheck disable=SC2046
cat $(cat "$dir/files") >"$dir/text"
tr -cs 'A-Za-z0-9_' '\n' <"$dir/text" | sort -u >"$dir/words"
grep -aoE '[A-Za-z_][A-Za-z0-9_]* ?\(' "$dir/text" | tr -d ' (' | sort -u >"$dir/calls"

# Names in the tables of options, those that a build has, and those that a script of the tree uses.
{
    find daemon/options ctl lib/base -name '*.def' -exec grep -ohE '"[a-z][a-z0-9_-]*"' {} +
    sed -n 's/^ *AC_ARG_\(ENABLE\|WITH\)(\[\([a-z-]*\)\].*/enable-\2 disable-\2 with-\2 without-\2/p' configure.ac |
        tr ' ' '\n'
    grep -aoE -e '--[a-z][a-z0-9-]*' "$dir/text"
} | tr -d '"' | sed 's/^--//' | tr - _ | sort -u >"$dir/options"

exists() {
    # A path may be a pattern; a program of one file is named without its .c.
    for file in $1 $1.c; do
        if [ -e "$file" ]; then
            return 0
        fi
    done
    return 1
}

# Prints those of its lines that such a list has not.
not_among() {
    sort -u | comm -23 - "$dir/$1"
}

# ---- what is named: one thing on each line -----------------------------------------------------

# Anything that begins with a folder of the tree is a path; a name to fill in (<file>) ends it.
paths_in() {
    grep -oE "(^|[^A-Za-z0-9_./-])($(echo "$folders" | tr ' ' '|'))/[A-Za-z0-9_./*-]*<?" "$1" |
        sed -e 's/^[^a-z]//' -e 's/[^/]*<$//' -e 's/[.-]*$//' | sort -u
}

in_backticks() {
    # shellcheck disable=SC2016
    grep -oE '`[^`]+`' "$1" | tr -d '`' | sort -u
}

functions_in() {
    in_backticks "$1" | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)()$/\1/p'
}

identifiers_in() {
    in_backticks "$1" | sed -n -e 's/^\([A-Za-z][A-Za-z0-9]*_[A-Za-z0-9_]*\)$/\1/p' \
        -e 's/^\(struct\|enum\) \([a-z0-9_]*\)$/\2/p'
}

# "function file" for each function that is said to be in a file.
functions_in_files() {
    # shellcheck disable=SC2016
    tr -s '\n ' '  ' <"$1" | grep -oE '`[A-Za-z0-9_]+\(\)` (in |\()`[A-Za-z0-9_./]+`' |
        sed 's/^`\([A-Za-z0-9_]*\)()` [^`]*`\([^`]*\)`$/\1 \2/' | sort -u
}

# Options alone and in commands of mayfly; other programs have theirs.
options_in() {
    in_backticks "$1" | grep -E '^(-|mayfly)' | grep -oE -e '(^| )(--[a-z][a-z0-9-]*|-o [a-z][a-z0-9_-]*)' |
        sed -e 's/^ *//' -e 's/^--//' -e 's/^-o //' | tr - _ | sort -u
}

links_in() {
    grep -oE '\]\([^)]*\)' "$1" | sed -e 's/^](//' -e 's/)$//' | sort -u
}

# The anchors of headings, as forges make them.
anchors_in() {
    sed -n 's/^##* //p' "$1" | tr '[:upper:]' '[:lower:]' | sed -e 's/[^a-z0-9 _-]//g' -e 's/ /-/g'
}

# "file|document|heading" for each heading that the source names; comments wrap where they must.
headings_named() {
    # shellcheck disable=SC2086
    grep -rlE --include='*.[ch]' --include='*.def' --include='*.py' --include='*.sh' '[A-Za-z]\.md|NEWS' $folders |
        grep -vxF tests/check_paths.sh |
        while read -r file; do
            tr -s '\n*# ' '    ' <"$file" | grep -oE "\"[^\"]+\" in ($(echo "$documents" | tr ' ' '|'))" |
                sed "s|^\"\(.*\)\" in \(.*\)\$|$file\|\2\|\1|"
        done
}

# ---- does it exist? ----------------------------------------------------------------------------

# check_link DOCUMENT LINK: links are relative to the folder of the document.
check_link() {
    folder=$(dirname "$1")
    case $2 in
        http*://*) ;;
        *'#'*)
            target=${2%%#*}
            anchors_in "$folder/${target:-${1##*/}}" | grep -qxF -e "${2#*#}" ||
                complain "there is no heading for the link $2"
            ;;
        *) exists "$folder/$2" || complain "the link leads nowhere: $2" ;;
    esac
}

for doc in $documents; do
    paths_in "$doc" >"$dir/names"
    while read -r path; do
        exists "$path" || complain "there is no $path"
    done <"$dir/names"

    links_in "$doc" >"$dir/names"
    while read -r link; do
        check_link "$doc" "$link"
    done <"$dir/names"

    functions_in "$doc" | not_among calls >"$dir/names"
    while read -r name; do
        complain "there is no function $name()"
    done <"$dir/names"

    identifiers_in "$doc" | not_among words >"$dir/names"
    while read -r name; do
        complain "nothing is called $name"
    done <"$dir/names"

    options_in "$doc" >"$dir/names"
    while read -r name; do
        grep -qxF -e "$name" -e "${name#no_}" "$dir/options" || complain "there is no option $name"
    done <"$dir/names"

    functions_in_files "$doc" >"$dir/names"
    while read -r name file; do
        grep -qE "(^|[^A-Za-z0-9_])$name ?\(" "$file" 2>/dev/null || complain "$name() is not in $file"
    done <"$dir/names"

    verdict "$doc names only what exists"
done

headings_named >"$dir/names"
[ -s "$dir/names" ] || complain "the source names no heading: this check looks for the wrong thing"
while IFS='|' read -r file doc heading; do
    sed -n 's/^##* //p' "$doc" | grep -qxF -e "$heading" ||
        complain "$file names a heading that $doc has not: $heading"
done <"$dir/names"
verdict "the source names only headings that there are"
end_of_tests
