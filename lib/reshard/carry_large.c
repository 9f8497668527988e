/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carrying large values over, a part of carry.c. They are copied outside the shards: in one
 * section if they are in pieces only, otherwise segment by segment while they are pinned, so
 * that no section lasts long and room is made in small steps. An ordinary store links the copy
 * if the value is still the same.
 */
#include "lib/reshard/carry.h"

#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/shard/expire.h"
#include "lib/shard/value.h"
#include "lib/store/body.h"
#include "lib/store/store_common.h"
#include "lib/store/visit.h"

/* A large value on its way: its segments are pinned, the rest of it is copied. */
struct load {
    struct carry *c;
    struct shard *to;
    struct body *body; /* owned; NULL: none, or it was stored */
    struct value_walk walk;
    struct value_pin pin;
    char *tail; /* owned */
    size_t tail_len;
    size_t len; /* of the value */
};

static struct span key_of(const struct load *l)
{
    return span_of(l->c->large.key, l->c->large.key_len);
}

static const struct item *find_in_from(const struct load *l)
{
    const struct shard *s = l->c->from;
    struct span key = key_of(l);

    return table_find(&s->table, s->memory.arena.base, l->c->large.hash, key.ptr, key.len);
}

/*
 * Does the item still have the value that is being carried? Pinned segments belong to no other
 * value, and a value that was extended is longer.
 */
static bool is_same_value(const struct load *l, const struct item *it)
{
    return item_is_large(it) && item_large(it)->anchor == l->walk.anchor &&
           item_len(it) == l->len;
}

/* Append all of a part to the body, and wait for room if necessary. */
static bool append(struct load *l, struct span part)
{
    struct carry *c = l->c;

    while (part.len != 0) {
        size_t missing = body_missing(l->body);

        if (!body_next_is_held(l->body) && !carry_has_room(l->to)) {
            carry_make_room(c, l->to);
        }
        if (c->state != CARRY_GOES_ON) {
            return false;
        }
        enum outcome out = body_append(l->body, part, true);
        missing -= body_missing(l->body);
        part = span_of(part.ptr + missing, part.len - missing);
        c->fruitless = missing != 0 ? 0 : c->fruitless;
        if (out != OUT_OK && !carry_wait_for(c, l->to)) {
            return false;
        }
    }
    return carry_turn(c);
}

/* Copy the bytes of a pinned value. False: the value is gone, or the copy was given up. */
static bool fill_pinned(struct load *l)
{
    struct span part;

    while (l->walk.segments_left > 0 && value_walk_next(&l->walk, &part)) {
        if (!append(l, part) || value_pin_is_dead(&l->pin)) {
            return false;
        }
    }
    return append(l, span_of(l->tail, l->tail_len));
}

/* A store that replaces the item, as it was found in this section, by its copy. */
static struct store store_of(const struct load *l, const struct item *it,
                             struct store_over *over)
{
    *over = (struct store_over){
        .item = it, .deadline = item_deadline(it), .is_copy = true, .is_move = true};
    return (struct store){.mode = STORE_CAS,
                          .hash = l->c->large.hash,
                          .key = key_of(l),
                          .flags = item_flags(it),
                          .deadline = over->deadline,
                          .over = over,
                          .cas_new = item_cas(it),
                          .may_wait = true,
                          .takes_due = true}; /* what has to be kept goes along */
}

/*
 * Copy a value without whole segments, at most some 240 KiB, block by block within this
 * section, which keeps its bytes readable.
 */
static enum outcome carry_pieces(struct load *l, const struct item *it, msec_t now)
{
    struct store_over over;
    struct store st = store_of(l, it, &over);
    struct value_walk w;
    struct span part;
    enum outcome out = OUT_OK;

    must_be_reading();
    (void)body_place(l->body, &st, now); /* or it waits in a buffer */
    value_walk_begin(&w, l->c->from, it);
    while (out == OUT_OK && value_walk_next(&w, &part)) {
        out = body_append(l->body, part, true);
    }
    if (out == OUT_OK) {
        st.body = &l->body;
        out = engine_store(l->c->engine, &st, now);
    }
    body_abort(&l->body); /* its blocks last as long as the section */
    return out;
}

/*
 * Pin the segments of the value, and copy the rest of it. Slow readers may have used up the
 * limit on pinned memory. This value may exceed it, but is unpinned when it dies. False: no
 * memory. Context: read side.
 */
static bool begin_pinned(struct load *l, const struct item *it)
{
    value_walk_begin(&l->walk, l->c->from, it);
    l->tail_len = value_walk_tail(&l->walk);
    l->tail = mem_alloc(l->tail_len + 1);
    if (l->tail == NULL) {
        return false;
    }
    value_walk_copy_tail(&l->walk, l->tail);
    l->pin = value_pin(&l->walk);
    return true;
}

/*
 * Replace the item by the complete copy. OUT_EXISTS: the item has another value by now, or it
 * was touched.
 */
