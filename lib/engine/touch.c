/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * New deadlines for items that stay as they are otherwise.
 */
#include "lib/base/check.h"

#include "lib/engine/store.h"

/* The item has the fields, but its deadline leads elsewhere, from nowhere or nowhere. */
static MF_NOINLINE void move_deadline(struct shard *s, handle_t h, msec_t deadline)
{
    struct item_ttl *t = item_ttl(shard_item(s, h));

    wheel_remove(s->wheel, h);
    atomic_store_explicit(&t->deadline, deadline, memory_order_relaxed);
    if (deadline != MSEC_NEVER) {
        wheel_add(s->wheel, h);
        shard_note_added(s, deadline);
    }
}

/* The same where it has no fields: only a new block can have them. */
static MF_NOINLINE enum outcome touch_endless(struct visit *v, msec_t deadline, bool may_wait,
                                              struct remake *r)
{
    enum outcome out;

    if (deadline == MSEC_NEVER) {
        return OUT_TOUCHED;
    }
    *r = (struct remake){.deadline = deadline, .cas = v->item->cas, .may_wait = may_wait};
    out = remake_block(v, r);
    return out == OUT_OK ? OUT_TOUCHED : out;
}

enum outcome touch_found(struct visit *v, msec_t deadline, bool may_wait, struct remake *r)
{
    struct shard *s = v->owner;
    handle_t h;

    if (MF_UNLIKELY(deadline <= v->now)) {
        visit_unlink(v, DEATH_DELETE);
        return OUT_TOUCHED;
    }
    if (!item_has_ttl(v->item)) {
        return touch_endless(v, deadline, may_wait, r);
    }
    h = atomic_load_explicit(v->slot, memory_order_relaxed);
    if (MF_LIKELY(deadline != MSEC_NEVER) && wheel_retime(s->wheel, h, deadline)) {
        shard_note_changed(s, deadline);
        return OUT_TOUCHED;
    }
    if (!wheel_reserve(s->wheel)) {
        return may_wait ? OUT_WAIT : OUT_NO_MEMORY;
    }
    move_deadline(s, h, deadline);
    return OUT_TOUCHED;
}

struct touch {
    msec_t deadline;
    bool may_wait;
    struct remake remake;
};

static enum outcome touch_in(struct visit *v, void *arg)
{
    struct touch *t = arg;

    room_make(v->to, 0, v->now);
    visit_find(v);
    return v->is_live ? touch_found(v, t->deadline, t->may_wait, &t->remake) : OUT_NOT_FOUND;
}

enum outcome engine_touch(struct engine *e, uint64_t hash, struct span key, msec_t deadline,
                          msec_t now, bool may_wait, struct found *found)
{
    struct touch t;
    struct visit v;
    enum outcome out;

    t.deadline = deadline; /* the remake is filled in where it is wanted */
    t.may_wait = may_wait;
    do {
        out = visit_run(e, &v, hash, key, now, touch_in, &t);
        if (out == OUT_TOO_LARGE) {
            out = remake_as_large(e, &v, &t.remake);
        }
    } while (out == OUT_EXISTS);
    found->item = NULL;
    found->miss = MISS_ABSENT;
    found->shard = v.owner;
    if (out == OUT_OK) {
        *found = engine_find(e, router_read(&e->router), hash, key.ptr, key.len, now);
        out = found->item != NULL ? OUT_TOUCHED : OUT_NOT_FOUND;
    } else if (out == OUT_TOUCHED) {
        found->item = v.item; /* unlinked or not: it stays readable until the section ends */
    } else if (out == OUT_NOT_FOUND && v.was_due) {
        found->miss = MISS_EXPIRED;
    }
    return out;
}
