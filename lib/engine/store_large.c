/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storing large values, in four steps, so that no copy of their bytes is made inside the shard:
 * (1) whole segments are filled (the body); (2) in the shard: blocks for head and pieces are
 * made, loose: their segments are kept from the cursor; (3) outside: pieces and head are
 * filled; (4) in the shard: conditions are tested and the head is linked.
 *
 * A flush between (2) and (4) takes the blocks away (the epoch tells); their bytes are not
 * reused before the read-side section that the caller is in has ended.
 */
#include <string.h>

#include "lib/base/check.h"
#include "lib/engine/store.h"

static void loosen(struct shard *s, handle_t h, uint32_t units)
{
    struct item *it = shard_item(s, h);

    it->cas = 0;
    it->client_flags = 0;
    it->value_len = 0;
    it->key_len = 0;
    atomic_store_explicit(&it->shape, (uint16_t)(units | SHAPE_OFF | SHAPE_LOOSE),
                          memory_order_relaxed);
    s->arena.segments[segment_of(&s->arena, h)].busy++;
}

static void settle(struct shard *s, handle_t h)
{
    struct item *it = shard_item(s, h);

    atomic_store_explicit(&it->shape, item_shape(it) & (uint16_t) ~(SHAPE_OFF | SHAPE_LOOSE),
                          memory_order_relaxed);
    s->arena.segments[segment_of(&s->arena, h)].busy--;
}

/*
 * Give the blocks up: nobody ever saw them, but a hole needs its grace period all the same.
 * Context: in shard.
 */
static void loose_drop(struct loose *l)
{
    struct shard *s = l->shard;

    if (l->epoch != s->epoch) {
        return; /* a flush took them */
    }
    for (uint32_t i = 0; i < l->pieces; i++) {
        settle(s, l->piece[i]);
        blocks_kill(s, l->piece[i], DEATH_REUSE);
    }
    if (l->head != 0) {
        settle(s, l->head);
        blocks_kill(s, l->head, DEATH_REUSE);
    }
}

static uint32_t piece_bytes(const struct loose *l, uint32_t i)
{
    uint32_t max = l->shard->piece_max;
    size_t left = l->parts.tail_len - (size_t)i * max;

    return left < max ? (uint32_t)left : max;
}

/* Step 2. Context: in shard. */
static enum outcome loose_make(struct visit *v, const struct store *st, bool has_ttl,
                               struct loose *l)
{
    struct shard *s = v->to;
    enum chain_id chain;
    enum outcome why = OUT_OK;
    uint32_t pieces = l->parts.tail_len == 0
                          ? 0
                          : (uint32_t)((l->parts.tail_len + s->piece_max - 1) / s->piece_max);

    must(pieces <= PIECES_MAX);
    l->shard = s;
    l->epoch = s->epoch;
    l->pieces = 0;
    l->head = 0;
    room_make(s, l->parts.tail_len, v->now);
    visit_find(v);
    why = store_judge(v, st);
    if (why != OUT_STORED) {
        return why;
    }
    if (st->deadline <= v->now && !(st->mode == STORE_APPEND || st->mode == STORE_PREPEND)) {
        return OUT_MISS; /* dead on arrival: nothing is to be made */
    }
    chain = visit_chain(v);
    while (l->pieces < pieces) {
        uint32_t units =
            (uint32_t)((sizeof(struct item) + piece_bytes(l, l->pieces) + ITEM_UNIT - 1) /
                       ITEM_UNIT);
        handle_t h = visit_block(v, chain, &units, st->may_wait, &why);

        if (h == 0) {
            loose_drop(l);
            return store_failed(v, st, why);
        }
        loosen(s, h, units);
        l->piece[l->pieces++] = h;
    }
    l->head_units = keyspace_units(st->key.len, 3 + LARGE_BYTES(pieces), has_ttl);
    l->head = visit_block(v, chain, &l->head_units, st->may_wait, &why);
    if (l->head == 0) {
        loose_drop(l);
        return store_failed(v, st, why);
    }
    loosen(s, l->head, l->head_units);
    return OUT_STORED;
}

