/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocating and killing blocks: see blocks.h. Everything here runs in the shard.
 */
#include "lib/memory/blocks.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/memory/chains.h"
#include "lib/memory/poison.h"

/*
 * Ring entries for a share: one per 4 KiB, within these limits. If the ring is full, some
 * deaths do not become holes.
 */
#define RING_MIN (1u << 10)
#define RING_MAX (1u << 17)

/* Maximum entries copied to a new ring, under the lock, in about 10 microseconds. */
#define RING_KEPT 4096u

/* A hole may exceed the requested size by this fraction; larger ones are split. */
#define SLACK_SHIFT 5

/* Holes are split when they hold more than 1/50 of the limit. */
#define SPLIT_SHARE 50

/*
 * Prefetch distances: the block that the ring's head will serve PREFETCH_PUTS puts later, and
 * the ring's entry for the death that comes PREFETCH_DEATHS deaths later.
 */
#define PREFETCH_PUTS   2
#define PREFETCH_DEATHS (2 * MF_LINE_BYTES / sizeof(struct death))

/* Holes of a size that are tried when the first ones are in the segment under the cursor. */
#define HOLE_TRIES 4

/*
 * A block that a later put will probably reuse left the CPU cache long ago. Releasing the
 * shard's lock waits until all earlier stores have reached the cache. So such a block is
 * prefetched as a whole, or the first part of a long one.
 *
 * Always inlined: GCC drops calls of a function that does nothing but prefetch.
 */
#define PREFETCH_BYTES 2048u

static MF_INLINE void prefetch_block(const struct memory *m, handle_t h, uint32_t units)
{
    const char *line = (const char *)memory_item(m, h);
    const char *end =
        line + (units < PREFETCH_BYTES / ITEM_UNIT ? units * ITEM_UNIT : PREFETCH_BYTES);

    for (; line < end; line += MF_LINE_BYTES) {
        __builtin_prefetch(line, 1);
    }
}

/* ---- holes ------------------------------------------------------------------------------- */

/* The list links of a hole overlay its cas. */
static void link_set(struct item *it, handle_t next, handle_t prev)
{
    it->cas_len = (uint64_t)prev << 32 | next;
}

static struct holes *holes_of(struct memory *m, handle_t h)
{
    return &m->blocks.holes[m->arena.segments[segment_of(&m->arena, h)].chain];
}

static void hole_list(struct memory *m, handle_t h)
{
    struct item *it = memory_item(m, h);
    struct holes *l = holes_of(m, h);
    uint32_t units = item_units(it);
    handle_t first = l->head[units];

    atomic_store_explicit(&it->shape, (uint16_t)(units | SHAPE_OFF | SHAPE_HOLE),
                          memory_order_relaxed);
    link_set(it, first, 0);
    if (first != 0) {
        struct item *f = memory_item(m, first);

        link_set(f, hole_next(f), h);
    }
    l->head[units] = h;
    l->words[units / 64] |= 1ull << (units % 64);
    l->summary |= 1u << (units / 64);
    m->blocks.hole_bytes += units * ITEM_UNIT;
    poison_block(it, units * ITEM_UNIT);
}

void blocks_unlist(struct memory *m, handle_t h)
{
    struct item *it = memory_item(m, h);
    struct holes *l = holes_of(m, h);
    uint32_t units = item_units(it);
    handle_t next = hole_next(it);
    handle_t prev = hole_prev(it);

    memory_must_be_entered(m);
    if (prev != 0) {
        struct item *p = memory_item(m, prev);

        link_set(p, next, hole_prev(p));
    } else {
        l->head[units] = next;
        if (next == 0) {
            l->words[units / 64] &= ~(1ull << (units % 64));
            if (l->words[units / 64] == 0) {
                l->summary &= ~(1u << (units / 64));
            }
        }
    }
    if (next != 0) {
        struct item *n = memory_item(m, next);

        link_set(n, hole_next(n), prev);
    }
    atomic_store_explicit(&it->shape, (uint16_t)(units | SHAPE_OFF), memory_order_relaxed);
    m->blocks.hole_bytes -= units * ITEM_UNIT;
    unpoison_block(it, units * ITEM_UNIT);
}

