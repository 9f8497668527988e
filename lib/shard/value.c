/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading values: see value.h.
 */
#include "lib/shard/value.h"

#include <string.h>

#include "lib/base/context.h"
#include "lib/memory/chunks.h"
#include "lib/shard/shard.h"

void value_walk_begin(struct value_walk *w, const struct shard *shard, const struct item *item)
{
    must_be_reading();
    w->shard = shard;
    w->item = item;
    w->left = item_len(item);
    w->piece = 0;
    w->segment = 0;
    w->skip = 0;
    w->segments_left = 0;
    w->segments = 0;
    w->anchor = 0;
    w->tail = 0;
    if (item_is_large(item)) {
        const struct large *l = item_large(item);

        w->segment = l->first;
        w->skip = l->skip;
        w->segments_left = l->segments;
        w->segments = l->segments;
        w->anchor = l->anchor;
        if (l->pieces != 0) { /* then no segment has a gap */
            w->tail = item_len(item) - (l->segments << shard->memory.arena.shift);
        }
    }
}

static struct span next_segment(struct value_walk *w)
{
    const struct arena *a = &w->shard->memory.arena;
    const struct segment *g = &a->segments[w->segment];
    const char *begin = segment_ptr(a, w->segment) + w->skip;
    size_t n;

    if (--w->segments_left > 0) {
        n = g->fill - w->skip;
        w->segment = g->next;
        w->skip = a->segments[g->next].skip;
    } else {
        n = w->left - w->tail;
    }
    w->left -= n;
    return span_of(begin, n);
}

static struct span next_piece(struct value_walk *w)
{
    struct large *l = item_large(w->item);
    handle_t h = atomic_load_explicit(&l->piece[w->piece++], memory_order_acquire);
    const struct item *piece = shard_item(w->shard, h);

    w->left -= item_block_len(piece);
    w->tail -= item_block_len(piece);
    return span_of(piece_bytes(piece), item_block_len(piece));
}

bool value_walk_next(struct value_walk *w, struct span *part)
{
    if (w->left == 0) {
        return false;
    }
    if (w->segments_left > 0) {
        *part = next_segment(w);
    } else if (item_is_large(w->item)) {
        *part = next_piece(w);
    } else {
        *part = span_of(item_value(w->item), w->left);
        w->left = 0;
    }
    return true;
}

bool value_walk_has_segments(const struct value_walk *w)
{
    return w->segments_left > 0;
}

void value_walk_copy_tail(const struct value_walk *w, char *out)
{
    struct value_walk t = *w;
    struct span part;

    must_be_reading();
    t.left = value_walk_tail(w);
    t.segments_left = 0;
    while (value_walk_next(&t, &part)) {
        memcpy(out, part.ptr, part.len);
        out += part.len;
    }
}

/* The parts of the limit that pinned values, and those of them that are dead, may take. */
#define PINNED_MAX(limit)      ((limit) / 8 * 3)
#define PINNED_DEAD_MAX(limit) ((limit) / 8)

static struct segment *anchor_of(const struct value_walk *w)
{
    return &w->shard->memory.arena.segments[w->anchor];
}

static int64_t run_bytes(const struct value_walk *w)
{
    return (int64_t)w->segments << w->shard->memory.arena.shift;
}

/* The bytes counted as pinned by the holders of the value: 0 without holders. */
static int64_t pinned_bytes(const struct arena *a, uint64_t pins)
{
    return (pins & PIN_COUNT) != 0 ? (int64_t)(pins >> PIN_SEGMENTS_SHIFT << a->shift) : 0;
}

bool value_may_pin(const struct value_walk *w)
{
    const struct budget *b = w->shard->memory.arena.budget;
    int64_t limit = budget_limit(b);
    uint64_t pins = atomic_load_explicit(&anchor_of(w)->pins, memory_order_relaxed);
    int64_t held = pinned_bytes(&w->shard->memory.arena, pins);
    int64_t more = run_bytes(w) - held;
    int64_t pinned = budget_part(b, BUDGET_PINNED);

    must_be_reading();
    debug_must(w->anchor != 0);
    return more <= 0 || pinned <= held || pinned + more <= PINNED_MAX(limit);
}

struct value_pin value_pin(const struct value_walk *w)
{
    struct shard *s = (struct shard *)(uintptr_t)w->shard;
    const struct arena *a = &s->memory.arena;
    _Atomic uint64_t *pins = &anchor_of(w)->pins;
    uint64_t before = atomic_load_explicit(pins, memory_order_relaxed);
    uint64_t after;

    must_be_reading();
    debug_must(w->anchor != 0);
    do {
        after = before + 1;
        if (pinned_bytes(a, before) < run_bytes(w)) {
            after =
                (uint64_t)w->segments << PIN_SEGMENTS_SHIFT | (after & (PIN_DEAD | PIN_COUNT));
        }
    } while (!atomic_compare_exchange_weak_explicit(pins, &before, after, memory_order_relaxed,
                                                    memory_order_relaxed));
    budget_count(a->budget, BUDGET_PINNED, pinned_bytes(a, after) - pinned_bytes(a, before));
    return (struct value_pin){s, w->anchor, run_bytes(w)};
}

void value_unpin(struct value_pin *pin)
{
    if (pin->shard == NULL) {
        return;
    }

    struct arena *a = &pin->shard->memory.arena;
    uint64_t before =
        atomic_fetch_sub_explicit(&a->segments[pin->anchor].pins, 1, memory_order_release);

    must((before & PIN_COUNT) != 0);
    if ((before & PIN_COUNT) == 1) {
        budget_count(a->budget, BUDGET_PINNED, -pinned_bytes(a, before));
    }
    if ((before & (PIN_DEAD | PIN_COUNT)) == (PIN_DEAD | 1)) {
        grace_ask(a->grace, GRACE_SOON); /* the reclaimer checks the pinned ones */
    }
    pin->shard = NULL;
}

bool value_pin_is_dead(const struct value_pin *pin)
{
    if (pin->shard == NULL) {
        return false;
    }
    const struct arena *a = &pin->shard->memory.arena;
    return (atomic_load_explicit(&a->segments[pin->anchor].pins, memory_order_relaxed) &
            PIN_DEAD) != 0;
}

uint64_t value_pinned_excess(const struct shard *s)
{
    const struct shard_group *g = s->group;
    uint64_t limit = (uint64_t)budget_limit(g->budget);
    uint64_t held = 0;

    for (uint32_t i = 0; i < atomic_load_explicit(&g->count, memory_order_acquire); i++) {
        held += ctr_get(&g->shards[i]->counters, CTR_pinned_dead_bytes);
    }
    return held > PINNED_DEAD_MAX(limit) ? held - PINNED_DEAD_MAX(limit) : 0;
}

void value_copy(const struct shard *shard, const struct item *item, char *out)
{
    struct value_walk w;
    struct span part;

    must_be_reading();
    value_walk_begin(&w, shard, item);
    while (value_walk_next(&w, &part)) {
        memcpy(out, part.ptr, part.len);
        out += part.len;
    }
}
