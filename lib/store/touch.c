/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * New deadlines: see touch.h.
 */
#include "lib/store/touch.h"

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/memory/room_make.h"
#include "lib/shard/keyspace.h"
#include "lib/store/store_common.h"
#include "lib/store/visit.h"

/* The item has no field for this deadline: it needs a new block with one. */
static MF_NOINLINE enum outcome touch_other(struct visit *v, msec_t deadline, bool may_wait,
                                            struct remake *r)
{
    if (deadline == MSEC_NEVER) {
        return OUT_TOUCHED;
    }
    *r = (struct remake){.deadline = deadline,
                         .deadline_before = item_deadline(v->item),
                         .cas = item_cas(v->item),
                         .may_wait = may_wait};
    enum outcome out = remake_block(v, r);
    return out == OUT_OK ? OUT_TOUCHED : out;
}

enum outcome touch_found(struct visit *v, msec_t deadline, bool may_wait, struct remake *r)
{
    shard_must_be_entered(v->owner);
    if (MF_UNLIKELY(deadline <= v->now)) {
        visit_unlink(v, DEATH_DELETE);
        return OUT_TOUCHED;
    }
    if (!item_can_have(v->item, deadline)) {
        return touch_other(v, deadline, may_wait, r);
    }
    handle_t h = atomic_load_explicit(v->slot, memory_order_relaxed);
    if (!keyspace_set_deadline(v->owner, h, deadline)) {
        return visit_wait_for_index(v, may_wait);
    }
    return OUT_TOUCHED;
}

/* MSEC_NEVER is later than any deadline, as no deadline should be. */
static bool is_wanted(const struct deadline_change *c, msec_t has)
{
    return !(c->if_endless && has != MSEC_NEVER) && !(c->if_volatile && has == MSEC_NEVER) &&
           !(c->if_later && c->deadline <= has) && !(c->if_earlier && c->deadline >= has);
}

struct touch {
    const struct deadline_change *change;
    struct remake remake; /* filled in when it is needed */
};

static enum outcome touch_in(struct visit *v, void *arg)
{
    struct touch *t = arg;
    const struct deadline_change *c = t->change;

    shard_must_be_entered(v->to);
    room_make(&v->to->memory, 0, v->now);
    visit_find(v);
    if (!v->is_live) {
        return OUT_NOT_FOUND;
    }
    return is_wanted(c, item_deadline(v->item))
               ? touch_found(v, c->deadline, c->may_wait, &t->remake)
               : OUT_NOT_STORED;
}

enum outcome engine_touch(struct engine *e, uint64_t hash, struct span key, msec_t deadline,
                          msec_t now, bool may_wait, struct found *found)
{
    const struct deadline_change change = {.deadline = deadline, .may_wait = may_wait};

    must_be_reading();
    return engine_touch_if(e, hash, key, &change, now, found);
}

enum outcome engine_touch_if(struct engine *e, uint64_t hash, struct span key,
                             const struct deadline_change *change, msec_t now,
                             struct found *found)
{
    struct touch t;
    struct visit v;
    enum outcome out;

    must_be_reading();
    t.change = change;
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
        *found = engine_find(router_read(&e->router), hash, key.ptr, key.len, now);
        out = found->item != NULL ? OUT_TOUCHED : OUT_NOT_FOUND;
    } else if (out == OUT_TOUCHED || out == OUT_NOT_STORED) {
        found->item =
            v.item; /* even if it was unlinked it stays readable until the section ends */
    } else if (out == OUT_NOT_FOUND && v.was_due) {
        found->miss = MISS_EXPIRED;
    }
    return out;
}
