/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storing: set, add, replace, cas, append, prepend of values that fit one block; larger ones
 * go on to store_large.c.
 */
#include <string.h>

#include "lib/base/check.h"
#include "lib/engine/store.h"

static bool stands_still(const struct visit *v, const struct store_over *over)
{
    return v->item == over->item && item_deadline(v->item) == over->deadline;
}

enum outcome store_judge_mode(const struct visit *v, const struct store *st)
{
    switch (st->mode) {
    case STORE_SET:
        return OUT_STORED;
    case STORE_ADD:
        return v->is_live ? OUT_NOT_STORED : OUT_STORED;
    case STORE_REPLACE:
        return v->is_live ? OUT_STORED : OUT_NOT_STORED;
    case STORE_APPEND:
    case STORE_PREPEND:
        if (!v->is_live) {
            return OUT_NOT_STORED;
        }
        return !st->compares_cas || v->item->cas == st->cas_expected ? OUT_STORED : OUT_EXISTS;
    case STORE_CAS:
        if (!v->is_live) {
            return OUT_NOT_FOUND;
        }
        if (st->over != NULL) {
            return stands_still(v, st->over) ? OUT_STORED : OUT_EXISTS;
        }
        return v->item->cas == st->cas_expected ? OUT_STORED : OUT_EXISTS;
    }
    unreachable();
}

void store_finish_specially(const struct visit *v, const struct store *st, struct item *it)
{
    const struct store_over *over = st->over;

    if (st->cas_new != 0) {
        it->cas = st->cas_new;
    }
    if (over != NULL) {
        item_mark(it,
                  (uint16_t)((shape_marks(item_shape(v->item)) & ~over->clears) | over->sets));
    }
    if (over != NULL && over->is_copy) {
        item_copy_use(v->item, it);
    }
}

handle_t store_make(struct visit *v, uint32_t flags, msec_t deadline, size_t value_len,
                    bool may_wait, enum outcome *why)
{
    bool has_ttl = deadline != MSEC_NEVER;
    uint32_t units = keyspace_units(v->key.len, value_len, has_ttl);
    handle_t h;

    if (!store_reserve(v->to, has_ttl)) {
        *why = may_wait ? OUT_WAIT : OUT_NO_MEMORY;
        return 0;
    }
    h = visit_block(v, visit_chain(v), &units, may_wait, why);
    if (h != 0) {
        keyspace_fill(v->to, h, units, v->key, flags, deadline, has_ttl, (uint32_t)value_len,
                      v->now);
    }
    return h;
}

enum outcome store_failed(struct visit *v, const struct store *st, enum outcome why)
{
    /* A set that fails must not leave the old value to be read. */
    if (why == OUT_NO_MEMORY && st->mode == STORE_SET) {
        visit_find(v);
        if (v->slot != NULL) {
            visit_unlink(v, DEATH_DELETE);
        }
    }
    return why;
}

enum outcome store_dead_on_arrival(struct visit *v, struct store *st)
{
    if (v->slot != NULL) {
        visit_unlink(v, DEATH_OVERWRITE);
    }
    st->cas = st->cas_new != 0 ? st->cas_new : shard_next_cas(v->to);
    st->value_len = 0;
    ctr_add(&v->to->counters, CTR_total_items, 1);
    return OUT_STORED;
}

/* set, add, replace, cas of a value that fits one block. */
static enum outcome store_block(struct visit *v, void *arg)
{
    struct store *st = arg;
    struct shard *s = v->to;
    bool has_ttl = st->deadline != MSEC_NEVER;
    uint32_t units = keyspace_units(st->key.len, st->value.len, has_ttl);
    enum outcome why;

    room_make(s, (uint64_t)units * ITEM_UNIT, v->now);
    visit_find(v);
    why = store_judge(v, st);
    if (why != OUT_STORED) {
        return why;
    }
    if (MF_UNLIKELY(st->deadline <= v->now)) {
        return store_dead_on_arrival(v, st);
    }
    if (MF_UNLIKELY(!store_reserve_over(v, has_ttl))) {
        return store_failed(v, st, st->may_wait ? OUT_WAIT : OUT_NO_MEMORY);
    }

    handle_t h = visit_block(v, visit_chain(v), &units, st->may_wait, &why);

    if (MF_UNLIKELY(h == 0)) {
        return store_failed(v, st, why);
    }

    struct item *it = keyspace_fill(s, h, units, st->key, st->flags, st->deadline, has_ttl,
                                    (uint32_t)st->value.len, v->now);

    memcpy((char *)(uintptr_t)item_value(it), st->value.ptr, st->value.len);
    store_finish(v, st, it, HEAT_COUNT);
    visit_link(v, h, DEATH_OVERWRITE);
    return OUT_STORED;
}

/* append, prepend whose result fits one block; OUT_MISS when it does not. */
static enum outcome concat_block(struct visit *v, void *arg)
{
    struct store *st = arg;
    struct shard *s = v->to;
    enum outcome why;

    visit_find(v);
    why = store_judge(v, st);
    if (why != OUT_STORED) {
        return why;
    }

    bool has_ttl = item_has_ttl(v->item);
    size_t len = v->item->value_len + st->value.len;

