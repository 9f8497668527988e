/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cursor: see cursor.h. Everything here runs in the shard.
 */
#include "lib/memory/cursor.h"

#include "lib/base/check.h"
#include "lib/memory/blocks.h"
#include "lib/memory/chains.h"
#include "lib/memory/chunks.h"
#include "lib/memory/draw.h"
#include "lib/memory/evict.h"
#include "lib/memory/heat.h"
#include "lib/memory/room.h"

/* Work units: the cost of a dead block, of a live one, and of this many bytes of a live one. */
#define WORK_DEAD  1
#define WORK_LIVE  4
#define WORK_BYTES 512

/*
 * The cost of each whole segment of a large value that is dropped. It frees as much room as
 * many small items, so one slice must not drop many of them.
 */
#define WORK_SEGMENT 128

/*
 * Cleaning begins when this share of the held bytes is dead, with segments of which at least
 * that share is dead. Where nothing may be evicted it is the only way to make room, so it
 * begins earlier. The unused tail of a segment does not count: what is moved leaves a tail as
 * well, so cleaning would never end and gain nothing.
 */
static const struct {
    uint32_t total, segment;
} clean_pct[] = {[EVICT_NOTHING] = {3, 7}, [EVICT_SEGMENTS] = {5, 15}, [EVICT_ITEMS] = {8, 12}};

/* What refers to a block is brought into the cache this many bytes of blocks ahead. */
#define AHEAD_BYTES 1024

/*
 * The share that evictions kept of what they scanned is measured over about this many bytes:
 * one segment may have only two items.
 */
#define KEEP_MEMORY (1u << 20)

/*
 * The chains small and big promote at most this share of the items scanned there, measured over
 * the last few megabytes, plus PROMOTE_MORE bytes. After a first filling nearly everything is
 * in small: if all of it was used, or is small beside what comes now, the whole cache would be
 * copied before anything is evicted, and stores would be refused meanwhile.
 */
#define PROMOTE_PCT    85
#define PROMOTE_MORE   (256u << 10)
#define PROMOTE_MEMORY (4u << 20)

/*
 * A segment with at most SIFT_LIVE live blocks, and at most SIFT_ITEMS items of one block, is
 * sifted if at least SIFT_LIVE_PCT of it is alive, and at most SIFT_HOLE_PCT of all held bytes
 * are holes. Deaths in the ring do not count, as they are soon reused. But the segment must not
 * have more than SIFT_BLOCKS blocks, because examining them takes long.
 */
#define SIFT_LIVE     20
#define SIFT_ITEMS    8
#define SIFT_LIVE_PCT 60
#define SIFT_HOLE_PCT 2
#define SIFT_BLOCKS   64

/*
 * Of the parts of values without whole segments in it, this share must be such as would be
 * moved unjudged, because they are young or their heads are elsewhere. Where few are, emptying
 * keeps values together and in the order of their age.
 */
#define SIFT_UNJUDGED_PCT 75

/* How many due items are dropped at once before anything alive is evicted. */
#define DUE_BATCH 20

/* More than this many bytes of due items take too long to drop for a store that waits. */
#define FAR_BYTES (1 << 20)

static struct segment *seg(struct memory *m, segment_t n)
{
    return &m->arena.segments[n];
}

/* ---- choosing a segment ------------------------------------------------------------------ */

/* Halve the sums of kept and promoted bytes, so that recent ones count more. */
static void age_counts(struct cursor *c)
{
    if (c->scanned > KEEP_MEMORY) {
        c->scanned /= 2;
        c->kept /= 2;
    }
    if (c->passed > PROMOTE_MEMORY) {
        c->passed /= 2;
        c->promoted /= 2;
    }
}

/*
 * Count `bytes` as scanned in segment n: a dead block, or an item that is judged, with all its
 * blocks. Kept items are counted with all their blocks as well.
 */
static void count_scanned(struct memory *m, segment_t n, uint64_t bytes)
{
    *(seg(m, n)->chain == CHAIN_MAIN ? &m->cursor.scanned : &m->cursor.passed) += bytes;
}

