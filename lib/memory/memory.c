/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A memory as a whole: made, flushed, released.
 */
#include "lib/memory/memory.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/memory/blocks.h"
#include "lib/memory/stock.h"

/*
 * Eight of the longest pieces fill a segment, and a 64th of it is left for the heads and the
 * short last pieces of their values. Each piece costs cache misses when it is made, judged and
 * killed, so it is long; were it longer still, ends of segments would stay unused.
 */
#define PIECE_SHARE 8
#define HEADS_SHARE 64

/* Blocks of one size leave at most this part of a segment unused, or are cut: memory_fits(). */
#define WASTE_SHARE 8

/* Bytes of value in the longest piece, at most what the size field can hold. */
static uint32_t piece_max(const struct arena *a)
{
    uint32_t pieces_bytes = segment_bytes(a) - segment_bytes(a) / HEADS_SHARE;
    uint32_t units = pieces_bytes / PIECE_SHARE / ITEM_UNIT;

    units = units < ITEM_SIZE_MAX ? units : ITEM_SIZE_MAX;
    return units * ITEM_UNIT - PIECE_HEADER_BYTES;
}

bool memory_init(struct memory *m, const struct memory_setup *setup)
{
    uint64_t share = setup->limit_bytes / setup->sharers;

    memset(m, 0, sizeof(*m));
    m->ops = setup->ops;
    m->owner = setup->owner;
    m->lock = setup->lock;
    m->counters = setup->counters;
    m->clock = setup->clock;
    m->options = setup->options;
    atomic_init(&m->sharers, setup->sharers);
    evict_init(&m->evict, setup->options, setup->lock);
    if (!arena_init(&m->arena, setup->range_bytes, &setup->shape, setup->region, setup->budget,
                    setup->grace, setup->lock)) {
        return false;
    }
    if (!setup->is_in_cores) {
        mem_leave_out_of_cores(m->arena.base, m->arena.map_bytes);
    }
    m->piece_max = piece_max(&m->arena);
    m->fitting_units = segment_bytes(&m->arena) / WASTE_SHARE / ITEM_UNIT;
    if (m->fitting_units > ITEM_SIZE_MAX) {
        m->fitting_units = ITEM_SIZE_MAX;
    }
    return blocks_init(m, share);
}

void memory_fini(struct memory *m)
{
    evict_fini(&m->evict, m->arena.budget);
    blocks_fini(m);
    if (m->arena.base != NULL) {
        arena_fini(&m->arena);
    }
}

void memory_fit_limit(struct memory *m, uint32_t sharers)
{
    memory_must_be_entered(m);
    atomic_store_explicit(&m->sharers, sharers, memory_order_relaxed);
    arena_range_retry(&m->arena);
    m->blocks.ring_misfits = true;
    m->trim.hasty_until = clock_now(m->clock) + TRIM_HASTY_MS;
}

bool memory_rest(struct memory *m)
{
    memory_must_be_entered(m);
    if (!arena_reset(&m->arena)) {
        return false;
    }
    blocks_rest(m);
    memset(&m->cursor, 0, sizeof(m->cursor));
    m->evict.pooled = 0;
    return true;
}

static void grow_range(struct memory *m)
{
    lock_take(m->lock);
    uint32_t from = arena_range_begin(&m->arena);
    lock_give(m->lock);
    if (from == 0) {
        return;
    }
    bool is_done = arena_range_commit(&m->arena, from);
    lock_take(m->lock);
    if (!is_done && m->arena.committed == from) {
        ctr_add(m->counters, CTR_range_refused, 1);
    }
    arena_range_end(&m->arena, from, is_done);
    lock_give(m->lock);
}

void memory_grow(struct memory *m)
{
    grow_range(m);
    stock_make(m);
}

static void retire_chain(struct memory *m, const struct chain *c)
{
    if (c->count != 0) {
        arena_retire(&m->arena, c->head, c->tail, c->count, RUN_DIRECT);
    }
}

bool memory_fits_slowly(const struct memory *m, uint32_t units)
{
    uint32_t segment = segment_bytes(&m->arena);

    return units <= ITEM_SIZE_MAX && segment % (units * ITEM_UNIT) <= segment / WASTE_SHARE;
}

void memory_flush(struct memory *m)
{
    bool is_lazy = engine_option(m->options, lazyfree_flush);
    uint64_t whole = (uint64_t)m->arena.values.segments << m->arena.shift;

    memory_must_be_entered(m);
    for (int id = 0; id < CHAINS; id++) {
        retire_chain(m, &m->blocks.chain[id]);
    }
    arena_retire_values(&m->arena, is_lazy ? RUN_LAZY : RUN_DIRECT);
    if (!is_lazy) {
        ctr_add(m->counters, CTR_lazyfree_helped, m->large_with_segments);
    } else if (whole != 0) {
        ctr_add(m->counters, CTR_lazyfree_pending_objects, m->large_with_segments);
        ctr_add(m->counters, CTR_lazyfree_pending_bytes, whole);
    }
    blocks_reset(m);
    memset(&m->cursor, 0, sizeof(m->cursor));
    m->evict.pooled = 0; /* the candidates' blocks look alive until they are released */
    m->large_items = 0;
    m->large_with_segments = 0;
    m->epoch++;
}
