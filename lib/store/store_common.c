/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files that store items share: see store_common.h.
 */
#include "lib/store/store_common.h"

#include "lib/shard/keyspace.h"
#include "lib/shard/prefix.h"

static bool stands_still(const struct visit *v, const struct store_over *over)
{
    return v->item == over->item && item_deadline(v->item) == over->deadline;
}

/* Is it an older item, whose key went meanwhile? Also if what has expired is held. */
static bool is_turned_away(const struct visit *v)
{
    struct guard *g = v->to->guard;

    return MF_UNLIKELY(g != NULL) && guard_is_loader() &&
           (guard_turns_away(g, v->hash) || v->was_due ||
            shard_is_being_flushed(v->to, v->key));
}

enum outcome store_judge_mode(const struct visit *v, const struct store *st)
{
    shard_must_be_entered(v->to);
    switch (st->mode) {
    case STORE_SET:
        return OUT_STORED;
    case STORE_ADD:
        return v->is_live || is_turned_away(v) ? OUT_NOT_STORED : OUT_STORED;
    case STORE_REPLACE:
        return v->is_live ? OUT_STORED : OUT_NOT_STORED;
    case STORE_APPEND:
    case STORE_PREPEND:
        if (!v->is_live) {
            return OUT_NOT_STORED;
        }
        return !st->compares_cas || item_cas(v->item) == st->cas_expected ? OUT_STORED
                                                                          : OUT_EXISTS;
    case STORE_CAS:
        if (!v->is_live) {
            return OUT_NOT_FOUND;
        }
        if (st->over != NULL) {
            return stands_still(v, st->over) ? OUT_STORED : OUT_EXISTS;
        }
        return item_cas(v->item) == st->cas_expected ? OUT_STORED : OUT_EXISTS;
    }
    unreachable();
}

void store_finish_specially(struct visit *v, struct store *st, struct item *it)
{
    const struct store_over *over = st->over;

    shard_must_be_entered(v->to);
    if (st->cas_new != 0) {
        item_set_cas(it, st->cas_new);
        st->cas = st->cas_new;
    }
    if (over != NULL) {
        item_mark(it,
                  (uint16_t)((shape_marks(item_shape(v->item)) & ~over->clears) | over->sets));
    }
    if (over != NULL && over->is_copy) {
        item_copy_use(v->item, it);
    }
    if (st->kept != NULL) {
        item_mark(it, st->kept->marks);
        if (st->kept->yields_use && v->is_live) {
            item_copy_use(v->item, it);
        } else {
            atomic_store_explicit(&it->heat, st->kept->heat, memory_order_relaxed);
            item_set_access(it, st->kept->access_s);
        }
    }
}

handle_t store_make(struct visit *v, uint32_t flags, uint64_t cas, msec_t deadline,
                    size_t value_len, bool may_wait, enum outcome *why)
{
    bool has_ttl = deadline != MSEC_NEVER;
    bool is_wide = item_needs_wide(flags, cas, deadline);
    uint32_t units = keyspace_units(v->key.len, value_len, has_ttl, is_wide);

    shard_must_be_entered(v->to);
    if (!store_reserve_over(v, has_ttl)) {
        *why = visit_wait_for_index(v, may_wait);
        return 0;
    }
    handle_t h = visit_block(v, visit_chain(v, (uint64_t)units * ITEM_UNIT, has_ttl), &units,
                             may_wait, why);
    if (h != 0) {
        struct item *it = keyspace_fill(v->to, h, units, v->key, flags, deadline, has_ttl,
                                        is_wide, (uint32_t)value_len, v->now);

        if (cas != 0) {
            item_set_cas(it, cas);
        }
    }
    return h;
}

enum outcome store_failed(struct visit *v, const struct store *st, enum outcome why)
{
    shard_must_be_entered(v->to);
    /* A set that fails must not leave the old value to be read. */
    if (why == OUT_NO_MEMORY && st->mode == STORE_SET) {
        visit_find(v);
        if (v->is_live) {
            visit_unlink(v, DEATH_DELETE);
        }
    }
    return why;
}

enum outcome store_dead_on_arrival(struct visit *v, struct store *st)
{
    shard_must_be_entered(v->to);
    if (v->is_live) {
        visit_unlink(v, DEATH_OVERWRITE);
    }
    st->cas = st->cas_new != 0 ? st->cas_new : keyspace_next_cas(v->to);
    st->value_len = 0;
    ctr_add(&v->to->counters, CTR_total_items, 1);
    ctr_add(&v->to->counters, CTR_expired_at_once, 1);
    return OUT_STORED;
}
