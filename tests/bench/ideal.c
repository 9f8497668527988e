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
    uint64_t count;
};

static uint32_t *older, *newer;
static uint8_t *place, *heat;

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
    q->count++;
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
    q->count--;
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
        } else if (q.count == in->items) {
            uint32_t victim = q.tail;
            take_out(&q, victim);
            place[victim] = NOWHERE;
        }
        place[k] = IN_SMALL;
        push(&q, k);
    }
    return (double)found / (double)(in->requests - in->warmup);
}

struct s3fifo {
    struct queue small, main, ghost;
    uint64_t items;
    int threshold;
};

static void remember(struct s3fifo *c, uint32_t k)
{
    place[k] = IN_GHOST;
    push(&c->ghost, k);
    if (c->ghost.count > c->items) {
        uint32_t last = c->ghost.tail;
        take_out(&c->ghost, last);
        place[last] = NOWHERE;
    }
}

static void evict_one(struct s3fifo *c)
{
    while (c->small.count > c->items / 10 || c->main.count == 0) {
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
    struct s3fifo c = {.items = in->items, .threshold = threshold};
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
        while (c.small.count + c.main.count >= in->items) {
            evict_one(&c);
        }
        heat[k] = 0;
        place[k] = was_ghost ? IN_MAIN : IN_SMALL;
        push(was_ghost ? &c.main : &c.small, k);
    }
    return (double)found / (double)(in->requests - in->warmup);
}

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
