/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A set of keys: see keyset.h. Each key sets six bits, at the positions given by bloom.h.
 */
#include "lib/log/keyset.h"

#include "lib/base/bloom.h"
#include "lib/base/mem.h"

#define BITS        6u
#define BYTES_A_KEY 4u

bool keyset_init(struct keyset *s, uint64_t keys, uint64_t seed)
{
    *s = (struct keyset){.bytes = BLOOM_LINE_BYTES, .seed = seed};
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
    return s->words + bloom_line(hash, s->line_log);
}

void keyset_prefetch(const struct keyset *s, uint64_t hash)
{
    __builtin_prefetch(line_of(s, hash), 1);
}

void keyset_add(struct keyset *s, uint64_t hash)
{
    uint64_t *line = line_of(s, hash);
    uint64_t at = bloom_first(hash);

    for (unsigned i = 0; i < BITS; i++, at = bloom_next(at)) {
        line[bloom_word(at)] |= bloom_bit(at);
    }
}

bool keyset_has(const struct keyset *s, uint64_t hash)
{
    uint64_t at = bloom_first(hash);

    if (s->words == NULL) {
        return false;
    }
    const uint64_t *line = line_of(s, hash);
    for (unsigned i = 0; i < BITS; i++, at = bloom_next(at)) {
        if ((line[bloom_word(at)] & bloom_bit(at)) == 0) {
            return false;
        }
    }
    return true;
}
