/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cursor: walks one segment at a time, in slices, and empties it.
 *
 * Clean: the emptiest sealed segment, when enough is dead; its live blocks move to the chain's
 * compaction segment, which stands at the victim's place, so that age order stays.
 * Evict: the oldest segment of a chain; evict.c judges every live item.
 *
 * A move copies a block and swaps the index slot under the lock; readers see one of two
 * equal copies until the grace period ends. At the end of a segment it waits in quarantine
 * for one grace period. Everything here runs in the shard.
 */
#include <string.h>

#include "lib/base/check.h"
#include "lib/memory/evict.h"
#include "lib/shard/shard.h"

/* Work units: what a dead block, a live one and the bytes of a piece cost. */
#define WORK_DEAD        1
#define WORK_LIVE        4
#define WORK_PIECE_BYTES 512

/*
 * And what the whole segments of a large value cost that is dropped: as much room as so many
 * small items make, so one slice does not drop many of them.
 */
#define WORK_SEGMENT 128

/*
 * Cleaning begins when this share of the held segments is dead, on segments at least so dead;
 * where nothing may be evicted it is the only way to room, so it begins earlier. No share may
 * be within what the unused tail of a segment can be, a sixteenth: cleaning would go round and
 * round and gain nothing.
 */
#define CLEAN_TOTAL_PCT      5
#define CLEAN_SEGMENT_PCT    15
#define NO_EVICT_TOTAL_PCT   3
#define NO_EVICT_SEGMENT_PCT 7

/* Small is evicted from while it holds more than this share of what is held. */
#define SMALL_PCT 10

/* Index buckets are brought into the cache this many bytes of blocks ahead. */
#define AHEAD_BYTES 1024

/* How many due keys are killed at once before anything alive is evicted. */
#define DUE_BATCH 20

static struct segment *seg(struct shard *s, segment_t n)
{
    return &s->arena.segments[n];
}

/* ---- choosing a segment ------------------------------------------------------------------ */

static void choose(struct shard *s, segment_t n, enum cursor_mode mode)
{
    struct cursor *c = &s->cursor;

    c->segment = n;
    c->offset = 0;
    c->ahead = 0;
    c->mode = mode;
    c->kept = 0;
    c->scanned = 0;
    blocks_claim(s, n);
}

/* The emptiest sealed segment that is dead enough, by its bin. */
static segment_t emptiest(const struct shard *s)
{
    uint32_t pct = s->evictions ? CLEAN_SEGMENT_PCT : NO_EVICT_SEGMENT_PCT;
    uint32_t least = (uint32_t)((uint64_t)segment_bytes(&s->arena) * pct / 100);

    for (uint32_t bits = s->blocks.bin_bits; bits != 0;) {
        unsigned bin = 31u - (unsigned)__builtin_clz(bits);

        for (segment_t n = s->blocks.bin[bin]; n != 0; n = s->arena.segments[n].bin_next) {
            if (s->arena.segments[n].busy == 0) {
                return s->arena.segments[n].dead >= least ? n : 0;
            }
        }
        bits &= ~(1u << bin);
    }
    return 0;
}

static bool should_clean(const struct shard *s)
{
    uint64_t held = (uint64_t)s->arena.held << s->arena.shift;

    return cursor_wants_tidy(s) ||
           s->blocks.dead_bytes * 100 >
               held * (s->evictions ? CLEAN_TOTAL_PCT : NO_EVICT_TOTAL_PCT);
}

/* The oldest sealed segment of a chain that nobody is filling. */
static segment_t oldest(const struct shard *s, enum chain_id id)
{
    for (segment_t n = s->blocks.chain[id].head; n != 0; n = s->arena.segments[n].next) {
        if (s->arena.segments[n].state == SEG_SEALED && s->arena.segments[n].busy == 0) {
            return n;
        }
    }
    return 0;
}

/*
 * Seal what a chain has open, so that it can be walked; 0 when there is nothing or it is being
 * filled.
 */
static segment_t seal_open(struct shard *s, enum chain_id id)
{
    const struct chain *c = &s->blocks.chain[id];
    segment_t open[] = {c->open, c->compact};

    for (int i = 0; i < 2; i++) {
        if (open[i] != 0 && seg(s, open[i])->busy == 0) {
            blocks_seal(s, open[i]);
            return open[i];
        }
    }
    return 0;
}

