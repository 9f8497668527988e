/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Appending and prepending: see store_common.h.
 */
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/memory/chunks.h"
#include "lib/memory/room_make.h"
#include "lib/shard/keyspace.h"
#include "lib/shard/value.h"
#include "lib/store/body.h"
#include "lib/store/find.h"
#include "lib/store/splice.h"
#include "lib/store/store_common.h"
#include "lib/store/visit.h"

/* ---- results of one block ---------------------------------------------------------------- */

/* An append or prepend, and the longest key + value that it may make. */
struct concat {
    struct store *st;
    uint64_t bytes_max;
};

/* append and prepend with a result that fits one block; OUT_MISS when it does not. */
static enum outcome concat_block(struct visit *v, void *arg)
{
    const struct concat *c = arg;
    struct store *st = c->st;
    struct shard *s = v->to;

    shard_must_be_entered(v->to);
    visit_find(v);
    enum outcome why = store_judge(v, st);
    if (why != OUT_STORED) {
        return why;
    }

    bool has_ttl = item_deadline(v->item) != MSEC_NEVER;
    bool is_wide = item_needs_wide(item_flags(v->item), st->cas_new, item_deadline(v->item));
    size_t len = item_len(v->item) + st->value.len;

    if (st->key.len + len > c->bytes_max) {
        return OUT_TOO_LARGE;
    }
    if (item_is_large(v->item) || !store_fits_block(s, st->key.len, len, has_ttl, is_wide)) {
        return OUT_MISS;
    }

    uint32_t units = keyspace_units(st->key.len, len, has_ttl, is_wide);

    room_make(&s->memory, (uint64_t)units * ITEM_UNIT, v->now);
    visit_find(v); /* the cursor may have moved it, or dropped it */
    why = store_judge(v, st);
    if (why != OUT_STORED) {
        return why;
    }

    handle_t h = store_make(v, item_flags(v->item), st->cas_new, item_deadline(v->item), len,
                            st->may_wait, &why);
    if (h == 0) {
        return why;
    }

    const struct item *old = v->item; /* it may have moved */
    struct item *it = shard_item(s, h);
    size_t old_len = item_block_len(old);
    char *p = (char *)(uintptr_t)item_value(it);
    size_t first = st->mode == STORE_PREPEND ? st->value.len : 0;
    size_t second = st->mode == STORE_PREPEND ? 0 : old_len;

    memcpy(p + first, item_value(old), old_len);
    memcpy(p + second, st->value.ptr, st->value.len);
    st->value_len = (uint32_t)len;
    store_finish(v, st, it, HEAT_USE);
    visit_link(v, h, DEATH_OVERWRITE);
    return OUT_STORED;
}

/* ---- larger results ---------------------------------------------------------------------- */

/*
 * Store the value of an append or prepend as an item if there is none, else NOT_STORED. A body
 * is kept unless it was stored.
 */
static enum outcome concat_absent(struct engine *e, struct store *st, msec_t now)
{
    struct store add = *st;
    struct store_commit c = {
        .st = &add, .body = st->body, .has_ttl = st->deadline != MSEC_NEVER};

    /* Of a value that came as a body the length has not been checked yet. */
    if (st->key.len + store_addition_len(st) > e->item_bytes_max) {
        return OUT_TOO_LARGE;
    }
    add.mode = STORE_ADD;
    enum outcome out =
        store_has_body(st) ? store_commit(e, &c, now) : store_value(e, &add, now);
    st->cas = add.cas;
    st->value_len = add.value_len;
    return out;
}

static enum outcome append_addition(struct body *b, const struct store *st)
{
    struct source s = source_of(st);
    struct span part;
    enum outcome out = OUT_OK;

    while (out == OUT_OK && source_next(&s, &part)) {
        out = body_append(b, part, st->may_wait);
    }
    return out;
}

/* Copy the old value and the addition, in order, to a fresh body. */
static enum outcome concat_fill(struct body *b, const struct found *old, const struct store *st)
{
    struct value_walk w;
    struct span part;
    enum outcome out = body_take(b, st->may_wait);

    if (out == OUT_OK && st->mode == STORE_PREPEND) {
        out = append_addition(b, st);
    }
    value_walk_begin(&w, old->shard, old->item);
    while (out == OUT_OK && value_walk_next(&w, &part)) {
        out = body_append(b, part, st->may_wait);
    }
    if (out == OUT_OK && st->mode == STORE_APPEND) {
        out = append_addition(b, st);
    }
    return out;
}

