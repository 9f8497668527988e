/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The full walk over a shard: see verify.h.
 */
#include "tests/common/verify.h"

#include <stdarg.h>
#include <stdio.h>

#include "lib/memory/blocks.h"
#include "lib/memory/chains.h"
#include "lib/memory/chunks.h"
#include "lib/shard/position.h"
#include "lib/shard/shard.h"

struct tally {
    struct shard *shard;
    char *why;
    size_t why_size;
    bool is_wrong;
    uint64_t items, item_bytes, volatile_keys, pieces, large_items, large_whole;
    uint64_t dead, holes, listed, chain_bytes[CHAINS];
    uint32_t in_bins;
    uint64_t linked;
};

static void wrong(struct tally *t, const char *fmt, ...) MF_PRINTF(2, 3);

static void wrong(struct tally *t, const char *fmt, ...)
{
    if (t->is_wrong) {
        return; /* the first one is the most useful */
    }
    t->is_wrong = true;
    MF_FORMAT(t->why, t->why_size, fmt);
}

static bool is_linked(struct tally *t, const struct item *it, handle_t h)
{
    struct shard *s = t->shard;
    _Atomic handle_t *slot = table_slot(&s->table, s->memory.arena.base, shard_hash(s, it),
                                        item_key(it), it->key_len);

    return slot != NULL && atomic_load_explicit(slot, memory_order_relaxed) == h;
}

/* Does the anchor of a value describe the run that was found, which ends with `last`? */
static bool is_run_of(const struct shard *s, const struct large *l, segment_t last)
{
    const struct segment *run = &s->memory.arena.segments[l->anchor];

    return run->run_first == l->first && run->run_last == last && l->last == last &&
           run->run_count == l->segments && s->memory.arena.segments[l->first].skip == l->skip;
}

static void check_large(struct tally *t, const struct item *it, handle_t h)
{
    struct shard *s = t->shard;
    const struct large *l = item_large(it);
    uint64_t whole = (uint64_t)l->segments << s->memory.arena.shift;
    uint64_t bytes = 0;
    segment_t prev = 0;
    uint32_t n = 0;

    t->large_items++;
    t->large_whole += l->segments;
    t->chain_bytes[s->memory.arena.segments[segment_of(&s->memory.arena, h)].chain] += whole;
    for (segment_t i = l->first; n < l->segments; i = s->memory.arena.segments[i].next, n++) {
        const struct segment *g = &s->memory.arena.segments[i];

        if (i == 0 || g->state != SEG_WHOLE || g->skip >= g->fill ||
            g->fill > segment_bytes(&s->memory.arena)) {
            wrong(t, "item %u: segment %u of its value is not one", h, n);
            return;
        }
        bytes += g->fill - g->skip;
        prev = i;
    }
    if (l->segments != 0 && !is_run_of(s, l, prev)) {
        wrong(t, "item %u: its run is another", h);
        return;
    }
    for (uint32_t i = 0; i < l->pieces; i++) {
        handle_t ph = atomic_load_explicit(&((struct large *)(uintptr_t)l)->piece[i],
                                           memory_order_relaxed);
        const struct item *p = shard_item(s, ph);

        if (p->key_len != 0 || !item_is_live(p) || shape_marks(item_shape(p)) != 0 ||
            piece_number(p) != i || piece_owner(p) != h) {
            wrong(t, "item %u: piece %u at %u is not its own", h, i, ph);
            return;
        }
        bytes += item_block_len(p);
    }
    if (bytes != item_len(it)) {
        wrong(t, "item %u: value of %u bytes has %lu", h, item_len(it), (unsigned long)bytes);
    }
}

static void check_item(struct tally *t, const struct item *it, handle_t h)
{
    t->items++;
    t->item_bytes += item_all_bytes(it);
    if (item_deadline(it) != MSEC_NEVER) {
        t->volatile_keys++;
        if (item_node(it) == 0) {
            wrong(t, "item %u has a deadline and is not in the wheel", h);
        }
    }
    if (!is_linked(t, it, h)) {
        wrong(t, "item %u is live and not in the index", h);
    }
    if (item_is_large(it)) {
        check_large(t, it, h);
    }
}

static void check_block(struct tally *t, segment_t n, const struct item *it, handle_t h,
                        uint32_t *live)
{
    uint16_t shape = item_shape(it);
    uint32_t bytes = (shape & SHAPE_SIZE) * ITEM_UNIT;

    if (!shape_is_live(shape) && (shape & SHAPE_TOP) == SHAPE_TOP) {
        wrong(t, "block %u is a hole and being filled", h);
    }
    if (shape_is_dead(shape)) {
        t->dead += bytes;
        if (shape_is_hole(shape)) {
            t->holes += bytes;
            if (n == t->shard->memory.cursor.segment &&
                h < segment_handle(&t->shard->memory.arena, n) +
                        t->shard->memory.cursor.offset / ITEM_UNIT) {
                wrong(t, "hole %u is where the cursor has been", h);
            }
        }
        return;
    }
    (*live)++;
    t->chain_bytes[t->shard->memory.arena.segments[n].chain] += bytes;
    if (shape_is_loose(shape)) {
        return;
    }
    if (it->key_len == 0) {
        t->pieces++;
    } else {
        check_item(t, it, h);
    }
}