/* The pieces of what is replaced will die when the new bytes are here: have them at hand. */
static void prefetch_old(const struct visit *v)
{
    if (v->is_live && item_is_large(v->item)) {
        const struct large *l = item_large(v->item);

        for (uint32_t i = 0; i < l->pieces; i++) {
            handle_t h = atomic_load_explicit(&l->piece[i], memory_order_relaxed);

            __builtin_prefetch(shard_item(v->owner, h), 1);
        }
    }
}

bool loose_begin(struct engine *e, const struct store *st, struct loose *l, msec_t now)
{
    struct visit v;
    enum outcome out;

    visit_enter(e, &v, st->hash, st->key, now);
    out = loose_make(&v, st, st->deadline != MSEC_NEVER, l);
    if (out == OUT_STORED) {
        prefetch_old(&v);
    }
    visit_leave(&v);
    return out == OUT_STORED;
}

void loose_abort(struct loose *l)
{
    shard_enter(l->shard);
    loose_drop(l);
    shard_leave(l->shard);
}

struct span loose_piece(const struct loose *l, uint32_t i)
{
    return span_of((const char *)(shard_item(l->shard, l->piece[i]) + 1), piece_bytes(l, i));
}

/*
 * Step 3: the pieces, from the tail unless that stands in them already. Context: outside the
 * shard, in the section of step 2.
 */
static void loose_fill(const struct loose *l)
{
    const char *from = l->parts.tail;

    for (uint32_t i = 0; i < l->pieces; i++) {
        struct item *piece = shard_item(l->shard, l->piece[i]);
        uint32_t n = piece_bytes(l, i);

        if (from != NULL) {
            memcpy(piece + 1, from, n);
            from += n;
        }
        piece->cas = i;
        piece->value_len = n;
        piece->client_flags = l->head;
    }
}

/* Step 4: the head becomes the item. Context: in shard. */
static void loose_link(struct visit *v, struct store *st, msec_t deadline, bool has_ttl,
                       uint32_t flags, struct loose *l)
{
    struct shard *s = l->shard;
    struct item *it;
    struct large *large;

    for (uint32_t i = 0; i < l->pieces; i++) {
        settle(s, l->piece[i]);
    }
    settle(s, l->head);
    it = keyspace_fill(s, l->head, l->head_units, st->key, flags, deadline, has_ttl,
                       (uint32_t)l->parts.len, v->now);
    item_mark(it, SHAPE_LARGE);
    large = item_large(it);
    large->first = l->parts.first;
    large->last = l->parts.last;
    large->segments = l->parts.segments;
    large->pieces = l->pieces;
    for (uint32_t i = 0; i < l->pieces; i++) {
        atomic_store_explicit(&large->piece[i], l->piece[i], memory_order_relaxed);
    }
    store_finish(v, st, it, HEAT_COUNT);
    visit_link(v, l->head, DEATH_OVERWRITE);
    if (st->over != NULL && st->over->is_copy) {
        /* Nobody stored anything; taken back behind the link, so that nobody reads less. */
        ctr_add(&v->to->counters, CTR_total_items, -(uint64_t)1);
    }
}

/* Steps 2 to 4 with a full body (or its segments and a tail elsewhere). */
struct commit {
    struct store *st;
    struct body **body;
    struct span tail; /* bytes for the pieces when the body does not have them */
    bool has_ttl;
    const struct item *seen; /* append, prepend: the item that was copied; NULL: any */
};

/* Did what append or prepend copied from change meanwhile? */
static bool did_change(const struct visit *v, const struct commit *c)
{
    return c->seen != NULL && (!v->is_live || v->item != c->seen);
}

/* Step 4, with the conditions tested again. */
static enum outcome commit_link(struct engine *e, struct commit *c, struct loose *l, msec_t now)
{
    struct store *st = c->st;
    struct visit v;
    enum outcome out;