/* The smallest size of at least `units` for which there is a hole, or 0. */
static uint32_t hole_size(const struct holes *l, uint32_t units)
{
    uint32_t w = units / 64;
    uint64_t word = l->words[w] & (~0ull << (units % 64));

    if (word == 0) {
        uint32_t rest = w + 1 < HOLE_WORDS ? l->summary & (~0u << (w + 1)) : 0;

        if (rest == 0) {
            return 0;
        }
        w = (uint32_t)__builtin_ctz(rest);
        word = l->words[w];
    }
    return w * 64 + (uint32_t)__builtin_ctzll(word);
}

/* The first hole of a size that is not in the segment under the cursor. */
static handle_t hole_pick(const struct memory *m, const struct holes *l, uint32_t size)
{
    handle_t h = l->head[size];

    for (unsigned i = 0; i < HOLE_TRIES && h != 0; i++) {
        if (segment_of(&m->arena, h) != m->cursor.segment) {
            return h;
        }
        h = hole_next(memory_item(m, h));
    }
    return 0;
}

static uint64_t split_floor(const struct memory *m)
{
    return (uint64_t)budget_limit(m->arena.budget) / SPLIT_SHARE / memory_sharers(m);
}

/*
 * Larger holes are split while holes hold much, or if this put has no other choice.
 */
static bool may_split(const struct memory *m, enum draw draw)
{
    return (draw & DRAW_WHO) != DRAW_PUT || memory_is_in_place(m) ||
           m->blocks.hole_bytes > split_floor(m);
}

static handle_t hole_take(struct memory *m, enum chain_id chain, uint32_t *units,
                          enum draw draw)
{
    const struct holes *l = &m->blocks.holes[chain];
    uint32_t want = *units;
    uint32_t size = hole_size(l, want);
    bool is_split = false;

    if (size == 0) {
        return 0;
    }
    if (size > want + (want >> SLACK_SHIFT)) {
        if (!may_split(m, draw)) {
            return 0;
        }
        if (size < want + SPLIT_MIN_UNITS) {
            size =
                want + SPLIT_MIN_UNITS < HOLE_SIZES ? hole_size(l, want + SPLIT_MIN_UNITS) : 0;
        }
        if (size == 0) {
            return 0;
        }
        is_split = true;
    }

    handle_t h = hole_pick(m, l, size);

    if (h == 0) {
        return 0;
    }
    blocks_unlist(m, h);
    if (is_split) {
        struct item *rest = memory_item(m, h + want);

        memset(rest, 0, sizeof(*rest));
        atomic_store_explicit(&rest->shape, (uint16_t)((size - want) | SHAPE_OFF),
                              memory_order_relaxed);
        hole_list(m, h + want);
        size = want;
    }

    segment_t n = segment_of(&m->arena, h);
    struct segment *g = &m->arena.segments[n];

    g->live++;
    if (chains_add_dead(m, g, -(int32_t)(size * ITEM_UNIT))) {
        chains_move_bin(m, n);
    }
    m->blocks.chain[chain].bytes += size * ITEM_UNIT;
    *units = size;
    if (l->head[size] != 0) {
        prefetch_block(m, l->head[size], size);
    }
    return h;
}

handle_t blocks_refill(struct memory *m, enum chain_id chain, uint32_t units)
{
    memory_must_be_entered(m);
    return m->blocks.holes[chain].head[units] != 0 ? hole_take(m, chain, &units, DRAW_PUT) : 0;
}

/*
 * Take the oldest death if it is ripe and has exactly this size: the common case when values of
 * one size are overwritten. This avoids listing a hole and searching for it. *crossed: what
 * chains_add_dead() returned.
 */
