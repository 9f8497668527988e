/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys made printable. Pure functions, any thread.
 */
#include "proto/encode.h"

#include <stdbool.h>
#include <stdint.h>

/* Letters, digits and "-._~": what RFC 3986 calls unreserved. The locale has no say. */
static bool is_plain(unsigned char c)
{
    unsigned char letter = c | 0x20;

    return (letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_' || c == '~';
}

size_t encode_uri(char *out, struct span s)
{
    static const char digits[] = "0123456789ABCDEF";
    char *p = out;

    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];

        if (is_plain(c)) {
            *p++ = (char)c;
        } else {
            *p++ = '%';
            *p++ = digits[c >> 4];
            *p++ = digits[c & 15];
        }
    }
    return (size_t)(p - out);
}

size_t encode_base64(char *out, struct span s)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *p = out;

    for (size_t i = 0; i < s.len; i += 3) {
        size_t n = s.len - i < 3 ? s.len - i : 3;
        uint32_t bits = 0;

        for (size_t k = 0; k < 3; k++) {
            bits = bits << 8 | (k < n ? (unsigned char)s.ptr[i + k] : 0);
        }
        for (size_t k = 0; k < 4; k++) {
            *p++ = k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=';
        }
    }
    return (size_t)(p - out);
}