    visit_enter(e, &v, st->hash, st->key, now);
    visit_find(&v);
    out = store_judge(&v, st);
    if (v.to != l->shard || l->epoch != l->shard->epoch || did_change(&v, c) ||
        !store_reserve(v.to, c->has_ttl)) {
        out = OUT_MISS;
    }
    if (out == OUT_STORED) {
        msec_t deadline = c->seen != NULL ? item_deadline(v.item) : st->deadline;
        uint32_t flags = c->seen != NULL ? v.item->client_flags : st->flags;

        loose_link(&v, st, deadline, c->has_ttl, flags, l);
        body_disown(*c->body);
    } else if (v.to == l->shard) {
        loose_drop(l);
    }
    visit_leave(&v);
    if (out != OUT_STORED && v.to != l->shard) {
        shard_enter(l->shard);
        loose_drop(l);
        shard_leave(l->shard);
    }
    return out;
}

/*
 * A body that was read into its blocks. If that was in vain its bytes are kept for another
 * attempt: they stand where they are until the section ends.
 */
static enum outcome commit_placed(struct engine *e, struct commit *c, struct loose *l,
                                  msec_t now)
{
    enum outcome out;

    loose_fill(l);
    out = commit_link(e, c, l, now);
    if (out == OUT_MISS && !body_keep_bytes(*c->body)) {
        out = OUT_NO_MEMORY;
    }
    body_disown(*c->body);
    return out;
}

/* OUT_MISS: something changed under it, begin again. */
static enum outcome commit(struct engine *e, struct commit *c, msec_t now)
{
    struct store *st = c->st;
    struct loose l;
    struct visit v;
    enum outcome out;

    if (body_loose(*c->body) != NULL) {
        return commit_placed(e, c, body_loose(*c->body), now);
    }
    body_parts(*c->body, &l.parts);
    if (c->tail.ptr != NULL) {
        l.parts.tail = c->tail.ptr;
    }
    visit_enter(e, &v, st->hash, st->key, now);
    if (v.to != l.parts.shard && l.parts.segments != 0) {
        /* The slot moved while the value was on its way. */
        struct shard *to = v.to;

        visit_leave(&v);
        out = body_rehome(*c->body, to, st->may_wait);
        return out == OUT_OK ? OUT_MISS : out;
    }
    out = loose_make(&v, st, c->has_ttl, &l);
    if (out == OUT_MISS) {
        out = store_dead_on_arrival(&v, st);
        visit_leave(&v);
        return out;
    }
    visit_leave(&v);
    if (out != OUT_STORED) {
        return visit_help(e, &v, out) ? OUT_MISS : out;
    }
    loose_fill(&l);
    return commit_link(e, c, &l, now);
}

/* How often a store begins again when something changed under it. */
#define COMMIT_TRIES 3

static enum outcome commit_again(struct engine *e, struct commit *c, msec_t now)
{
    for (int i = 0; i < COMMIT_TRIES; i++) {
        enum outcome out = commit(e, c, now);

        if (out != OUT_MISS) {
            return out;
        }
    }
    return c->st->may_wait ? OUT_WAIT : OUT_NO_MEMORY;
}

enum outcome store_large(struct engine *e, struct store *st, msec_t now)
{
    struct body *own = NULL;
    struct commit c = {.st = st, .has_ttl = st->deadline != MSEC_NEVER};
    enum outcome out = OUT_OK;