static void begin_segment(struct memory *m, segment_t n, enum cursor_mode mode)
{
    struct cursor *c = &m->cursor;

    c->segment = n;
    c->offset = 0;
    c->ahead = 0;
    c->sifted_for_nothing = 0;
    c->mode = mode;
    age_counts(c);
    chains_claim(m, n);
}

segment_t cursor_emptiest(const struct memory *m)
{
    uint32_t pct = clean_pct[evict_policy(&m->evict)->way].segment;

    return chains_emptiest(m, (uint32_t)((uint64_t)segment_bytes(&m->arena) * pct / 100));
}

/* Dead bytes that are missing before cleaning begins; negative: there are more than enough. */
static int64_t dead_missing(const struct memory *m)
{
    uint64_t held = (uint64_t)m->arena.held << m->arena.shift;
    uint32_t pct = clean_pct[evict_policy(&m->evict)->way].total;

    return (int64_t)(held * pct / 100) - (int64_t)m->blocks.dead_bytes;
}

/*
 * The segment to clean; 0: none is worth it. While due items are left, the cursor itself
 * produces dead bytes. So it then cleans segments that are half dead, even if few bytes are
 * dead in total.
 */
static segment_t pick_dead(const struct memory *m)
{
    if (dead_missing(m) < 0) {
        return cursor_emptiest(m);
    }
    return m->cursor.is_due_left ? chains_emptiest(m, segment_bytes(&m->arena) / 2) : 0;
}

static uint64_t mean_bytes(const struct memory *m)
{
    uint64_t items = ctr_get(m->counters, CTR_curr_items);

    return items == 0 ? 0 : chains_bytes(m) / items;
}

/* Drop due items until the work is down to `rest`. */
static void drop_due(struct memory *m, msec_t now, int64_t *work, int64_t rest)
{
    unsigned dropped = 1;

    while (*work > rest && dropped > 0) {
        unsigned looked = 0;

        dropped = m->ops->drop_due(m->owner, DUE_BATCH, now, &looked);
        *work -= (int64_t)looked * WORK_LIVE;
    }
    m->cursor.is_due_left = dropped > 0;
}

/*
 * Evict items one by one until something is worth cleaning. False when there are none to evict.
 */
static bool evict_some(struct memory *m, msec_t now, int64_t *work)
{
    do {
        uint32_t held = m->arena.values.segments;

        if (!evict_item(m, now, work)) {
            return false;
        }
        *work -= (int64_t)(held - m->arena.values.segments) * WORK_SEGMENT;
    } while (*work > 0 && pick_dead(m) == 0 && room_is_short(m));
    return true;
}

/* Would a store wait too long until enough due items are dropped to clean a segment? */
static bool cannot_wait_for_due(const struct memory *m)
{
    return room_is_pressed(m) && dead_missing(m) >= FAR_BYTES;
}

/* ---- moving and dropping blocks ---------------------------------------------------------- */

/* How a copy of a block is drawn. */
static enum draw copy_draw(const struct memory *m, const struct item *it)
{
    bool is_part = it->key_len == 0 ? item_block_len(it) == m->piece_max : item_is_large(it);

    return is_part ? DRAW_CURSOR | DRAW_PART : DRAW_CURSOR;
}

/*
 * A piece, which is as old as its head wherever it is, goes to a hole of its size if there is
 * one. False when there was no segment for the copy.
 */
static bool move_block(struct memory *m, handle_t from, enum chain_id chain, segment_t after)
{
    const struct item *it = memory_item(m, from);
    uint32_t units = item_units(it);
    handle_t to = it->key_len == 0 ? blocks_refill(m, chain, units) : 0;

    if (to == 0) {
        to = draw_block(m, chain, units, after, copy_draw(m, it));
    }
    if (to == 0) {
        return false;
    }
    blocks_copy(memory_item(m, to), it);
    if (it->key_len == 0) {
        chunks_piece_moved(m, to);
    } else {
        if (item_is_large(it)) {
            chunks_head_moved(m, from, to);
        }
        m->ops->moved(m->owner, from, to);
    }
    blocks_kill(m, from);
    ctr_add(m->counters, CTR_cursor_moved_bytes, units * ITEM_UNIT);
    return true;
}

