/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What must not come back: see guard.h. Each key sets four bits, where bloom.h says.
 */
#include "lib/shard/guard.h"

#include "lib/base/bloom.h"
#include "lib/base/check.h"
#include "lib/base/mem.h"

#define LINES_MIN 1024u         /* 64 KiB */
#define LINES_MAX (1024u * 512) /* 32 MiB */
#define BITS      4u

static _Thread_local bool is_loader;

bool guard_init(struct guard *g, uint64_t items)
{
    uint64_t lines = LINES_MIN;

    *g = (struct guard){.line_log = 10};
    while (lines < LINES_MAX && lines * BLOOM_LINE_BYTES < items) {
        lines *= 2;
        g->line_log++;
    }
    /* Pages that nobody has touched are zero without being written. */
    g->words = mem_zalloc(lines * BLOOM_LINE_BYTES);
    return g->words != NULL;
}

void guard_fini(struct guard *g)
{
    mem_free(g->words);
    g->words = NULL;
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
    return g->words + bloom_line(hash, g->line_log);
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