static void check_segment(struct tally *t, segment_t n)
{
    struct shard *s = t->shard;
    const struct segment *g = &s->memory.arena.segments[n];
    uint64_t dead_before = t->dead;
    uint32_t live = 0;
    uint32_t at = 0;

    if (g->state != SEG_OPEN && g->state != SEG_SEALED) {
        wrong(t, "segment %u of a chain has state %u", n, g->state);
        return;
    }
    while (at < g->fill && !t->is_wrong) {
        handle_t h = segment_handle(&s->memory.arena, n) + at / ITEM_UNIT;
        const struct item *it = shard_item(s, h);

        if (item_units(it) == 0) {
            wrong(t, "segment %u: block of no size at %u", n, at);
            return;
        }
        check_block(t, n, it, h, &live);
        at += item_bytes(it);
    }
    if (g->state == SEG_SEALED) {
        t->in_bins += g->bin != NO_BIN;
    }
    if (at != g->fill || live != g->live || t->dead - dead_before != g->dead) {
        wrong(t, "segment %u: fill %u/%u live %u/%u dead %lu/%u", n, at, g->fill, live, g->live,
              (unsigned long)(t->dead - dead_before), g->dead);
    }
}

static void check_chain(struct tally *t, enum chain_id id)
{
    const struct chain *c = &t->shard->memory.blocks.chain[id];
    segment_t rest = t->shard->memory.blocks.rest[id];
    segment_t prev = 0;
    uint32_t count = 0;

    for (segment_t n = c->head; n != 0 && !t->is_wrong;
         n = t->shard->memory.arena.segments[n].next) {
        const struct segment *g = &t->shard->memory.arena.segments[n];

        if (g->prev != prev || g->chain != id) {
            wrong(t, "chain %d: segment %u is not linked well", (int)id, n);
        }
        check_segment(t, n);
        prev = n;
        count++;
    }
    if (rest != 0) {
        const struct segment *g = &t->shard->memory.arena.segments[rest];

        if (g->chain != id || g->state != SEG_OPEN || rest == c->open || rest == c->compact) {
            wrong(t, "chain %d: segment %u is not one that was left open", (int)id, rest);
        }
    }
    if (count != c->count || prev != c->tail) {
        wrong(t, "chain %d: %u segments, %u counted", (int)id, count, c->count);
    }
}

/* The list of the holes of one size in a chain. */
static void check_hole_list(struct tally *t, enum chain_id id, uint32_t units)
{
    const struct shard *s = t->shard;
    const struct holes *l = &s->memory.blocks.holes[id];
    bool has_bit = (l->words[units / 64] >> (units % 64) & 1) != 0;
    handle_t prev = 0;

    if (has_bit != (l->head[units] != 0) ||
        (has_bit && (l->summary >> (units / 64) & 1) == 0)) {
        wrong(t, "chain %d: holes of %u units are not where its bit says", (int)id, units);
    }
    for (handle_t h = l->head[units]; h != 0 && !t->is_wrong; h = hole_next(shard_item(s, h))) {
        const struct item *it = shard_item(s, h);

        if (!shape_is_hole(item_shape(it)) || item_units(it) != units ||
            hole_prev(it) != prev ||
            s->memory.arena.segments[segment_of(&s->memory.arena, h)].chain != id) {
            wrong(t, "chain %d: block %u is no hole of %u units", (int)id, h, units);
        }
        t->listed += (uint64_t)units * ITEM_UNIT;
        if (t->listed > t->holes) {
            wrong(t, "chain %d: more is listed than %lu bytes of holes", (int)id,
                  (unsigned long)t->holes);
        }
        prev = h;
    }
}

static void check_holes(struct tally *t)
{
    for (int id = 0; id < CHAINS; id++) {
        for (uint32_t units = 0; units < HOLE_SIZES && !t->is_wrong; units++) {
            check_hole_list(t, (enum chain_id)id, units);
        }
    }
    if (t->listed != t->holes) {
        wrong(t, "holes: %lu bytes, %lu listed", (unsigned long)t->holes,
              (unsigned long)t->listed);
    }
}

/* Sealed segments by their dead share. */
static void check_bins(struct tally *t)
{
    const struct shard *s = t->shard;
    uint32_t count = 0;

    for (uint32_t bin = 0; bin < DEAD_BINS; bin++) {
        segment_t prev = 0;

        if ((s->memory.blocks.bin_bits >> bin & 1) != (s->memory.blocks.bin[bin] != 0)) {
            wrong(t, "bin %u is not what its bit says", bin);
        }
        for (segment_t n = s->memory.blocks.bin[bin]; n != 0 && count <= t->in_bins;
             n = s->memory.arena.segments[n].bin_next) {
            const struct segment *g = &s->memory.arena.segments[n];

            if (g->state != SEG_SEALED || g->bin != bin ||
                chains_bin_for(&s->memory, g) != bin || g->bin_prev != prev) {
                wrong(t, "bin %u: segment %u does not belong there", bin, n);
            }
            prev = n;
            count++;
        }
    }
    if (count != t->in_bins) {
        wrong(t, "bins: %u segments, %u there", t->in_bins, count);
    }
}