/* A live piece moves to the chain of its owner. */
static bool move_piece(struct memory *m, handle_t h)
{
    const struct item *it = memory_item(m, h);
    enum chain_id mine = (enum chain_id)seg(m, m->cursor.segment)->chain;
    enum chain_id owners = (enum chain_id)seg(m, segment_of(&m->arena, piece_owner(it)))->chain;
    bool in_place = m->cursor.mode == CURSOR_CLEAN && owners == mine;

    return move_block(m, h, owners, in_place ? m->cursor.segment : 0);
}

/* Keep the mark of a reader that fetched the item while it was judged. */
static void set_heat(struct item *it, uint8_t heat)
{
    uint8_t now = atomic_load_explicit(&it->heat, memory_order_relaxed);

    atomic_store_explicit(&it->heat, heat | (now & HEAT_FETCHED), memory_order_relaxed);
}

/* An item that stays goes to the end of a chain. */
static bool keep_item(struct memory *m, handle_t h, enum chain_id chain)
{
    const struct item *it = memory_item(m, h);
    handle_t first = 0;

    if (item_is_large(it) && item_large(it)->pieces != 0) {
        first = atomic_load_explicit(&item_large(it)->piece[0], memory_order_relaxed);
    }
    return move_block(m, h, chain, 0) && (first == 0 || move_block(m, first, chain, 0));
}

/* Bytes of blocks of an item. */
static uint64_t bytes_in_blocks(const struct memory *m, const struct item *it)
{
    if (!item_is_large(it) || item_large(it)->pieces == 0) {
        return item_bytes(it);
    }
    uint64_t whole = (uint64_t)item_large(it)->segments << m->arena.shift;
    return item_bytes(it) + item_len(it) - whole;
}

/*
 * Was an item stored after its segment was sealed, into a hole? Its last access decides. If
 * that was in the second of the sealing or in the one before, its cas decides, which grows
 * from item to item. At other times the cas does not count, because clients may choose it: an
 * item with a large cas would be young for ever. By the cas, an item is no longer young after
 * half of the time that its segment has spent in the chain. It then stays either for the rest
 * of that time, or for one more pass: on average as long as others.
 */
static bool is_young(const struct memory *m, handle_t h, uint32_t now_s)
{
    const struct segment *g = memory_segment(m, h);
    const struct item *it = memory_item(m, h);
    uint32_t access_s = item_access_s(it, now_s);
    int32_t since, now;

    if (g->state != SEG_SEALED || access_s + 1 < g->sealed_s ||
        (now_s > g->sealed_s && now_s - g->sealed_s > ACCESS_IDLE_MAX_S)) {
        return false; /* in the last case the second of its access is not known */
    }
    since = (int32_t)((uint32_t)item_cas(it) - g->sealed_cas);
    now = (int32_t)((uint32_t)m->ops->next_cas(m->owner) - g->sealed_cas);
    return access_s > g->sealed_s || (since >= 0 && since >= now / 2);
}

/* Is a block in this segment, or in the next one of its chain if that is full as well? */
static bool is_near(const struct memory *m, segment_t to, handle_t h)
{
    const struct segment *segs = m->arena.segments;
    segment_t n = segment_of(&m->arena, h);

    return n == to || (n == segs[to].next && segs[n].state == SEG_SEALED);
}

/* Would this item exceed the share of bytes that may be promoted? Then it is evicted. */
static bool promotes_too_much(const struct memory *m, const struct item *it)
{
    const struct cursor *c = &m->cursor;

    return (c->promoted + bytes_in_blocks(m, it)) * 100 >
           c->passed * PROMOTE_PCT + (uint64_t)PROMOTE_MORE * 100;
}

/* The facts, other than the item, by which a policy judges a live item of segment n. */
static struct evict_pass pass_of(const struct memory *m, segment_t n, handle_t h, msec_t now)
{
    return (struct evict_pass){.chain = (enum chain_id)m->arena.segments[n].chain,
                               .is_young = is_young(m, h, (uint32_t)(now / 1000)),
                               .mean_bytes = m->evict.mean_bytes,
                               .kept = m->cursor.kept,
                               .scanned = m->cursor.scanned};
}

