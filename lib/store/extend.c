/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extending large values: see store_common.h.
 *
 * An addition that needs no segment and fits a block is copied under the lock, like a set. Any
 * other takes two visits. The first claims the value: its anchor is busy, and no other thread
 * extends it until the second. In between, outside the shard, segments are taken and filled;
 * the thread with the claim owns the free part of the value's last segment. Meanwhile the value
 * may die, or its head may move; it cannot get longer or shorter. The second visit tests the
 * conditions again and links. A claim does not outlast the read-side section in which it was
 * made. So it is harmless to write to a value that dies meanwhile: its memory is not reused
 * before the section ends.
 */
#include <sched.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/memory/chunks.h"
#include "lib/memory/room_make.h"
#include "lib/shard/keyspace.h"
#include "lib/shard/value.h"
#include "lib/store/body.h"
#include "lib/store/loose.h"
#include "lib/store/splice.h"
#include "lib/store/store_common.h"

/* ---- what is to be done ------------------------------------------------------------------ */

struct extension {
    struct store *st;
    uint64_t bytes_max;
    size_t len;  /* of the addition */
    bool joins;  /* its segments become part of the value */
    bool claims; /* the value was claimed: the fields below are to be set */
    struct shard *shard;
    segment_t anchor;
    enum run_end where;
    segment_t end; /* the segment at that end of the value */
    uint32_t at;   /* where its bytes begin or end there */
    uint32_t room; /* bytes of the addition that go to its free part */
    bool has_ttl;
    uint32_t tail;   /* bytes of the value that are in pieces */
    uint32_t before; /* fresh segments for the addition, before the others */
    uint32_t behind; /* fresh segments at the back, for the bytes in pieces */
    struct value_walk pieces;
    struct loose head;
    struct fresh fresh;
};

/* Plan how to extend the found item. Context: in shard. */
static void extension_plan(struct extension *x, const struct visit *v)
{
    const struct large *l = item_large(v->item);
    const struct arena *a = &v->to->memory.arena;
    struct body_parts parts = {.tail_len = 0};
    size_t rest = x->len;
    uint32_t room;

    shard_must_be_entered(v->to);
    x->shard = v->to;
    x->anchor = l->anchor;
    x->where = x->st->mode == STORE_APPEND ? RUN_BACK : RUN_FRONT;
    value_walk_begin(&x->pieces, v->to, v->item);
    x->tail = x->pieces.tail;
    if (x->where == RUN_BACK) {
        x->end = l->last;
        x->at = a->segments[l->last].fill;
        room = x->tail == 0 ? segment_bytes(a) - x->at : 0;
    } else {
        x->end = l->first;
        x->at = l->skip;
        room = l->skip;
    }
    if (x->joins) {
        body_parts(*x->st->body, &parts);
        x->room = 0;
        x->before = parts.tail_len != 0;
        x->behind = x->tail != 0;
        return;
    }
    x->room = (uint32_t)(rest < room ? rest : room);
    rest -= x->room;
    if (x->where == RUN_BACK) {
        x->before = segments_for(a, x->tail + rest); /* the pieces go to the first of them */
        x->behind = 0;
    } else {
        x->before = segments_for(a, rest);
        x->behind = x->tail != 0;
    }
}

/* May the found item be extended? OUT_STORED: yes. Context: in shard. */
static enum outcome extension_judge(const struct extension *x, const struct visit *v)
{
    enum outcome out = store_judge(v, x->st);

    if (out != OUT_STORED) {
        return out;
    }
    if (x->st->key.len + item_len(v->item) + x->len > x->bytes_max) {
        return OUT_TOO_LARGE;
    }
    if (!item_is_large(v->item) || item_large(v->item)->segments < EXTEND_SEGMENTS ||
        v->owner != v->to) {
        return OUT_MISS;
    }
    return OUT_STORED;
}

/* ---- linking ----------------------------------------------------------------------------- */

/* A filled block with the longer value takes the place of the found item. Context: in shard. */
static void link_longer(struct extension *x, struct visit *v, handle_t h, uint32_t units,
                        const struct growth by[RUN_ENDS])
{
    struct segment *end = &v->to->memory.arena.segments[x->end];
    bool has_ttl = item_has_ttl(v->item);
    struct item *it =
        keyspace_fill(v->to, h, units, x->st->key, item_flags(v->item), item_deadline(v->item),
                      has_ttl, true, item_len(v->item) + (uint32_t)x->len, v->now);

    shard_must_be_entered(v->to);
    item_set_large(it);
    if (x->where == RUN_BACK) {
        end->fill += x->room;
    } else {
        end->skip -= x->room;
    }
    x->st->value_len = item_len(it);
    store_finish(v, x->st, it, HEAT_USE);
    keyspace_extend(v->to, v->hash, h, v->slot, by);
}

