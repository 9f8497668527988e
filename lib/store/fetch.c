/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lookups that may change the item: see fetch.h.
 */
#include "lib/store/fetch.h"

#include "lib/base/context.h"
#include "lib/memory/blocks.h"
#include "lib/memory/room_make.h"
#include "lib/shard/expire.h"
#include "lib/store/store_common.h"
#include "lib/store/touch.h"
#include "lib/store/visit.h"

struct fetching {
    struct fetch *f;
    struct remake remake;
};

/* An absent key becomes an empty item, won by the caller. */
static enum outcome make_empty(struct visit *v, struct fetch *f)
{
    enum outcome why;
    bool is_due = f->vivify_deadline <= v->now;
    handle_t h = store_make(v, 0, f->cas_new, is_due ? MSEC_NEVER : f->vivify_deadline, 0,
                            f->may_wait, &why);

    if (h == 0) {
        return why;
    }
    struct item *it = shard_item(v->to, h);
    if (is_due) {
        /* It was never there for anyone else, but the caller may read it. */
        blocks_kill(&v->to->memory, h);
        ctr_add(&v->to->counters, CTR_total_items, 1);
        ctr_add(&v->to->counters, CTR_expired_at_once, 1);
    } else {
        item_mark(it, SHAPE_WON);
        visit_link(v, h, DEATH_OVERWRITE);
    }
    f->is_created = true;
    f->is_stale = false;
    f->is_won = true;
    f->was_won = false;
    f->deadline_before = MSEC_NEVER;
    f->found = (struct found){.item = it, .shard = v->to};
    return OUT_HIT;
}

/* Note what the found item is, and whether the caller wins it. */
static void note_found(const struct visit *v, struct fetch *f)
{
    f->deadline_before = item_deadline(v->item);
    f->is_stale = item_is_stale(v->item);
    f->was_won = item_is_won(v->item);
    msec_t deadline = f->touches && f->touches_first ? f->touch_deadline : f->deadline_before;
    f->is_won = !f->was_won && (f->is_stale || (f->recaches && deadline != MSEC_NEVER &&
                                                deadline < f->recache_before));
    /* Only the primary grants the right to refresh: here it seems to be another client's. */
    if (f->is_won && (f->yields || shard_is_passive(v->owner))) {
        f->is_won = false;
        f->was_won = true;
    }
}

static enum outcome fetch_in(struct visit *v, void *arg)
{
    struct fetching *a = arg;
    struct fetch *f = a->f;

    shard_must_be_entered(v->to);
    room_make(&v->to->memory, 0, v->now);
    visit_find(v);
    if (!v->is_live) {
        return f->vivifies ? make_empty(v, f) : OUT_MISS;
    }
    note_found(v, f);
    if (f->touches) {
        enum outcome out = touch_found(v, f->touch_deadline, f->may_wait, &a->remake);

        if (out != OUT_TOUCHED) {
            a->remake.sets = f->is_won ? SHAPE_WON : 0;
            return out;
        }
    }
    if (f->is_won && item_is_live(v->item)) {
        item_mark(v->item, SHAPE_WON);
        shard_note_meta(v->owner, v->item);
    }
    f->found = (struct found){.item = v->item, .shard = v->owner};
    return OUT_HIT;
}

enum outcome engine_fetch(struct engine *e, struct fetch *f, msec_t now)
{
    struct fetching a = {.f = f};
    struct visit v;
    enum outcome out;

    must_be_reading();
    f->is_created = false;
    f->found = (struct found){.miss = MISS_ABSENT};
    do {
        out = visit_run(e, &v, f->hash, f->key, now, fetch_in, &a);
        if (out == OUT_TOO_LARGE) {
            out = remake_as_large(e, &v, &a.remake);
        }
    } while (out == OUT_EXISTS);
    if (out == OUT_OK) {
        f->found = engine_find(router_read(&e->router), f->hash, f->key.ptr, f->key.len, now);
        return f->found.item != NULL ? OUT_HIT : OUT_MISS;
    }
    if (out == OUT_MISS) {
        f->found.shard = v.owner;
        f->found.miss = v.was_due ? MISS_EXPIRED : MISS_ABSENT;
    }
    return out;
}
