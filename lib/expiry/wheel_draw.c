/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timing wheel: items for evictions, drawn at random or by the earliest deadline. Nothing
 * is changed.
 */
#include "lib/expiry/wheel.h"

#include "lib/base/check.h"
#include "lib/base/num.h"
#include "lib/expiry/wheel_shape.h"

/* Draws in vain, for each item that is wanted. */
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

/* The first bucket that is not empty, of those from `first` up to `end`; WHEEL_NONE: none. */
static unsigned occupied_from(const struct wheel *w, unsigned first, unsigned end)
{
    for (unsigned id = first; id < end;) {
        uint64_t bits = w->occupied[id / 64] >> (id % 64);

        if (bits != 0) {
            id += (unsigned)__builtin_ctzll(bits);
            return id < end ? id : WHEEL_NONE;
        }
        id = (id / 64 + 1) * 64;
    }
    return WHEEL_NONE;
}

/* The first bucket in time of a ring that is not empty. The ring ends at its horizon. */
static unsigned first_of_ring(const struct wheel *w, unsigned l)
{
    const struct wheel_level *lv = &wheel_levels[l];
    unsigned begin = wheel_bucket_at(l, w->horizon[l]);
    unsigned id = occupied_from(w, begin, lv->first + lv->ring);

    return id != WHEEL_NONE ? id : occupied_from(w, lv->first, begin);
}

unsigned wheel_soonest(const struct wheel *w, handle_t *out, unsigned max)
{
    unsigned n;

    wheel_must_be_entered(w);
    n = take_top(w, WHEEL_DUE, out, max);
    for (unsigned l = 0; l < WHEEL_LEVELS && n < max; l++) {
        unsigned id = first_of_ring(w, l);

        /* Each level leaves room for one item of the others. */
        if (id != WHEEL_NONE) {
            unsigned rest = max - n > WHEEL_LEVELS - l ? max - n - (WHEEL_LEVELS - l) : 1;

            n += take_top(w, id, out + n, rest);
        }
    }
    for (unsigned id = WHEEL_FAR; id < WHEEL_BUCKETS && n < max; id++) {
        n += take_top(w, id, out + n, max - n);
    }
    return n;
}

/* A node in use of a slab, by a random number below 2^32; 0: none was met. */
static uint32_t node_drawn(const struct wheel_pool *p, uint32_t slab, uint32_t random)
{
    const struct wheel_slab *s = (const struct wheel_slab *)(const void *)p->slabs[slab];
    uint32_t at;

    if (s == NULL || s->fresh <= 1) {
        return 0;
    }
    at = 1 + random % (s->fresh - 1);
    return p->slabs[slab][at].bucket != NODE_UNUSED ? slab * SLAB_NODES + at : 0;
}

unsigned wheel_draw(const struct wheel *w, uint64_t *random, handle_t *out, unsigned max)
{
    const struct wheel_pool *p = &w->pool;
    unsigned n = 0;

    wheel_must_be_entered(w);
    if (wheel_size(w) == 0) {
        return 0;
    }
    for (unsigned i = 0; n < max && i < max * DRAW_TRIES; i++) {
        uint64_t r = num_random(random);
        uint32_t node = node_drawn(p, (uint32_t)((r >> 32) * p->capacity >> 32), (uint32_t)r);

        if (node != 0) {
            uint32_t word = (uint32_t)(r >> 16) % NODE_HANDLES;

            if (word < handles_in(w, node)) {
                out[n++] = wheel_node_at(p, node)->handle[word];
            }
        }
    }
    return n != 0 ? n : wheel_soonest(w, out, 1);
}
