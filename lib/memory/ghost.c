/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ghost: see ghost.h.
 */
#include "lib/memory/ghost.h"

#include <stddef.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

_Static_assert(sizeof(struct ghost_bucket) == 32, "a bucket is half a cache line");

bool ghost_create(struct ghost *g, uint64_t items, struct budget *budget)
{
    uint64_t count = items / GHOST_WAYS + 1;

    g->buckets = mem_map(count * sizeof(struct ghost_bucket), MEM_PAGES_SMALL);
    if (g->buckets == NULL) {
        g->count = 0;
        return false;
    }
    g->count = count;
    budget_add(budget, (int64_t)(count * sizeof(struct ghost_bucket)));
    return true;
}

void ghost_destroy(struct ghost *g, struct budget *budget)
{
    if (g->buckets != NULL) {
        mem_unmap(g->buckets, g->count * sizeof(struct ghost_bucket));
        budget_add(budget, -(int64_t)(g->count * sizeof(struct ghost_bucket)));
    }
    g->buckets = NULL;
    g->count = 0;
}

bool ghost_touch(struct ghost *g, size_t *done)
{
    return mem_touch_next(g->buckets, g->count * sizeof(struct ghost_bucket), done);
}

/* The router, the bucket and the tag have used bits of the hash: mix them again. */
static struct ghost_bucket *bucket_of(const struct ghost *g, uint64_t hash, uint16_t *print)
{
    uint64_t mixed = hash * 0x9e3779b97f4a7c15ULL;

    *print = (uint16_t)(hash >> 13);
    *print = (uint16_t)(*print + (*print == 0));
    return &g->buckets[(uint64_t)(((unsigned __int128)mixed * g->count) >> 64)];
}

/* A bit for each way that has the fingerprint. */
static unsigned ways_with(const struct ghost_bucket *b, uint16_t print)
{
#ifdef __SSE2__
    const __m128i *half = (const __m128i *)(const void *)b;
    __m128i wanted = _mm_set1_epi16((short)print);
    __m128i low = _mm_cmpeq_epi16(_mm_load_si128(&half[0]), wanted);
    __m128i high = _mm_cmpeq_epi16(_mm_load_si128(&half[1]), wanted);
    unsigned same = (unsigned)_mm_movemask_epi8(_mm_packs_epi16(low, high));
#else
    unsigned same = 0;

    for (unsigned i = 0; i < GHOST_WAYS; i++) {
        same |= (unsigned)(b->print[i] == print) << i;
    }
#endif
    return same & ((1u << GHOST_WAYS) - 1);
}

void ghost_add(struct ghost *g, uint64_t hash)
{
    if (g->buckets == NULL) {
        return;
    }

    uint16_t print;
    struct ghost_bucket *b = bucket_of(g, hash, &print);

    b->print[b->next] = print;
    b->next = (uint16_t)(b->next + 1u == GHOST_WAYS ? 0 : b->next + 1u);
}

bool ghost_take(struct ghost *g, uint64_t hash)
{
    if (g->buckets == NULL) {
        return false;
    }

    uint16_t print;
    struct ghost_bucket *b = bucket_of(g, hash, &print);

    unsigned same = ways_with(b, print);

    if (same != 0) {
        b->print[__builtin_ctz(same)] = 0;
        return true;
    }
    return false;
}
