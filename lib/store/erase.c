/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deleting, and what may be done instead: see erase.h.
 */
#include "lib/store/erase.h"

#include "lib/base/context.h"
#include "lib/memory/room_make.h"
#include "lib/shard/keyspace.h"
#include "lib/store/store_common.h"
#include "lib/store/visit.h"

enum outcome engine_delete(struct engine *e, uint64_t hash, struct span key,
                           uint64_t cas_expected, msec_t now)
{
    struct visit v;
    enum outcome out = OUT_NOT_FOUND;

    must_be_reading();
    visit_enter(e, &v, hash, key, now);
    visit_find(&v);
    if (v.is_live) {
        if (cas_expected != 0 && item_cas(v.item) != cas_expected) {
            out = OUT_EXISTS;
        } else {
            visit_unlink(&v, DEATH_DELETE);
            out = OUT_DELETED;
        }
    }
    visit_leave(&v);
    return out;
}

/* ---- instead of deleting ----------------------------------------------------------------- */

struct erasure {
    const struct erase *what;
    struct remake remake;
};

/* An empty item takes the place of the found one. */
static enum outcome leave_empty(struct visit *v, const struct erase *d)
{
    msec_t deadline = d->touches ? d->deadline : MSEC_NEVER;
    uint64_t cas = d->cas_new != 0 || d->marks_stale ? d->cas_new : item_cas(v->item);
    enum outcome why;
    handle_t h = store_make(v, d->flags, cas, deadline, 0, d->may_wait, &why);

    if (h == 0) {
        return why;
    }
    struct item *it = shard_item(v->to, h);
    if (d->marks_stale) {
        item_mark(it, SHAPE_STALE);
    }
    store_inherit(v, it, HEAT_USE);
    visit_link(v, h, DEATH_DELETE);
    return OUT_DELETED;
}

static enum outcome mark_stale(struct visit *v, const struct erase *d, struct remake *r)
{
    *r = (struct remake){.deadline = d->touches ? d->deadline : item_deadline(v->item),
                         .deadline_before = item_deadline(v->item),
                         .cas = d->cas_new != 0 ? d->cas_new : keyspace_next_cas(v->to),
                         .clears = SHAPE_WON,
                         .sets = SHAPE_STALE,
                         .may_wait = d->may_wait};
    enum outcome out = remake_block(v, r);
    return out == OUT_OK ? OUT_DELETED : out;
}

static enum outcome erase_in(struct visit *v, void *arg)
{
    struct erasure *a = arg;
    const struct erase *d = a->what;
    bool stays = (d->marks_stale || d->drops_value) && !(d->touches && d->deadline <= v->now);

    shard_must_be_entered(v->to);
    if (stays) {
        room_make(&v->to->memory, 0, v->now);
    }
    visit_find(v);
    if (!v->is_live) {
        return OUT_NOT_FOUND;
    }
    if (d->compares_cas && item_cas(v->item) != d->cas_expected) {
        return OUT_EXISTS;
    }
    if (!stays) {
        visit_unlink(v, DEATH_DELETE);
        return OUT_DELETED;
    }
    return d->drops_value ? leave_empty(v, d) : mark_stale(v, d, &a->remake);
}

enum outcome engine_erase(struct engine *e, const struct erase *d, msec_t now)
{
    struct erasure a = {.what = d};
    struct visit v;
    enum outcome out;

    must_be_reading();
    do {
        out = visit_run(e, &v, d->hash, d->key, now, erase_in, &a);
        if (out != OUT_TOO_LARGE) {
            return out;
        }
        out = remake_as_large(e, &v, &a.remake);
    } while (out == OUT_EXISTS);
    return out == OUT_OK ? OUT_DELETED : out;
}
