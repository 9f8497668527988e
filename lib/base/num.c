/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decimal conversion. Parsing is on the path of every incr: up to 19 digits cannot overflow 64
 * bits, and the first eight are checked and added up in one word. Writing takes four digits per
 * step, in pairs from a table, which needs a quarter of the divisions. The digits are counted
 * first, so each goes directly to its place.
 */
#include "lib/base/num.h"

#include "lib/base/check.h"
#include "lib/base/load.h"

const char num_pairs[200] = "00010203040506070809"
                            "10111213141516171819"
                            "20212223242526272829"
                            "30313233343536373839"
                            "40414243444546474849"
                            "50515253545556575859"
                            "60616263646566676869"
                            "70717273747576777879"
                            "80818283848586878889"
                            "90919293949596979899";

/* A uint64_t holds any number of this many digits. */
#define DIGITS_SAFE 19u

static inline bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* More than 19 digits: the number is added up with checks for overflow. */
static enum mf_err parse_long(struct span s, uint64_t *out)
{
    uint64_t v = 0;
    bool overflowed = false;

    /* Check all characters first: a word that is not a number is MF_ESYNTAX, however long. */
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

/*
 * Parse eight digits at once, with the first one in the lowest byte of the word. False when
 * they are not all digits: the value of a digit is below 10, so adding 0x76 leaves the top bit
 * of its byte clear. Then digits are combined into pairs, pairs into fours, and these into the
 * number.
 */
static inline bool take_eight(const char *p, uint64_t *out)
{
    uint64_t w = load_le64(p) ^ 0x3030303030303030;

    if (((w | (w + 0x7676767676767676)) & 0x8080808080808080) != 0) {
        return false;
    }
    w = w * (1 + (10 << 8)) >> 8;
    w = (w & 0x00ff00ff00ff00ff) * (1 + (100 << 16)) >> 16;
    *out = (w & 0x0000ffff0000ffff) * (1 + (UINT64_C(10000) << 32)) >> 32;
    return true;
}

enum mf_err num_u64(struct span s, uint64_t *out)
{
    const char *p = s.ptr;
    const char *end = p + s.len;
    uint64_t v = 0;

    if (s.len > DIGITS_SAFE) {
        return parse_long(s, out);
    }
    if (s.len == 0) {
        return MF_ESYNTAX;
    }
    /* Only once: numbers of 16 digits are rare, and a loop would load the constants early. */
    if (s.len >= 8) {
        if (!take_eight(p, &v)) {
            return MF_ESYNTAX;
        }
        p += 8;
    }
    for (; p < end; p++) {
        unsigned digit = (unsigned char)*p - (unsigned)'0';

        if (digit >= 10) {
            return MF_ESYNTAX;
        }
        v = v * 10 + digit;
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
    /* Unsigned negation is also exact for INT64_MIN, whose positive form is not an int64_t. */
    *out = (int64_t)(negative ? 0 - v : v);
    return MF_OK;
}

enum mf_err num_i32(struct span s, int64_t *out)
{
    int64_t v;
    enum mf_err err = num_i64(s, &v);

