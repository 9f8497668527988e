/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * incr and decr. Values never change in place: the new number is a new item, which takes over
 * flags, deadline and marks.
 */
#include "lib/store/arith.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/num.h"
#include "lib/memory/room_make.h"
#include "lib/shard/keyspace.h"
#include "lib/store/store_common.h"
#include "lib/store/visit.h"

/* Nearly all counters are digits alone, which are read without a second call. */
static inline bool read_number(struct span s, uint64_t *out)
{
    return MF_LIKELY(num_u64(s, out) == MF_OK) || num_lenient_u64(s, out);
}

/* Wraps at 64 bits upwards, stops at 0 downwards. */
static uint64_t next_number(const struct arith *a, uint64_t v)
{
    if (a->is_decr) {
        return a->delta > v ? 0 : v - a->delta;
    }
    return v + a->delta;
}

/* Check before anything is made. OUT_NUMBER when the item may be changed. */
static enum outcome check_number(const struct visit *v, const struct arith *a, uint64_t *value)
{
    if (!v->is_live) {
        return OUT_NOT_FOUND;
    }
    /* An empty value is reported as no number before the cas is compared, as in memcached. */
    if (MF_UNLIKELY(a->compares_cas) && item_cas(v->item) != a->cas_expected &&
        item_len(v->item) != 0) {
        return OUT_EXISTS;
    }
    /* A value of more than one block is not a number, whatever it begins with. */
    if (item_is_large(v->item) ||
        !read_number(span_of(item_value(v->item), item_block_len(v->item)), value)) {
        return OUT_NON_NUMERIC;
    }
    return OUT_NUMBER;
}

static inline size_t put_number(struct arith *a, uint64_t number)
{
    size_t n = num_put_u64(a->digits, number);

    a->number = number;
    a->digit_count = (uint8_t)n;
    return n;
}

/* The absent key becomes an item. */
static MF_COLD enum outcome make_initial(struct visit *v, struct arith *a)
{
    enum outcome why;

    put_number(a, a->initial);

    if (a->vivify_deadline <= v->now) {
        a->cas = a->cas_new != 0 ? a->cas_new : keyspace_next_cas(v->to);
        ctr_add(&v->to->counters, CTR_total_items, 1);
        ctr_add(&v->to->counters, CTR_expired_at_once, 1);
    } else {
        handle_t h =
            store_make(v, 0, a->cas_new, a->vivify_deadline, a->digit_count, a->may_wait, &why);

        if (h == 0) {
            return why;
        }
        struct item *it = shard_item(v->to, h);
        span_copy_short((char *)(uintptr_t)item_value(it), a->digits, a->digit_count);
        a->cas = item_cas(it);
        visit_link(v, h, DEATH_OVERWRITE);
    }
    a->is_created = true;
    a->deadline_now = a->vivify_deadline;
    return OUT_NUMBER;
}

/* The number was changed, and the item was given a deadline that has passed. */
static MF_COLD enum outcome drop_changed(struct visit *v, struct arith *a)
{
    a->cas = a->cas_new != 0 ? a->cas_new : keyspace_next_cas(v->to);
    a->deadline_now = a->deadline;
    visit_unlink(v, DEATH_DELETE);
    return OUT_NUMBER;
}

static enum outcome arith_in(struct visit *v, void *arg)
{
    struct arith *a = arg;
    struct shard *s = v->to;
    uint64_t value = 0;

    shard_must_be_entered(v->to);
    room_make(&s->memory, sizeof(struct item) + ITEM_KEY_MAX + NUM_DIGITS_MAX, v->now);
    visit_find(v);
    enum outcome why = check_number(v, a, &value);
    if (MF_UNLIKELY(why != OUT_NUMBER)) {
        return why == OUT_NOT_FOUND && a->vivifies ? make_initial(v, a) : why;
    }

    const struct item *old = v->item;
    uint16_t old_shape = item_shape(old); /* read once: it is atomic */
    bool has_ttl = (old_shape & SHAPE_TTL) != 0;
    msec_t deadline = has_ttl ? item_deadline(old) : MSEC_NEVER;
    size_t n = put_number(a, next_number(a, value));

    if (MF_UNLIKELY(a->touches)) {
        a->deadline_before = deadline;
        deadline = a->deadline;
        has_ttl = deadline != MSEC_NEVER;
        if (deadline <= v->now) {
            return drop_changed(v, a);
        }
    }
    /*
     * A number that became shorter is padded with blanks to the old length, as memcached does.
     */
    size_t old_len = item_block_len(old);
    size_t len = n < old_len ? old_len : n;
    bool is_same = len == old_len; /* to memcached it is the same item then */
    if (MF_UNLIKELY(!store_reserve_over(v, has_ttl))) {
        return visit_wait_for_index(v, a->may_wait);
    }

    uint32_t flags = item_flags(old);
    bool is_wide = item_needs_wide(flags, a->cas_new, deadline);
    uint32_t units = keyspace_units(a->key.len, len, has_ttl, is_wide);
    handle_t h = visit_block(v, visit_chain(v, (uint64_t)units * ITEM_UNIT, has_ttl), &units,
                             a->may_wait, &why);

    if (MF_UNLIKELY(h == 0)) {
        return why;
    }

    struct item *it = keyspace_fill(s, h, units, a->key, flags, deadline, has_ttl, is_wide,
                                    (uint32_t)len, v->now);
    char *p = (char *)(it + 1) + (has_ttl ? ITEM_TTL_BYTES : 0) +
              (is_wide ? ITEM_WIDE_BYTES : 0) + a->key.len;

    span_copy_short(p, a->digits, n);
    if (MF_UNLIKELY(n < len)) {
        memset(p + n, ' ', len - n);
    }
    store_inherit(v, it, is_same ? HEAT_USE | HEAT_FETCHED : HEAT_USE);
    if (MF_UNLIKELY((old_shape & SHAPE_TOP) != 0) && is_same) {
        item_mark(it, shape_marks(old_shape));
    }
    a->cas = keyspace_last_cas(s);
    if (MF_UNLIKELY(a->cas_new != 0)) {
        item_set_cas(it, a->cas_new);
        a->cas = a->cas_new;
    }
    a->deadline_now = deadline;
    visit_link(v, h, DEATH_OVERWRITE);
    ctr_add(&s->counters, CTR_arith_in_place, is_same);
    return OUT_NUMBER;
}

enum outcome engine_arith(struct engine *e, struct arith *a, msec_t now)
{
    struct visit v;

    must_be_reading();
    a->is_created = false;
    return visit_run(e, &v, a->hash, a->key, now, arith_in, a);
}
