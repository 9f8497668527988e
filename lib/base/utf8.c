/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See utf8.h.
 */
#include "lib/base/utf8.h"

#include <stdio.h>
#include <string.h>

size_t utf8_decode(struct span s, uint32_t *out)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {
        {0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

    if (s.len == 0) {
        return 0;
    }
    for (size_t n = 0; n < 4; n++) {
        unsigned char first = (unsigned char)s.ptr[0];
        uint32_t c = first & (uint32_t)(unsigned char)~forms[n].mask;

        if ((first & forms[n].mask) != forms[n].lead) {
            continue;
        }
        if (s.len < n + 1) {
            return 0;
        }
        for (size_t i = 1; i <= n; i++) {
            unsigned char next = (unsigned char)s.ptr[i];

            if ((next & 0xc0) != 0x80) {
                return 0;
            }
            c = c << 6 | (next & 0x3f);
        }
        if (c < forms[n].least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
            return 0;
        }
        *out = c;
        return n + 1;
    }
    return 0;
}

size_t utf8_len(struct span s)
{
    uint32_t c;

    return utf8_decode(s, &c);
}

bool utf8_is_valid(struct span s)
{
    while (s.len > 0) {
        size_t n = utf8_len(s);

        if (n == 0) {
            return false;
        }
        s = span_of(s.ptr + n, s.len - n);
    }
    return true;
}

size_t utf8_to_json(struct span s, char out[UTF8_JSON_MAX], size_t *taken)
{
    uint32_t c = 0;
    const size_t n = utf8_decode(s, &c);

    *taken = n > 0 ? n : 1;
    if (n == 0) {
        c = 0xfffd; /* the character for what is none */
    } else if (c == '"' || c == '\\') {
        out[0] = '\\';
        out[1] = (char)c;
        return 2;
    } else if (c >= ' ' && (c < 0x7f || c >= 0xa0)) {
        memcpy(out, s.ptr, n);
        return n;
    }
    return (size_t)snprintf(out, UTF8_JSON_MAX, "\\u%04x", (unsigned)c);
}
