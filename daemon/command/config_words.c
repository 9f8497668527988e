/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See config_words.h. A word is never longer than what it is written as, so a text as long as
 * the line has room for all of them.
 */
#include "daemon/command/config_words.h"

#include <stdbool.h>
#include <stddef.h>

/* The digit's value, or -1. */
static int hex_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * Copy what stands between quotes; s begins behind the first. Returns where the last one
 * stands, or NULL: it is wrong.
 */
static const char *copy_quoted(struct span s, char **out)
{
    const char *end = s.ptr + s.len;

    for (const char *p = s.ptr; p < end; p++) {
        char c = *p;

        if (c == '"') {
            return p;
        }
        if (c == '\\') {
            const ptrdiff_t left = end - p;

            if (left >= 2 && (p[1] == '"' || p[1] == '\\')) {
                c = *++p;
            } else if (left >= 4 && p[1] == 'x' && hex_of(p[2]) >= 0 && hex_of(p[3]) >= 0) {
                c = (char)(hex_of(p[2]) * 16 + hex_of(p[3]));
                p += 3;
            } else {
                return NULL;
            }
        }
        if (c == '\0') {
            return NULL;
        }
        *(*out)++ = c;
    }
    return NULL;
}

const char *config_words_split(struct config_words *w, struct span line)
{
    const char *p = line.ptr;
    const char *end = line.ptr + line.len;
    char *out = w->text;

    w->count = 0;
    if (line.len >= CONFIG_TEXT_MAX) {
        return "the line is too long";
    }
    while (true) {
        while (p < end && *p == ' ') {
            p++;
        }
        if (p == end) {
            return NULL;
        }
        if (w->count == CONFIG_WORDS_MAX) {
            return "too many words";
        }
        w->word[w->count++] = out;
        if (*p == '"') {
            p = copy_quoted(span_of(p + 1, (size_t)(end - p) - 1), &out);
            if (p == NULL || (p + 1 < end && p[1] != ' ')) {
                return "a quoted word ends with a quote, and has \\\", \\\\ and \\xHH";
            }
            p++;
        } else {
            for (; p < end && *p != ' '; p++) {
                if (*p == '\0') {
                    return "a NUL byte";
                }
                *out++ = *p;
            }
        }
        *out++ = '\0';
    }
}