/*
 * Judge a live item that is not due. Returns the chain to whose end it moves, or CHAINS if it
 * is to be evicted. With in_place it is not promoted.
 */
static enum chain_id judge(struct memory *m, segment_t n, handle_t h,
                           const struct evict_policy *policy, msec_t now, bool in_place)
{
    struct cursor *c = &m->cursor;
    struct item *it = memory_item(m, h);
    uint8_t had = atomic_load_explicit(&it->heat, memory_order_relaxed);
    bool was_hit = (heat_turns(had) & HEAT_COUNT) != 0;
    uint8_t heat = 0;

    count_scanned(m, n, bytes_in_blocks(m, it));
    struct evict_pass pass = pass_of(m, n, h, now);
    switch (policy->judge(&pass, it, &heat)) {
    case VERDICT_PROMOTE:
        if (in_place) {
            return pass.chain;
        }
        if (promotes_too_much(m, it)) {
            /* Treat it like an item that is worth less. */
            return pass.is_young && !was_hit ? pass.chain : CHAINS;
        }
        m->evict.untried += was_hit ? 0 : item_all_bytes(it);
        set_heat(it, heat);
        c->promoted += bytes_in_blocks(m, it);
        ctr_add(m->counters, CTR_moves_to_main, 1);
        return CHAIN_MAIN;
    case VERDICT_KEEP:
        set_heat(it, heat);
        c->kept += bytes_in_blocks(m, it);
        ctr_add(m->counters, CTR_moves_within, 1);
        return CHAIN_MAIN;
    case VERDICT_YOUNG:
        return pass.chain;
    case VERDICT_EVICT:
        return CHAINS;
    }
    unreachable();
}

static void evict(struct memory *m, handle_t h, enum chain_id chain, msec_t now)
{
    uint64_t hash = m->ops->drop(m->owner, h, DEATH_EVICT, now);

    evict_remember(&m->evict, chain, hash);
}

/* Judge an item, and move or evict it. False when there was no segment for the copy. */
static bool judge_item(struct memory *m, handle_t h, const struct evict_policy *policy,
                       msec_t now)
{
    segment_t n = m->cursor.segment;
    enum chain_id chain = judge(m, n, h, policy, now, false);

    if (chain != CHAINS) {
        return keep_item(m, h, chain);
    }
    evict(m, h, (enum chain_id)seg(m, n)->chain, now);
    return true;
}

/*
 * Move a live item without evicting: it keeps its chain, unless the policy sorts items by
 * chain. An eviction continues like this if the policy was changed to one that does not evict.
 */
static bool clean_item(struct memory *m, handle_t h, const struct evict_policy *policy)
{
    segment_t n = m->cursor.segment;
    enum chain_id chain = (enum chain_id)seg(m, n)->chain;

    if (evict_sorts(policy)) {
        enum chain_id sorted =
            evict_sorted_chain(item_deadline(memory_item(m, h)) != MSEC_NEVER);

        if (sorted != chain) {
            return move_block(m, h, sorted, 0);
        }
    }
    return move_block(m, h, chain, n);
}

static bool empty_item(struct memory *m, handle_t h, msec_t now)
{
    const struct evict_policy *policy = evict_policy(&m->evict);
    const struct cursor *c = &m->cursor;

    if (item_is_due(memory_item(m, h), now)) {
        m->ops->drop(m->owner, h, DEATH_EXPIRE, now);
        return true;
    }
    if (c->mode == CURSOR_EVICT && policy->way == EVICT_SEGMENTS) {
        return judge_item(m, h, policy, now);
    }
    return clean_item(m, h, policy);
}

/*
 * A live piece. An eviction judges the whole item when it visits the item's first block: a copy
 * of a piece would be wasted if the head, which follows it, is evicted later. When the head is
 * kept, its first piece and the visited piece are moved too. So the head is far when other
 * pieces are visited, and no item is judged twice in a pass. A piece that was put in a hole may
 * be among much older items. Then the head is far, and is judged when it is visited itself.
 */