/* Does a chain hold more than its least share? Whole segments of large values count. */
static bool is_rich(const struct shard *s, enum chain_id id)
{
    uint64_t held = (uint64_t)s->arena.held << s->arena.shift;

    return s->blocks.chain[id].bytes * 100 > held * SMALL_PCT;
}

/*
 * The oldest segment of a chain. Many large values have their heads in one segment, so a rich
 * chain may have nothing but its open one.
 */
static segment_t oldest_of_rich(struct shard *s, enum chain_id id)
{
    segment_t n = oldest(s, id);

    return n != 0 || !is_rich(s, id) ? n : seal_open(s, id);
}

static segment_t evictable(struct shard *s)
{
    enum chain_id first = is_rich(s, CHAIN_SMALL) ? CHAIN_SMALL : CHAIN_MAIN;
    enum chain_id second = first == CHAIN_SMALL ? CHAIN_MAIN : CHAIN_SMALL;
    segment_t n = oldest_of_rich(s, first);

    if (n == 0) {
        n = oldest_of_rich(s, second);
    }
    if (n == 0) {
        n = seal_open(s, first);
    }
    return n != 0 ? n : seal_open(s, second);
}

/* Expired first: what is due dies before anything alive is evicted. */
static bool kill_due(struct shard *s, msec_t now, int64_t *work)
{
    handle_t due[DUE_BATCH];
    unsigned sampled = 0;
    unsigned n;

    if (wheel_count(s->wheel) == 0 || wheel_next(s->wheel) > now) {
        return false;
    }
    n = wheel_sample(s->wheel, now, due, DUE_BATCH, &sampled);
    for (unsigned i = 0; i < n; i++) {
        const struct item *it = shard_item(s, due[i]);
        uint64_t hash = shard_hash(s, it);
        _Atomic handle_t *slot = table_slot_of(&s->table, hash, due[i]);

        must(slot != NULL);
        if (!item_was_fetched(it)) {
            ctr_add(&s->counters, CTR_expired_unfetched, 1);
        }
        ctr_add(&s->counters, CTR_reclaimed, 1);
        shard_observe(s, it, ENGINE_EXPIRED_RECLAIM, now);
        keyspace_unlink(s, hash, slot, DEATH_EXPIRE);
    }
    *work -= (int64_t)sampled * WORK_LIVE;
    return n > 0;
}

/* Choose what to do next; false when there is nothing. */
static bool pick(struct shard *s, msec_t now, int64_t *work)
{
    while (*work > 0 && kill_due(s, now, work)) {
    }
    if (*work <= 0) {
        return true;
    }

    segment_t n = should_clean(s) ? emptiest(s) : 0;

    if (n != 0) {
        choose(s, n, CURSOR_CLEAN);
        return true;
    }
    if (!s->evictions) {
        return false;
    }
    n = evictable(s);
    if (n == 0) {
        return false;
    }
    s->ghost_wanted = true;
    choose(s, n, CURSOR_EVICT);
    return true;
}

/* ---- moving and dropping blocks ---------------------------------------------------------- */

/* Copy a block; readers may write heat and access_s of the source meanwhile. */
static void copy_block(struct shard *s, handle_t to, handle_t from)
{
    const struct item *a = shard_item(s, from);
    struct item *b = shard_item(s, to);

    b->cas = a->cas;
    b->client_flags = a->client_flags;
    b->value_len = a->value_len;
    b->key_len = a->key_len;
    item_copy_use(a, b);
    atomic_store_explicit(&b->shape, item_shape(a), memory_order_relaxed);
    memcpy(b + 1, a + 1, item_bytes(a) - sizeof(*a));
}

/* False when no segment could be had for the copy. */
static bool move_block(struct shard *s, handle_t from, enum chain_id chain, segment_t after)
{
    const struct item *it = shard_item(s, from);
    uint32_t units = item_units(it);
    handle_t to = blocks_append(s, chain, units, after, DRAW_CURSOR);

    if (to == 0) {
        return false;
    }
    copy_block(s, to, from);
    if (it->key_len == 0) {
        chunks_piece_moved(s, to);
    } else {
        uint64_t hash = shard_hash(s, it);
        _Atomic handle_t *slot = table_slot_of(&s->table, hash, from);

        must(slot != NULL);
        if (item_has_ttl(it)) {
            wheel_moved(s->wheel, from, to);
        }
        if (item_is_large(it)) {
            uint64_t whole = (uint64_t)item_large(it)->segments << s->arena.shift;

            s->blocks.chain[seg(s, s->cursor.segment)->chain].bytes -= whole;
            s->blocks.chain[chain].bytes += whole;
            chunks_head_moved(s, to);
        }
        table_replace(slot, to);
    }
    blocks_kill(s, from, DEATH_FORGET);
    ctr_add(&s->counters, CTR_cursor_moved_bytes, units * ITEM_UNIT);
    return true;
}