/* Is the found value long enough to be extended, unless its slot moves? */
static bool is_long(const struct found *old)
{
    return item_is_large(old->item) && item_large(old->item)->segments >= EXTEND_SEGMENTS;
}

static bool is_moving(const struct engine *e, const struct store *st, const struct found *old)
{
    const struct route *rt = router_read(&e->router);

    return rt->shards[route_slot(rt, st->hash)->put] != old->shard;
}

/* Copy both; or the old value only, if the addition is long. */
static enum outcome concat_copied(struct engine *e, struct store *st, msec_t now)
{
    struct found old =
        engine_find(router_read(&e->router), st->hash, st->key.ptr, st->key.len, now);
    enum outcome out;

    if (old.item == NULL && st->vivifies) {
        out = concat_absent(e, st, now);
        return out == OUT_NOT_STORED ? OUT_MISS : out;
    }
    if (old.item == NULL) {
        return OUT_NOT_STORED;
    }
    if (st->compares_cas && item_cas(old.item) != st->cas_expected) {
        return OUT_EXISTS;
    }

    size_t len = item_len(old.item) + store_addition_len(st);

    if (st->key.len + len > e->item_bytes_max) {
        return OUT_TOO_LARGE;
    }
    if (is_long(&old) && !is_moving(e, st, &old)) {
        return OUT_MISS; /* it has just become long enough to be extended */
    }
    if (store_joins(st) && !is_long(&old)) {
        return store_join(e, st, &old, now);
    }
    struct body *b = body_begin(e, st->hash, len);
    if (b == NULL) {
        return OUT_NO_MEMORY;
    }

    body_wait_in_line(b, st->waiter, true);

    struct store_commit c = {
        .st = st, .body = &b, .has_ttl = item_has_ttl(old.item), .seen = old.item};

    out = concat_fill(b, &old, st);
    if (out == OUT_OK) {
        out = store_commit(e, &c, now);
    }
    body_abort(&b);
    return out;
}

static enum outcome concat_tries(struct engine *e, struct store *st, msec_t now)
{
    enum outcome out = OUT_MISS;

    for (int i = 0; i < STORE_TRIES && out == OUT_MISS; i++) {
        out = store_extend(e, st, e->item_bytes_max, now);
        if (out == OUT_NOT_STORED && st->vivifies) {
            out = OUT_MISS;
        }
        if (out == OUT_MISS) {
            out = concat_copied(e, st, now);
        }
    }
    if (out == OUT_MISS) {
        out = st->may_wait ? OUT_WAIT : OUT_NO_MEMORY;
    }
    return out;
}

/* append and prepend with a large result. A span that is long enough to join becomes a body. */
static enum outcome concat_large(struct engine *e, struct store *st, msec_t now)
{
    const struct arena *a =
        &e->shards[0]->memory.arena; /* segments are the same in all shards */
    struct store with_body = *st;
    enum outcome out;

    if (store_has_body(st) || st->value.len < (size_t)EXTEND_SEGMENTS << a->shift) {
        out = concat_tries(e, st, now);
        if (out != OUT_WAIT && st->body != NULL) {
            body_abort(st->body);
        }
        return out;
    }
    if (st->key.len + st->value.len > e->item_bytes_max) {
        return OUT_TOO_LARGE;
    }
    struct body *body = body_begin(e, st->hash, st->value.len);
    if (body == NULL) {
        return OUT_NO_MEMORY;
    }
    with_body.body = &body;
    body_wait_in_line(body, st->waiter, true);
    out = body_append(body, st->value, st->may_wait);
    if (out == OUT_OK) {
        out = concat_tries(e, &with_body, now);
        st->cas = with_body.cas;
        st->value_len = with_body.value_len;
    }
    body_abort(&body);
    return out;
}

enum outcome store_concat(struct engine *e, struct store *st, msec_t now)
{
    struct concat c = {st, e->item_bytes_max};
    struct visit v;
    enum outcome out = OUT_MISS;

    must_be_reading();
    while (!store_has_body(st)) {
        out = visit_run(e, &v, st->hash, st->key, now, concat_block, &c);
        if (out == OUT_NOT_STORED && st->vivifies) {
            out = concat_absent(e, st, now);
            if (out == OUT_NOT_STORED) {
                continue; /* another writer has made it meanwhile */
            }
        }
        break;
    }
    if (out == OUT_MISS) {
        out = concat_large(e, st, now);
        if (out != OUT_WAIT && st->waiter != NULL) {
            line_leave(st->waiter);
        }
    }
    return out;
}
