/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ghost: see ghost.h.
 */
#include "lib/memory/ghost.h"

#include <stddef.h>

_Static_assert(sizeof(struct ghost_bucket) == 64, "a bucket is one cache line");

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
static struct ghost_bucket *bucket_of(const struct ghost *g, uint64_t hash, uint32_t *print)
{
    uint64_t mixed = hash * 0x9e3779b97f4a7c15ULL;

    *print = (uint32_t)(hash >> 13) | 1;
    return &g->buckets[(uint64_t)(((unsigned __int128)mixed * g->count) >> 64)];
}

void ghost_add(struct ghost *g, uint64_t hash)
{
    if (g->buckets == NULL) {
        return;
    }

    uint32_t print;
    struct ghost_bucket *b = bucket_of(g, hash, &print);

    b->print[b->next] = print;
    b->next = b->next + 1 == GHOST_WAYS ? 0 : b->next + 1;
}

bool ghost_take(struct ghost *g, uint64_t hash)
{
    if (g->buckets == NULL) {
        return false;
    }

    uint32_t print;
    struct ghost_bucket *b = bucket_of(g, hash, &print);

    for (unsigned i = 0; i < GHOST_WAYS; i++) {
        if (b->print[i] == print) {
            b->print[i] = 0;
            return true;
        }
    }
    return false;
}
