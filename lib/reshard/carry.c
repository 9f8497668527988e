/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves items to other shards: see carry.h.
 *
 * The search reads the chains in the order small, big, main. Evictions move items in the same
 * order, so the search meets a moved item later. The cursor must not take the segment that is
 * being searched or the next one: both are marked busy, so the search keeps its place in the
 * chain. If the cursor or a touch puts a block into a part that was searched already, that is
 * noted (shard_note_place()), and the search starts again afterwards.
 */
#include "lib/reshard/carry.h"

#include <string.h>

#include "lib/base/budgets.h"
#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/memory/blocks.h"
#include "lib/memory/chains.h"
#include "lib/memory/cursor.h"
#include "lib/memory/room_make.h"
#include "lib/memory/stock.h"
#include "lib/shard/expire.h"
#include "lib/shard/position.h"
#include "lib/shard/upkeep.h"
#include "lib/store/visit.h"

/* Bytes of blocks that one step of the search reads. */
#define SEARCH_BYTES (64u << 10)

/* Bytes that are prefetched. */
#define AHEAD_BYTES 512

/*
 * The items that stay are compacted if at least 1/EMPTY_SHARE of the shard's slots leave, or if
 * at least 1/EMPTY_FULL_SHARE leave and there is no budget for their items. If fewer leave,
 * stores use the holes: compacting would copy 64 items for each one that leaves.
 */
#define EMPTY_SHARE      4
#define EMPTY_FULL_SHARE 64

/* Tries without room, each of which waits for a grace period, before a copy may overdraw. */
#define OVERDRAW_AFTER 8

static const enum chain_id search_order[CHAINS] = {CHAIN_SMALL, CHAIN_BIG, CHAIN_MAIN};

static struct segment *seg(const struct carry *c, segment_t n)
{
    return &c->from->memory.arena.segments[n];
}

static const struct route_slot *slot_of(const struct carry *c, uint64_t hash)
{
    return &c->slots[route_slot_number(hash)];
}

static bool leaves(const struct shard_leave *l, uint64_t hash)
{
    const struct carry *c = (const struct carry *)(const void *)l;
    const struct route_slot *rs = slot_of(c, hash);

    return rs->from == c->from->id && rs->put != rs->from && !c->waits[route_slot_number(hash)];
}

static bool was_flushed(const struct carry *c)
{
    shard_must_be_entered(c->from);
    return c->from->memory.epoch != c->epoch;
}

/* ---- the place in the chains ------------------------------------------------------------- */

/* Mark a segment busy: the cursor does not take it, and nothing is appended to it. */
static void keep(struct carry *c, segment_t n)
{
    struct memory *m = &c->from->memory;

    if (n != 0) {
        if (m->cursor.segment == n) {
            cursor_let_go(m);
        }
        chains_close(m, n);
        seg(c, n)->busy++;
    }
}

static void unkeep(struct carry *c, segment_t n)
{
    if (n != 0) {
        seg(c, n)->busy--;
    }
}

static struct chain *chain_at(const struct carry *c)
{
    return &c->from->memory.blocks.chain[search_order[c->chain]];
}

/*
 * Begin to search segment c->at, which is marked busy. It counts as searched at once, because a
 * block may be put into a hole before the place of the search. Segments that are inserted after
 * it in the chain then count as searched, too. Context: in shard.
 */
static void begin_segment(struct carry *c)
{
    c->offset = 0;
    if (c->at != 0) {
        seg(c, c->at)->is_passed = 1;
    }
}

/* Find the first segment of this chain or the next ones. Context: in shard. */
static void begin_chain(struct carry *c)
{
    while (c->chain < CHAINS && chain_at(c)->head == 0) {
        c->leave.chain_passed[search_order[c->chain++]] = true;
    }
    c->at = c->chain < CHAINS ? chain_at(c)->head : 0;
    keep(c, c->at);
    begin_segment(c);
}

/*
 * Note the segment after the present one, and mark it busy. If there is none, the whole chain
 * counts as searched: a segment that is appended after the chain became empty has no
 * predecessor that was searched. Context: in shard.
 */
static void look_at_next(struct carry *c)
{
    c->next = seg(c, c->at)->next;
    keep(c, c->next);
    c->leave.chain_passed[search_order[c->chain]] = c->next == 0;
}

/* Continue with the next segment, or with the next chain. Context: in shard. */
static void go_on(struct carry *c)
{
    c->at = c->next;
    c->next = 0;
    begin_segment(c);
    if (c->at == 0) {
        c->chain++;
        begin_chain(c);
    }
}

