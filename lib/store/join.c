/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A long addition to a short value: see store_common.h.
 */
#include <string.h>

#include "lib/base/context.h"
#include "lib/shard/value.h"
#include "lib/store/body.h"
#include "lib/store/loose.h"
#include "lib/store/splice.h"
#include "lib/store/store_common.h"

/* How many fresh segments take the old value, and what ends the addition. */
static uint32_t join_count(const struct body_parts *add, const struct store *st, size_t old_len,
                           uint32_t *joint)
{
    size_t bytes = old_len + (st->mode == STORE_PREPEND ? add->tail_len : 0);

    *joint = segments_for(&add->shard->memory.arena, bytes);
    return *joint + (st->mode == STORE_APPEND && add->tail_len > 0);
}

/*
 * Fill the fresh segments. The run of the new value is those with the old one, then the
 * addition's, then one with its end; or the addition's, then those with its end and the old
 * one.
 */
static void join_fill(const struct store *st, const struct found *old,
                      const struct body_parts *add, const struct fresh *f, uint32_t joint,
                      struct growth *run)
{
    struct arena *a = &add->shard->memory.arena;
    struct sink k = {a, f->at[0], 0, f->at + 1};
    struct value_walk w;
    struct span part;

    if (st->mode == STORE_PREPEND) {
        growth_add(a, run, add->first, add->last, add->segments);
        sink_put(&k, span_of(add->tail, add->tail_len));
    }
    value_walk_begin(&w, old->shard, old->item);
    while (value_walk_next(&w, &part)) {
        sink_put(&k, part);
    }
    if (joint > 0) {
        a->segments[f->at[joint - 1]].fill = k.at;
    }
    growth_add_each(a, run, f->at, joint);
    if (st->mode == STORE_APPEND) {
        growth_add(a, run, add->first, add->last, add->segments);
        if (f->count > joint) {
            memcpy(segment_ptr(a, f->at[joint]), add->tail, add->tail_len);
            a->segments[f->at[joint]].fill = (uint32_t)add->tail_len;
            growth_add_each(a, run, f->at + joint, 1);
        }
    }
}

enum outcome store_join(struct engine *e, struct store *st, const struct found *old, msec_t now)
{
    struct body_parts parts, add;
    struct growth run = {0};
    struct fresh f;
    uint32_t joint;

    must_be_reading();
    body_parts(*st->body, &add);
    enum outcome out = fresh_take(e, st, join_count(&add, st, item_len(old->item), &joint), &f);
    if (out == OUT_OK && f.body != NULL) {
        body_parts(f.body, &parts);
        if (parts.shard != add.shard) {
            out = body_rehome(*st->body, parts.shard, st->may_wait); /* the slot has moved */
            out = out == OUT_OK ? OUT_MISS : out;
        }
    }
    if (out == OUT_OK) {
        struct store_commit c = {.st = st,
                                 .body = st->body,
                                 .parts = &parts,
                                 .has_ttl = item_has_ttl(old->item),
                                 .seen = old->item};

        join_fill(st, old, &add, &f, joint, &run);
        parts = (struct body_parts){.shard = add.shard,
                                    .first = run.first,
                                    .last = run.last,
                                    .segments = run.count,
                                    .len = item_len(old->item) + add.len};
        out = store_commit(e, &c, now);
        if (out == OUT_STORED) {
            fresh_keep(&f);
        }
    }
    fresh_drop(&f);
    return out;
}
