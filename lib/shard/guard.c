/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guards: see guard.h. Each key sets four bits, at the positions given by bloom.h.
 */
#include "lib/shard/guard.h"

#include <stdalign.h>
#include <stddef.h>

#include "lib/base/bloom.h"
#include "lib/base/mem.h"
#include "lib/base/reclaim.h"

#define LINES_MIN 1024u         /* 64 KiB */
#define LINES_MAX (1024u * 512) /* 32 MiB */
#define BITS      4u

/* One mapping: released as a whole. */
struct guard_bits {
    struct retired retired; /* must be the first member */
    struct budget *budget;  /* [borrowed] */
    size_t bytes;           /* of the mapping */
    alignas(BLOOM_LINE_BYTES) _Atomic uint64_t words[];
};

static _Thread_local bool is_loader;

bool guard_init(struct guard *g, uint64_t items, struct budget *budget)
{
    const int64_t limit = budget_limit(budget);
    const uint64_t most = (uint64_t)limit / GUARD_LIMIT_PART;
    uint64_t lines = LINES_MIN;

    *g = (struct guard){.line_log = 10};
    while (lines < LINES_MAX && lines * BLOOM_LINE_BYTES < items &&
           lines * 2 * BLOOM_LINE_BYTES <= most) {
        lines *= 2;
        g->line_log++;
    }
    size_t bytes = sizeof(struct guard_bits) + lines * BLOOM_LINE_BYTES;
    /* With huge pages the first note in each would have to clear 2 MiB, inside a shard. */
    g->bits = mem_map(bytes, MEM_PAGES_SMALL);
    if (g->bits == NULL) {
        return false;
    }
    g->bits->budget = budget;
    g->bits->bytes = bytes;
    budget_add(budget, (int64_t)bytes);
    return true;
}

static void release_bits(struct retired *r)
{
    struct guard_bits *b = (struct guard_bits *)(void *)r;

    budget_count(b->budget, BUDGET_RETIRED, -(int64_t)b->bytes);
    budget_add(b->budget, -(int64_t)b->bytes);
    mem_unmap(b, b->bytes);
}

void guard_retire(struct guard *g, struct reclaimer *r)
{
    budget_count(g->bits->budget, BUDGET_RETIRED, (int64_t)g->bits->bytes);
    g->bits->retired.fn = release_bits;
    reclaim_push(r, &g->bits->retired);
    g->bits = NULL;
}

void guard_set_loader(bool is)
{
    is_loader = is;
}

bool guard_is_loader(void)
{
    return is_loader;
}

static _Atomic uint64_t *line_of(const struct guard *g, uint64_t hash)
{
    return g->bits->words + bloom_line(hash, g->line_log);
}

void guard_note(struct guard *g, uint64_t hash)
{
    _Atomic uint64_t *line = line_of(g, hash);
    uint64_t at = bloom_first(hash);

    for (unsigned i = 0; i < BITS; i++, at = bloom_next(at)) {
        atomic_fetch_or_explicit(&line[bloom_word(at)], bloom_bit(at), memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&g->noted, 1, memory_order_relaxed);
}

static bool has(const struct guard *g, uint64_t hash)
{
    const _Atomic uint64_t *line = line_of(g, hash);
    uint64_t at = bloom_first(hash);

    for (unsigned i = 0; i < BITS; i++, at = bloom_next(at)) {
        uint64_t word = atomic_load_explicit(&line[bloom_word(at)], memory_order_relaxed);

        if ((word & bloom_bit(at)) == 0) {
            return false;
        }
    }
    return true;
}

bool guard_turns_away(struct guard *g, uint64_t hash)
{
    if (!atomic_load_explicit(&g->is_void, memory_order_acquire) && !has(g, hash)) {
        return false;
    }
    atomic_fetch_add_explicit(&g->turned, 1, memory_order_relaxed);
    return true;
}