static inline handle_t take_ripe(struct memory *m, enum chain_id chain, uint32_t units,
                                 bool *crossed)
{
    struct blocks *b = &m->blocks;
    const struct death *d = &b->ring[b->ring_head & b->ring_mask];

    if (b->ring_head == b->ring_tail || !grace_is_over(m->arena.grace, d->stamp)) {
        return 0;
    }

    handle_t h = d->handle;
    segment_t n = segment_of(&m->arena, h);
    struct segment *g = &m->arena.segments[n];

    if (g->generation != d->generation || g->chain != chain || n == m->cursor.segment ||
        d->units != units) {
        return 0;
    }
    b->ring_head++;
    b->ring_bytes -= units * ITEM_UNIT;
    g->live++;
    *crossed = chains_add_dead(m, g, -(int32_t)(units * ITEM_UNIT));
    b->chain[chain].bytes += units * ITEM_UNIT;
    d = &b->ring[(b->ring_head + PREFETCH_PUTS) & b->ring_mask];
    prefetch_block(m, d->handle, d->units);
    return h;
}

/* Maximum holes made by a put that cannot use the ring's head. */
#define RIPEN_MAX 16

/* Put a block that does not come from the ring's head. */
static handle_t put_elsewhere(struct memory *m, enum chain_id chain, uint32_t *units,
                              enum draw draw)
{
    handle_t h = hole_take(m, chain, units, draw);

    if (h != 0) {
        ctr_add(m->counters, CTR_hole_reused, 1);
    } else {
        h = draw_block(m, chain, *units, 0, draw);
    }
    if (h != 0) {
        m->blocks.put_bytes += *units * ITEM_UNIT;
    }
    return h;
}

static inline bool ring_is_half_full(const struct blocks *b)
{
    return b->ring_tail - b->ring_head > b->ring_mask / 2;
}

/* The slow path of blocks_put(). h: the block taken from the ring's head, or 0. */
static MF_NOINLINE handle_t put_slowly(struct memory *m, enum chain_id chain, uint32_t *units,
                                       enum draw draw, handle_t h)
{
    if (h != 0) {
        chains_move_bin(m, segment_of(&m->arena, h));
    }
    if (h == 0 || ring_is_half_full(&m->blocks)) {
        blocks_ripen(m, RIPEN_MAX);
    }
    return h != 0 ? h : put_elsewhere(m, chain, units, draw);
}

handle_t blocks_put(struct memory *m, enum chain_id chain, uint32_t *units, enum draw draw)
{
    struct blocks *b = &m->blocks;
    bool crossed = false;
    handle_t h = take_ripe(m, chain, *units, &crossed);

    memory_must_be_entered(m);
    if (MF_LIKELY(h != 0)) {
        ctr_add(m->counters, CTR_hole_reused, 1);
        b->put_bytes += *units * ITEM_UNIT;
        if (MF_LIKELY(!crossed && !ring_is_half_full(b))) {
            return h;
        }
    }
    return put_slowly(m, chain, units, draw, h);
}

/* ---- death ------------------------------------------------------------------------------- */

/* Work that a death may make necessary. */
static MF_NOINLINE void after_kill(struct memory *m, segment_t n, bool must_ask)
{
    chains_move_bin(m, n);
    if (must_ask) {
        grace_wake(m->arena.grace, GRACE_SOON);
    }
}

static MF_INLINE void kill_block(struct memory *m, handle_t h, bool is_remembered)
{
    struct blocks *b = &m->blocks;
    struct item *it = memory_item(m, h);
    uint16_t shape = item_shape(it);
    uint32_t bytes = (shape & SHAPE_SIZE) * ITEM_UNIT;
    segment_t n = segment_of(&m->arena, h);
    struct segment *g = &m->arena.segments[n];
    bool must_ask = false;

    memory_must_be_entered(m);
    debug_must(shape_is_live(shape));
    /* Keep what readers still need. An unlinked item is not stale. */
    atomic_store_explicit(&it->shape, (uint16_t)((shape & ~SHAPE_TOP) | SHAPE_OFF),
                          memory_order_relaxed);
    g->live--;
    /* The death of its last live block makes a segment entirely dead, which is reported too. */
    bool crossed = chains_add_dead(m, g, (int32_t)bytes) || g->live == 0;
    b->chain[g->chain].bytes -= bytes;
    if (is_remembered && b->ring_tail - b->ring_head <= b->ring_mask &&
        n != m->cursor.segment) {
        b->ring[b->ring_tail & b->ring_mask] =
            (struct death){h, g->generation, grace_stamp(m->arena.grace), bytes / ITEM_UNIT};
        b->ring_tail++;
        b->ring_bytes += bytes;
        /* The ring is as large as a CPU cache, so the next entry at its tail is not cached. */
        __builtin_prefetch(&b->ring[(b->ring_tail + PREFETCH_DEATHS) & b->ring_mask], 1);
        must_ask = !grace_is_asked(m->arena.grace, GRACE_SOON);
    }
    if (MF_UNLIKELY(crossed || must_ask)) {
        after_kill(m, n, must_ask);
    }
}

