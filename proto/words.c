/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words and numbers of a line: the parts that are not on the hot path. No state, any thread.
 */
#include "proto/words.h"

#include "lib/base/check.h"
#include "lib/base/num.h"

void words_cut(struct line line, struct args *args)
{
    struct span word;

    args->count = 0;
    args->last = span_of("", 0);
    while (words_next(&line, &word)) {
        if (args->count < ARGS_MAX) {
            args->word[args->count] = word;
        }
        args->last = word;
        args->count++;
    }
}

/* White space that can stand inside a word. */
static inline bool is_blank(char c)
{
    return c == '\t' || c == '\v' || c == '\f' || c == '\r';
}

/*
 * Sign and size of a number: blanks, a sign, digits, then the end of the word or a blank,
 * behind which anything may stand. False when it is not that or does not fit 64 bits.
 */
static MF_NOINLINE bool parse_odd(struct span word, bool *negative, uint64_t *out)
{
    const char *p = word.ptr;
    const char *end = p + word.len;
    uint64_t n = 0;

    while (p < end && is_blank(*p)) {
        p++;
    }
    *negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) {
        p++;
    }
    const char *digits = p;
    for (; p < end && words_is_digit(*p); p++) {
        if (__builtin_mul_overflow(n, (uint64_t)10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n)) {
            return false;
        }
    }
    if (p == digits || (p < end && !is_blank(*p))) {
        return false;
    }
    *out = n;
    return true;
}

/* The same; digits alone, which is what nearly all numbers are, are read without it. */
static inline bool parse_magnitude(struct span word, bool *negative, uint64_t *out)
{
    *negative = false;
    return num_u64(word, out) == MF_OK || parse_odd(word, negative, out);
}

bool words_u64(struct span word, uint64_t *out)
{
    bool negative;
    uint64_t n;

    if (!parse_magnitude(word, &negative, &n) || (negative && n != 0)) {
        return false;
    }
    *out = n;
    return true;
}

bool words_u32(struct span word, uint32_t *out)
{
    uint64_t n;

    if (!words_u64(word, &n) || n > UINT32_MAX) {
        return false;
    }
    *out = (uint32_t)n;
    return true;
}

bool words_i64(struct span word, int64_t *out)
{
    bool negative;
    uint64_t n;

    if (!parse_magnitude(word, &negative, &n) || n > (uint64_t)INT64_MAX + negative) {
        return false;
    }
    *out = negative ? (int64_t)(0 - n) : (int64_t)n;
    return true;
}

bool words_has_long(struct line line, size_t max)
{
    const char *p = line.begin;

    /*
     * Look from max bytes ahead back to the nearest space: behind one that is found the search
     * starts anew, and where none is within reach stands a word that is too long. So the cost
     * is a few bytes per max.
     */
    while ((size_t)(line.end - p) > max) {
        const char *space = memrchr(p, ' ', max + 1);
        if (space == NULL) {
            return true;
        }
        p = space + 1;
    }
    return false;
}
