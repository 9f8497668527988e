/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A set of keys: see keyset.h. The high bits of a hash choose the line, and six times nine bits
 * of its product with an odd number the bits in it.
 */
#include "lib/snapshot/keyset.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"

#define LINE_WORDS  8u
#define LINE_BYTES  (LINE_WORDS * 8u)
#define BITS        6u
#define BIT_LOG     9u /* bits of a line: 2^9 */
#define WORD_LOG    6u
#define BYTES_A_KEY 4u
#define MIX         0x9e3779b97f4a7c15u

_Static_assert(LINE_BYTES * 8 == 1u << BIT_LOG, "a line");

bool keyset_init(struct keyset *s, uint64_t keys, uint64_t seed)
{
    *s = (struct keyset){.bytes = LINE_BYTES, .seed = seed};
    while (s->bytes < KEYSET_BYTES_MAX && s->bytes / BYTES_A_KEY < keys) {
        s->bytes *= 2;
        s->line_log++;
    }
    s->words = mem_map(s->bytes, s->bytes >= MEM_HUGE_BYTES ? MEM_PAGES_HUGE : MEM_PAGES_SMALL);
    return s->words != NULL;
}

void keyset_fini(struct keyset *s)
{
    if (s->words != NULL) {
        mem_unmap(s->words, s->bytes);
        s->words = NULL;
    }
}

static uint64_t *line_of(const struct keyset *s, uint64_t hash)
{
    uint64_t line = s->line_log == 0 ? 0 : hash >> (64 - s->line_log);

    return s->words + line * LINE_WORDS;
}

void keyset_prefetch(const struct keyset *s, uint64_t hash)
{
    __builtin_prefetch(line_of(s, hash), 1);
}

void keyset_add(struct keyset *s, uint64_t hash)
{
    uint64_t *line = line_of(s, hash);
    uint64_t bits = hash * MIX;

    for (unsigned i = 0; i < BITS; i++, bits >>= BIT_LOG) {
        unsigned bit = bits & ((1u << BIT_LOG) - 1);

        line[bit >> WORD_LOG] |= (uint64_t)1 << (bit & 63);
    }
}

bool keyset_has(const struct keyset *s, uint64_t hash)
{
    uint64_t bits = hash * MIX;
    const uint64_t *line;

    if (s->words == NULL) {
        return false;
    }
    line = line_of(s, hash);
    for (unsigned i = 0; i < BITS; i++, bits >>= BIT_LOG) {
        unsigned bit = bits & ((1u << BIT_LOG) - 1);

        if ((line[bit >> WORD_LOG] >> (bit & 63) & 1) == 0) {
            return false;
        }
    }
    return true;
}
