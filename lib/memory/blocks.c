/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making and killing blocks. A block comes from a hole of its chain, of exactly its size or a
 * little larger, else from the end of the chain's open segment. A block that dies stays as it
 * is (readers may still look at it); the death ring remembers it with its grace number, and
 * later puts turn what has ripened into holes: lists by exact size, linked through the dead
 * blocks.
 *
 * Everything here runs in the shard. Nothing here knows keys, the index or deadlines.
 */
#include "lib/shard/shard.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/memory/poison.h"

/* Ring entries for a share: one per 4 KiB, within these. A full ring only loses holes to be. */
#define RING_MIN (1u << 10)
#define RING_MAX (1u << 17)

/* Holes may be this much larger than asked, as a share of the size; above, they are split. */
#define SLACK_SHIFT 5

/* Splitting begins when holes hold more than 1/50 of the limit. */
#define SPLIT_SHARE 50

/* How many holes of a size are tried when the first are in the segment under the cursor. */
#define HOLE_TRIES 4

/* ---- bins of sealed segments ------------------------------------------------------------- */

static void bin_remove(struct shard *s, segment_t n)
{
    struct segment *segs = s->arena.segments;
    struct segment *g = &segs[n];

    if (g->bin == NO_BIN) {
        return;
    }
    if (g->bin_prev != 0) {
        segs[g->bin_prev].bin_next = g->bin_next;
    } else {
        s->blocks.bin[g->bin] = g->bin_next;
        if (g->bin_next == 0) {
            s->blocks.bin_bits &= ~(1u << g->bin);
        }
    }
    if (g->bin_next != 0) {
        segs[g->bin_next].bin_prev = g->bin_prev;
    }
    g->bin = NO_BIN;
}

static void bin_insert(struct shard *s, segment_t n, unsigned bin)
{
    struct segment *segs = s->arena.segments;
    segment_t first = s->blocks.bin[bin];

    segs[n].bin = (uint8_t)bin;
    segs[n].bin_prev = 0;
    segs[n].bin_next = first;
    if (first != 0) {
        segs[first].bin_prev = n;
    }
    s->blocks.bin[bin] = n;
    s->blocks.bin_bits |= 1u << bin;
}

/*
 * The dead share of a segment may have crossed a sixteenth. An open one and the one under the
 * cursor stand in no bin.
 */
static MF_NOINLINE void move_bin(struct shard *s, segment_t n)
{
    const struct segment *g = &s->arena.segments[n];
    unsigned bin = bin_for(s, g);

    if (g->state != SEG_SEALED || g->bin == NO_BIN) {
        return;
    }
    if (g->bin != bin) {
        bin_remove(s, n);
        bin_insert(s, n, bin);
    }
    if (cursor_wants_tidy(s)) {
        atomic_store_explicit(&s->wants_work, true, memory_order_relaxed);
    }
}

/*
 * The dead bytes of a segment change by so much. True when that crossed a sixteenth: move_bin()
 * is due. It is left to the caller because blocks_put() and blocks_kill() run with every set:
 * with all that is rare behind one last call they need no stack frame.
 */
static inline bool add_dead(struct shard *s, struct segment *g, int32_t bytes)
{
    uint32_t before = g->dead;
    uint32_t after = before + (uint32_t)bytes;

    g->dead = after;
    s->blocks.dead_bytes += (uint64_t)(int64_t)bytes;
    return ((before ^ after) >> (s->arena.shift - DEAD_BINS_LOG2)) != 0;
}

/* ---- chains ------------------------------------------------------------------------------ */

static void chain_insert(struct shard *s, enum chain_id id, segment_t after, segment_t n)
{
    struct segment *segs = s->arena.segments;
    struct chain *c = &s->blocks.chain[id];
    struct segment *g = &segs[n];

    g->chain = (uint8_t)id;
    g->bin = NO_BIN;
    g->prev = after;
    g->next = after != 0 ? segs[after].next : 0;
    if (after != 0) {
        segs[after].next = n;
    } else {
        must(c->head == 0);
        c->head = n;
    }
    if (g->next != 0) {
        segs[g->next].prev = n;
    } else {
        c->tail = n;
    }
    c->count++;
}

void blocks_seal(struct shard *s, segment_t n)
{
    struct segment *g = &s->arena.segments[n];
    struct chain *c = &s->blocks.chain[g->chain];
    uint32_t tail = segment_bytes(&s->arena) - g->fill;

    if (c->open == n) {
        c->open = 0;
    } else if (c->compact == n) {
        c->compact = 0;
    }
    g->state = SEG_SEALED;
    g->sealed_s = (uint32_t)(clock_now(&s->engine->clock) / 1000);
    g->dead += tail;
    s->blocks.dead_bytes += tail;
    bin_insert(s, n, bin_for(s, g));
}

