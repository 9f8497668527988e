/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loose blocks: see loose.h.
 */
#include "lib/store/loose.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/memory/blocks.h"
#include "lib/memory/room_make.h"
#include "lib/shard/keyspace.h"
#include "lib/store/store_common.h"

/*
 * Give the blocks up. No reader has seen them, but a hole needs its grace period all the same.
 * Context: in shard.
 */
void loose_drop(struct loose *l)
{
    struct shard *s = l->shard;

    shard_must_be_entered(l->shard);
    if (l->epoch != s->memory.epoch) {
        return; /* a flush took them */
    }
    for (uint32_t i = 0; i < l->pieces; i++) {
        blocks_settle(&s->memory, l->piece[i]);
        blocks_kill(&s->memory, l->piece[i]);
    }
    if (l->head != 0) {
        blocks_settle(&s->memory, l->head);
        blocks_kill(&s->memory, l->head);
    }
}

static uint32_t piece_len(const struct loose *l, uint32_t i)
{
    uint32_t max = l->shard->memory.piece_max;
    size_t left = l->parts.tail_len - (size_t)i * max;

    return left < max ? (uint32_t)left : max;
}

/* A block for the next piece. Context: in shard. */
static handle_t make_piece(struct visit *v, enum chain_id chain, uint32_t *units, bool may_wait,
                           const struct loose *l, enum outcome *why)
{
    uint32_t bytes = piece_len(l, l->pieces);

    *units = (uint32_t)((PIECE_HEADER_BYTES + bytes + ITEM_UNIT - 1) / ITEM_UNIT);
    return bytes == l->shard->memory.piece_max ? visit_part(v, chain, units, may_wait, why)
                                               : visit_block(v, chain, units, may_wait, why);
}

/* Step 2. Context: in shard. */
enum outcome loose_make(struct visit *v, const struct store *st, bool has_ttl, struct loose *l)
{
    struct shard *s = v->to;
    enum outcome why = OUT_OK;
    uint32_t pieces =
        l->parts.tail_len == 0
            ? 0
            : (uint32_t)((l->parts.tail_len + s->memory.piece_max - 1) / s->memory.piece_max);

    shard_must_be_entered(v->to);
    must(pieces <= PIECES_MAX);
    l->shard = s;
    l->epoch = s->memory.epoch;
    l->pieces = 0;
    l->head = 0;
    room_make(&s->memory, l->parts.tail_len, v->now);
    visit_find(v);
    why = store_judge(v, st);
    if (why != OUT_STORED) {
        return why;
    }
    if (st->deadline <= v->now && !st->takes_due &&
        !(st->mode == STORE_APPEND || st->mode == STORE_PREPEND)) {
        return OUT_MISS; /* dead on arrival: nothing to make */
    }
    enum chain_id chain = visit_chain(v, l->parts.len, has_ttl);
    while (l->pieces < pieces) {
        uint32_t units;
        handle_t h = make_piece(v, chain, &units, st->may_wait, l, &why);

        if (h == 0) {
            loose_drop(l);
            return store_failed(v, st, why);
        }
        blocks_loosen(&s->memory, h, units);
        l->piece[l->pieces++] = h;
    }
    l->head_units = keyspace_units(st->key.len, 3 + LARGE_BYTES(pieces), has_ttl, true);
    l->head = visit_part(v, chain, &l->head_units, st->may_wait, &why);
    if (l->head == 0) {
        loose_drop(l);
        return store_failed(v, st, why);
    }
    blocks_loosen(&s->memory, l->head, l->head_units);
    return OUT_STORED;
}

/*
 * The pieces of the replaced value will be killed when the new bytes have arrived: prefetch
 * them.
 */
static void prefetch_old(const struct visit *v)
{
    if (v->is_live && item_is_large(v->item)) {
        chunks_prefetch(&v->owner->memory, item_large(v->item));
    }
}

bool loose_begin(struct engine *e, const struct store *st, struct loose *l, msec_t now)
{
    struct visit v;

    must_be_reading();
    store_enter(e, &v, st, now);
    if (v.to != l->parts.shard && l->parts.segments != 0) {
        visit_leave(&v); /* the slot has moved since they were taken */
        return false;
    }
    enum outcome out = loose_make(&v, st, st->deadline != MSEC_NEVER, l);
    if (out == OUT_STORED) {
        prefetch_old(&v);
    }
    visit_leave(&v);
    return out == OUT_STORED;
}

void loose_abort(struct loose *l)
{
    must_be_reading();
    shard_enter(l->shard);
    loose_drop(l);
    shard_leave(l->shard);
}

struct span loose_piece(const struct loose *l, uint32_t i)
{
    return span_of(piece_bytes(shard_item(l->shard, l->piece[i])), piece_len(l, i));
}

/*
 * Step 3: fill the pieces from the tail, unless their bytes are there already. Context: outside
 * the shard, in the section of step 2.
 */
void loose_fill(const struct loose *l)
{
    const char *from = l->parts.tail;

    must_be_reading();
    for (uint32_t i = 0; i < l->pieces; i++) {
        struct item *piece = shard_item(l->shard, l->piece[i]);
        uint32_t n = piece_len(l, i);

        if (from != NULL) {
            memcpy(piece_bytes(piece), from, n);
            from += n;
        }
        piece_fill(piece, l->head, i, n);
    }
}

/* Step 4: the head becomes the item. Context: in shard. */
void loose_link(struct visit *v, struct store *st, msec_t deadline, bool has_ttl,
                uint32_t flags, struct loose *l)
{
    struct shard *s = l->shard;

    shard_must_be_entered(l->shard);
    for (uint32_t i = 0; i < l->pieces; i++) {
        blocks_settle(&s->memory, l->piece[i]);
    }
    blocks_settle(&s->memory, l->head);
    struct item *it = keyspace_fill(s, l->head, l->head_units, st->key, flags, deadline,
                                    has_ttl, true, (uint32_t)l->parts.len, v->now);
    item_set_large(it);
    struct large *large = item_large(it);
    large->first = l->parts.first;
    large->last = l->parts.last;
    large->segments = l->parts.segments;
    large->pieces = l->pieces;
    large->skip = 0;
    large->anchor = l->parts.first;
    for (uint32_t i = 0; i < l->pieces; i++) {
        atomic_store_explicit(&large->piece[i], l->piece[i], memory_order_relaxed);
    }
    st->value_len = item_len(it);
    store_finish(v, st, it, HEAT_USE);
    visit_link(v, l->head, DEATH_OVERWRITE);
    if (st->over != NULL && st->over->is_copy) {
        /*
         * No client stored anything. Subtracted after the link, so that the count never goes
         * down.
         */
        ctr_add(&v->to->counters, CTR_total_items, -(uint64_t)1);
    }
}
