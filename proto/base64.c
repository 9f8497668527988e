/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Base64, three bytes to four letters. No state, any thread.
 */
#include "proto/base64.h"

#include <stdint.h>

static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* No letter: has bits that no value of six bits has. */
#define NONE 0x80u

/* Six bits of a letter, or NONE. */
static unsigned value_of(char letter)
{
    unsigned char c = (unsigned char)letter;

    if (c >= 'A' && c <= 'Z') {
        return c - (unsigned)'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - (unsigned)'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - (unsigned)'0' + 52;
    }
    if (c == '+') {
        return 62;
    }
    return c == '/' ? 63 : NONE;
}

size_t base64_encode(char *out, const char *bytes, size_t len)
{
    char *p = out;

    for (size_t at = 0; at < len; at += 3) {
        size_t n = len - at < 3 ? len - at : 3;
        uint32_t group = (uint32_t)(unsigned char)bytes[at] << 16;

        group |= n > 1 ? (uint32_t)(unsigned char)bytes[at + 1] << 8 : 0;
        group |= n > 2 ? (uint32_t)(unsigned char)bytes[at + 2] : 0;
        p[0] = letters[group >> 18];
        p[1] = letters[group >> 12 & 63];
        p[2] = '=';
        p[3] = '=';
        if (n > 1) {
            p[2] = letters[group >> 6 & 63];
        }
        if (n > 2) {
            p[3] = letters[group & 63];
        }
        p += 4;
    }
    return (size_t)(p - out);
}

/* Four letters, of which `pad` at the end are '=', to 3 - pad bytes. */
static bool decode_group(char *out, const char *text, size_t pad)
{
    uint32_t group = 0;
    unsigned seen = 0;

    for (size_t i = 0; i < 4; i++) {
        unsigned value = i < 4 - pad ? value_of(text[i]) : 0;

        seen |= value;
        group = group << 6 | (value & 63);
    }
    for (size_t i = 0; i < 3 - pad; i++) {
        out[i] = (char)(group >> (16 - 8 * i));
    }
    return (seen & NONE) == 0;
}

bool base64_decode(char *out, size_t *len, struct span text)
{
    const char *end = text.ptr + text.len;
    char *to = out;
    size_t pad = 0;

    if (text.len == 0 || text.len % 4 != 0) {
        return false;
    }
    if (end[-1] == '=') {
        pad = end[-2] == '=' ? 2 : 1;
    }
    for (const char *p = text.ptr; p < end; p += 4) {
        size_t pad_here = end - p == 4 ? pad : 0;

        if (!decode_group(to, p, pad_here)) {
            return false;
        }
        to += 3 - pad_here;
    }
    *len = (size_t)(to - out);
    return true;
}
