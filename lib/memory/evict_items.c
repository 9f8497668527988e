/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The eviction of single items: see evict_items.h.
 */
#include "lib/memory/evict_items.h"

#include <string.h>

/* maxmemory_samples is at most this. */
#define SAMPLES_MAX 64u

/* The cost of an item that is looked at: its header is seldom in the cache. */
#define WORK_SAMPLE 4

/* Put an item into the pool, in the order of scores, if it beats one there or there is room. */
static void pool_add(struct memory *m, handle_t h, uint64_t score)
{
    struct evict *ev = &m->evict;
    struct evict_candidate *pool = ev->pool;
    unsigned at = 0;

    for (unsigned i = 0; i < ev->pooled; i++) {
        if (pool[i].handle == h) {
            return;
        }
    }
    if (ev->pooled == EVICT_POOL) {
        if (score <= pool[0].score) {
            return;
        }
        memmove(pool, pool + 1, (EVICT_POOL - 1) * sizeof(*pool));
        ev->pooled--;
    }
    while (at < ev->pooled && pool[at].score < score) {
        at++;
    }
    memmove(pool + at + 1, pool + at, (ev->pooled - at) * sizeof(*pool));
    pool[at] = (struct evict_candidate){.score = score,
                                        .cas = memory_item(m, h)->cas,
                                        .handle = h,
                                        .generation = memory_segment(m, h)->generation};
    ev->pooled++;
}

/* Is what was put into the pool still there? It may have died, or moved. */
static bool is_there(const struct memory *m, const struct evict_candidate *c)
{
    const struct segment *g = memory_segment(m, c->handle);
    const struct item *it = memory_item(m, c->handle);

    return g->generation == c->generation && (g->state == SEG_OPEN || g->state == SEG_SEALED) &&
           item_is_live(it) && it->key_len != 0 && it->cas == c->cas;
}

/* The best of the pool that is there; 0: none. */
static handle_t pool_take(struct memory *m)
{
    struct evict *ev = &m->evict;

    while (ev->pooled > 0) {
        const struct evict_candidate *c = &ev->pool[--ev->pooled];

        if (is_there(m, c)) {
            return c->handle;
        }
    }
    return 0;
}

bool evict_item(struct memory *m, msec_t now, int64_t *work)
{
    const struct evict_policy *policy = evict_policy(&m->evict);
    uint32_t wanted = policy->score == NULL ? 1 : engine_option(m->options, maxmemory_samples);
    handle_t drawn[SAMPLES_MAX];
    handle_t victim = 0;
    unsigned n;

    memory_must_be_entered(m);
    if (m->evict.pool_policy != policy) {
        m->evict.pool_policy = policy;
        m->evict.pooled = 0;
    }
    n = m->ops->sample(m->owner, policy->source, &m->evict.random, drawn,
                       wanted < SAMPLES_MAX ? wanted : SAMPLES_MAX);
    *work -= (int64_t)(n + 1) * WORK_SAMPLE;
    for (unsigned i = 0; i < n; i++) {
        const struct item *it = memory_item(m, drawn[i]);

        if (item_is_due(it, now)) {
            m->ops->drop(m->owner, drawn[i], DEATH_EXPIRE, now);
            return true;
        }
        if (policy->score == NULL) {
            victim = drawn[i];
        } else {
            pool_add(m, drawn[i], policy->score(it, now, m->options));
        }
    }
    if (policy->score != NULL) {
        victim = pool_take(m);
    }
    if (victim == 0) {
        return false;
    }
    m->ops->drop(m->owner, victim,
                 item_is_due(memory_item(m, victim), now) ? DEATH_EXPIRE : DEATH_EVICT, now);
    return true;
}