void blocks_kill(struct memory *m, handle_t h)
{
    kill_block(m, h, true);
}

void blocks_bury(struct memory *m, handle_t h)
{
    kill_block(m, h, false);
}

void blocks_copy(struct item *to, const struct item *from)
{
    to->cas_len = from->cas_len;
    atomic_store_explicit(&to->used, item_used(from), memory_order_relaxed);
    to->key_len = from->key_len;
    atomic_store_explicit(&to->heat, atomic_load_explicit(&from->heat, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&to->shape, item_shape(from), memory_order_relaxed);
    memcpy(to + 1, from + 1, item_bytes(from) - sizeof(*from));
}

void blocks_ripen(struct memory *m, unsigned max)
{
    struct blocks *b = &m->blocks;

    memory_must_be_entered(m);
    for (; max > 0 && b->ring_head != b->ring_tail; max--) {
        const struct death *d = &b->ring[b->ring_head & b->ring_mask];

        if (!grace_is_over(m->arena.grace, d->stamp)) {
            break;
        }
        b->ring_head++;
        b->ring_bytes -= d->units * ITEM_UNIT;

        segment_t n = segment_of(&m->arena, d->handle);
        const struct segment *g = &m->arena.segments[n];

        if (g->generation == d->generation && n != m->cursor.segment) {
            hole_list(m, d->handle);
        }
    }
}

/* ---- loose blocks ------------------------------------------------------------------------ */

void blocks_loosen(struct memory *m, handle_t h, uint32_t units)
{
    struct item *it = memory_item(m, h);

    memory_must_be_entered(m);
    atomic_store_explicit(&it->used, 0, memory_order_relaxed);
    it->key_len = 0;
    it->cas_len = 0;
    atomic_store_explicit(&it->shape, (uint16_t)(units | SHAPE_WIDE | SHAPE_OFF | SHAPE_LOOSE),
                          memory_order_relaxed);
    *item_wide(it) = (struct item_wide){0};
    memory_segment(m, h)->busy++;
}

void blocks_settle(struct memory *m, handle_t h)
{
    struct item *it = memory_item(m, h);

    memory_must_be_entered(m);
    debug_must(shape_is_loose(item_shape(it)));
    atomic_store_explicit(&it->shape, item_shape(it) & (uint16_t) ~(SHAPE_OFF | SHAPE_LOOSE),
                          memory_order_relaxed);
    memory_segment(m, h)->busy--;
}

/* ---- blocks of an earlier process -------------------------------------------------------- */

void blocks_enter_live(struct memory *m, handle_t h)
{
    struct segment *g = memory_segment(m, h);

    memory_must_be_entered(m);
    g->live++;
    m->blocks.chain[g->chain].bytes += item_bytes(memory_item(m, h));
}

void blocks_enter_dead(struct memory *m, handle_t h)
{
    uint32_t bytes = item_bytes(memory_item(m, h));

    memory_must_be_entered(m);
    memory_segment(m, h)->dead += bytes;
    m->blocks.dead_bytes += bytes;
    hole_list(m, h);
}

/* ---- start, flush, stop ------------------------------------------------------------------ */

static uint32_t ring_entries(uint64_t share_bytes)
{
    uint32_t entries = RING_MIN;

    while (entries < share_bytes / 4096 && entries < RING_MAX) {
        entries *= 2;
    }
    return entries;
}

/* Move the most recent deaths, as many as fit, to another ring. */
static void move_deaths(struct blocks *b, struct death *ring, uint32_t entries)
{
    uint32_t max = entries < RING_KEPT ? entries : RING_KEPT;
    uint32_t n = 0;

    for (; b->ring_tail - b->ring_head > max; b->ring_head++) {
        b->ring_bytes -= b->ring[b->ring_head & b->ring_mask].units * ITEM_UNIT;
    }
    for (; b->ring_head != b->ring_tail; b->ring_head++) {
        ring[n++] = b->ring[b->ring_head & b->ring_mask];
    }
    b->ring_head = 0;
    b->ring_tail = n;
    b->ring_mask = entries - 1;
    b->ring = ring;
}

/* Number of ring entries for the present limit. */
static uint32_t ring_wanted(const struct memory *m)
{
    return ring_entries((uint64_t)budget_limit(m->arena.budget) / memory_sharers(m));
}

void blocks_fit_ring(struct memory *m)
{
    struct blocks *b = &m->blocks;
    uint32_t entries = ring_wanted(m);
    struct death *old = mem_map(entries * sizeof(struct death), MEM_PAGES_SMALL);
    uint32_t old_entries = entries;

    if (old == NULL) {
        return;
    }
    lock_take(m->lock);
    b->ring_misfits = entries != ring_wanted(m); /* the limit has changed meanwhile */
    if (b->ring_mask + 1 != entries || b->ring_head == b->ring_tail) {
        struct death *fresh = old;

        old = b->ring;
        old_entries = b->ring_mask + 1;
        move_deaths(b, fresh, entries);
    }
    lock_give(m->lock);
    mem_unmap(old, old_entries * sizeof(struct death));
    budget_add(m->arena.budget,
               ((int64_t)entries - old_entries) * (int64_t)sizeof(struct death));
}

bool blocks_init(struct memory *m, uint64_t share_bytes)
{
    struct blocks *b = &m->blocks;
    uint64_t entries = ring_entries(share_bytes);

    b->ring_mask = (uint32_t)entries - 1;
    b->ring = mem_map(entries * sizeof(struct death), MEM_PAGES_SMALL);
    b->holes = mem_map(CHAINS * sizeof(struct holes), MEM_PAGES_SMALL);
    if (b->ring == NULL || b->holes == NULL) {
        return false;
    }
    budget_add(m->arena.budget,
               (int64_t)(entries * sizeof(struct death) + CHAINS * sizeof(struct holes)));
    return true;
}

void blocks_fini(struct memory *m)
{
    struct blocks *b = &m->blocks;
    uint64_t entries = (uint64_t)b->ring_mask + 1;

    if (b->ring != NULL && b->holes != NULL) {
        budget_add(m->arena.budget,
                   -(int64_t)(entries * sizeof(struct death) + CHAINS * sizeof(struct holes)));
    }
    if (b->ring != NULL) {
        mem_unmap(b->ring, entries * sizeof(struct death));
    }
    if (b->holes != NULL) {
        mem_unmap(b->holes, CHAINS * sizeof(struct holes));
    }
    b->ring = NULL;
    b->holes = NULL;
}

void blocks_reset(struct memory *m)
{
    struct blocks *b = &m->blocks;

    memory_must_be_entered(m);
    memset(b->chain, 0, sizeof(b->chain));
    memset(b->rest, 0, sizeof(b->rest));
    memset(b->holes, 0, CHAINS * sizeof(struct holes));
    memset(b->bin, 0, sizeof(b->bin));
    b->bin_bits = 0;
    b->ring_head = b->ring_tail;
    b->ring_bytes = 0;
    b->dead_bytes = 0;
    b->hole_bytes = 0;
}

void blocks_rest(struct memory *m)
{
    struct blocks *b = &m->blocks;

    blocks_reset(m);
    mem_discard(b->ring, (b->ring_mask + 1ull) * sizeof(struct death));
    mem_discard(b->holes, CHAINS * sizeof(struct holes));
}