static bool empty_piece(struct memory *m, handle_t h, msec_t now)
{
    const struct cursor *c = &m->cursor;
    const struct item *piece = memory_item(m, h);
    handle_t head = piece_owner(piece);

    if (c->mode == CURSOR_EVICT && is_near(m, c->segment, head)) {
        return empty_item(m, head, now) && (!item_is_live(piece) || move_piece(m, h));
    }
    return move_piece(m, h);
}

/* ---- sifting ----------------------------------------------------------------------------- */

/* Content of a segment that may be sifted, without parts of values that have whole segments. */
struct sieve {
    unsigned items;          /* number of items that fit one block */
    uint32_t part_bytes;     /* bytes of heads and pieces of values without whole segments */
    uint32_t unjudged_bytes; /* those of them that emptying would move without a verdict */
};

/*
 * May a live block stay in a segment that is sifted? Not if it goes to another chain, because
 * then it is copied.
 */
static bool may_stay(const struct memory *m, segment_t n, handle_t h,
                     const struct evict_policy *policy, msec_t now, struct sieve *s)
{
    const struct segment *g = &m->arena.segments[n];
    const struct item *it = memory_item(m, h);
    handle_t head = it->key_len != 0 ? h : piece_owner(it);
    const struct item *owner = memory_item(m, head);
    uint8_t heat;

    if (item_is_large(owner) && item_large(owner)->segments == 0) {
        s->part_bytes += item_bytes(it);
        if (!is_near(m, n, head) || is_young(m, head, (uint32_t)(now / 1000))) {
            s->unjudged_bytes += item_bytes(it);
        }
    }
    if (it->key_len == 0) {
        return memory_chain(m, head) == (enum chain_id)g->chain;
    }
    if (!item_is_large(it) && (g->chain != CHAIN_MAIN || ++s->items > SIFT_ITEMS)) {
        return false;
    }
    if (g->chain == CHAIN_MAIN) {
        return true;
    }
    struct evict_pass pass = pass_of(m, n, h, now);
    return policy->judge(&pass, it, &heat) != VERDICT_PROMOTE;
}

/*
 * May a segment that is to be emptied be sifted instead? Sifting suits segments of few large
 * blocks: evicted blocks leave holes, which later blocks of the same size fill. Filling them
 * takes time, so nothing is sifted while there are many holes. When a whole chain was sifted
 * and nothing died, a segment is emptied.
 */
static bool may_sift(const struct memory *m, segment_t n, const struct evict_policy *policy,
                     msec_t now)
{
    const struct segment *g = &m->arena.segments[n];
    uint64_t held = (uint64_t)m->arena.held << m->arena.shift;
    uint64_t least = (uint64_t)segment_bytes(&m->arena) * SIFT_LIVE_PCT / 100;
    struct sieve s = {0};
    unsigned blocks = 0;

    if (g->live > SIFT_LIVE || g->fill - g->dead < least ||
        m->blocks.hole_bytes * 100 > held * SIFT_HOLE_PCT ||
        m->cursor.sifted_for_nothing >= m->blocks.chain[g->chain].count) {
        return false;
    }
    for (uint32_t at = 0; at < g->fill; blocks++) {
        handle_t h = segment_handle(&m->arena, n) + at / ITEM_UNIT;
        const struct item *it = memory_item(m, h);

        if (blocks == SIFT_BLOCKS ||
            (item_is_live(it) && !may_stay(m, n, h, policy, now, &s))) {
            return false;
        }
        at += item_bytes(it);
    }
    return s.unjudged_bytes * 100 >= s.part_bytes * SIFT_UNJUDGED_PCT;
}

/*
 * Evict the items of a segment that are not worth keeping, and leave the others in place. The
 * segment becomes the youngest of its chain, and nothing is copied. False if no item stays.
 */