/* Is the budget too small for the items that are still to be moved? */
static bool is_short(const struct carry *c)
{
    const struct memory *m = &c->from->memory;
    int64_t wanted = (int64_t)room_wanted(m) << m->arena.shift;

    return budget_left(&c->engine->budget) < (int64_t)c->bytes_left + wanted;
}

/* Context: in shard. */
static bool should_empty(const struct carry *c)
{
    uint64_t share = (uint64_t)c->leaving * EMPTY_FULL_SHARE / c->owned;

    return share >= EMPTY_FULL_SHARE / EMPTY_SHARE || (share >= 1 && is_short(c));
}

/*
 * The segment was searched: release it if it is empty, or move its blocks elsewhere if they are
 * to be compacted. Then continue with the next segment.
 */
static void leave_segment(struct carry *c)
{
    struct shard *s = c->from;
    struct memory *m = &s->memory;
    struct segment *g = seg(c, c->at);

    shard_enter(s);
    if (was_flushed(c)) {
        c->at = 0;
        shard_leave(s);
        return;
    }
    look_at_next(c);
    unkeep(c, c->at);
    uint32_t generation = g->generation;
    bool empties = g->busy == 0 && (g->live == 0 || c->is_emptied);
    if (empties) {
        cursor_let_go(m);
    }
    /* In between, a store may continue to clean this segment, but begins no other one first. */
    while (empties && g->generation == generation && c->state == CARRY_GOES_ON) {
        int64_t work = BUDGET_home_work;
        bool has_place =
            cursor_clean(m, c->at, &work, shard_due_now(c->from, clock_now(&c->engine->clock)));

        empties = m->cursor.segment == c->at;
        shard_leave(s);
        shard_after_leave(s);
        if (has_place) {
            (void)carry_turn(c);
        } else {
            (void)carry_wait_for(c, s);
        }
        shard_enter(s);
        if (was_flushed(c)) {
            c->at = 0;
            shard_leave(s);
            return;
        }
        empties = empties && m->cursor.segment == c->at;
    }
    go_on(c);
    if (c->at != 0) {
        c->is_emptied = should_empty(c);
    }
    c->may_evict = false;
    shard_leave(s);
}

/* ---- small items ------------------------------------------------------------------------- */

/* The key of a large item, which is carried over by itself. Context: read side. */
static void take_key(struct carry *c, const struct carry_pick *p)
{
    const struct item *it = shard_item(c->from, p->handle);

    c->large = (struct carry_large){.hash = p->hash, .to = p->to, .key_len = it->key_len};
    memcpy(c->large.key, item_key(it), it->key_len);
}

/*
 * Find the next items that leave; the last may be a large one. False: the shard was flushed.
 */
static bool search(struct carry *c)
{
    struct shard *s = c->from;
    const struct segment *g = seg(c, c->at);
    const char *base = segment_ptr(&s->memory.arena, c->at);
    uint32_t bytes = 0;
    bool has_large = false;

    must_be_reading();
    c->picks = 0;
    shard_enter(s);
    if (was_flushed(c)) {
        shard_leave(s);
        return false;
    }
    uint32_t end = g->fill - c->offset < SEARCH_BYTES ? g->fill : c->offset + SEARCH_BYTES;
    while (c->offset < end && c->picks < CARRY_BATCH && bytes < CARRY_BYTES && !has_large) {
        const struct item *it = (const struct item *)(const void *)(base + c->offset);
        uint16_t shape = item_shape(it);
        uint32_t size = (shape & SHAPE_SIZE) * ITEM_UNIT;

        __builtin_prefetch(base + c->offset + AHEAD_BYTES);
        if (shape_is_live(shape) && it->key_len != 0) {
            uint64_t hash = shard_hash(s, it);

            if (leaves(&c->leave, hash)) {
                struct carry_pick *p = &c->pick[c->picks++];

                p->hash = hash;
                p->handle = segment_handle(&s->memory.arena, c->at) + c->offset / ITEM_UNIT;
                p->to = slot_of(c, hash)->to;
                has_large = item_is_large(it);
                bytes += size;
                table_prefetch_bucket(&s->table, hash);
                table_prefetch_bucket(&c->engine->shards[p->to]->table, hash);
            }
        }
        c->offset += size;
    }
    c->is_at_end = c->offset >= g->fill;
    shard_leave(s);
    if (has_large) {
        take_key(c, &c->pick[--c->picks]);
    }
    return true;
}