void blocks_claim(struct shard *s, segment_t n)
{
    bin_remove(s, n);
}

void blocks_detach(struct shard *s, segment_t n)
{
    struct segment *segs = s->arena.segments;
    struct segment *g = &segs[n];
    struct chain *c = &s->blocks.chain[g->chain];

    bin_remove(s, n);
    if (g->prev != 0) {
        segs[g->prev].next = g->next;
    } else {
        c->head = g->next;
    }
    if (g->next != 0) {
        segs[g->next].prev = g->prev;
    } else {
        c->tail = g->prev;
    }
    c->count--;
    s->blocks.dead_bytes -= g->dead;
}

/*
 * A segment for a put must leave the cursor its reserve; one for the cursor may take the last,
 * and both may overdraw when they must.
 */
static segment_t draw_segment(struct shard *s, enum draw draw)
{
    if (draw == DRAW_PUT && arena_avail(&s->arena) <= ROOM_RESERVE) {
        return 0;
    }
    return arena_take(&s->arena, SEG_OPEN, draw == DRAW_PUT ? 0 : room_overdraw(s));
}

handle_t blocks_append(struct shard *s, enum chain_id chain, uint32_t units, segment_t after,
                       enum draw draw)
{
    struct chain *c = &s->blocks.chain[chain];
    segment_t *open = after != 0 ? &c->compact : &c->open;
    uint32_t bytes = units * ITEM_UNIT;

    if (*open == 0 || s->arena.segments[*open].fill + bytes > segment_bytes(&s->arena)) {
        segment_t n = draw_segment(s, draw);

        if (n == 0) {
            return 0;
        }
        if (*open != 0) {
            blocks_seal(s, *open);
        }
        *open = n;
        chain_insert(s, chain, after != 0 ? after : c->tail, n);
    }

    struct segment *g = &s->arena.segments[*open];
    handle_t h = segment_handle(&s->arena, *open) + g->fill / ITEM_UNIT;

    g->fill += bytes;
    g->live++;
    c->bytes += bytes;
    return h;
}

/* ---- holes ------------------------------------------------------------------------------- */

/* A hole's list links overlay its cas field. */
static void link_set(struct item *it, handle_t next, handle_t prev)
{
    it->cas = (uint64_t)prev << 32 | next;
}

static struct holes *holes_of(struct shard *s, handle_t h)
{
    return &s->blocks.holes[s->arena.segments[segment_of(&s->arena, h)].chain];
}

static void hole_list(struct shard *s, handle_t h)
{
    struct item *it = shard_item(s, h);
    struct holes *l = holes_of(s, h);
    uint32_t units = item_units(it);
    handle_t first = l->head[units];

    atomic_store_explicit(&it->shape, (uint16_t)(units | SHAPE_OFF | SHAPE_HOLE),
                          memory_order_relaxed);
    link_set(it, first, 0);
    if (first != 0) {
        struct item *f = shard_item(s, first);

        link_set(f, hole_next(f), h);
    }
    l->head[units] = h;
    l->words[units / 64] |= 1ull << (units % 64);
    l->summary |= 1u << (units / 64);
    s->blocks.hole_bytes += units * ITEM_UNIT;
    poison_block(it, units * ITEM_UNIT);
}

void blocks_unlist(struct shard *s, handle_t h)
{
    struct item *it = shard_item(s, h);
    struct holes *l = holes_of(s, h);
    uint32_t units = item_units(it);
    handle_t next = hole_next(it);
    handle_t prev = hole_prev(it);

    if (prev != 0) {
        struct item *p = shard_item(s, prev);

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
        struct item *n = shard_item(s, next);

        link_set(n, hole_next(n), prev);
    }
    atomic_store_explicit(&it->shape, (uint16_t)(units | SHAPE_OFF), memory_order_relaxed);
    s->blocks.hole_bytes -= units * ITEM_UNIT;
    unpoison_block(it, units * ITEM_UNIT);
}

/* The least size of at least `units` that has a hole, or 0. */
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

/* The first hole of a size that is not under the cursor. */
static handle_t hole_pick(const struct shard *s, const struct holes *l, uint32_t size)
{
    handle_t h = l->head[size];

    for (unsigned i = 0; i < HOLE_TRIES && h != 0; i++) {
        if (segment_of(&s->arena, h) != s->cursor.segment) {
            return h;
        }
        h = hole_next(shard_item(s, h));
    }
    return 0;
}