static bool sift(struct memory *m, segment_t n, const struct evict_policy *policy, msec_t now,
                 int64_t *work)
{
    struct segment *g = seg(m, n);
    uint32_t held = m->arena.values.segments, live = g->live;

    ctr_add(m->counters, CTR_cursor_sifted, 1);
    age_counts(&m->cursor);
    for (uint32_t at = 0; at < g->fill;) {
        handle_t h = segment_handle(&m->arena, n) + at / ITEM_UNIT;
        const struct item *it = memory_item(m, h);

        at += item_bytes(it);
        *work -= WORK_DEAD;
        if (!item_is_live(it)) {
            count_scanned(m, n, item_bytes(it));
        } else if (it->key_len != 0) {
            *work -= WORK_LIVE - WORK_DEAD;
            if (item_is_due(it, now)) {
                m->ops->drop(m->owner, h, DEATH_EXPIRE, now);
            } else if (judge(m, n, h, policy, now, true) == CHAINS) {
                evict(m, h, (enum chain_id)g->chain, now);
            }
        }
    }
    *work -= (int64_t)(held - m->arena.values.segments) * WORK_SEGMENT;
    m->cursor.sifted_for_nothing = g->live < live ? 0 : m->cursor.sifted_for_nothing + 1;
    if (g->live == 0) {
        return false;
    }
    chains_renew(m, n);
    return true;
}

/*
 * Choose the next step; false when there is nothing to do. Half of the work goes into dropping
 * due items, the rest into cleaning. Due items are dropped before live ones are evicted, with
 * one exception: if millions of items are due, spread over all segments, it takes long until a
 * segment is worth cleaning. If a store cannot wait for that, the other half of the work goes
 * into evicting segments, which drops due items as well.
 */
static bool choose_next(struct memory *m, msec_t now, int64_t *work)
{
    const struct evict_policy *policy = evict_policy(&m->evict);

    drop_due(m, now, work, *work / 2);
    segment_t n = pick_dead(m);
    if (n != 0) {
        begin_segment(m, n, CURSOR_CLEAN);
        return true;
    }
    if (policy->way != EVICT_SEGMENTS || !cannot_wait_for_due(m)) {
        drop_due(m, now, work, 0);
        if (*work <= 0) {
            return true;
        }
    }
    if (policy->way == EVICT_NOTHING) {
        return false;
    }
    if (policy->way == EVICT_ITEMS) {
        return evict_some(m, now, work);
    }
    n = policy->pick(m);
    if (n == 0) {
        return false;
    }
    must(seg(m, n)->state == SEG_SEALED && seg(m, n)->busy == 0);
    m->evict.past_is_wanted = policy->past_create != NULL;
    m->evict.mean_bytes = mean_bytes(m);
    if (!may_sift(m, n, policy, now) || !sift(m, n, policy, now, work)) {
        begin_segment(m, n, CURSOR_EVICT);
    }
    return true;
}

/* ---- the walk ---------------------------------------------------------------------------- */

/* Let the owner and the policy prefetch their facts about the next blocks. */
static void look_ahead(struct memory *m)
{
    struct cursor *c = &m->cursor;
    const struct segment *g = seg(m, c->segment);
    const char *base = segment_ptr(&m->arena, c->segment);

    if (c->ahead < c->offset) {
        c->ahead = c->offset;
    }
    while (c->ahead < g->fill && c->ahead < c->offset + AHEAD_BYTES) {
        const struct item *it = (const struct item *)(const void *)(base + c->ahead);
        uint16_t shape = item_shape(it);

        __builtin_prefetch(base + c->ahead + (shape & SHAPE_SIZE) * ITEM_UNIT + 256);
        if (shape_is_live(shape) && it->key_len != 0) {
            uint64_t hash = m->ops->prefetch(m->owner, it);

            if (c->mode == CURSOR_EVICT) {
                evict_prefetch(&m->evict, (enum chain_id)g->chain, hash);
            }
        }
        c->ahead += (shape & SHAPE_SIZE) * ITEM_UNIT;
    }
}

static void finish_segment(struct memory *m)
{
    struct cursor *c = &m->cursor;
    segment_t n = c->segment;
    struct segment *g = seg(m, n);

    must(g->live == 0);
    ctr_add(m->counters, c->mode == CURSOR_CLEAN ? CTR_cursor_cleaned : CTR_cursor_evicted, 1);
    chains_detach(m, n);
    g->state = SEG_FREE;
    g->generation++; /* this voids the deaths in it that still wait to ripen */
    c->segment = 0;
    arena_retire(&m->arena, n, n, 1, RUN_DIRECT);
}

