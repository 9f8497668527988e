/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What must not come back: see guard.h. The high bits of a hash choose a line of 512 bits, and
 * its product with an odd number four bits in it.
 */
#include "lib/shard/guard.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"

#define LINE_WORDS 8u
#define LINE_BYTES 64u
#define LINES_MIN  1024u         /* 64 KiB */
#define LINES_MAX  (1024u * 512) /* 32 MiB */
#define BITS       4u
#define MIX        0x9e3779b97f4a7c15u

static _Thread_local bool is_loader;

bool guard_init(struct guard *g, uint64_t items)
{
    uint64_t lines = LINES_MIN;

    *g = (struct guard){.line_log = 10};
    while (lines < LINES_MAX && lines * LINE_BYTES < items) {
        lines *= 2;
        g->line_log++;
    }
    /* Pages that nobody has touched are zero without being written. */
    g->words = mem_zalloc(lines * LINE_BYTES);
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
    return g->words + (hash >> (64 - g->line_log)) * LINE_WORDS;
}

void guard_note(struct guard *g, uint64_t hash)
{
    _Atomic uint64_t *line = line_of(g, hash);
    uint64_t bits = hash * MIX;

    for (unsigned i = 0; i < BITS; i++, bits >>= 9) {
        atomic_fetch_or_explicit(&line[bits >> 6 & 7], (uint64_t)1 << (bits & 63),
                                 memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&g->noted, 1, memory_order_relaxed);
}

static bool has(const struct guard *g, uint64_t hash)
{
    const _Atomic uint64_t *line = line_of(g, hash);
    uint64_t bits = hash * MIX;

    for (unsigned i = 0; i < BITS; i++, bits >>= 9) {
        uint64_t word = atomic_load_explicit(&line[bits >> 6 & 7], memory_order_relaxed);

        if ((word >> (bits & 63) & 1) == 0) {
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
