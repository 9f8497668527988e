/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decimal conversion. Parsing stands on the path of every storage command: up to 19 digits
 * cannot overflow 64 bits, so the common case is one multiply-add and one compare a digit.
 * Writing takes two digits a step from a table, which halves the divisions.
 */
#include "lib/num.h"

#include <string.h>

/* So many digits always fit a uint64_t. */
#define DIGITS_SAFE 19u

static inline bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* More than 19 digits: leading zeros are skipped, the rest is added up with overflow checks. */
static enum mf_err parse_long(struct span s, uint64_t *out)
{
    uint64_t v = 0;
    bool overflowed = false;

    /* All characters are looked at before the verdict: a word that is no number is ESYNTAX. */
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.ptr[i])) {
            return MF_ESYNTAX;
        }
        overflowed = overflowed || __builtin_mul_overflow(v, (uint64_t)10, &v) ||
                     __builtin_add_overflow(v, (uint64_t)(s.ptr[i] - '0'), &v);
    }
    if (overflowed) {
        return MF_ERANGE;
    }
    *out = v;
    return MF_OK;
}

enum mf_err num_u64(struct span s, uint64_t *out)
{
    uint64_t v = 0;

    if (s.len > DIGITS_SAFE) {
        return parse_long(s, out);
    }
    if (s.len == 0) {
        return MF_ESYNTAX;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.ptr[i])) {
            return MF_ESYNTAX;
        }
        v = v * 10 + (uint64_t)(s.ptr[i] - '0');
    }
    *out = v;
    return MF_OK;
}

enum mf_err num_u32(struct span s, uint32_t *out)
{
    uint64_t v;
    enum mf_err err = num_u64(s, &v);

    if (err != MF_OK) {
        return err;
    }
    if (v > UINT32_MAX) {
        return MF_ERANGE;
    }
    *out = (uint32_t)v;
    return MF_OK;
}

enum mf_err num_i64(struct span s, int64_t *out)
{
    bool negative = s.len > 0 && s.ptr[0] == '-';
    uint64_t v;
    enum mf_err err = num_u64(negative ? span_of(s.ptr + 1, s.len - 1) : s, &v);

    if (err != MF_OK) {
        return err;
    }
    if (v > (uint64_t)INT64_MAX + (negative ? 1u : 0u)) {
        return MF_ERANGE;
    }
    /* The unsigned negation is exact also for INT64_MIN, whose positive form has no int64_t. */
    *out = (int64_t)(negative ? 0 - v : v);
    return MF_OK;
}

size_t num_put_u64(char *out, uint64_t v)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char digits[NUM_DIGITS_MAX];
    char *p = digits + sizeof(digits);

    while (v >= 100) {
        p -= 2;
        memcpy(p, pairs + (v % 100) * 2, 2);
        v /= 100;
    }
    if (v >= 10) {
        p -= 2;
        memcpy(p, pairs + v * 2, 2);
    } else {
        *--p = (char)('0' + v);
    }

    size_t n = (size_t)(digits + sizeof(digits) - p);
    memcpy(out, p, n);
    return n;
}

size_t num_put_i64(char *out, int64_t v)
{
    if (v >= 0) {
        return num_put_u64(out, (uint64_t)v);
    }
    *out = '-';
    return 1 + num_put_u64(out + 1, 0 - (uint64_t)v);
}