static uint32_t head_units(const struct visit *v, bool has_ttl)
{
    return keyspace_units(v->key.len, 3 + LARGE_BYTES(0), has_ttl, true);
}

/* An addition that needs no segment, as a whole. Context: in shard. */
static enum outcome extend_at_once(struct extension *x, struct visit *v)
{
    const struct growth none[RUN_ENDS] = {{0}, {0}};
    bool has_ttl = item_has_ttl(v->item);
    uint32_t units = head_units(v, has_ttl);
    struct sink k = {&v->to->memory.arena, x->end, x->at, NULL};
    enum outcome why;

    if (!store_reserve_over(v, has_ttl)) {
        return visit_wait_for_index(v, x->st->may_wait);
    }
    handle_t h = visit_block(v, visit_chain(v, (uint64_t)units * ITEM_UNIT, has_ttl), &units,
                             x->st->may_wait, &why);
    if (h == 0) {
        return why;
    }
    if (x->where == RUN_FRONT) {
        k.at -= x->room;
    }
    sink_put_all(&k, source_of(x->st));
    link_longer(x, v, h, units, none);
    return OUT_STORED;
}

/* ---- the visits -------------------------------------------------------------------------- */

/* The first: OUT_OK: claimed, the rest follows. */
static enum outcome extend_begin(struct visit *v, void *arg)
{
    struct extension *x = arg;

    shard_must_be_entered(v->to);
    room_make(&v->to->memory, 0, v->now);
    visit_find(v);
    enum outcome out = extension_judge(x, v);
    if (out != OUT_STORED) {
        return out;
    }
    extension_plan(x, v);
    struct segment *anchor = &v->to->memory.arena.segments[x->anchor];
    if (anchor->busy != 0) {
        v->waits_for = WAIT_CLAIM;
        return OUT_WAIT;
    }
    if (x->before == 0 && x->behind == 0 && !x->joins && x->len <= ITEM_SIZE_MAX * ITEM_UNIT) {
        return extend_at_once(x, v);
    }
    memset(&x->head.parts, 0, sizeof(x->head.parts));
    x->has_ttl = item_has_ttl(v->item);
    out = loose_make(v, x->st, x->has_ttl, &x->head);
    if (out != OUT_STORED) {
        return out;
    }
    anchor->busy = 1;
    x->claims = true;
    return OUT_OK;
}

/* Copy what is to be copied, and say what each end grows by. Context: outside the shard. */
static void extend_fill(struct extension *x, struct growth by[RUN_ENDS])
{
    struct arena *a = &x->shard->memory.arena;
    const segment_t *fresh = x->fresh.at;
    struct source addition = source_of(x->st);
    struct sink k = {a, x->end, x->at, fresh};
    struct growth *g = &by[x->where];

    if (x->behind != 0 || (x->where == RUN_BACK && x->tail != 0)) {
        segment_t n = x->behind != 0 ? fresh[x->before] : fresh[0];

        value_walk_copy_tail(&x->pieces, segment_ptr(a, n));
        if (x->behind != 0) {
            a->segments[n].fill = x->tail;
        }
    }
    if (x->joins) {
        struct body_parts parts;

        body_parts(*x->st->body, &parts);
        growth_add_each(a, &by[RUN_BACK], fresh + x->before, x->behind);
        growth_add(a, g, parts.first, parts.last, parts.segments);
        if (x->before != 0) {
            memcpy(segment_ptr(a, fresh[0]), parts.tail, parts.tail_len);
            a->segments[fresh[0]].fill = (uint32_t)parts.tail_len;
            growth_add_each(a, g, fresh, 1);
        }
        return;
    }
    if (x->where == RUN_BACK) {
        if (x->tail != 0) {
            k = (struct sink){a, fresh[0], x->tail, fresh + 1};
        }
        sink_put_all(&k, addition);
        if (x->before != 0) {
            a->segments[fresh[x->before - 1]].fill = k.at;
        }
    } else {
        segment_t order[FRESH_MAX + 1];
        size_t rest = x->len - x->room;
        uint32_t skip = (uint32_t)(((size_t)x->before << a->shift) - rest);

        memcpy(order, fresh, x->before * sizeof(order[0]));
        order[x->before] = x->end;
        k = (struct sink){a, order[0], x->before != 0 ? skip : x->at - x->room, order + 1};
        sink_put_all(&k, addition);
        if (x->before != 0) {
            a->segments[fresh[0]].skip = skip;
        }
    }
    growth_add_each(a, g, fresh, x->before);
    growth_add_each(a, &by[RUN_BACK], fresh + x->before, x->behind);
}