static void drop_item(struct shard *s, handle_t h, bool is_due, bool to_ghost, msec_t now)
{
    struct item *it = shard_item(s, h);
    uint64_t hash = shard_hash(s, it);
    _Atomic handle_t *slot = table_slot_of(&s->table, hash, h);

    must(slot != NULL);
    if (is_due) {
        ctr_add(&s->counters, CTR_reclaimed, 1);
        if (!item_was_fetched(it)) {
            ctr_add(&s->counters, CTR_expired_unfetched, 1);
        }
    } else {
        ctr_add(&s->counters, CTR_evictions, 1);
        ctr_add(&s->counters, item_was_fetched(it) ? CTR_evicted_active : CTR_evicted_unfetched,
                1);
        if (item_deadline(it) != MSEC_NEVER) {
            ctr_add(&s->counters, CTR_evicted_ttl, 1);
        }
        if (to_ghost) {
            ghost_add(&s->ghost, hash);
        }
    }
    shard_observe(s, it, is_due ? ENGINE_EXPIRED_RECLAIM : ENGINE_EVICTED, now);
    keyspace_unlink(s, hash, slot, is_due ? DEATH_EXPIRE : DEATH_EVICT);
}

/* A live piece goes where its owner is. */
static bool visit_piece(struct shard *s, handle_t h)
{
    const struct item *it = shard_item(s, h);
    enum chain_id mine = (enum chain_id)seg(s, s->cursor.segment)->chain;
    enum chain_id owners =
        (enum chain_id)seg(s, segment_of(&s->arena, it->client_flags))->chain;
    bool in_place = s->cursor.mode == CURSOR_CLEAN && owners == mine;

    return move_block(s, h, owners, in_place ? s->cursor.segment : 0);
}

static bool visit_item(struct shard *s, handle_t h, msec_t now)
{
    struct cursor *c = &s->cursor;
    struct item *it = shard_item(s, h);
    const struct segment *g = seg(s, c->segment);
    struct evict_pass pass = {(enum chain_id)g->chain, g->sealed_s, c->kept, c->scanned};
    uint8_t heat;

    if (item_is_due(it, now)) {
        drop_item(s, h, true, false, now);
        return true;
    }
    if (c->mode == CURSOR_CLEAN) {
        return move_block(s, h, pass.chain, c->segment);
    }
    switch (evict_judge(&pass, it)) {
    case VERDICT_PROMOTE:
        heat = atomic_load_explicit(&it->heat, memory_order_relaxed);
        atomic_store_explicit(&it->heat, heat & (uint8_t)~HEAT_COUNT, memory_order_relaxed);
        ctr_add(&s->counters, CTR_moves_to_main, 1);
        return move_block(s, h, CHAIN_MAIN, 0);
    case VERDICT_KEEP:
        heat = atomic_load_explicit(&it->heat, memory_order_relaxed);
        atomic_store_explicit(&it->heat, (uint8_t)(heat - 1), memory_order_relaxed);
        c->kept += item_bytes(it);
        ctr_add(&s->counters, CTR_moves_within, 1);
        return move_block(s, h, CHAIN_MAIN, 0);
    case VERDICT_YOUNG:
        return move_block(s, h, pass.chain, 0);
    case VERDICT_EVICT:
        break;
    }
    drop_item(s, h, false, pass.chain == CHAIN_SMALL, now);
    return true;
}

/* ---- the walk ---------------------------------------------------------------------------- */