/* Empty one block. False when there is no segment to move it to. */
static bool empty_block(struct memory *m, msec_t now, int64_t *work)
{
    struct cursor *c = &m->cursor;
    handle_t h = segment_handle(&m->arena, c->segment) + c->offset / ITEM_UNIT;
    const struct item *it = memory_item(m, h);
    uint16_t shape = item_shape(it);
    uint32_t bytes = (shape & SHAPE_SIZE) * ITEM_UNIT;

    must(bytes != 0);
    *work -= WORK_DEAD;
    debug_must(!shape_is_loose(shape));
    if (shape_is_hole(shape)) {
        blocks_unlist(m, h);
    } else if (shape_is_live(shape)) {
        uint32_t held = m->arena.values.segments;

        *work -= WORK_LIVE - WORK_DEAD + bytes / WORK_BYTES;
        if (!(it->key_len == 0 ? empty_piece(m, h, now) : empty_item(m, h, now))) {
            return false;
        }
        *work -= (int64_t)(held - m->arena.values.segments) * WORK_SEGMENT;
    }
    if (c->mode == CURSOR_EVICT && !shape_is_live(shape)) {
        count_scanned(m, c->segment, bytes);
    }
    c->offset += bytes;
    return true;
}

/*
 * Go on with the chosen segment until it is empty or the work is used up. False when a block
 * cannot be moved.
 */
static bool empty_segment(struct memory *m, int64_t *work, msec_t now)
{
    struct cursor *c = &m->cursor;

    while (*work > 0 && c->segment != 0) {
        if (c->offset >= seg(m, c->segment)->fill) {
            finish_segment(m);
            break;
        }
        if (c->ahead < c->offset + AHEAD_BYTES / 2) {
            look_ahead(m);
        }
        if (!empty_block(m, now, work)) {
            return false;
        }
    }
    return true;
}

/*
 * Many items may have become due since an eviction was interrupted. They are dropped before
 * live items of the segment, as when a segment is chosen. If enough of the segment is dead
 * then, its live items are moved instead of evicted.
 */
static void resume_eviction(struct memory *m, msec_t now, int64_t *work)
{
    int64_t whole = *work;

    drop_due(m, now, work, whole / 2);
    if (!cannot_wait_for_due(m)) {
        drop_due(m, now, work, 0);
    }
    if (*work < whole && pick_dead(m) != 0) {
        m->cursor.mode = CURSOR_CLEAN;
    }
}

bool cursor_slice_beyond(struct memory *m, int64_t work, msec_t now, uint32_t segments)
{
    memory_must_be_entered(m);
    if (m->cursor.segment != 0 && m->cursor.mode == CURSOR_EVICT) {
        resume_eviction(m, now, &work);
    }
    while (work > 0) {
        if (m->cursor.segment == 0 && !choose_next(m, now, &work)) {
            return false;
        }
        if (!empty_segment(m, &work, now)) {
            return false;
        }
        if (m->cursor.segment == 0 &&
            arena_avail(&m->arena) + memory_waiting(m) >= room_wanted(m) + segments) {
            break; /* the room that was made only waits for its grace period */
        }
    }
    return true;
}

bool cursor_slice(struct memory *m, int64_t work, msec_t now)
{
    memory_must_be_entered(m);
    return cursor_slice_beyond(m, work, now, 0);
}

void cursor_let_go(struct memory *m)
{
    segment_t n = m->cursor.segment;

    memory_must_be_entered(m);
    if (n != 0) {
        m->cursor.segment = 0;
        chains_unclaim(m, n);
    }
}

bool cursor_clean(struct memory *m, segment_t n, int64_t *work, msec_t now)
{
    struct cursor *c = &m->cursor;

    memory_must_be_entered(m);
    if (c->segment == 0) {
        begin_segment(m, n, CURSOR_CLEAN);
    }
    c->mode = CURSOR_CLEAN;
    return empty_segment(m, work, now);
}