/* Give up the claim, and the block of the head. Context: outside the shard. */
static void release_claim(struct extension *x)
{
    shard_enter(x->shard);
    x->shard->memory.arena.segments[x->anchor].busy = 0;
    loose_drop(&x->head);
    shard_leave(x->shard);
}

/* Is what was found the value that was claimed? Context: in shard. */
static bool is_claimed(const struct extension *x, const struct visit *v)
{
    return v->owner == x->shard && v->to == x->shard && item_is_large(v->item) &&
           item_large(v->item)->anchor == x->anchor && x->head.epoch == x->shard->memory.epoch;
}

/* The second visit. */
static enum outcome extend_end(struct engine *e, struct extension *x,
                               const struct growth by[RUN_ENDS], msec_t now)
{
    struct visit v;

    visit_enter(e, &v, x->st->hash, x->st->key, now);
    visit_find(&v);
    enum outcome out = store_judge(&v, x->st);
    if (out == OUT_STORED && (!is_claimed(x, &v) || item_has_ttl(v.item) != x->has_ttl ||
                              !store_reserve_over(&v, x->has_ttl))) {
        out = OUT_MISS;
    }
    if (out == OUT_STORED) {
        blocks_settle(&x->shard->memory, x->head.head);
        link_longer(x, &v, x->head.head, x->head.head_units, by);
        x->shard->memory.arena.segments[x->anchor].busy = 0;
    }
    visit_leave(&v);
    if (out != OUT_STORED) {
        release_claim(x);
    }
    return out;
}

static enum outcome extend_claimed(struct engine *e, struct extension *x, msec_t now)
{
    struct growth by[RUN_ENDS] = {{0}, {0}};
    enum outcome out = fresh_take(e, x->st, x->before + x->behind, &x->fresh);
    struct body_parts parts;

    if (out == OUT_OK && x->fresh.body != NULL) {
        body_parts(x->fresh.body, &parts);
        if (parts.shard != x->shard) {
            out = OUT_MISS; /* the slot moves */
        }
    }
    if (out == OUT_OK && x->joins) {
        body_parts(*x->st->body, &parts);
        if (parts.shard != x->shard) {
            out = body_rehome(*x->st->body, x->shard, x->st->may_wait);
            out = out == OUT_OK ? OUT_MISS : out;
        }
    }
    if (out != OUT_OK) {
        release_claim(x);
        fresh_drop(&x->fresh);
        return out;
    }
    extend_fill(x, by);
    out = extend_end(e, x, by, now);
    if (out == OUT_STORED) {
        fresh_keep(&x->fresh);
        if (x->joins) {
            body_disown(*x->st->body);
        }
    }
    fresh_drop(&x->fresh);
    return out;
}

/*
 * How long an extension is tried again at once if another thread has claimed the value and the
 * store may not wait. A claim ends with the other thread's section, in which nothing waits.
 */
#define CLAIM_PATIENCE_US 20000

static bool may_end_soon(usec_t *until)
{
    usec_t now = clock_mono_us();

    if (*until == 0) {
        *until = now + CLAIM_PATIENCE_US;
    }
    (void)sched_yield();
    return now < *until;
}

enum outcome store_extend(struct engine *e, struct store *st, uint64_t bytes_max, msec_t now)
{
    struct extension x = {.st = st, .bytes_max = bytes_max};
    struct visit v;
    usec_t until = 0;
    enum outcome out;

    must_be_reading();
    x.len = store_addition_len(st);
    x.joins = store_joins(st);
    do {
        out = visit_run(e, &v, st->hash, st->key, now, extend_begin, &x);
    } while (out == OUT_WAIT && v.waits_for == WAIT_CLAIM && !st->may_wait &&
             may_end_soon(&until));
    if (out == OUT_WAIT && !st->may_wait) {
        out = OUT_NO_MEMORY;
    }
    return x.claims ? extend_claimed(e, &x, now) : out;
}
