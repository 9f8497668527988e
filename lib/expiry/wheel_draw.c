/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timing wheel: items for evictions, drawn at random or by the earliest deadline. All stay
 * where they are.
 */
#include "lib/expiry/wheel.h"

#include "lib/base/num.h"
#include "lib/expiry/wheel_shape.h"

/* Unsuccessful draws, for each item that is wanted. */
#define DRAW_TRIES 32u

/* Handles in a node: all, but for the top one of its bucket. */
static unsigned handles_in(const struct wheel *w, uint32_t number)
{
    const struct wheel_node *n = wheel_node_at(&w->pool, number);
    uint32_t top = w->bucket[n->bucket].top;

    return top / NODE_WORDS == number ? top % NODE_WORDS - NODE_WORD_FIRST + 1 : NODE_HANDLES;
}

/* Items of a bucket from its top on. */
static unsigned take_top(const struct wheel *w, unsigned id, handle_t *out, unsigned max)
{
    unsigned n = 0;

    for (uint32_t pos = w->bucket[id].top; pos != 0 && n < max; pos = wheel_pos_below(w, pos)) {
        out[n++] = *wheel_handle_at(&w->pool, pos);
    }
    return n;
}

/* Is this the number of a node of that bucket? It may be one of long ago. */
static bool node_is_of(const struct wheel_pool *p, uint32_t number, unsigned bucket)
{
    uint32_t slab = number / SLAB_NODES;

    if (slab >= p->capacity || p->slabs[slab] == NULL) {
        return false;
    }
    const struct wheel_slab *s = wheel_slab_at(p, slab);
    return number % SLAB_NODES != 0 && number % SLAB_NODES < s->fresh &&
           wheel_node_at(p, number)->bucket == bucket;
}

/*
 * Items of a bucket: all, or those that came last, which were not looked at before, and some
 * from where the last call left off.
 */
static unsigned take_some(struct wheel *w, unsigned id, handle_t *out, unsigned max)
{
    unsigned n = take_top(w, id, out, w->bucket[id].count <= max ? max : max / 4 + 1);
    uint32_t top = w->bucket[id].top / NODE_WORDS;
    uint32_t node = w->soonest_node;

    if (w->bucket[id].count <= max) {
        return n;
    }
    if (!node_is_of(&w->pool, node, id)) {
        node = top;
    }
    while (n < max) {
        const struct wheel_node *at = wheel_node_at(&w->pool, node);
        unsigned len = handles_in(w, node);

        for (unsigned i = 0; i < len && n < max; i++) {
            out[n++] = at->handle[i];
        }
        node = at->next != 0 ? (uint32_t)at->next : top;
    }
    w->soonest_node = node;
    return n;
}

unsigned wheel_soonest(struct wheel *w, handle_t *out, unsigned max)
{
    msec_t end = MSEC_NEVER; /* no item of a bucket that begins later can be the earliest */

    wheel_must_be_entered(w);
    unsigned n = take_top(w, WHEEL_DUE, out, max);
    for (unsigned l = 0; l < WHEEL_LEVELS && n < max; l++) {
        /* A ring ends at its horizon. */
        unsigned id = wheel_first_from(w, l, wheel_bucket_at(l, w->horizon[l]));
        msec_t begin = id != WHEEL_NONE ? wheel_bucket_start(w, l, id) : MSEC_NEVER;

        /* Each level leaves room for one item of the others. */
        if (begin < end) {
            unsigned rest = max - n > WHEEL_LEVELS - l ? max - n - (WHEEL_LEVELS - l) : 1;
            msec_t bucket_end = begin + ((msec_t)1 << wheel_levels[l].shift);

            n += take_some(w, id, out + n, rest);
            end = bucket_end < end ? bucket_end : end;
        }
    }
    for (unsigned id = WHEEL_FAR; id < WHEEL_BUCKETS && n < max && end == MSEC_NEVER; id++) {
        n += take_some(w, id, out + n, max - n);
    }
    return n;
}

/* ---- at random --------------------------------------------------------------------------- */

/*
 * A node by a random number; 0: there is none in that place. Each node has the same chance, so
 * a slab of which little was ever taken counts as a whole one, unless it is the only one.
 */
static uint32_t node_drawn(const struct wheel_pool *p, uint64_t random)
{
    uint64_t slabs = p->free_hint >= p->slab_count ? p->free_hint : p->capacity;
    uint32_t slab = (uint32_t)((random >> 32) * slabs >> 32);
    const struct wheel_slab *s = wheel_slab_at(p, slab);

    if (s == NULL || s->fresh <= 1) {
        return 0;
    }
    uint32_t at = 1 + (uint32_t)random % (p->slab_count == 1 ? s->fresh - 1 : SLAB_USABLE);
    return at < s->fresh && p->slabs[slab][at].bucket != NODE_UNUSED ? slab * SLAB_NODES + at
                                                                     : 0;
}

unsigned wheel_draw(struct wheel *w, uint64_t *random, handle_t *out, unsigned max)
{
    unsigned n = 0;

    wheel_must_be_entered(w);
    if (wheel_size(w) == 0) {
        return 0;
    }
    for (unsigned i = 0; n < max && i < max * DRAW_TRIES; i++) {
        uint64_t r = num_random(random);
        uint32_t node = node_drawn(&w->pool, r);
        uint32_t word = (uint32_t)(r >> 32) % NODE_HANDLES;

        if (node != 0 && word < handles_in(w, node)) {
            out[n++] = wheel_node_at(&w->pool, node)->handle[word];
        }
    }
    return n != 0 ? n : wheel_soonest(w, out, 1);
}