/* Blocks ahead will need their index bucket (and the ghost's): start the loads early. */
static void look_ahead(struct shard *s)
{
    struct cursor *c = &s->cursor;
    const struct segment *g = seg(s, c->segment);
    const char *base = segment_ptr(&s->arena, c->segment);

    if (c->ahead < c->offset) {
        c->ahead = c->offset;
    }
    while (c->ahead < g->fill && c->ahead < c->offset + AHEAD_BYTES) {
        const struct item *it = (const struct item *)(const void *)(base + c->ahead);
        uint16_t shape = item_shape(it);

        __builtin_prefetch(base + c->ahead + (shape & SHAPE_SIZE) * ITEM_UNIT + 256);
        if (shape_is_live(shape) && it->key_len != 0) {
            uint64_t hash = shard_hash(s, it);

            table_prefetch_bucket(&s->table, hash);
            if (c->mode == CURSOR_EVICT && g->chain == CHAIN_SMALL) {
                ghost_prefetch(&s->ghost, hash);
            }
        }
        c->ahead += (shape & SHAPE_SIZE) * ITEM_UNIT;
    }
}

static void finish_segment(struct shard *s)
{
    struct cursor *c = &s->cursor;
    segment_t n = c->segment;
    struct segment *g = seg(s, n);

    must(g->live == 0);
    ctr_add(&s->counters, c->mode == CURSOR_CLEAN ? CTR_cursor_cleaned : CTR_cursor_evicted, 1);
    blocks_detach(s, n);
    g->state = SEG_FREE;
    g->generation++; /* deaths in it that still wait to ripen are void */
    c->segment = 0;
    arena_retire(&s->arena, n, n, 1, RUN_DIRECT);
}

/* One block; false when it cannot be moved for want of a segment. */
static bool visit_block(struct shard *s, msec_t now, int64_t *work)
{
    struct cursor *c = &s->cursor;
    handle_t h = segment_handle(&s->arena, c->segment) + c->offset / ITEM_UNIT;
    const struct item *it = shard_item(s, h);
    uint16_t shape = item_shape(it);
    uint32_t bytes = (shape & SHAPE_SIZE) * ITEM_UNIT;

    must(bytes != 0);
    *work -= WORK_DEAD;
    debug_must(!shape_is_loose(shape));
    if (shape_is_hole(shape)) {
        blocks_unlist(s, h);
    } else if (shape_is_live(shape)) {
        *work -= WORK_LIVE - WORK_DEAD;
        if (it->key_len == 0) {
            *work -= bytes / WORK_PIECE_BYTES;
            if (!visit_piece(s, h)) {
                return false;
            }
        } else {
            uint32_t held = s->arena.values.segments;

            if (!visit_item(s, h, now)) {
                return false;
            }
            *work -= (int64_t)(held - s->arena.values.segments) * WORK_SEGMENT;
        }
    }
    c->scanned += bytes;
    c->offset += bytes;
    return true;
}

/* Go on with the chosen segment until it is done or the work is; false when it cannot be. */
static bool run(struct shard *s, int64_t *work, msec_t now)
{
    struct cursor *c = &s->cursor;

    while (*work > 0 && c->segment != 0) {
        if (c->offset >= seg(s, c->segment)->fill) {
            finish_segment(s);
            break;
        }
        if (c->ahead < c->offset + AHEAD_BYTES / 2) {
            look_ahead(s);
        }
        if (!visit_block(s, now, work)) {
            return false;
        }
    }
    return true;
}

bool cursor_slice_beyond(struct shard *s, int64_t work, msec_t now, uint32_t segments)
{
    while (work > 0) {
        if (s->cursor.segment == 0 && !pick(s, now, &work)) {
            return false;
        }
        if (!run(s, &work, now)) {
            return false;
        }
        if (s->cursor.segment == 0 &&
            arena_avail(&s->arena) + room_waiting(s) >= room_wanted(s) + segments) {
            break; /* what was made must only wait for its grace period */
        }
    }
    return true;
}

bool cursor_slice(struct shard *s, int64_t work, msec_t now)
{
    return cursor_slice_beyond(s, work, now, 0);
}

bool cursor_tidy(struct shard *s, int64_t work, msec_t now)
{
    struct cursor *c = &s->cursor;

    while (work > 0) {
        if (c->segment == 0) {
            segment_t n = cursor_wants_tidy(s) ? emptiest(s) : 0;

            if (n == 0) {
                return false;
            }
            choose(s, n, CURSOR_CLEAN);
        }
        /*
         * An eviction that was begun and is no longer needed keeps what is left of its segment.
         */
        c->mode = CURSOR_CLEAN;
        if (!run(s, &work, now)) {
            return false;
        }
    }
    return true;
}
