/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large values: see chunks.h.
 */
#include "lib/memory/chunks.h"

#include "lib/base/check.h"
#include "lib/memory/blocks.h"

/*
 * The last segment of a value may stay partly empty when that wastes no more than this share of
 * the value: it saves copying its end into pieces.
 */
#define WASTE_SHARE 16

void chunks_cut(const struct memory *m, size_t len, struct cut *out)
{
    size_t seg = segment_bytes(&m->arena);
    size_t rest = len % seg;

    out->segments = (uint32_t)(len / seg);
    out->pieces = 0;
    out->tail = 0;
    if (rest == 0) {
        return;
    }
    if (rest > (size_t)PIECES_MAX * m->piece_max || seg - rest <= len / WASTE_SHARE) {
        out->segments++;
        return;
    }
    out->pieces = (uint32_t)((rest + m->piece_max - 1) / m->piece_max);
    out->tail = (uint32_t)rest;
}

/*
 * Which queue the segments of a dead value of this length wait in: that is what lazyfree means
 * here.
 */
static enum run_kind run_kind_for(struct memory *m, uint32_t len, enum death_reason reason)
{
    const struct engine_options *o = m->options;
    const _Atomic bool *is_lazy[] = {
        [DEATH_EXPIRE] = &o->lazyfree_expire,       [DEATH_EVICT] = &o->lazyfree_evict,
        [DEATH_OVERWRITE] = &o->lazyfree_overwrite, [DEATH_DELETE] = &o->lazyfree_delete,
        [DEATH_FLUSH] = &o->lazyfree_flush,
    };

    if (len < engine_option(o, lazyfree_threshold_bytes)) {
        return RUN_DIRECT;
    }
    if (!atomic_load_explicit(is_lazy[reason], memory_order_relaxed) ||
        ctr_get(m->counters, CTR_lazyfree_pending_bytes) >
            engine_option(o, lazyfree_backlog_bytes)) {
        ctr_add(m->counters, CTR_lazyfree_helped, 1);
        return RUN_DIRECT;
    }
    return RUN_LAZY;
}

void chunks_adopt(struct memory *m, handle_t head)
{
    const struct large *l = item_large(memory_item(m, head));

    memory_must_be_entered(m);
    m->large_items++;
    if (l->segments != 0) {
        m->large_with_segments++;
        arena_link_value(&m->arena, l->first, l->last, l->segments);
        m->blocks.chain[memory_chain(m, head)].bytes += (uint64_t)l->segments << m->arena.shift;
    }
}

static void kill_pieces(struct memory *m, struct large *l)
{
    chunks_prefetch(m, l); /* so the misses overlap */
    for (uint32_t i = 0; i < l->pieces; i++) {
        blocks_kill(m, atomic_load_explicit(&l->piece[i], memory_order_relaxed));
    }
}

void chunks_extend(struct memory *m, handle_t from, handle_t to,
                   const struct growth by[RUN_ENDS])
{
    struct large *old = item_large(memory_item(m, from));
    struct large *l = item_large(memory_item(m, to));
    const struct segment *run = &m->arena.segments[old->anchor];
    struct chain *chain = m->blocks.chain;

    memory_must_be_entered(m);
    for (int i = 0; i < RUN_ENDS; i++) {
        if (by[i].count != 0) {
            arena_extend_value(&m->arena, old->anchor, (enum run_end)i, by[i].first, by[i].last,
                               by[i].count);
        }
    }
    l->first = run->run_first;
    l->last = run->run_last;
    l->segments = run->run_count;
    l->pieces = 0;
    l->skip = m->arena.segments[l->first].skip;
    l->anchor = old->anchor;
    chain[memory_chain(m, from)].bytes -= (uint64_t)old->segments << m->arena.shift;
    chain[memory_chain(m, to)].bytes += (uint64_t)l->segments << m->arena.shift;
}

void chunks_extended(struct memory *m, handle_t from)
{
    memory_must_be_entered(m);
    kill_pieces(m, item_large(memory_item(m, from)));
}

void chunks_kill(struct memory *m, handle_t head, enum death_reason reason)
{
    struct item *it = memory_item(m, head);
    struct large *l = item_large(it);
    uint64_t bytes = (uint64_t)l->segments << m->arena.shift;

    memory_must_be_entered(m);
    kill_pieces(m, l);
    m->large_items--;
    if (l->segments != 0) {
        enum run_kind kind = run_kind_for(m, item_len(it), reason);

        m->large_with_segments--;
        m->blocks.chain[memory_chain(m, head)].bytes -= bytes;
        arena_retire_value(&m->arena, l->anchor, kind);
        if (kind == RUN_LAZY) {
            ctr_add(m->counters, CTR_lazyfree_pending_objects, 1);
            ctr_add(m->counters, CTR_lazyfree_pending_bytes, bytes);
        }
    }
}

void chunks_head_moved(struct memory *m, handle_t from, handle_t to)
{
    struct large *l = item_large(memory_item(m, to));
    uint64_t whole = (uint64_t)l->segments << m->arena.shift;

    memory_must_be_entered(m);
    m->blocks.chain[memory_chain(m, from)].bytes -= whole;
    m->blocks.chain[memory_chain(m, to)].bytes += whole;
    for (uint32_t i = 0; i < l->pieces; i++) {
        handle_t p = atomic_load_explicit(&l->piece[i], memory_order_relaxed);

        piece_set_owner(memory_item(m, p), to);
    }
}

void chunks_piece_moved(struct memory *m, handle_t to)
{
    const struct item *piece = memory_item(m, to);
    struct large *l = item_large(memory_item(m, piece_owner(piece)));

    memory_must_be_entered(m);
    must(piece_number(piece) < l->pieces);
    atomic_store_explicit(&l->piece[piece_number(piece)], to, memory_order_release);
}
