/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Additions and fresh segments: see splice.h.
 */
#include "lib/store/splice.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/engine/engine.h"
#include "lib/store/body.h"
#include "lib/store/loose.h"
#include "lib/store/store.h"
#include "lib/store/store_common.h"

/* ---- the addition ------------------------------------------------------------------------ */

struct source source_of(const struct store *st)
{
    struct body_parts parts;

    if (!store_has_body(st)) {
        return (struct source){.tail = st->value};
    }
    body_parts(*st->body, &parts);
    return (struct source){&parts.shard->memory.arena, parts.first, parts.segments,
                           span_of(parts.tail, parts.tail_len)};
}

bool source_next(struct source *s, struct span *part)
{
    if (s->segments > 0) {
        const struct segment *g = &s->arena->segments[s->at];

        *part = span_of(segment_ptr(s->arena, s->at), g->fill);
        s->at = g->next;
        s->segments--;
        return true;
    }
    *part = s->tail;
    s->tail.len = 0;
    return part->len > 0;
}

size_t store_addition_len(const struct store *st)
{
    struct body_parts parts;

    if (!store_has_body(st)) {
        return st->value.len;
    }
    body_parts(*st->body, &parts);
    return parts.len;
}

bool store_joins(const struct store *st)
{
    struct body_parts parts;

    if (!store_has_body(st)) {
        return false;
    }
    body_parts(*st->body, &parts);
    return parts.segments >= EXTEND_SEGMENTS;
}

/* ---- segments ---------------------------------------------------------------------------- */

uint32_t segments_for(const struct arena *a, size_t bytes)
{
    return (uint32_t)((bytes + segment_bytes(a) - 1) >> a->shift);
}

enum outcome fresh_take(struct engine *e, const struct store *st, uint32_t count,
                        struct fresh *f)
{
    struct body_parts parts;

    must(count <= FRESH_MAX);
    f->body = NULL;
    f->count = 0;
    if (count == 0) {
        return OUT_OK;
    }
    f->body = body_begin(
        e, st->hash, (size_t)count << e->shards[0]->memory.arena.shift); /* the same in all */
    if (f->body == NULL) {
        return OUT_NO_MEMORY;
    }
    body_wait_in_line(f->body, st->waiter, true);
    enum outcome out = body_take(f->body, st->may_wait);
    if (out == OUT_OK) {
        body_parts(f->body, &parts);
        segment_t n = parts.first;
        for (uint32_t i = 0; i < count; i++) {
            f->at[i] = n;
            n = parts.shard->memory.arena.segments[n].next;
        }
        f->count = count;
    }
    return out;
}

void fresh_keep(struct fresh *f)
{
    if (f->body != NULL) {
        body_disown(f->body);
    }
}

/*
 * The segments may have been linked to others meanwhile, so restore the links that they were
 * taken with before releasing them.
 */
void fresh_drop(struct fresh *f)
{
    struct body_parts parts;

    if (f->body != NULL) {
        body_parts(f->body, &parts);
        for (uint32_t i = 1; parts.segments != 0 && i < f->count; i++) {
            parts.shard->memory.arena.segments[f->at[i - 1]].next = f->at[i];
        }
    }
    body_abort(&f->body);
}

void sink_put(struct sink *k, struct span part)
{
    while (part.len > 0) {
        uint32_t room = segment_bytes(k->arena) - k->at;
        size_t n = part.len < room ? part.len : room;

        if (n == 0) {
            k->segment = *k->then++;
            k->at = 0;
            continue;
        }
        memcpy(segment_ptr(k->arena, k->segment) + k->at, part.ptr, n);
        k->at += (uint32_t)n;
        part = span_of(part.ptr + n, part.len - n);
    }
}

void sink_put_all(struct sink *k, struct source s)
{
    struct span part;

    while (source_next(&s, &part)) {
        sink_put(k, part);
    }
}

void growth_add(struct arena *a, struct growth *g, segment_t first, segment_t last,
                uint32_t count)
{
    if (count == 0) {
        return;
    }
    if (g->count == 0) {
        g->first = first;
    } else {
        a->segments[g->last].next = first;
    }
    g->last = last;
    g->count += count;
}

void growth_add_each(struct arena *a, struct growth *g, const segment_t *at, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        growth_add(a, g, at[i], at[i], 1);
    }
}
