/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A walk visits shard after shard by shard_walk()'s cursor. A slice of it opens one read-side
 * section and closes it. The cursor visits an item at least once,
 * and perhaps twice while its shard's index is being resized: a histogram is then a little too
 * high.
 */
#include "daemon/stats/stats_walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/stats/stats_gather.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"
#include "lib/base/rcu.h"
#include "lib/shard/info.h"

#define POSITIONS_A_LOOK 16 /* the clock is read after this many positions of the index */
#define SIZE_STEP        32u

struct walk {
    struct stats_gather gather;
    uint32_t shard;
    uint64_t cursor;
    msec_t now;   /* of the slice */
    bool is_full; /* no more items are wanted */
    void (*item)(struct walk *k, const struct item *it);
};

static struct walk *walk_of(struct stats_gather *g)
{
    return (struct walk *)(void *)g; /* the gather stands first */
}

static void on_item(void *arg, const struct shard *s, const struct item *it)
{
    struct walk *k = arg;

    (void)s;
    if (!k->is_full) {
        k->item(k, it);
    }
}

/* One slice of the walk. True: all shards are done. */
static bool visit(struct stats_gather *g, struct worker *w)
{
    struct walk *k = walk_of(g);
    const struct engine *e = w->engine;
    bool is_done = false;

    must_be_worker(w);
    must_not_be_reading();
    k->now = worker_now(w);
    rcu_begin();
    do {
        unsigned n;

        for (n = 0; n < POSITIONS_A_LOOK && !is_done; n++) {
            debug_must(k->shard < e->shard_count);
            k->cursor = shard_walk(e->shards[k->shard], k->cursor, k->now, on_item, k);
            if (k->cursor == 0) {
                k->shard++;
            }
            is_done = k->is_full || k->shard >= e->shard_count;
        }
    } while (!is_done && !tasks_slice_is_over(w));
    rcu_end();
    return is_done;
}

/* ---- sizes ------------------------------------------------------------------------------- */

/* A count; step 0 is an empty place. */
struct size_count {
    uint32_t step;
    uint64_t items;
};

struct sizes {
    struct walk walk;
    struct size_count *places; /* owned; a hash table by step, at most three quarters full */
    uint32_t mask;
    uint32_t used;
};

static struct size_count *size_place(struct size_count *places, uint32_t mask, uint32_t step)
{
    uint32_t i = step * 2654435761u & mask;

    debug_must(step != 0);
    while (places[i].step != 0 && places[i].step != step) {
        i = (i + 1) & mask;
    }
    return &places[i];
}

static bool sizes_grow(struct sizes *z)
{
    uint32_t mask = z->mask * 2 + 1;
    struct size_count *places = mem_zalloc(((size_t)mask + 1) * sizeof(*places));
    uint32_t i;

    if (places == NULL) {
        return false;
    }
    for (i = 0; i <= z->mask; i++) {
        if (z->places[i].step != 0) {
            *size_place(places, mask, z->places[i].step) = z->places[i];
        }
    }
    mem_free(z->places);
    z->places = places;
    z->mask = mask;
    return true;
}

static void count_size(struct walk *k, const struct item *it)
{
    struct sizes *z = (struct sizes *)(void *)k; /* the walk stands first */
    uint32_t step = (uint32_t)((item_size(it) + SIZE_STEP - 1) / SIZE_STEP);
    struct size_count *place = size_place(z->places, z->mask, step);

    if (place->step == 0) {
        if (z->used >= z->mask - z->mask / 4) {
            if (!sizes_grow(z)) {
                k->gather.out.is_short = true;
                k->is_full = true;
                return;
            }
            place = size_place(z->places, z->mask, step);
        }
        place->step = step;
        z->used++;
    }
    place->items++;
}

static int by_step(const void *a, const void *b)
{
    const struct size_count *x = a;
    const struct size_count *y = b;

    return x->step < y->step ? -1 : x->step > y->step;
}

static bool finish_sizes(struct stats_gather *g)
{
    struct sizes *z = (struct sizes *)(void *)walk_of(g);
    uint32_t i;

    qsort(z->places, (size_t)z->mask + 1, sizeof(z->places[0]), by_step);
    for (i = 0; i <= z->mask; i++) {
        if (z->places[i].step != 0) {
            char name[NUM_DIGITS_MAX + 1];

            snprintf(name, sizeof(name), "%" PRIu64, (uint64_t)z->places[i].step * SIZE_STEP);
            stats_put_u64(&g->out, name, z->places[i].items);
        }
    }
    mem_free(z->places);
    return true;
}

enum stats_result stats_sizes(struct worker *w, struct buf *out, stats_done_fn done, void *arg)
{
    struct sizes *z = mem_zalloc(sizeof(*z));

    must_be_worker(w);
    if (z == NULL) {
        return STATS_NO_MEMORY;
    }
    z->mask = 255;
    z->places = mem_zalloc(((size_t)z->mask + 1) * sizeof(z->places[0]));
    if (z->places == NULL) {
        mem_free(z);
        return STATS_NO_MEMORY;
    }
    z->walk.item = count_size;
    z->walk.gather.visit = visit;
    z->walk.gather.finish = finish_sizes;
    return stats_gather_begin(&z->walk.gather, w, GATHER_ASKER, out, done, arg);
}
