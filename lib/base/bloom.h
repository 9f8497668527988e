/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bloom filters with all bits of a key in one cache line. These functions compute the positions
 * of the bits from a 64-bit hash. The high bits of the hash choose the line. The hash times an
 * odd constant chooses the bits in it, nine bits of the product for each. The caller owns the
 * words, and sets and reads them. Context of all: any thread.
 *
 *     words += bloom_line(hash, line_log);
 *     for (i = 0, at = bloom_first(hash); i < BITS; i++, at = bloom_next(at)) {
 *         words[bloom_word(at)] |= bloom_bit(at);
 *     }
 */
#ifndef MAYFLY_LIB_BASE_BLOOM_H
#define MAYFLY_LIB_BASE_BLOOM_H

#include <stdint.h>

#define BLOOM_LINE_WORDS 8u
#define BLOOM_LINE_BYTES (BLOOM_LINE_WORDS * 8u)

/* The index of the first word of the hash's line; the filter has 2^line_log lines. */
static inline uint64_t bloom_line(uint64_t hash, unsigned line_log)
{
    return (line_log == 0 ? 0 : hash >> (64 - line_log)) * BLOOM_LINE_WORDS;
}

/* The state that gives the first bit. Up to seven bits follow from it (bloom_next()). */
static inline uint64_t bloom_first(uint64_t hash)
{
    return hash * 0x9e3779b97f4a7c15u;
}

static inline uint64_t bloom_next(uint64_t at)
{
    return at >> 9;
}

/* The index of the word in the line, and the mask of the bit in that word. */
static inline unsigned bloom_word(uint64_t at)
{
    return at >> 6 & (BLOOM_LINE_WORDS - 1);
}

static inline uint64_t bloom_bit(uint64_t at)
{
    return (uint64_t)1 << (at & 63);
}

#endif
