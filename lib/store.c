/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storing: set, add, replace, cas, append, prepend of values that fit one block; larger ones
 * go on to store_large.c.
 */
#include <string.h>

#include "lib/check.h"
#include "lib/store.h"

enum outcome store_judge_mode(const struct visit *v, const struct store *st)
{
    switch (st->mode) {
    case STORE_SET:
        return OUT_STORED;
    case STORE_ADD:
        return v->is_live ? OUT_NOT_STORED : OUT_STORED;
    case STORE_REPLACE:
    case STORE_APPEND:
    case STORE_PREPEND:
        return v->is_live ? OUT_STORED : OUT_NOT_STORED;
    case STORE_CAS:
        if (!v->is_live) {
            return OUT_NOT_FOUND;
        }
        return v->item->cas == st->cas_expected ? OUT_STORED : OUT_EXISTS;
    }
    unreachable();
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
    st->cas = shard_next_cas(v->to);
    ctr_add(&v->to->counters, CTR_total_items, 1);
    return OUT_STORED;
}

/* set, add, replace, cas of a value that fits one block. */
static enum outcome store_block(struct visit *v, struct store *st)
{
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
    if (MF_UNLIKELY(!store_reserve(s, has_ttl))) {
        return store_failed(v, st, st->may_wait ? OUT_WAIT : OUT_NO_MEMORY);
    }

    handle_t h = visit_block(v, visit_chain(v), &units, st->may_wait, &why);

    if (MF_UNLIKELY(h == 0)) {
        return store_failed(v, st, why);
    }

    struct item *it = keyspace_fill(s, h, units, st->key, st->flags, st->deadline, has_ttl,
                                    (uint32_t)st->value.len, v->now);

    memcpy((char *)(uintptr_t)item_value(it), st->value.ptr, st->value.len);
    store_inherit(v, it, st->keep_cas ? HEAT_COUNT | HEAT_FETCHED : HEAT_COUNT);
    if (MF_UNLIKELY(st->keep_cas)) {
        it->cas = st->cas_expected;
    }
    st->cas = it->cas;
    visit_link(v, h, DEATH_OVERWRITE);
    return OUT_STORED;
}

/* append, prepend whose result fits one block; OUT_MISS when it does not. */
static enum outcome concat_block(struct visit *v, struct store *st)
{
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
    store_inherit(v, it, HEAT_COUNT | HEAT_FETCHED);
    st->cas = it->cas;
    visit_link(v, h, DEATH_OVERWRITE);
    return OUT_STORED;
}

static bool is_concat(const struct store *st)
{
    return st->mode == STORE_APPEND || st->mode == STORE_PREPEND;
}

static bool has_body(const struct store *st)
{
    return st->body != NULL && *st->body != NULL;
}

enum outcome engine_store(struct engine *e, struct store *st, msec_t now)
{
    struct visit v;
    enum outcome out;

    if (st->key.len > ITEM_KEY_MAX || st->key.len + st->value.len > e->item_bytes_max) {
        return OUT_TOO_LARGE;
    }
    if (is_concat(st)) {
        if (!has_body(st)) {
            do {
                visit_enter(e, &v, st->hash, st->key, now);
                out = concat_block(&v, st);
                visit_leave(&v);
            } while (MF_UNLIKELY(visit_help(e, &v, out)));
            if (out != OUT_MISS) {
                return out;
            }
        }
        return store_concat_large(e, st, now);
    }
    /* The size of blocks is the same in all shards. */
    if (!has_body(st) && store_fits_block(e->shards[0], st->key.len, st->value.len,
                                          st->deadline != MSEC_NEVER)) {
        do {
            visit_enter(e, &v, st->hash, st->key, now);
            out = store_block(&v, st);
            visit_leave(&v);
        } while (MF_UNLIKELY(out == OUT_WAIT) && visit_help(e, &v, out));
        return out;
    }
    return store_large(e, st, now);
}

enum outcome engine_delete(struct engine *e, uint64_t hash, struct span key,
                           uint64_t cas_expected, msec_t now)
{
    struct visit v;
    enum outcome out = OUT_NOT_FOUND;

    visit_enter(e, &v, hash, key, now);
    visit_find(&v);
    if (v.is_live) {
        if (cas_expected != 0 && v.item->cas != cas_expected) {
            out = OUT_EXISTS;
        } else {
            visit_unlink(&v, DEATH_DELETE);
            out = OUT_DELETED;
        }
    }
    visit_leave(&v);
    return out;
}
