/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsing and formatting of numbers, without locale and errno.
 */
#ifndef MAYFLY_LIB_BASE_NUM_H
#define MAYFLY_LIB_BASE_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/span.h"

/* The longest decimal form of a 64-bit number, with the sign, without NUL. */
#define NUM_DIGITS_MAX 20

/*
 * Strict: the whole span is one decimal number, without space or plus sign. MF_ESYNTAX when it
 * is not, MF_ERANGE when it does not fit; *out is then unchanged. Context: any thread.
 */
enum mf_err num_u64(struct span s, uint64_t *out);
enum mf_err num_u32(struct span s, uint32_t *out);
enum mf_err num_i64(struct span s, int64_t *out);
enum mf_err num_i32(struct span s, int64_t *out);

/*
 * Parse a number as leniently as memcached: white space, a sign, digits, then either the end or
 * white space followed by anything. Returns false, with *out unchanged, if the text is
 * different or the number does not fit. An unsigned number may have a minus only before 0.
 * Context: any thread.
 */
bool num_lenient_u64(struct span s, uint64_t *out);
bool num_lenient_u32(struct span s, uint32_t *out);
bool num_lenient_i64(struct span s, int64_t *out);

/*
 * A decimal fraction: perhaps a minus, digits and at most one point, such as "-1", "0.25" or
 * "5."; no exponent. Of more than 30 digits those after the point are ignored. False, with *out
 * unchanged, when it is not that. Context: any thread.
 */
bool num_fraction(struct span s, double *out);

/*
 * Write the decimal form of v to out, without NUL, and return its length. out must have room
 * for NUM_DIGITS_MAX bytes. Context: any thread.
 */
size_t num_put_u64(char *out, uint64_t v);
size_t num_put_i64(char *out, int64_t v);

/*
 * The value of two hexadecimal digits, of either case; -1 if they are not. Context: any thread.
 */
int num_hex_byte(const char digits[2]);

/* The two digits of each number from 0 to 99, one pair after another. */
extern const char num_pairs[200];

/* Write the two digits of a number below 100. Context: any thread. */
static inline void num_put_pair(char *out, unsigned pair)
{
    debug_must(pair < 100);
    memcpy(out, num_pairs + (size_t)2 * pair, 2);
}

/*
 * num_put_u64() for numbers that mostly have few digits, as flags, lengths and seconds do: up
 * to four are written inline. Returns the address after the number, not its length: callers
 * continue to write there, which takes fewer instructions. Context: any thread.
 */
static inline char *num_put_short(char *out, uint64_t v)
{
    if (v < 10) {
        *out = (char)('0' + v);
        return out + 1;
    }
    if (v < 100) {
        num_put_pair(out, (unsigned)v);
        return out + 2;
    }
    if (v < 10000) {
        unsigned n = (unsigned)v; /* divided with fewer instructions than 64 bits */

        if (n < 1000) {
            *out = (char)('0' + n / 100);
            num_put_pair(out + 1, n % 100);
            return out + 3;
        }
        num_put_pair(out, n / 100);
        num_put_pair(out + 2, n % 100);
        return out + 4;
    }
    return out + num_put_u64(out, v);
}

/*
 * The next number of a random sequence (splitmix64, S. Vigna). Any initial state is valid. For
 * sampling only: an observer of some numbers can predict the others. Context: any thread; the
 * owner of *state prevents concurrent calls.
 */
static inline uint64_t num_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15ULL;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

#endif
