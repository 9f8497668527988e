/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The words of a line and the numbers in them, as memcached's text protocols read both: words
 * are apart by spaces only; tabs, other control bytes and NUL belong to the word.
 */
#ifndef MAYFLY_PROTO_WORDS_H
#define MAYFLY_PROTO_WORDS_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "lib/base/span.h"

/* A line without its end; taking a word moves begin. */
struct line {
    const char *begin; /* [borrowed] */
    const char *end;
};

/* More words than any command takes behind its name: set has up to 5, cas 6. */
#define ARGS_MAX 6

/*
 * The words behind a command's name. All are counted; the first ARGS_MAX and the last are kept.
 */
struct args {
    struct span word[ARGS_MAX];
    struct span last; /* empty when there is none */
    size_t count;
};

/* Cut the whole line into words. Context: any thread. */
void words_cut(struct line line, struct args *args);

/* True when a word of the line is longer than max bytes. Context: any thread. */
bool words_has_long(struct line line, size_t max);

/*
 * Numbers with the latitude that clients are used to: blanks (tab, vertical tab, form feed,
 * carriage return), a sign, digits, then the end of the word or a blank, behind which anything
 * may stand. False, with *out unchanged, when the word is not that or out of range; unsigned
 * numbers take a minus before 0 only.
 * Context: any thread.
 */
bool words_u64(struct span word, uint64_t *out);
bool words_u32(struct span word, uint32_t *out);
bool words_i64(struct span word, int64_t *out);

/* The same byte in all eight places. */
#define EVERY_BYTE(b) ((uint64_t)(b)*UINT64_C(0x0101010101010101))

/* Eight bytes with the first in the lowest place, whatever the machine's order. */
static inline uint64_t words_load8(const char *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof(w));
    return le64toh(w);
}

/* Four bytes in the same order, and the number that four letters are in it. */
static inline uint32_t words_load4(const char *p)
{
    uint32_t w;
    memcpy(&w, p, sizeof(w));
    return le32toh(w);
}

#define WORD4(a, b, c, d)                                                                      \
    ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

#ifdef __SSE2__
static inline __m128i words_load16(const char *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}
#endif

/*
 * The first space from p on, or end; reads nothing outside [p, end). A subtraction of one
 * borrows from the next byte only above a match, so the lowest mark is always right.
 */
static inline const char *words_find_space(const char *p, const char *end)
{
#ifdef __SSE2__
    for (; end - p >= 16; p += 16) {
        __m128i equal = _mm_cmpeq_epi8(words_load16(p), _mm_set1_epi8(' '));
        unsigned found = (unsigned)_mm_movemask_epi8(equal);
        if (found != 0) {
            return p + (unsigned)__builtin_ctz(found);
        }
    }
#endif
    while (end - p >= 8) {
        uint64_t x = words_load8(p) ^ EVERY_BYTE(' ');
        uint64_t marks = (x - EVERY_BYTE(1)) & ~x & EVERY_BYTE(0x80);
        if (marks != 0) {
            return p + ((unsigned)__builtin_ctzll(marks) >> 3);
        }
        p += 8;
    }
    while (p < end && *p != ' ') {
        p++;
    }
    return p;
}

/*
 * Marks the high bit of bytes up to the space (0x00 to 0x20). Borrows can mark bytes above the
 * first match wrongly, never below, so only the lowest mark counts.
 */
static inline uint64_t words_mark_gaps(uint64_t w)
{
    return (w - EVERY_BYTE(0x21)) & ~w & EVERY_BYTE(0x80);
}

/*
 * The first byte from p on that is a space or below, or end. At least eight bytes before end
 * must be readable: the last word is loaded so that it ends at end, and shifting out what lies
 * before p brings in zeros, which match.
 */
static inline const char *words_find_gap(const char *p, const char *end)
{
    const char *last = end - 8;
    uint64_t marks;

#ifdef __SSE2__
    for (; end - p >= 16; p += 16) {
        __m128i bytes = words_load16(p);
        __m128i least = _mm_min_epu8(bytes, _mm_set1_epi8(' '));
        unsigned found = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(least, bytes));
        if (found != 0) {
            return p + (unsigned)__builtin_ctz(found);
        }
    }
#endif
    for (; p <= last; p += 8) {
        marks = words_mark_gaps(words_load8(p));
        if (marks != 0) {
            return p + ((unsigned)__builtin_ctzll(marks) >> 3);
        }
    }
    if (p == end) {
        return end;
    }
    marks = words_mark_gaps(words_load8(last) >> (8 * (size_t)(p - last)));
    return p + ((unsigned)__builtin_ctzll(marks) >> 3);
}

static inline const char *words_skip_spaces(const char *p, const char *end)
{
    while (p < end && *p == ' ') {
        p++;
    }
    return p;
}

/* Take the next word off the front of the line; false when there is none. */
static inline bool words_next(struct line *line, struct span *word)
{
    const char *begin = words_skip_spaces(line->begin, line->end);
    const char *end = words_find_space(begin, line->end);

    line->begin = end;
    *word = span_of(begin, (size_t)(end - begin));
    return word->len > 0;
}

static inline bool words_is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

static inline bool words_is_noreply(struct span word)
{
    return word.len == 7 && memcmp(word.ptr, "noreply", 7) == 0;
}

#endif
