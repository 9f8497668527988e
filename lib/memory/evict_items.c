/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The eviction of single items: see evict.h.
 */
#include "lib/memory/state.h"

#include <string.h>

/* maxmemory_samples is at most this. */
#define SAMPLES_MAX 64u

/*
 * Bounds on the number of items examined that have the earliest deadlines. The lower bound
 * ensures that items stored since the last search are among them.
 */
#define DRAWN_MAX     512u
#define SOONEST_LEAST 20u

/* The cost of examining an item: its header is rarely in the cache. */
#define WORK_SAMPLE 4

/*
 * When there are many, headers are prefetched AHEAD items ahead, and WORK_AHEAD items cost one
 * unit.
 */
#define AHEAD      8u
#define WORK_AHEAD 4

/*
 * Put an item into the pool, in the order of scores, if it beats one there or, unless
 * only_better, there is room.
 */
static void pool_add(struct memory *m, handle_t h, uint64_t score, bool only_better)
{
    struct evict *ev = &m->evict;
    struct evict_candidate *pool = ev->pool;
    unsigned at = 0;

    if ((only_better || ev->pooled == EVICT_POOL) && score <= pool[0].score) {
        return;
    }
    for (unsigned i = 0; i < ev->pooled; i++) {
        if (pool[i].handle == h) {
            return;
        }
    }
    if (ev->pooled == EVICT_POOL) {
        memmove(pool, pool + 1, (EVICT_POOL - 1) * sizeof(*pool));
        ev->pooled--;
    }
    while (at < ev->pooled && pool[at].score < score) {
        at++;
    }
    memmove(pool + at + 1, pool + at, (ev->pooled - at) * sizeof(*pool));
    pool[at] = (struct evict_candidate){.score = score,
                                        .cas = item_cas(memory_item(m, h)),
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
           item_is_live(it) && it->key_len != 0 && item_cas(it) == c->cas;
}

/* Does the policy evict such an item? One in the pool may have lost its deadline since. */
static bool may_go(const struct evict_policy *policy, const struct item *it)
{
    return policy->source == SOURCE_ALL || item_deadline(it) != MSEC_NEVER;
}

/*
 * The best of the pool that is there, may go, and has not been used, or put off, since it was
 * looked at; 0: none. Where the order is exact, one that is not there may have moved, and be
 * the next: look again.
 */
static handle_t pool_take(struct memory *m, const struct evict_policy *policy, msec_t now)
{
    struct evict *ev = &m->evict;

    while (ev->pooled > 0) {
        const struct evict_candidate *c = &ev->pool[--ev->pooled];
        const struct item *it = memory_item(m, c->handle);

        if (is_there(m, c) && may_go(policy, it) &&
            policy->score(it, now, m->options) >= c->score) {
            return c->handle;
        }
        if (policy->source == SOURCE_SOONEST) {
            ev->pooled = 0;
        }
    }
    return 0;
}

/*
 * How many items to draw. Of those with the earliest deadlines the policy looks at all of a
 * bucket if they are not too many, each time that it has used up what it found.
 */
static unsigned to_draw(const struct memory *m, const struct evict_policy *policy)
{
    unsigned samples = engine_option(m->options, maxmemory_samples);

    if (policy->score == NULL) {
        return 1;
    }
    if (policy->source != SOURCE_SOONEST) {
        return samples;
    }
    if (m->evict.pooled == 0) {
        return DRAWN_MAX;
    }
    return samples > SOONEST_LEAST ? samples : SOONEST_LEAST;
}

/*
 * Examine the drawn items. If one is due, drop it and return true. If the order is exact, the
 * pool has the first items of it, and none that comes after others not in the pool.
 */
static bool look_at(struct memory *m, const struct evict_policy *policy, const handle_t *drawn,
                    unsigned n, msec_t now)
{
    bool only_better = policy->source == SOURCE_SOONEST && m->evict.pooled > 0;

    for (unsigned i = 0; i < n; i++) {
        const struct item *it = memory_item(m, drawn[i]);

        if (i + AHEAD < n) {
            __builtin_prefetch(memory_item(m, drawn[i + AHEAD]));
        }
        if (item_is_due(it, now)) {
            m->ops->drop(m->owner, drawn[i], DEATH_EXPIRE, now);
            return true;
        }
        if (policy->score != NULL) {
            pool_add(m, drawn[i], policy->score(it, now, m->options), only_better);
        }
    }
    return false;
}

/* The one to go; 0: there is none, or one was due, and is dropped: then *was_due is set. */
static handle_t find_victim(struct memory *m, const struct evict_policy *policy, msec_t now,
                            int64_t *work, bool *was_due)
{
    handle_t drawn[DRAWN_MAX];
    unsigned n =
        m->ops->sample(m->owner, policy->source, &m->evict.random, drawn, to_draw(m, policy));

    *work -= WORK_SAMPLE + (int64_t)(n <= SAMPLES_MAX ? n * WORK_SAMPLE : n / WORK_AHEAD);
    *was_due = look_at(m, policy, drawn, n, now);
    if (*was_due || n == 0) {
        return 0;
    }
    return policy->score == NULL ? drawn[0] : pool_take(m, policy, now);
}

bool evict_item(struct memory *m, msec_t now, int64_t *work)
{
    const struct evict_policy *policy = evict_policy(&m->evict);
    bool was_due;

    memory_must_be_entered(m);
    if (policy->way != EVICT_ITEMS) {
        return false; /* it was changed since the caller looked */
    }
    if (m->evict.pool_policy != policy) {
        m->evict.pool_policy = policy;
        m->evict.pooled = 0;
    }
    handle_t victim = find_victim(m, policy, now, work, &was_due);
    if (victim == 0 && !was_due) {
        /* All in the pool have been used since, or gone: it is empty now. */
        victim = find_victim(m, policy, now, work, &was_due);
    }
    if (victim == 0) {
        return was_due;
    }
    m->ops->drop(m->owner, victim,
                 item_is_due(memory_item(m, victim), now) ? DEATH_EXPIRE : DEATH_EVICT, now);
    return true;
}
