# SPDX-License-Identifier: BSD-3-Clause
#
# The order of includes: a source file's own header, a blank line, system headers, a blank line,
# the project's headers; sorted within each group. A file without an own header and system headers
# has only the last group. Tables (.def) are included where they are used.

FNR == 1 { group = 0; last = ""; is_over = 0; has_begun = 0; is_blank = 0 }

is_over { next }

/^$/ { is_blank = 1; next }

/^#include .*\.def"/ { is_over = 1; next }

/^#include / {
    now = /^#include </ ? 2 : 3
    if (!has_begun && now == 3 && FILENAME ~ /\.c$/) {
        now = 1
    }
    if (now < group || (now == group && ($0 < last || is_blank)) ||
        (has_begun && now > group && !is_blank && (group != 1 || now == 2 || $0 < last))) {
        printf "%s:%d: includes are not in order: own, <system>, \"project\"\n", FILENAME, FNR
        bad++
        is_over = 1
    }
    group = now
    last = $0
    has_begun = 1
    is_blank = 0
    next
}

has_begun { is_over = 1 }

END { exit bad > 0 }
