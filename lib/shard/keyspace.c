/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Items as the index sees them: filling a block, linking it under its key, unlinking and
 * killing it, with counters, deadlines and large values kept in step. Runs in the shard.
 */
#include <string.h>

#include "lib/base/check.h"
#include "lib/shard/shard.h"

/* CAS values are drawn from the process in blocks. */
#define CAS_BLOCK 65536u

void shard_draw_cas(struct shard *s)
{
    s->cas_next =
        atomic_fetch_add_explicit(&s->engine->cas_next, CAS_BLOCK, memory_order_relaxed);
    s->cas_end = s->cas_next + CAS_BLOCK;
}

/* What an item counts in `bytes`: its block, and a large value's bytes. */
static inline uint64_t item_weight(const struct item *it)
{
    return item_bytes(it) + (item_is_large(it) ? it->value_len : 0);
}

/* The item of a handle left the index: everything else that knows it forgets it. */
static inline void forget(struct shard *s, handle_t h, enum death_reason reason)
{
    struct item *it = shard_item(s, h);

    ctr_add(&s->counters, CTR_item_bytes, -item_weight(it));
    if (item_has_ttl(it)) {
        wheel_remove(s->wheel, h);
    }
    if (item_is_large(it)) {
        chunks_kill(s, it, reason);
    }
    blocks_kill(s, h, DEATH_REUSE);
}

/* Segments of a large value become part of the generation. */
static void adopt_large(struct shard *s, handle_t h)
{
    const struct large *l = item_large(shard_item(s, h));

    s->large_items++;
    if (l->segments != 0) {
        s->large_with_segments++;
        arena_link_value(&s->arena, l->first, l->last, l->segments);
        s->blocks.chain[s->arena.segments[segment_of(&s->arena, h)].chain].bytes +=
            (uint64_t)l->segments << s->arena.shift;
    }
}

/* What a new item is besides being in the index. */
static inline void adopt(struct shard *s, handle_t h)
{
    struct item *it = shard_item(s, h);
    uint16_t shape = item_shape(it);

    if (MF_UNLIKELY((shape & SHAPE_LARGE) != 0)) {
        adopt_large(s, h);
    }
    if ((shape & SHAPE_TTL) != 0 && item_deadline(it) != MSEC_NEVER) {
        wheel_add(s->wheel, h);
        shard_note_added(s, item_deadline(it));
    }
    ctr_add(&s->counters, CTR_item_bytes, item_weight(it));
    ctr_add(&s->counters, CTR_total_items, 1);
}

void keyspace_insert(struct shard *s, uint64_t hash, handle_t h)
{
    adopt(s, h);
    table_insert(&s->table, hash, h);
    ctr_add(&s->counters, CTR_curr_items, 1);
    shard_note_work(s);
}

/*
 * Are both volatile items of one block, and could the new one have the old one's place in
 * the wheel?
 */
static inline bool takes_place(struct shard *s, handle_t h, handle_t old, uint16_t shape,
                               uint16_t old_shape)
{
    msec_t deadline;

    if ((shape & old_shape & SHAPE_TTL) == 0 || ((shape | old_shape) & SHAPE_LARGE) != 0) {
        return false;
    }
    deadline = item_deadline(shard_item(s, h));
    if (deadline == MSEC_NEVER || !wheel_replace(s->wheel, old, h)) {
        return false;
    }
    shard_note_changed(s, deadline);
    return true;
}

void keyspace_replace(struct shard *s, handle_t h, _Atomic handle_t *slot,
                      enum death_reason reason)
{
    handle_t old = atomic_load_explicit(slot, memory_order_relaxed);
    uint16_t shape = item_shape(shard_item(s, h));
    uint16_t old_shape = item_shape(shard_item(s, old));

    if (((shape | old_shape) & (SHAPE_LARGE | SHAPE_TTL)) != 0 &&
        !takes_place(s, h, old, shape, old_shape)) {
        adopt(s, h);
        table_replace(slot, h);
        forget(s, old, reason);
        return;
    }
    /* The same, where a block in the index is all that changes. */
    ctr_add(&s->counters, CTR_item_bytes,
            ((uint64_t)(shape & SHAPE_SIZE) - (old_shape & SHAPE_SIZE)) * ITEM_UNIT);
    ctr_add(&s->counters, CTR_total_items, 1);
    table_replace(slot, h);
    blocks_kill(s, old, DEATH_REUSE);
}

void keyspace_unlink(struct shard *s, uint64_t hash, _Atomic handle_t *slot,
                     enum death_reason reason)
{
    handle_t h = atomic_load_explicit(slot, memory_order_relaxed);

    table_remove(&s->table, hash, slot);
    ctr_add(&s->counters, CTR_curr_items, -(uint64_t)1);
    forget(s, h, reason);
    if ((s->table.count & 0xff) == 0) {
        shard_note_work(s); /* the index may have become too large */
    }
}