/* The chain for the copy: the same as before, unless the policy sorts items by chain. */
static enum chain_id chain_for(const struct carry *c, struct shard *to, handle_t h)
{
    if (evict_sorts_now(&to->memory.evict)) {
        return evict_sorted_chain(item_deadline(shard_item(c->from, h)) != MSEC_NEVER);
    }
    return memory_chain(&c->from->memory, h);
}

/*
 * May a copy overdraw the limit? If many shards have hardly more than their reserves, these
 * alone may fill the limit, and no shard can evict anything. A shard that all slots leave gives
 * its reserve back at the end.
 */
static bool may_overdraw(const struct carry *c, const struct memory *m)
{
    return c->leaving == c->owned && c->fruitless > OVERDRAW_AFTER && memory_evicts(m);
}

/* A block for a copy in `to`; 0: no room. */
static handle_t block_for(struct carry *c, struct shard *to, enum chain_id chain,
                          uint32_t units, msec_t now)
{
    struct memory *m = &to->memory;

    if (c->may_evict) {
        room_make(m, (uint64_t)units * ITEM_UNIT, now);
    } else if (!carry_has_room_in(m)) {
        return 0; /* an allocation would have to evict */
    }
    return draw_block(m, chain, units, 0, may_overdraw(c, m) ? DRAW_PRESSED : DRAW_PUT);
}

/* Copy one item and link the copy. False when there is no room. Context: in both shards. */
static bool carry_one(struct carry *c, struct visit *v, struct carry_pick *p)
{
    struct shard *from = v->from;
    struct shard *to = v->to;
    const struct item *it = shard_item(from, p->handle);
    _Atomic handle_t *slot;

    visit_clean(v, p->hash, item_key(it), it->key_len);
    slot = table_slot_of(&from->table, p->hash, p->handle);
    if (slot == NULL) {
        p->handle = 0; /* a writer has moved the item, it was removed, or its block moved */
        return true;
    }
    if (item_is_due(it, shard_due_now(from, v->now))) {
        keyspace_expire(from, p->hash, slot, SHARD_EXPIRED_LAZY, v->now);
        carry_count_add(&c->count->expired, 1);
        p->handle = 0;
        return true;
    }
    if (!keyspace_reserve(to, item_has_ttl(it))) {
        return false;
    }
    handle_t h = block_for(c, to, chain_for(c, to, p->handle), item_units(it), v->now);
    if (h == 0) {
        return false;
    }
    if (item_cas(it) >= to->cas_next) {
        keyspace_draw_cas(to); /* what is stored next is newer */
    }
    struct item *copy = shard_item(to, h);
    blocks_copy(copy, it);
    if (item_has_ttl(copy)) {
        item_set_node(copy, 0);
    }
    keyspace_take_over(to, p->hash, h, from, slot, c->is_emptied);
    carry_count_add(&c->count->items, 1);
    carry_count_add(&c->count->bytes, (uint64_t)it->key_len + item_len(it));
    c->bytes_left -= item_bytes(it) < c->bytes_left ? item_bytes(it) : c->bytes_left;
    c->fruitless = 0;
    p->handle = 0;
    return true;
}

/* Move the picked small items that go to this shard. False when one found no room. */
static bool carry_batch(struct carry *c, struct shard *to)
{
    struct visit v = {.to = to, .from = c->from, .now = clock_now(&c->engine->clock)};
    bool has_room = true;

    must_be_reading();
    visit_enter_both(&v, c->version);
    v.now = clock_now(&c->engine->clock);
    bool is_there = !was_flushed(c);
    for (unsigned i = 0; is_there && has_room && i < c->picks; i++) {
        struct carry_pick *p = &c->pick[i];

        if (p->handle != 0 && p->to == to->id) {
            has_room = carry_one(c, &v, p);
        }
    }
    (void)shard_resize_step(to, CARRY_BUCKETS);
    (void)shard_resize_step(c->from, CARRY_BUCKETS);
    if (stock_is_low(&to->memory)) {
        c->low = to;
    }
    shard_note_work(to);
    shard_note_work(c->from);
    shard_leave(to);
    shard_leave(c->from);
    shard_after_leave(to);
    shard_after_leave(c->from);
    return has_room;
}

/* ---- the whole --------------------------------------------------------------------------- */

