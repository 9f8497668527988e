# SPDX-License-Identifier: BSD-3-Clause
#
# Reports bodies of if, else, for, while, do without braces in C sources. Comments, strings and
# preprocessor conditions are blanked first; macro bodies are checked. Written for POSIX awk.

# Blank comments, strings and characters of one line; `in_comment` carries over lines.
function strip(line,    out, i, c, two)
{
    out = ""
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        two = substr(line, i, 2)
        if (in_comment) {
            if (two == "*/") {
                in_comment = 0
                i++
            }
        } else if (two == "/*") {
            in_comment = 1
            i++
            out = out " "
        } else if (two == "//") {
            break
        } else if (c == "\"" || c == "'") {
            out = out "_"
            for (i++; i <= length(line); i++) {
                if (substr(line, i, 1) == "\\") {
                    i++
                } else if (substr(line, i, 1) == c) {
                    break
                }
            }
        } else {
            out = out c
        }
    }
    return out
}

function report(what)
{
    printf "%s:%d: %s without braces\n", FILENAME, FNR, what
    bad = 1
}

# Tokens: words, and single characters. The state says what must come next.
function token(t)
{
    if (state == "body") {
        # `else if` goes on; `while (...);` closes a do loop.
        if (t == "{" || (what == "else" && t == "if") || (what == "while" && t == ";" && after_brace)) {
            state = ""
        } else {
            report(what)
            state = ""
        }
    } else if (state == "paren") {
        if (t == "(") {
            depth++
        } else if (t == ")") {
            depth--
            if (depth == 0) {
                state = "body"
            }
        }
        return
    }
    if (t == "if" || t == "for" || t == "while") {
        after_brace = (last == "}")
        what = t
        state = "paren"
        depth = 0
    } else if (t == "else" || t == "do") {
        what = t
        state = "body"
    }
    last = t
}

FNR == 1 {
    in_comment = 0
    state = ""
    last = ""
    is_define = 0
}

{
    line = strip($0)
    continues = (line ~ /\\[ \t]*$/)
    sub(/\\[ \t]*$/, "", line)
    if (line ~ /^[ \t]*#/ && !is_define) {
        if (line ~ /^[ \t]*#[ \t]*define/) {
            # Only the body: without the name, its parameters stay harmless in parentheses.
            sub(/^[ \t]*#[ \t]*define[ \t]+[A-Za-z_0-9]+/, "", line)
            is_define = 1
        } else {
            # Conditions and includes may go over several lines; none of them has a body.
            skipping = continues
            next
        }
    } else if (skipping) {
        skipping = continues
        next
    }
    while (line != "") {
        if (match(line, /^[ \t]+/)) {
            line = substr(line, RLENGTH + 1)
        } else if (match(line, /^[A-Za-z_0-9]+/)) {
            t = substr(line, 1, RLENGTH)
            line = substr(line, RLENGTH + 1)
            token(t)
        } else {
            t = substr(line, 1, 1)
            line = substr(line, 2)
            token(t)
        }
    }
    if (is_define && !continues) {
        # `do { } while (0)` of a macro ends here, its semicolon stands at the call.
        is_define = 0
        state = ""
        last = ""
    }
}

END {
    exit bad
}
