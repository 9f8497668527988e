/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Base64 read back, four letters to three bytes. No state, any thread.
 */
#include "proto/base64.h"

#include <stdint.h>

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
