/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See stats_parts.h. A walk visits shard after shard (position.h). A slice of it
 * opens one read-side section and closes it. The cursor visits an item at least once, and
 * perhaps twice while its shard's index is being resized: a histogram is then a little too
 * high.
 */
#include "daemon/stats/stats_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/list.h"
#include "lib/base/budgets.h"
#include "lib/base/context.h"
#include "lib/base/counts.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"
#include "lib/base/rcu.h"
#include "lib/shard/position.h"

#define SIZE_STEP 32u

/* One who asked. */
struct size_asker {
    struct list_link link;
    struct buf *out; /* [borrowed] */
    stats_done_fn done;
    void *done_arg;
};

enum phase { COUNTING, SORTING, COMPOSING, GIVING };

/* A running walk, and its waiting clients. Of one worker, while there are any. [worker] */
struct stats_sizes {
    struct task task;
    enum phase phase;
    struct position at;
    msec_t now;           /* of the slice */
    struct counts counts; /* of items, by step */
    uint32_t composed;    /* counts that have their line */
    struct buf text;      /* the answer */
    struct stats_out out;
    struct list askers;  /* of this walk */
    struct list waiting; /* for the next one */
};

/* ---- counts ------------------------------------------------------------------------------ */

static void count_size(void *arg, const struct shard *s, const struct item *it)
{
    struct stats_sizes *z = arg;
    struct count *items = NULL;

    (void)s;
    if (!z->out.is_short) {
        items = counts_of(&z->counts, (item_size(it) + SIZE_STEP - 1) / SIZE_STEP);
        z->out.is_short = items == NULL;
    }
    if (items != NULL) {
        items->n++;
    }
}

/* ---- phases: true when one is over ------------------------------------------------------- */

static bool count(struct stats_sizes *z, struct worker *w)
{
    const struct engine *e = w->engine;
    bool is_done = false;

    z->now = worker_now(w);
    rcu_begin();
    do {
        for (unsigned n = 0; n < STEPS_A_LOOK && !is_done; n++) {
            if (z->at.shard < e->shard_count) {
                position_step(&z->at, e->shards[z->at.shard], z->now, count_size, z);
            }
            is_done = z->out.is_short || z->at.shard >= e->shard_count;
        }
    } while (!is_done && !tasks_slice_is_over(w));
    rcu_end();
    return is_done;
}

static int by_step(const void *a, const void *b)
{
    const struct count *x = a;
    const struct count *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

/* Leave only the counts, in the order of their steps. */
static bool sort(struct stats_sizes *z)
{
    struct counts *c = &z->counts;
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->cap; i++) {
        if (c->places[i].n != 0) {
            c->places[n++] = c->places[i];
        }
    }
    debug_must(n == c->used);
    if (n > 0) {
        qsort(c->places, n, sizeof(c->places[0]), by_step);
    }
    return true;
}

static void put_line(struct stats_sizes *z, const struct count *count)
{
    char name[NUM_DIGITS_MAX + 1];

    snprintf(name, sizeof(name), "%" PRIu64, count->id * SIZE_STEP);
    stats_put_u64(&z->out, name, count->n);
}

static bool compose(struct stats_sizes *z, struct worker *w)
{
    while (z->composed < z->counts.used) {
        for (unsigned n = 0; n < STEPS_A_LOOK && z->composed < z->counts.used; n++) {
            put_line(z, &z->counts.places[z->composed++]);
        }
        if (z->composed < z->counts.used && tasks_slice_is_over(w)) {
            return false;
        }
    }
    (void)stats_out_end(&z->out, 0);
    return true;
}

/*
 * Pass the answer to all clients that share it. A client may continue, and send the command
 * again. An empty answer means that there was no memory.
 */
static bool give(struct stats_sizes *z, struct worker *w)
{
    struct list_link *first;

    while ((first = list_take_first(&z->askers)) != NULL) {
        struct size_asker *taken = MF_OUTER(first, struct size_asker, link);
        struct size_asker asker = *taken;

        mem_free(taken);
        w->later_count--;
        (void)buf_append(asker.out, buf_begin(&z->text), buf_len(&z->text));
        asker.done(asker.done_arg, asker.out, NULL);
        if (!list_is_empty(&z->askers) && tasks_slice_is_over(w)) {
            return false;
        }
    }
    return true;
}

static bool run_phase(struct stats_sizes *z, struct worker *w)
{
    switch (z->phase) {
    case COUNTING:
        return count(z, w);
    case SORTING:
        return sort(z);
    case COMPOSING:
        return compose(z, w);
    case GIVING:
        return give(z, w);
    }
    unreachable();
}

/* ---- walks ------------------------------------------------------------------------------- */

static void sizes_destroy(struct stats_sizes **z)
{
    buf_fini(&(*z)->text);
    counts_fini(&(*z)->counts);
    mem_free(*z);
    *z = NULL;
}

/* Start a walk for the waiting clients. */
static void begin_walk(struct stats_sizes *z, struct worker *w)
{
    list_take_all(&z->askers, &z->waiting);
    counts_fini(&z->counts);
    buf_clear(&z->text);
    z->out = stats_out_to(&z->text);
    z->phase = COUNTING;
    z->at = (struct position){0};
    z->composed = 0;
    ctr_add(&w->counters, CTR_size_walks, 1);
}

static void run_slice(struct task *task, struct worker *w)
{
    struct stats_sizes *z = MF_OUTER(task, struct stats_sizes, task);

    must_be_worker(w);
    must_not_be_reading();
    if (run_phase(z, w)) {
        if (z->phase != GIVING) {
            z->phase++;
        } else if (!list_is_empty(&z->waiting)) {
            begin_walk(z, w);
        } else {
            sizes_destroy(&w->sizes);
            return;
        }
    }
    task_add(w, task);
}

static struct stats_sizes *sizes_create(void)
{
    struct stats_sizes *z = mem_zalloc(sizeof(*z));

    if (z == NULL) {
        return NULL;
    }
    counts_init(&z->counts);
    z->task.run = run_slice;
    list_init(&z->askers);
    list_init(&z->waiting);
    return z;
}

enum stats_result stats_sizes(struct worker *w, struct buf *out, stats_done_fn done, void *arg)
{
    struct size_asker *asker;
    bool is_first = w->sizes == NULL;

    must_be_worker(w);
    asker = mem_zalloc(sizeof(*asker)); /* so in no list */
    if (asker == NULL) {
        return STATS_NO_MEMORY;
    }
    if (is_first) {
        w->sizes = sizes_create();
        if (w->sizes == NULL) {
            mem_free(asker);
            return STATS_NO_MEMORY;
        }
    }
    asker->out = out;
    asker->done = done;
    asker->done_arg = arg;
    list_append(&w->sizes->waiting, &asker->link);
    w->later_count++;
    if (is_first) {
        begin_walk(w->sizes, w);
        task_add(w, &w->sizes->task);
    }
    return STATS_LATER;
}