static enum outcome finish_pinned(struct load *l)
{
    enum outcome out = OUT_EXISTS;

    rcu_begin();
    const struct item *it = find_in_from(l);
    if (it == NULL) {
        out = OUT_NOT_FOUND;
    } else if (is_same_value(l, it)) {
        struct store_over over;
        struct store st = store_of(l, it, &over);

        st.body = &l->body;
        out = engine_store(l->c->engine, &st, clock_now(&l->c->engine->clock));
    }
    rcu_end();
    return out;
}

/*
 * Drop the item, which was past its deadline, if it still is: a touch may have given it
 * another deadline, or a hold may have begun. The cas cannot tell it from an item that a
 * client stored since. Context: read side.
 */
static enum outcome drop_due(struct load *l, msec_t now)
{
    struct visit v;

    visit_enter(l->c->engine, &v, l->c->large.hash, key_of(l), now);
    v.is_move = true;
    visit_find(&v);
    bool is_there = v.is_live && v.owner == l->c->from;
    visit_leave(&v);
    carry_count_add(&l->c->count->expired, v.was_due);
    return is_there ? OUT_WAIT : OUT_NOT_FOUND;
}

/*
 * May the value fit its new shard? If nothing may be evicted, a value that needs more segments
 * than the shard can have is not begun: it would take them from clients for a while, and then
 * be dropped.
 */
static bool may_fit(const struct load *l, const struct item *it)
{
    const struct memory *m = &l->to->memory;

    if (memory_evicts(m) || !item_is_large(it)) {
        return true;
    }
    shard_enter(l->to);
    uint32_t segments = arena_avail(&m->arena) + memory_waiting(m);
    shard_leave(l->to);
    return segments >= item_large(it)->segments + ROOM_RESERVE;
}

/* The part of a try that runs in one section. True: the value was pinned. */
static bool begin_load(struct load *l, enum outcome *out)
{
    struct engine *e = l->c->engine;
    msec_t now = clock_now(&e->clock);
    const struct item *it = find_in_from(l);

    must_be_reading();
    *out = OUT_NOT_FOUND; /* a writer took it over, or it is gone */
    if (it == NULL) {
        return false;
    }
    if (item_is_due(it, shard_due_now(l->c->from, now))) {
        *out = drop_due(l, now);
        return false;
    }
    l->len = item_len(it);
    *out = OUT_WAIT;
    if (!may_fit(l, it)) {
        l->c->state = CARRY_NO_ROOM;
        return false;
    }
    l->body = body_begin(e, l->c->large.hash, l->len);
    if (l->body == NULL) {
        return false;
    }
    if (!item_is_large(it) || item_large(it)->segments == 0) {
        *out = carry_pieces(l, it, now);
        return false;
    }
    return begin_pinned(l, it);
}

/* One try. OUT_STORED or OUT_NOT_FOUND: the old shard no longer has the item. */
static enum outcome carry_load(struct load *l)
{
    enum outcome out;

    rcu_begin();
    bool is_pinned = begin_load(l, &out);
    rcu_end();
    if (is_pinned && fill_pinned(l)) {
        do {
            out = finish_pinned(l);
        } while (out == OUT_WAIT && l->body != NULL && carry_wait_for(l->c, l->to));
    }
    body_abort(&l->body);
    value_unpin(&l->pin);
    mem_free(l->tail);
    return out;
}

/*
 * There is no room for the value, but there may be room for smaller items. So only its slot,
 * with all its items, remains between the two shards, and the other slots arrive.
 */
static void let_slot_wait(struct carry *c)
{
    shard_enter(c->from);
    c->waits[route_slot_number(c->large.hash)] = true;
    shard_leave(c->from);
    c->waiting++;
    c->fruitless = 0;
    c->state = CARRY_GOES_ON;
}

void carry_value(struct carry *c)
{
    enum outcome out = OUT_WAIT;

    must_not_be_reading();
    while (c->state == CARRY_GOES_ON && out != OUT_STORED && out != OUT_NOT_FOUND) {
        struct load l = {.c = c, .to = c->engine->shards[c->large.to]};
        unsigned fruitless = c->fruitless;

        (void)carry_give_back(c);
        if (!carry_has_room(l.to)) {
            carry_make_room(c, l.to);
        }
        out = carry_load(&l);
        if (out == OUT_STORED) {
            c->fruitless = 0;
            carry_count_add(&c->count->items, 1);
            carry_count_add(&c->count->bytes, c->large.key_len + l.len);
            c->bytes_left -= l.len < c->bytes_left ? l.len : c->bytes_left;
        } else if (out != OUT_NOT_FOUND && c->state == CARRY_GOES_ON) {
            c->fruitless = fruitless; /* what was copied is dropped */
            (void)carry_wait_for(c, l.to);
        }
    }
    if (c->state == CARRY_NO_ROOM) {
        let_slot_wait(c);
    }
    c->large.key_len = 0;
}