    if (st->key.len + len > s->engine->item_bytes_max) {
        return OUT_TOO_LARGE;
    }
    if (item_is_large(v->item) || !store_fits_block(s, st->key.len, len, has_ttl)) {
        return OUT_MISS;
    }

    uint32_t units = keyspace_units(st->key.len, len, has_ttl);

    room_make(s, (uint64_t)units * ITEM_UNIT, v->now);
    visit_find(v); /* the cursor may have moved it, or dropped it */
    why = store_judge(v, st);
    if (why != OUT_STORED) {
        return why;
    }
    if (!store_reserve(s, has_ttl)) {
        return st->may_wait ? OUT_WAIT : OUT_NO_MEMORY;
    }

    handle_t h = visit_block(v, visit_chain(v), &units, st->may_wait, &why);

    if (h == 0) {
        return why;
    }

    const struct item *old = v->item;
    struct item *it = keyspace_fill(s, h, units, st->key, old->client_flags, item_deadline(old),
                                    has_ttl, (uint32_t)len, v->now);
    char *p = (char *)(uintptr_t)item_value(it);
    size_t first = st->mode == STORE_PREPEND ? st->value.len : 0;
    size_t second = st->mode == STORE_PREPEND ? 0 : old->value_len;

    memcpy(p + first, item_value(old), old->value_len);
    memcpy(p + second, st->value.ptr, st->value.len);
    store_finish(v, st, it, HEAT_COUNT);
    visit_link(v, h, DEATH_OVERWRITE);
    return OUT_STORED;
}

static bool has_body(const struct store *st)
{
    return st->body != NULL && *st->body != NULL;
}

enum outcome store_absent(struct engine *e, struct store *st, msec_t now)
{
    struct store add = *st;
    enum outcome out;

    add.mode = STORE_ADD;
    add.body = NULL;
    out = engine_store(e, &add, now);
    st->cas = add.cas;
    st->value_len = add.value_len;
    return out;
}

static enum outcome store_concat(struct engine *e, struct store *st, msec_t now)
{
    struct visit v;
    enum outcome out = OUT_MISS;

    while (!has_body(st)) {
        out = visit_run(e, &v, st->hash, st->key, now, concat_block, st);
        if (out == OUT_NOT_STORED && st->vivifies) {
            out = store_absent(e, st, now);
            if (out == OUT_NOT_STORED) {
                continue; /* somebody made it meanwhile */
            }
        }
        break;
    }
    return out == OUT_MISS ? store_concat_large(e, st, now) : out;
}

/*
 * A cas that takes older values: what is to be stored depends on the item that it meets, so it
 * is looked at first, and again when it did not stand still.
 */
static enum outcome store_older(struct engine *e, struct store *st, msec_t now)
{
    struct store_over over;
    struct store s;
    enum outcome out;

    do {
        const struct item *old =
            engine_find(e, router_read(&e->router), st->hash, st->key.ptr, st->key.len, now)
                .item;

        s = *st;
        s.takes_older = false;
        if (old != NULL && st->cas_expected != 0 && st->cas_expected <= old->cas) {
            bool is_older = st->cas_expected < old->cas;

            over = (struct store_over){.item = old,
                                       .deadline = item_deadline(old),
                                       .clears = is_older ? 0 : SHAPE_TOP,
                                       .sets = is_older ? SHAPE_STALE : 0};
            s.over = &over;
            s.deadline = is_older ? over.deadline : st->deadline;
        }
        out = engine_store(e, &s, now);
    } while (out == OUT_EXISTS && s.over != NULL);
    st->cas = s.cas;
    st->value_len = s.value_len;
    return out;
}

/* Every store of one block, whatever led to it; so this is compiled once. */
static MF_NOINLINE enum outcome store_in_block(struct engine *e, struct store *st, msec_t now)
{
    struct visit v;

    return visit_run(e, &v, st->hash, st->key, now, store_block, st);
}

/* What is not plainly a value that fits one block. */
static MF_NOINLINE enum outcome store_otherwise(struct engine *e, struct store *st, msec_t now)
{
    if (st->key.len > ITEM_KEY_MAX || st->key.len + st->value.len > e->item_bytes_max) {
        return OUT_TOO_LARGE;
    }
    if (st->mode > STORE_CAS) {
        return store_concat(e, st, now);
    }
    if (st->mode == STORE_CAS && st->takes_older) {
        return store_older(e, st, now);
    }
    /* The size of blocks is the same in all shards. */
    if (!has_body(st) && store_fits_block(e->shards[0], st->key.len, st->value.len,
                                          st->deadline != MSEC_NEVER)) {
        return store_in_block(e, st, now);
    }
    return store_large(e, st, now);
}

enum outcome engine_store(struct engine *e, struct store *st, msec_t now)
{
    if (MF_LIKELY(st->key.len + st->value.len <= e->plain_bytes_max) &&
        MF_LIKELY(st->mode < STORE_CAS) && MF_LIKELY(st->key.len <= ITEM_KEY_MAX) &&
        MF_LIKELY(!has_body(st))) {
        return store_in_block(e, st, now);
    }
    return store_otherwise(e, st, now);
}