/* Set the search back to the first item that was picked but not moved. */
static void search_again(struct carry *c)
{
    segment_t n = c->at;

    for (unsigned i = c->picks; i > 0; i--) {
        handle_t h = c->pick[i - 1].handle;

        if (h != 0) {
            c->offset = (h - segment_handle(&c->from->memory.arena, n)) * ITEM_UNIT;
        }
    }
    c->large.key_len = 0;
}

/*
 * Move the picked items, shard by shard. Returns the first shard that has no room; NULL: all
 * were moved. Picked items are valid in this section only.
 */
static struct shard *carry_picked(struct carry *c)
{
    for (unsigned i = 0; i < c->picks; i++) {
        struct shard *to = c->engine->shards[c->pick[i].to];

        if (c->pick[i].handle != 0 && !carry_batch(c, to)) {
            search_again(c);
            return to;
        }
    }
    return NULL;
}

/* Do one step: search, and move the items that are found. */
static void carry_some(struct carry *c)
{
    struct shard *full = NULL;

    rcu_begin();
    bool is_there = search(c);
    if (is_there) {
        full = carry_picked(c);
    }
    rcu_end();
    if (c->low != NULL) {
        stock_fill(&c->low->memory); /* here, and not with both shards entered */
        c->low = NULL;
    }
    if (!is_there) {
        c->at = 0; /* a flush removed all items */
    } else if (full != NULL) {
        (void)carry_wait_for(c, full);
    } else {
        if (c->large.key_len != 0) {
            carry_value(c);
        }
        if (carry_turn(c) && c->is_at_end) {
            leave_segment(c);
        }
    }
}

/* Segments whose marks are cleared each time that the shard is entered. */
#define MARKS_AT_ONCE 1024

static void clear_marks(struct carry *c)
{
    const struct arena *a = &c->from->memory.arena;
    segment_t n = 1;
    segment_t end;

    do {
        shard_enter(c->from);
        end = n + MARKS_AT_ONCE < a->fresh ? n + MARKS_AT_ONCE : a->fresh;
        for (; n < end; n++) {
            a->segments[n].is_passed = 0;
        }
        end = a->fresh;
        shard_leave(c->from);
    } while (n < end);
}

static void begin_search(struct carry *c)
{
    struct shard *s = c->from;

    clear_marks(c);
    shard_enter(s);
    c->leave = (struct shard_leave){.leaves = leaves};
    s->leave = &c->leave;
    c->epoch = s->memory.epoch;
    c->bytes_left = chains_bytes(&s->memory) * c->leaving / c->owned;
    c->chain = 0;
    c->next = 0;
    begin_chain(c);
    c->is_emptied = should_empty(c);
    shard_leave(s);
}

#ifdef MAYFLY_DEBUG
static void see(void *arg, handle_t h, uint64_t hash)
{
    const struct carry *c = arg;

    (void)h;
    must(!leaves(&c->leave, hash));
}

/* Check that no item is left that should have moved. Context: in shard. */
static void must_be_done(struct carry *c)
{
    struct position p = {0};

    while (p.shard == 0) {
        position_step_all(&p, c->from, see, c);
    }
}
#endif

/* End a search. True: a block was put into a part that had been searched: search again. */
static bool end_search(struct carry *c)
{
    struct shard *s = c->from;

    shard_enter(s);
    if (!was_flushed(c)) {
        unkeep(c, c->at);
        unkeep(c, c->next);
    }
    bool has_strays = c->leave.has_strays;
#ifdef MAYFLY_DEBUG
    if (!has_strays && c->state == CARRY_GOES_ON && !was_flushed(c)) {
        must_be_done(c);
    }
#endif
    s->leave = NULL;
    shard_leave(s);
    return has_strays;
}

enum carry_state carry_shard(struct carry *c)
{
    bool has_strays;

    must_not_be_reading();
    c->state = CARRY_GOES_ON;
    c->fruitless = 0;
    c->may_evict = false;
    c->has_begun = false;
    c->large.key_len = 0;
    do {
        begin_search(c);
        while (c->at != 0 && c->state == CARRY_GOES_ON) {
            carry_some(c);
        }
        has_strays = end_search(c);
    } while (has_strays && c->state == CARRY_GOES_ON);
    if (carry_give_back(c)) {
        carry_end_period(c);
        (void)carry_give_back(c); /* the next shard begins with it */
    }
    if (c->state == CARRY_GOES_ON) {
        carry_pace(c);
    }
    return c->state == CARRY_GOES_ON ? CARRY_DONE : c->state;
}
