/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Items of an index drawn at random: see table.h.
 */
#include "lib/index/table.h"

#include "lib/base/num.h"

/* Unsuccessful draws, for each item that is wanted. Below 15 % full a table shrinks. */
#define SAMPLE_TRIES 32u

static const struct table_bucket *bucket_number(const struct table_view *v, uint64_t at)
{
    return at <= v->mask ? &v->buckets[at] : &v->old[at - v->mask - 1];
}

/* The first item from a bucket on, around all of them; 0: there is none. */
static handle_t next_item(const struct table_view *v, uint64_t at, uint64_t buckets)
{
    for (uint64_t i = 0; i < buckets; i++) {
        const struct table_bucket *b = bucket_number(v, (at + i) % buckets);

        for (unsigned slot = 0; slot < TABLE_SLOTS; slot++) {
            handle_t h = atomic_load_explicit(&b->slot[slot], memory_order_relaxed);

            if (h != 0) {
                return h;
            }
        }
    }
    return 0;
}

unsigned table_sample(const struct table *t, uint64_t *random, handle_t *out, unsigned max)
{
    const struct table_view *v = atomic_load_explicit(&t->view, memory_order_acquire);
    uint64_t buckets = v->mask + 1 + (v->old != NULL ? v->old_mask + 1 : 0);
    uint64_t at = 0;
    unsigned n = 0;

    table_must_be_entered(t);
    for (unsigned i = 0; n < max && i < max * SAMPLE_TRIES; i++) {
        uint64_t r = num_random(random);

        at = (uint64_t)(((unsigned __int128)r * buckets) >> 64);
        handle_t h = atomic_load_explicit(&bucket_number(v, at)->slot[r % TABLE_SLOTS],
                                          memory_order_relaxed);
        if (h != 0) {
            out[n++] = h;
        }
    }
    if (n == 0 && t->count != 0) {
        out[n] = next_item(v, at, buckets);
        n += out[n] != 0;
    }
    return n;
}
