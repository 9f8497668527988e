/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Splits a line into words, as memcached's text protocols do: at spaces only. Tabs, other
 * control bytes and NUL belong to a word. num_lenient_u64() and the like read words that are
 * numbers. Context of all functions: any thread.
 */
#ifndef MAYFLY_PROTO_WORDS_H
#define MAYFLY_PROTO_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "lib/base/check.h"
#include "lib/base/load.h"
#include "lib/base/span.h"

/* A line without its end; taking a word moves begin. */
struct line {
    const char *begin; /* [borrowed] */
    const char *end;
};

/* Most words that a command takes after its name: set has up to 5, cas 6. */
#define ARGS_MAX 6

/*
 * The words after a command's name. All are counted; the first ARGS_MAX and the last are kept.
 */
struct args {
    struct span word[ARGS_MAX];
    struct span last; /* empty when there is none */
    size_t count;
};

/* Most bytes of a value that a line can announce; a line with a greater number is bad. */
#define TEXT_VALUE_LEN_MAX (INT32_MAX - 2)

/* Split the whole line into words. Context: any thread. */
void words_cut(struct line line, struct args *args);

/* True when a word of the line is longer than max bytes. Context: any thread. */
bool words_has_long(struct line line, size_t max);

/*
 * Read the announced length of a value, in bytes: digits, as in memcached. False when it is no
 * number or too large. Context: any thread.
 */
bool words_value_len(struct span word, size_t *out);

/* The same byte in all eight bytes of a word. */
#define EVERY_BYTE(b) ((uint64_t)(b)*UINT64_C(0x0101010101010101))

#define WORD4(a, b, c, d)                                                                      \
    ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

#ifdef __SSE2__
static inline __m128i words_load16(const char *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}
#endif

/*
 * Find the first space from p on, or end; reads nothing outside [p, end). A borrow of the
 * subtraction can mark a byte wrongly only above a match, so the lowest mark is always right.
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
        uint64_t x = load_le64(p) ^ EVERY_BYTE(' ');
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
 * Mark the high bit of every byte that is a space or below. Borrows can mark bytes above the
 * first match wrongly, never below it, so only the lowest mark counts.
 */
static inline uint64_t words_mark_gaps(uint64_t w)
{
    return (w - EVERY_BYTE(0x21)) & ~w & EVERY_BYTE(0x80);
}

/*
 * The first byte from p on that is a space or below, or end. At least eight bytes before end
 * must be readable: the last word is loaded so that it ends at end, and shifting out the bytes
 * before p brings in zeros, which match.
 */
static inline const char *words_find_gap(const char *p, const char *end)
{
    const char *last = end - 8;
    uint64_t marks;

    debug_must(p <= end);
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
        marks = words_mark_gaps(load_le64(p));
        if (marks != 0) {
            return p + ((unsigned)__builtin_ctzll(marks) >> 3);
        }
    }
    if (p == end) {
        return end;
    }
    marks = words_mark_gaps(load_le64(last) >> (8 * (size_t)(p - last)));
    return p + ((unsigned)__builtin_ctzll(marks) >> 3);
}

static inline const char *words_skip_spaces(const char *p, const char *end)
{
    while (p < end && *p == ' ') {
        p++;
    }
    return p;
}

/* Remove the next word from the front of the line; false when there is none. */
static inline bool words_next(struct line *line, struct span *word)
{
    debug_must(line->begin <= line->end);

    const char *begin = words_skip_spaces(line->begin, line->end);
    const char *end = words_find_space(begin, line->end);

    line->begin = end;
    *word = span_of(begin, (size_t)(end - begin));
    debug_must(end <= line->end);
    return word->len > 0;
}

/* The rest of a line without the spaces around it. */
static inline struct span words_rest(struct line line)
{
    const char *begin = words_skip_spaces(line.begin, line.end);
    const char *end = line.end;

    while (end > begin && end[-1] == ' ') {
        end--;
    }
    return span_of(begin, (size_t)(end - begin));
}

/* Is this the last word of a line of HTTP? Then a browser or a proxy has sent the line. */
static inline bool words_are_http(struct span last)
{
    return last.len >= 5 && memcmp(last.ptr, "HTTP/", 5) == 0;
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
