/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys made printable, and back. Any thread.
 */
#include "proto/encode.h"

#include <stdint.h>
#include <string.h>

#include "lib/base/check.h"

/* ---- URI --------------------------------------------------------------------------------- */

/* Letters, digits and "-._~": what RFC 3986 calls unreserved, in any locale. */
static bool is_unreserved(unsigned char c)
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

        if (is_unreserved(c)) {
            *p++ = (char)c;
        } else {
            *p++ = '%';
            *p++ = digits[c >> 4];
            *p++ = digits[c & 15];
        }
    }
    debug_must((size_t)(p - out) <= ENCODE_URI_BYTES(s.len));
    return (size_t)(p - out);
}

static bool breaks_line(struct span key)
{
    for (size_t i = 0; i < key.len; i++) {
        char c = key.ptr[i];

        if (c == ' ' || c == '\0' || c == '\r' || c == '\n') {
            return true;
        }
    }
    return false;
}

bool encode_is_plain(struct span key)
{
    for (size_t i = 0; i < key.len; i++) {
        unsigned char c = (unsigned char)key.ptr[i];

        if (c <= ' ' || c == 0x7f) {
            return false;
        }
    }
    return true;
}

size_t encode_line_key(char *out, struct span key)
{
    if (breaks_line(key)) {
        return encode_uri(out, key);
    }
    memcpy(out, key.ptr, key.len);
    return key.len;
}

/* ---- base64 ------------------------------------------------------------------------------ */

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
    debug_must((size_t)(p - out) == ENCODE_BASE64_BYTES(s.len));
    return (size_t)(p - out);
}

/* Not of the alphabet: has a bit that no value of six bits has. */
#define NOT_BASE64 0x80u

/* The value of a base64 letter (six bits), or NOT_BASE64. */
static unsigned sextet_of(char letter)
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
    return c == '/' ? 63 : NOT_BASE64;
}

/* Decode four letters, the last `pad` of which are '=', to 3 - pad bytes. */
static bool decode_group(char *out, const char *text, size_t pad)
{
    uint32_t group = 0;
    unsigned seen = 0;

    for (size_t i = 0; i < 4; i++) {
        unsigned value = i < 4 - pad ? sextet_of(text[i]) : 0;

        seen |= value;
        group = group << 6 | (value & 63);
    }
    for (size_t i = 0; i < 3 - pad; i++) {
        out[i] = (char)(group >> (16 - 8 * i));
    }
    return (seen & NOT_BASE64) == 0;
}

bool decode_base64(char *out, size_t *len, struct span text)
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
    debug_must(*len <= DECODE_BASE64_BYTES(text.len));
    return true;
}
