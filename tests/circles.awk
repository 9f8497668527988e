# SPDX-License-Identifier: BSD-3-Clause
#
# Which files of a folder call each other in a circle. A source and its header count as one
# unit, so a function that a header defines inline belongs to the unit of that header, or of the
# source that a banner above it names; X_inline.h belongs to X. Reads sources that clang-format has formatted: a definition begins in
# the first column, and so does its brace.
#
#   awk -f tests/circles.awk FILE...         for each folder with circles: FOLDER UNITS
#   awk -v calls=1 -f tests/circles.awk ...  also the calls between units of a circle, indented

function unit_of(file) {
    sub(/(_inline)?[.][ch]$/, "", file)
    return file
}

function folder_of(unit) {
    sub("/[^/]*$", "", unit)
    return unit
}

# The line without comments and strings.
function code_of(line,    i) {
    if (in_comment) {
        i = index(line, "*/")
        if (i == 0) {
            return ""
        }
        line = substr(line, i + 2)
        in_comment = 0
    }
    gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, " ", line)
    gsub(/"([^"\\]|\\.)*"/, " ", line)
    i = index(line, "/*")
    if (i > 0) {
        line = substr(line, 1, i - 1)
        in_comment = 1
    }
    return line
}

FNR == 1 {
    in_comment = 0
    in_body = 0
    signature = ""
    own = unit_of(FILENAME)
}

FILENAME ~ /[.]h$/ && /^\/\* ---- / {
    own = $3 ~ /[.]c$/ ? folder_of(own) "/" unit_of($3) : unit_of(FILENAME)
}

{
    line = code_of($0)
    if (line ~ /^\{/) {
        # A function of its own file only cannot be called from another one.
        if (match(signature, /[A-Za-z_][A-Za-z0-9_]*\(/)) {
            name = substr(signature, RSTART, RLENGTH - 1)
            if (signature ~ /^static / && signature !~ / inline /) {
                is_static[FILENAME, name] = 1
            } else {
                home[name] = own
            }
        }
        in_body = 1
    } else if (line ~ /^\}/) {
        in_body = 0
        signature = ""
    } else if (line ~ /^[A-Za-z_]/) {
        signature = line
    }
    while (in_body && match(line, /[A-Za-z_][A-Za-z0-9_]*\(/)) {
        called[FILENAME, substr(line, RSTART, RLENGTH - 1)] = own
        line = substr(line, RSTART + RLENGTH)
    }
}

END {
    for (call in called) {
        split(call, part, SUBSEP)
        from = called[call]
        to = home[part[2]]
        if (to == "" || to == from || call in is_static) {
            continue
        }
        if (folder_of(to) == folder_of(from)) {
            reaches[from, to] = 1
            direct[from, to] = direct[from, to] " " part[2]
            unit[from] = unit[to] = 1
        }
    }
    for (via in unit) {
        for (from in unit) {
            if ((from, via) in reaches) {
                for (to in unit) {
                    if ((via, to) in reaches) {
                        reaches[from, to] = 1
                    }
                }
            }
        }
    }
    for (from in unit) {
        if ((from, from) in reaches) {
            units[folder_of(from)]++
        }
    }
    for (folder in units) {
        print folder, units[folder]
    }
    for (edge in direct) {
        split(edge, side, SUBSEP)
        if (calls && (side[2], side[1]) in reaches) {
            print "    " side[1] " -> " side[2] ":" direct[edge]
        }
    }
}