    if (st->body != NULL && *st->body != NULL) {
        c.body = st->body;
    } else {
        own = body_begin(e, st->hash, st->value.len);
        if (own == NULL) {
            return OUT_NO_MEMORY;
        }
        c.body = &own;
        out = body_fill_segments(own, st->value, st->may_wait);
        if (out == OUT_OK) {
            struct body_parts parts;

            body_parts(own, &parts);
            c.tail = span_of(st->value.ptr + (st->value.len - parts.tail_len), parts.tail_len);
        }
    }
    if (out == OUT_OK) {
        out = commit_again(e, &c, now);
    }
    if (out == OUT_NO_MEMORY && st->mode == STORE_SET) {
        /* The old value must not be read any more. */
        engine_delete(e, st->hash, st->key, 0, now);
    }
    body_abort(&own);
    if (out != OUT_WAIT && !(out == OUT_EXISTS && st->over != NULL) && st->body != NULL) {
        body_abort(st->body);
    }
    return out;
}

/* The bytes of old value and addition, in order, into a fresh body. */
static enum outcome concat_fill(struct body *b, const struct found *old, const struct store *st)
{
    struct value_walk w;
    struct span part;
    enum outcome out = OUT_OK;

    if (st->mode == STORE_PREPEND) {
        out = body_append(b, st->value, st->may_wait);
    }
    value_walk_begin(&w, old->shard, old->item);
    while (out == OUT_OK && value_walk_next(&w, &part)) {
        out = body_append(b, part, st->may_wait);
    }
    if (out == OUT_OK && st->mode == STORE_APPEND) {
        out = body_append(b, st->value, st->may_wait);
    }
    return out;
}

static enum outcome concat_once(struct engine *e, struct store *st, msec_t now)
{
    struct found old =
        engine_find(e, router_read(&e->router), st->hash, st->key.ptr, st->key.len, now);
    struct body *b;
    enum outcome out;

    if (old.item == NULL && st->vivifies) {
        out = store_absent(e, st, now);
        return out == OUT_NOT_STORED ? OUT_MISS : out;
    }
    if (old.item == NULL) {
        return OUT_NOT_STORED;
    }
    if (st->compares_cas && old.item->cas != st->cas_expected) {
        return OUT_EXISTS;
    }

    size_t len = old.item->value_len + st->value.len;

    if (st->key.len + len > e->item_bytes_max) {
        return OUT_TOO_LARGE;
    }
    b = body_begin(e, st->hash, len);
    if (b == NULL) {
        return OUT_NO_MEMORY;
    }

    struct commit c = {
        .st = st, .body = &b, .has_ttl = item_has_ttl(old.item), .seen = old.item};

    out = concat_fill(b, &old, st);
    if (out == OUT_OK) {
        out = commit(e, &c, now);
    }
    body_abort(&b);
    return out;
}

/*
 * append, prepend with a large result: what is to be added comes as a span, or as a full body
 * that is turned into one (the addition itself is larger than a block).
 */
enum outcome store_concat_large(struct engine *e, struct store *st, msec_t now)
{
    enum outcome out = OUT_MISS;
    struct body_parts add;
    char *flat = NULL;

    if (st->body != NULL && *st->body != NULL) {
        segment_t n;
        size_t done = 0;

        body_parts(*st->body, &add);
        flat = mem_alloc(add.len);
        if (flat == NULL) {
            body_abort(st->body);
            return OUT_NO_MEMORY;
        }
        n = add.first;
        for (uint32_t i = 0; i < add.segments; i++) {
            size_t part = segment_bytes(&add.shard->arena);

            part = part < add.len - done ? part : add.len - done;
            memcpy(flat + done, segment_ptr(&add.shard->arena, n), part);
            done += part;
            n = add.shard->arena.segments[n].next;
        }
        if (done < add.len) {
            memcpy(flat + done, add.tail, add.len - done);
        }
        st->value = span_of(flat, add.len);
    }
    for (int i = 0; i < COMMIT_TRIES && out == OUT_MISS; i++) {
        out = concat_once(e, st, now);
    }
    if (out == OUT_MISS) {
        out = st->may_wait ? OUT_WAIT : OUT_NO_MEMORY;
    }
    if (flat != NULL) {
        mem_free(flat);
        st->value = span_of(NULL, 0);
        if (out != OUT_WAIT) {
            body_abort(st->body);
        }
    }
    return out;
}
