/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storing large values: see store_common.h.
 */
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/engine/engine.h"
#include "lib/shard/keyspace.h"
#include "lib/store/body.h"
#include "lib/store/loose.h"
#include "lib/store/store_common.h"

/* Did the item that append or prepend copied change meanwhile? */
static bool did_change(const struct visit *v, const struct store_commit *c)
{
    return c->seen != NULL && (!v->is_live || v->item != c->seen);
}

/* Step 4, which tests the conditions again. */
static enum outcome commit_link(struct engine *e, struct store_commit *c, struct loose *l,
                                msec_t now)
{
    struct store *st = c->st;
    struct visit v;

    store_enter(e, &v, st, now);
    visit_find(&v);
    enum outcome out = store_judge(&v, st);
    if (v.to != l->shard || l->epoch != l->shard->memory.epoch || did_change(&v, c)) {
        out = OUT_MISS;
    } else if (out == OUT_STORED && !store_reserve_over(&v, c->has_ttl)) {
        out = visit_wait_for_index(&v, st->may_wait);
    }
    if (out == OUT_STORED) {
        msec_t deadline = c->seen != NULL ? item_deadline(v.item) : st->deadline;
        uint32_t flags = c->seen != NULL ? item_flags(v.item) : st->flags;

        loose_link(&v, st, deadline, c->has_ttl, flags, l);
        body_disown(*c->body);
    }
    visit_leave(&v);
    if (out != OUT_STORED) {
        loose_abort(l);
    }
    return out;
}

/*
 * A body that was received into its blocks. If the item cannot be linked, the bytes are kept
 * for another attempt: they stay where they are until the section ends.
 */
static enum outcome commit_placed(struct engine *e, struct store_commit *c, struct loose *l,
                                  msec_t now)
{
    loose_fill(l);
    enum outcome out = commit_link(e, c, l, now);
    if ((out == OUT_MISS || out == OUT_WAIT) && !body_keep_bytes(*c->body)) {
        out = OUT_NO_MEMORY;
    }
    body_lose_place(*c->body);
    return out;
}

enum outcome store_commit(struct engine *e, struct store_commit *c, msec_t now)
{
    struct store *st = c->st;
    struct loose l;
    struct visit v;
    enum outcome out;

    must_be_reading();
    if (body_loose(*c->body) != NULL) {
        return commit_placed(e, c, body_loose(*c->body), now);
    }
    body_parts(*c->body, &l.parts);
    if (c->parts != NULL) {
        l.parts = *c->parts;
    }
    if (c->tail.ptr != NULL) {
        l.parts.tail = c->tail.ptr;
    }
    store_enter(e, &v, st, now);
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
        return visit_help(e, &v, out);
    }
    loose_fill(&l);
    return commit_link(e, c, &l, now);
}

static enum outcome commit_again(struct engine *e, struct store_commit *c, msec_t now)
{
    for (int i = 0; i < STORE_TRIES; i++) {
        enum outcome out = store_commit(e, c, now);

        if (out != OUT_MISS) {
            return out;
        }
    }
    return c->st->may_wait ? OUT_WAIT : OUT_NO_MEMORY;
}

enum outcome store_large(struct engine *e, struct store *st, msec_t now)
{
    struct body *own = NULL;
    struct store_commit c = {.st = st, .has_ttl = st->deadline != MSEC_NEVER};
    enum outcome out = OUT_OK;

    must_be_reading();
    if (store_has_body(st)) {
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
        struct visit v;

        visit_enter(e, &v, st->hash, st->key, now);
        out = store_failed(&v, st, out);
        visit_leave(&v);
    }
    body_abort(&own);
    if (out != OUT_WAIT && !(out == OUT_EXISTS && st->over != NULL) && st->body != NULL) {
        body_abort(st->body);
    }
    return out;
}