    if (err != MF_OK) {
        return err;
    }
    if (v < INT32_MIN || v > INT32_MAX) {
        return MF_ERANGE;
    }
    *out = v;
    return MF_OK;
}

/* White space as isspace() knows it in the C locale: space, and tab to carriage return. */
static inline bool is_space(char c)
{
    return c == ' ' || (unsigned char)(c - '\t') < 5;
}

/* A number with white space or a sign: its sign and magnitude. */
static MF_NOINLINE bool parse_spaced(struct span s, bool *negative, uint64_t *out)
{
    const char *p = s.ptr;
    const char *end = p + s.len;

    while (p < end && is_space(*p)) {
        p++;
    }
    *negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) {
        p++;
    }
    const char *digits = p;
    while (p < end && is_digit(*p)) {
        p++;
    }
    return (p == end || is_space(*p)) &&
           num_u64(span_of(digits, (size_t)(p - digits)), out) == MF_OK;
}

/* The same for any number; digits alone, which is what nearly all of them are, take no call. */
static inline bool parse_lenient(struct span s, bool *negative, uint64_t *out)
{
    *negative = false;
    return num_u64(s, out) == MF_OK || parse_spaced(s, negative, out);
}

bool num_lenient_u64(struct span s, uint64_t *out)
{
    bool negative;
    uint64_t n;

    if (!parse_lenient(s, &negative, &n) || (negative && n != 0)) {
        return false;
    }
    *out = n;
    return true;
}

bool num_lenient_u32(struct span s, uint32_t *out)
{
    uint64_t n;

    if (!num_lenient_u64(s, &n) || n > UINT32_MAX) {
        return false;
    }
    *out = (uint32_t)n;
    return true;
}

bool num_lenient_i64(struct span s, int64_t *out)
{
    bool negative;
    uint64_t n;

    if (!parse_lenient(s, &negative, &n) || n > (uint64_t)INT64_MAX + negative) {
        return false;
    }
    *out = negative ? (int64_t)(0 - n) : (int64_t)n;
    return true;
}

/* Digits that count; more of them after the point are ignored. */
#define FRACTION_DIGITS_MAX 30

bool num_fraction(struct span s, double *out)
{
    bool is_negative = s.len > 0 && s.ptr[0] == '-';
    bool has_point = false;
    unsigned digits = 0;
    double scale = 1;
    double n = 0;

    for (size_t i = is_negative ? 1 : 0; i < s.len; i++) {
        char c = s.ptr[i];

        if (c == '.' && !has_point) {
            has_point = true;
        } else if (c < '0' || c > '9' || (digits == FRACTION_DIGITS_MAX && !has_point)) {
            return false;
        } else if (digits < FRACTION_DIGITS_MAX) {
            n = n * 10 + (c - '0');
            scale *= has_point ? 10 : 1;
            digits++;
        }
    }
    if (digits == 0) {
        return false;
    }
    *out = (is_negative ? -n : n) / scale;
    return true;
}

/*
 * The number of decimal digits of v. 1233/4096 is a little more than log10(2), so the number of
 * bits gives the count or one less; the power of ten decides.
 */
static inline unsigned count_digits(uint64_t v)
{
    static const uint64_t power_of_ten[NUM_DIGITS_MAX] = {
        0, /* so that 0 has one digit */
        10ULL,
        100ULL,
        1000ULL,
        10000ULL,
        100000ULL,
        1000000ULL,
        10000000ULL,
        100000000ULL,
        1000000000ULL,
        10000000000ULL,
        100000000000ULL,
        1000000000000ULL,
        10000000000000ULL,
        100000000000000ULL,
        1000000000000000ULL,
        10000000000000000ULL,
        100000000000000000ULL,
        1000000000000000000ULL,
        10000000000000000000ULL,
    };
    unsigned bits = 64u - (unsigned)__builtin_clzll(v | 1);
    unsigned n = bits * 1233 >> 12;

    debug_must(n < NUM_DIGITS_MAX);
    return n + (v >= power_of_ten[n]);
}

size_t num_put_u64(char *out, uint64_t v)
{
    size_t n = count_digits(v);
    char *p = out + n;
    unsigned rest;

    while (v >= 10000) {
        rest = (unsigned)(v % 10000);
        v /= 10000;
        p -= 4;
        num_put_pair(p, rest / 100);
        num_put_pair(p + 2, rest % 100);
    }
    rest = (unsigned)v;
    if (rest >= 100) {
        p -= 2;
        num_put_pair(p, rest % 100);
        rest /= 100;
    }
    if (rest >= 10) {
        num_put_pair(p - 2, rest);
    } else {
        p[-1] = (char)('0' + rest);
    }
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

/* ---- hexadecimal ------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (is_digit(c)) {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int num_hex_byte(const char digits[2])
{
    const int high = hex_digit(digits[0]);
    const int low = hex_digit(digits[1]);

    return high >= 0 && low >= 0 ? high << 4 | low : -1;
}
