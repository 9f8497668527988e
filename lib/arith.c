/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * incr and decr. Values never change in place: the new number is a new item, which takes over
 * flags, deadline and marks.
 */
#include <ctype.h>
#include <string.h>

#include "lib/check.h"
#include "lib/num.h"
#include "lib/store.h"

/*
 * A number as memcached reads it: blanks before it, one sign, digits, then the end or a blank.
 * Digits alone, which is what nearly all counters are, are read without it.
 */
static bool read_odd_number(const char *p, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;
    size_t digits = 0;
    bool is_negative = false;

    while (i < n && isspace((unsigned char)p[i])) {
        i++;
    }
    if (i < n && (p[i] == '-' || p[i] == '+')) {
        is_negative = p[i++] == '-';
    }
    for (; i < n && p[i] >= '0' && p[i] <= '9'; i++, digits++) {
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (unsigned)(p[i] - '0'), &v)) {
            return false;
        }
    }
    if (digits == 0 || (is_negative && v != 0) || (i < n && !isspace((unsigned char)p[i]))) {
        return false;
    }
    *out = v;
    return true;
}

static inline bool read_number(const char *p, size_t n, uint64_t *out)
{
    return MF_LIKELY(num_u64(span_of(p, n), out) == MF_OK) || read_odd_number(p, n, out);
}

/* Wraps at 64 bits upwards, stops at 0 downwards. */
static uint64_t apply(const struct arith *a, uint64_t v)
{
    if (a->is_decr) {
        return a->delta > v ? 0 : v - a->delta;
    }
    return v + a->delta;
}

/* Checks before anything is made; OUT_NUMBER when the item may be changed. */
static enum outcome judge(const struct visit *v, const struct arith *a, uint64_t *value)
{
    if (!v->is_live) {
        return OUT_NOT_FOUND;
    }
    if (a->cas_expected != 0 && v->item->cas != a->cas_expected) {
        return OUT_EXISTS;
    }
    /* A value of more than one block is no number, whatever it begins with. */
    if (item_is_large(v->item) ||
        !read_number(item_value(v->item), v->item->value_len, value)) {
        return OUT_NON_NUMERIC;
    }
    return OUT_NUMBER;
}

static enum outcome arith_in(struct visit *v, struct arith *a)
{
    struct shard *s = v->to;
    uint64_t value = 0;
    enum outcome why;

    room_make(s, sizeof(struct item) + ITEM_KEY_MAX + NUM_DIGITS_MAX, v->now);
    visit_find(v);
    why = judge(v, a, &value);
    if (why != OUT_NUMBER) {
        return why;
    }

    const struct item *old = v->item;
    bool has_ttl = item_has_ttl(old);
    size_t n;
    size_t len;

    a->number = apply(a, value);
    n = num_put_u64(a->digits, a->number);
    a->digit_count = (uint8_t)n;
    /*
     * A number that became shorter is padded with blanks to the old length, as memcached does.
     */
    len = n < old->value_len ? old->value_len : n;
    if (!store_reserve(s, has_ttl)) {
        return a->may_wait ? OUT_WAIT : OUT_NO_MEMORY;
    }

    uint32_t units = keyspace_units(a->key.len, len, has_ttl);
    handle_t h = visit_block(v, visit_chain(v), &units, a->may_wait, &why);

    if (h == 0) {
        return why;
    }

    struct item *it = keyspace_fill(s, h, units, a->key, old->client_flags, item_deadline(old),
                                    has_ttl, (uint32_t)len, v->now);
    char *p = (char *)(uintptr_t)item_value(it);

    span_copy_short(p, a->digits, n);
    if (MF_UNLIKELY(n < len)) {
        memset(p + n, ' ', len - n);
    }
    store_inherit(v, it, HEAT_COUNT | HEAT_FETCHED);
    a->cas = it->cas;
    visit_link(v, h, DEATH_OVERWRITE);
    return OUT_NUMBER;
}

enum outcome engine_arith(struct engine *e, struct arith *a, msec_t now)
{
    struct visit v;
    enum outcome out;

    do {
        visit_enter(e, &v, a->hash, a->key, now);
        out = arith_in(&v, a);
        visit_leave(&v);
    } while (MF_UNLIKELY(out == OUT_WAIT) && visit_help(e, &v, out));
    return out;
}