static uint32_t count_list(const struct shard *s, segment_t n)
{
    uint32_t count = 0;

    for (; n != 0 && count <= s->memory.arena.fresh; n = s->memory.arena.segments[n].next) {
        count++;
    }
    return count;
}

static uint32_t count_queue(const struct shard *s, const struct run_queue *q)
{
    uint32_t count = 0;

    for (segment_t n = q->head; n != 0; n = s->memory.arena.segments[n].bin_next) {
        count += s->memory.arena.segments[n].run_count;
    }
    return count;
}

static void check_arena(struct tally *t)
{
    const struct arena *a = &t->shard->memory.arena;
    uint32_t waiting = a->quarantine.segments + a->lazy.segments + a->pinned.segments;
    uint32_t chained = chains_segments(&t->shard->memory);
    uint32_t queued = count_queue(t->shard, &a->quarantine) + count_queue(t->shard, &a->lazy) +
                      count_queue(t->shard, &a->pinned);

    if (count_list(t->shard, a->free) != a->free_count) {
        wrong(t, "free list: %u, %u counted", count_list(t->shard, a->free), a->free_count);
    }
    if (queued != waiting) {
        wrong(t, "queues: %u segments, %u counted", queued, waiting);
    }
    if (chained + a->whole + waiting + a->free_count + a->trimming + a->stocking != a->held) {
        wrong(t, "held %u: chains %u whole %u waiting %u free %u trimming %u stocking %u",
              a->held, chained, a->whole, waiting, a->free_count, a->trimming, a->stocking);
    }
    if (a->values.segments != t->large_whole ||
        count_queue(t->shard, &a->values) != t->large_whole) {
        wrong(t, "values: %u whole segments, %lu counted", a->values.segments,
              (unsigned long)t->large_whole);
    }
}

static void count_linked(void *arg, handle_t h, uint64_t hash)
{
    struct tally *t = arg;
    const struct item *it = shard_item(t->shard, h);

    (void)hash;
    t->linked++;
    if (!item_is_live(it) || it->key_len == 0) {
        wrong(t, "the index names block %u, which is no live item", h);
    }
}

static void check_totals(struct tally *t)
{
    struct shard *s = t->shard;
    const struct blocks *b = &s->memory.blocks;

    if (t->dead != b->dead_bytes || t->holes != b->hole_bytes) {
        wrong(t, "dead %lu, %lu counted; holes %lu, %lu counted", (unsigned long)t->dead,
              (unsigned long)b->dead_bytes, (unsigned long)t->holes,
              (unsigned long)b->hole_bytes);
    }
    for (int id = 0; id < CHAINS; id++) {
        if (t->chain_bytes[id] != b->chain[id].bytes) {
            wrong(t, "chain %d: %lu live bytes, %lu counted", id,
                  (unsigned long)t->chain_bytes[id], (unsigned long)b->chain[id].bytes);
        }
    }
    if (t->items != s->table.count || t->items != t->linked ||
        t->items != ctr_get(&s->counters, CTR_curr_items)) {
        wrong(t, "items: %lu live, %lu in the index, %lu met there, %lu counted",
              (unsigned long)t->items, (unsigned long)s->table.count, (unsigned long)t->linked,
              (unsigned long)ctr_get(&s->counters, CTR_curr_items));
    }
    if (t->item_bytes != ctr_get(&s->counters, CTR_item_bytes)) {
        wrong(t, "item bytes: %lu, %lu counted", (unsigned long)t->item_bytes,
              (unsigned long)ctr_get(&s->counters, CTR_item_bytes));
    }
    if (t->volatile_keys != wheel_count(s->wheel) || !wheel_verify(s->wheel)) {
        wrong(t, "wheel: %lu volatile items, %lu in the set", (unsigned long)t->volatile_keys,
              (unsigned long)wheel_count(s->wheel));
    }
    if (s->spare == NULL &&
        atomic_load_explicit(&s->flush_at, memory_order_relaxed) != MSEC_NEVER) {
        wrong(t, "%s", "a flush is scheduled, and nothing prepared for it");
    }
    if (t->large_items != s->memory.large_items) {
        wrong(t, "large items: %lu, %lu counted", (unsigned long)t->large_items,
              (unsigned long)s->memory.large_items);
    }
}

bool shard_verify(struct shard *s, char *why, size_t why_size)
{
    struct tally t = {.shard = s, .why = why, .why_size = why_size};
    struct position p = {0};

    shard_enter(s);
    for (int id = 0; id < CHAINS; id++) {
        check_chain(&t, (enum chain_id)id);
    }
    if (!t.is_wrong) {
        check_holes(&t);
        check_bins(&t);
        check_arena(&t);
        do {
            position_step_all(&p, s, count_linked, &t);
        } while (p.shard == 0 && !t.is_wrong);
        check_totals(&t);
    }
    shard_leave(s);
    return !t.is_wrong;
}
