/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See ideal.h.
 */
#include "tests/bench/ideal.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/basics.h"

enum place { NOWHERE, IN_SMALL, IN_MAIN, IN_GHOST };

struct queue {
    uint32_t head, tail; /* newest, oldest; 0: none. Keys are counted from 1 here */
    uint64_t taken;      /* the sum of sizes */
};

static uint32_t *older, *newer;
static uint8_t *place, *heat;
static const uint32_t *sizes;

static uint64_t size_of(uint32_t k)
{
    return sizes != NULL ? sizes[k - 1] : 1;
}

static void push(struct queue *q, uint32_t k)
{
    newer[k] = 0;
    older[k] = q->head;
    if (q->head != 0) {
        newer[q->head] = k;
    } else {
        q->tail = k;
    }
    q->head = k;
    q->taken += size_of(k);
}

static void take_out(struct queue *q, uint32_t k)
{
    if (newer[k] != 0) {
        older[newer[k]] = older[k];
    } else {
        q->head = older[k];
    }
    if (older[k] != 0) {
        newer[older[k]] = newer[k];
    } else {
        q->tail = newer[k];
    }
    q->taken -= size_of(k);
}

static double share_of(const struct ideal *in, uint64_t found)
{
    return (double)found / (double)(in->requests - in->warmup);
}

static double play_lru(const struct ideal *in)
{
    struct queue q = {0, 0, 0};
    uint64_t found = 0;

    for (uint64_t i = 0; i < in->requests; i++) {
        uint32_t k = in->request[i] + 1;

        if (place[k] != NOWHERE) {
            found += i >= in->warmup;
            take_out(&q, k);
        } else if (size_of(k) > in->room) {
            continue;
        }
        while (q.taken + size_of(k) > in->room) {
            uint32_t victim = q.tail;

            take_out(&q, victim);
            place[victim] = NOWHERE;
        }
        place[k] = IN_SMALL;
        push(&q, k);
    }
    return share_of(in, found);
}

struct s3fifo {
    struct queue small, main, ghost;
    uint64_t room;
    int threshold;
};

static void remember(struct s3fifo *c, uint32_t k)
{
    place[k] = IN_GHOST;
    push(&c->ghost, k);
    while (c->ghost.taken > c->room) {
        uint32_t last = c->ghost.tail;
        take_out(&c->ghost, last);
        place[last] = NOWHERE;
    }
}

static void evict_one(struct s3fifo *c)
{
    while (c->small.taken > c->room / 10 || c->main.taken == 0) {
        uint32_t k = c->small.tail;

        take_out(&c->small, k);
        if (heat[k] < c->threshold) {
            remember(c, k);
            return;
        }
        heat[k] = 0;
        place[k] = IN_MAIN;
        push(&c->main, k);
    }
    for (;;) {
        uint32_t k = c->main.tail;

        take_out(&c->main, k);
        if (heat[k] == 0) {
            place[k] = NOWHERE;
            return;
        }
        heat[k]--;
        push(&c->main, k);
    }
}

static double play_s3fifo(const struct ideal *in, int threshold)
{
    struct s3fifo c = {.room = in->room, .threshold = threshold};
    uint64_t found = 0;

    for (uint64_t i = 0; i < in->requests; i++) {
        uint32_t k = in->request[i] + 1;
        bool was_ghost = place[k] == IN_GHOST;

        if (place[k] == IN_SMALL || place[k] == IN_MAIN) {
            found += i >= in->warmup;
            heat[k] += heat[k] < 3;
            continue;
        }
        if (was_ghost) {
            take_out(&c.ghost, k);
        }
        place[k] = NOWHERE;
        if (size_of(k) > in->room) {
            continue;
        }
        while (c.small.taken + c.main.taken + size_of(k) > in->room) {
            evict_one(&c);
        }
        heat[k] = 0;
        place[k] = was_ghost ? IN_MAIN : IN_SMALL;
        push(was_ghost ? &c.main : &c.small, k);
    }
    return share_of(in, found);
}

/* ---- MIN --------------------------------------------------------------------------------- */

