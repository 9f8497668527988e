/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large values: whole segments for the bulk, at most fifteen pieces in the log for the rest.
 * The item's block (its head) holds struct large instead of the value; a piece is a block
 * without a key that knows its owner and its number. Whoever moves one patches the other.
 */
#include "lib/base/check.h"

#include "lib/shard/shard.h"

/*
 * The last segment of a value may stay partly empty when that wastes no more than this share of
 * the value: it saves copying its end into pieces.
 */
#define WASTE_SHARE 16

void chunks_cut(const struct shard *s, size_t len, struct cut *out)
{
    size_t seg = segment_bytes(&s->arena);
    size_t rest = len % seg;

    out->segments = (uint32_t)(len / seg);
    out->pieces = 0;
    out->tail = 0;
    if (rest == 0) {
        return;
    }
    if (rest > (size_t)PIECES_MAX * s->piece_max || seg - rest <= len / WASTE_SHARE) {
        out->segments++;
        return;
    }
    out->pieces = (uint32_t)((rest + s->piece_max - 1) / s->piece_max);
    out->tail = (uint32_t)rest;
}

/* Which queue the segments of a dead value wait in: that is what lazyfree means here. */
static enum run_kind run_kind_for(struct shard *s, uint64_t bytes, enum death_reason reason)
{
    const struct engine_options *o = s->engine->config.options;
    const _Atomic bool *is_lazy[] = {
        [DEATH_EXPIRE] = &o->lazyfree_expire,
        [DEATH_EVICT] = &o->lazyfree_evict,
        [DEATH_OVERWRITE] = &o->lazyfree_overwrite,
        [DEATH_DELETE] = &o->lazyfree_delete,
    };

    if (!atomic_load_explicit(is_lazy[reason], memory_order_relaxed) ||
        bytes < engine_option(o, lazyfree_threshold_bytes)) {
        return RUN_DIRECT;
    }
    if (ctr_get(&s->counters, CTR_lazyfree_pending_bytes) >
        engine_option(o, lazyfree_backlog_bytes)) {
        ctr_add(&s->counters, CTR_lazyfree_helped, 1);
        return RUN_DIRECT;
    }
    return RUN_LAZY;
}

void chunks_kill(struct shard *s, const struct item *it, enum death_reason reason)
{
    struct large *l = item_large(it);
    uint64_t bytes = (uint64_t)l->segments << s->arena.shift;

    for (uint32_t i = 0; i < l->pieces; i++) {
        blocks_kill(s, atomic_load_explicit(&l->piece[i], memory_order_relaxed), DEATH_REUSE);
    }
    s->large_items--;
    if (l->segments != 0) {
        handle_t head = (handle_t)(((uintptr_t)it - (uintptr_t)s->arena.base) / ITEM_UNIT);
        enum run_kind kind = run_kind_for(s, bytes, reason);

        s->large_with_segments--;
        s->blocks.chain[s->arena.segments[segment_of(&s->arena, head)].chain].bytes -= bytes;
        arena_retire_value(&s->arena, l->first, kind);
        if (kind == RUN_LAZY) {
            ctr_add(&s->counters, CTR_lazyfree_pending_objects, 1);
            ctr_add(&s->counters, CTR_lazyfree_pending_bytes, bytes);
        }
    }
}

void chunks_head_moved(struct shard *s, handle_t to)
{
    struct large *l = item_large(shard_item(s, to));

    for (uint32_t i = 0; i < l->pieces; i++) {
        handle_t p = atomic_load_explicit(&l->piece[i], memory_order_relaxed);

        shard_item(s, p)->client_flags = to;
    }
}

void chunks_piece_moved(struct shard *s, handle_t to)
{
    const struct item *piece = shard_item(s, to);
    struct large *l = item_large(shard_item(s, piece->client_flags));

    debug_must(piece->cas < l->pieces);
    atomic_store_explicit(&l->piece[piece->cas], to, memory_order_release);
}