static uint64_t split_floor(const struct shard *s)
{
    return (uint64_t)atomic_load_explicit(&s->engine->budget.limit_bytes,
                                          memory_order_relaxed) /
           SPLIT_SHARE / s->engine->shard_count;
}

/*
 * Larger holes are split while holes hold much, or when there is nothing else for this put.
 */
static bool may_split(const struct shard *s, enum draw draw)
{
    return draw != DRAW_PUT || !s->evictions || s->blocks.hole_bytes > split_floor(s);
}

static handle_t hole_take(struct shard *s, enum chain_id chain, uint32_t *units, enum draw draw)
{
    const struct holes *l = &s->blocks.holes[chain];
    uint32_t want = *units;
    uint32_t size = hole_size(l, want);
    bool is_split = false;

    if (size == 0) {
        return 0;
    }
    if (size > want + (want >> SLACK_SHIFT)) {
        if (!may_split(s, draw)) {
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

    handle_t h = hole_pick(s, l, size);

    if (h == 0) {
        return 0;
    }
    blocks_unlist(s, h);
    if (is_split) {
        struct item *rest = shard_item(s, h + want);

        memset(rest, 0, sizeof(*rest));
        atomic_store_explicit(&rest->shape, (uint16_t)((size - want) | SHAPE_OFF),
                              memory_order_relaxed);
        hole_list(s, h + want);
        size = want;
    }

    segment_t n = segment_of(&s->arena, h);
    struct segment *g = &s->arena.segments[n];

    g->live++;
    if (add_dead(s, g, -(int32_t)(size * ITEM_UNIT))) {
        move_bin(s, n);
    }
    s->blocks.chain[chain].bytes += size * ITEM_UNIT;
    *units = size;
    /* The next one of its size is likely wanted next: have its links at hand. */
    if (l->head[size] != 0) {
        __builtin_prefetch(shard_item(s, l->head[size]), 1);
    }
    return h;
}

/*
 * The oldest death, when it has ripened and is of just this size: the common case where values
 * of one size are overwritten. It spares listing a hole and finding it again. *crossed: as of
 * add_dead().
 */
static inline handle_t take_ripe(struct shard *s, enum chain_id chain, uint32_t units,
                                 bool *crossed)
{
    struct blocks *b = &s->blocks;
    const struct death *d = &b->ring[b->ring_head & b->ring_mask];

    if (b->ring_head == b->ring_tail || !grace_is_over(s->arena.grace, d->stamp)) {
        return 0;
    }

    handle_t h = d->handle;
    segment_t n = segment_of(&s->arena, h);
    struct segment *g = &s->arena.segments[n];

    if (g->generation != d->generation || g->chain != chain || n == s->cursor.segment ||
        d->units != units) {
        return 0;
    }
    b->ring_head++;
    b->ring_bytes -= units * ITEM_UNIT;
    g->live++;
    *crossed = add_dead(s, g, -(int32_t)(units * ITEM_UNIT));
    b->chain[chain].bytes += units * ITEM_UNIT;
    /* The block that a later put takes this way is long out of the cache. */
    __builtin_prefetch(shard_item(s, b->ring[(b->ring_head + 1) & b->ring_mask].handle), 1);
    return h;
}

/* Holes made by one put, when the ring's head is of no use to it. */
#define RIPEN_MAX 16

/* A put from elsewhere than the ring's head. */
static handle_t put_elsewhere(struct shard *s, enum chain_id chain, uint32_t *units,
                              enum draw draw)
{
    handle_t h = hole_take(s, chain, units, draw);

    if (h != 0) {
        ctr_add(&s->counters, CTR_hole_reused, 1);
    } else {
        h = blocks_append(s, chain, *units, 0, draw);
    }
    if (h != 0) {
        s->blocks.put_bytes += *units * ITEM_UNIT;
    }
    return h;
}

static inline bool ring_is_half_full(const struct blocks *b)
{
    return b->ring_tail - b->ring_head > b->ring_mask / 2;
}

/* The rest of blocks_put(). h: the block that the ring's head was, or 0. */
static MF_NOINLINE handle_t put_slowly(struct shard *s, enum chain_id chain, uint32_t *units,
                                       enum draw draw, handle_t h)
{
    if (h != 0) {
        move_bin(s, segment_of(&s->arena, h));
    }
    if (h == 0 || ring_is_half_full(&s->blocks)) {
        blocks_ripen(s, RIPEN_MAX);
    }
    return h != 0 ? h : put_elsewhere(s, chain, units, draw);
}

handle_t blocks_put(struct shard *s, enum chain_id chain, uint32_t *units, enum draw draw)
{
    struct blocks *b = &s->blocks;
    bool crossed = false;
    handle_t h = take_ripe(s, chain, *units, &crossed);

    if (MF_LIKELY(h != 0)) {
        ctr_add(&s->counters, CTR_hole_reused, 1);
        b->put_bytes += *units * ITEM_UNIT;
        if (MF_LIKELY(!crossed && !ring_is_half_full(b))) {
            return h;
        }
    }
    return put_slowly(s, chain, units, draw, h);
}

/* ---- death ------------------------------------------------------------------------------- */

/* What a death may lead to. */
static MF_NOINLINE void after_kill(struct shard *s, segment_t n, bool must_ask)
{
    move_bin(s, n);
    if (must_ask) {
        grace_wake(s->arena.grace, GRACE_SOON);
    }
}

void blocks_kill(struct shard *s, handle_t h, enum block_death death)
{
    struct blocks *b = &s->blocks;
    struct item *it = shard_item(s, h);
    uint16_t shape = item_shape(it);
    uint32_t bytes = (shape & SHAPE_SIZE) * ITEM_UNIT;
    segment_t n = segment_of(&s->arena, h);
    struct segment *g = &s->arena.segments[n];

    bool crossed;
    bool must_ask = false;

    debug_must(shape_is_live(shape));
    /* What a reader must know to go on reading stays; an item that is gone is not stale. */
    atomic_store_explicit(&it->shape, (uint16_t)((shape & ~SHAPE_TOP) | SHAPE_OFF),
                          memory_order_relaxed);
    g->live--;
    crossed = add_dead(s, g, (int32_t)bytes);
    b->chain[g->chain].bytes -= bytes;
    if (death == DEATH_REUSE && b->ring_tail - b->ring_head <= b->ring_mask &&
        n != s->cursor.segment) {
        b->ring[b->ring_tail & b->ring_mask] =
            (struct death){h, g->generation, grace_stamp(s->arena.grace), bytes / ITEM_UNIT};
        b->ring_tail++;
        b->ring_bytes += bytes;
        must_ask = !grace_is_asked(s->arena.grace, GRACE_SOON);
    }
    if (MF_UNLIKELY(crossed || must_ask)) {
        after_kill(s, n, must_ask);
    }
}

void blocks_ripen(struct shard *s, unsigned max)
{
    struct blocks *b = &s->blocks;

    for (; max > 0 && b->ring_head != b->ring_tail; max--) {
        const struct death *d = &b->ring[b->ring_head & b->ring_mask];

        if (!grace_is_over(s->arena.grace, d->stamp)) {
            break;
        }
        b->ring_head++;
        b->ring_bytes -= d->units * ITEM_UNIT;

        segment_t n = segment_of(&s->arena, d->handle);
        const struct segment *g = &s->arena.segments[n];

        if (g->generation == d->generation && n != s->cursor.segment) {
            hole_list(s, d->handle);
        }
    }
}

/* ---- start, flush, stop ------------------------------------------------------------------ */

bool blocks_init(struct shard *s, uint64_t share_bytes)
{
    struct blocks *b = &s->blocks;
    uint64_t entries = RING_MIN;

    while (entries < share_bytes / 4096 && entries < RING_MAX) {
        entries *= 2;
    }
    b->ring_mask = (uint32_t)entries - 1;
    b->ring = mem_map(entries * sizeof(struct death), MEM_PAGES_SMALL);
    b->holes = mem_map(CHAINS * sizeof(struct holes), MEM_PAGES_SMALL);
    if (b->ring == NULL || b->holes == NULL) {
        return false;
    }
    budget_add(s->arena.budget,
               (int64_t)(entries * sizeof(struct death) + CHAINS * sizeof(struct holes)));
    return true;
}

void blocks_fini(struct shard *s)
{
    struct blocks *b = &s->blocks;
    uint64_t entries = (uint64_t)b->ring_mask + 1;

    if (b->ring != NULL && b->holes != NULL) {
        budget_add(s->arena.budget,
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

void blocks_reset(struct shard *s)
{
    struct blocks *b = &s->blocks;

    memset(b->chain, 0, sizeof(b->chain));
    memset(b->holes, 0, CHAINS * sizeof(struct holes));
    memset(b->bin, 0, sizeof(b->bin));
    b->bin_bits = 0;
    b->ring_head = b->ring_tail;
    b->ring_bytes = 0;
    b->dead_bytes = 0;
    b->hole_bytes = 0;
}