/* What is held, in a heap: the key that is used last is at the top. */
struct future {
    uint32_t *key;  /* the heap; counted from 0 */
    uint32_t *at;   /* where in it each key is */
    uint64_t *next; /* of each key: the request that uses it next */
    uint64_t held;
    uint64_t taken;
};

static void swap_keys(struct future *f, uint64_t a, uint64_t b)
{
    const uint32_t k = f->key[a];

    f->key[a] = f->key[b];
    f->key[b] = k;
    f->at[f->key[a]] = (uint32_t)a;
    f->at[k] = (uint32_t)b;
}

static uint64_t next_at(const struct future *f, uint64_t at)
{
    return f->next[f->key[at]];
}

/* The key at this place has got another next use. */
static void settle(struct future *f, uint64_t at)
{
    while (at > 0 && next_at(f, at) > next_at(f, (at - 1) / 2)) {
        swap_keys(f, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint64_t last = at;

        for (uint64_t child = 2 * at + 1; child <= 2 * at + 2 && child < f->held; child++) {
            last = next_at(f, child) > next_at(f, last) ? child : last;
        }
        if (last == at) {
            return;
        }
        swap_keys(f, at, last);
        at = last;
    }
}

static void drop_last_used(struct future *f)
{
    const uint32_t k = f->key[0];

    f->taken -= size_of(k);
    place[k] = NOWHERE;
    swap_keys(f, 0, --f->held);
    if (f->held > 0) {
        settle(f, 0);
    }
}

/* For each request, the next one of the same key; UINT64_MAX: there is none. */
static uint64_t *next_uses(const struct ideal *in, uint64_t keys)
{
    uint64_t *next = must_alloc(malloc(in->requests * sizeof(*next)));
    uint64_t *seen = must_alloc(malloc(keys * sizeof(*seen)));

    memset(seen, 0xff, keys * sizeof(*seen));
    for (uint64_t i = in->requests; i-- > 0;) {
        next[i] = seen[in->request[i] + 1];
        seen[in->request[i] + 1] = i;
    }
    free(seen);
    return next;
}

static double play_min(const struct ideal *in, uint64_t keys)
{
    struct future f = {.key = must_alloc(malloc(keys * sizeof(*f.key))),
                       .at = must_alloc(malloc(keys * sizeof(*f.at))),
                       .next = must_alloc(malloc(keys * sizeof(*f.next)))};
    uint64_t *next = next_uses(in, keys);
    uint64_t found = 0;

    for (uint64_t i = 0; i < in->requests; i++) {
        uint32_t k = in->request[i] + 1;
        const bool is_held = place[k] != NOWHERE;

        found += is_held && i >= in->warmup;
        f.next[k] = next[i];
        if (!is_held) {
            f.key[f.held] = k;
            f.at[k] = (uint32_t)f.held++;
            f.taken += size_of(k);
            place[k] = IN_MAIN;
        }
        settle(&f, f.at[k]);
        while (f.taken > in->room) {
            drop_last_used(&f);
        }
    }
    free(next);
    free(f.key);
    free(f.at);
    free(f.next);
    return share_of(in, found);
}

/* ---- all of them ------------------------------------------------------------------------- */

static void forget(uint64_t keys)
{
    memset(place, 0, keys);
    memset(heat, 0, keys);
}

struct ideal_ratios ideal_play(const struct ideal *in)
{
    struct ideal_ratios out;
    uint64_t keys = 0;

    for (uint64_t i = 0; i < in->requests; i++) {
        keys = in->request[i] + 2 > keys ? in->request[i] + 2 : keys;
    }
    older = must_alloc(calloc(keys, sizeof(*older)));
    newer = must_alloc(calloc(keys, sizeof(*newer)));
    place = must_alloc(calloc(keys, 1));
    heat = must_alloc(calloc(keys, 1));
    sizes = in->size;
    out.min = play_min(in, keys);
    forget(keys);
    out.lru = play_lru(in);
    forget(keys);
    out.s3fifo_1 = play_s3fifo(in, 1);
    forget(keys);
    out.s3fifo_2 = play_s3fifo(in, 2);
    free(older);
    free(newer);
    free(place);
    free(heat);
    return out;
}
