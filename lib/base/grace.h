/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Grace numbers. Grace periods are numbered as they begin; who unlinks something dates it
 * with grace_stamp() and may reuse it once grace_is_over(). The reclaimer runs them; a worker
 * that stores large values tries one now and then (grace_try()). Grace numbers are compared by
 * distance, so 32 bits that wrap are enough.
 */
#ifndef MAYFLY_LIB_BASE_GRACE_H
#define MAYFLY_LIB_BASE_GRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/rcu.h"

enum grace_need {
    GRACE_IDLE,  /* nothing waits */
    GRACE_SOON,  /* something waits: a few milliseconds are fine */
    GRACE_HURRY, /* somebody cannot go on without it */
};

struct grace {
    /* [atomic] */
    _Atomic uint32_t begun;     /* number of the newest period begun (release) */
    _Atomic uint32_t completed; /* all up to this one have ended (release) */
    _Atomic uint32_t need;      /* enum grace_need; the futex word the reclaimer sleeps on */
    _Atomic uint32_t wakes_at;  /* the least need that must wake it; IDLE: it runs */
};

static inline void grace_init(struct grace *g)
{
    atomic_init(&g->begun, 0);
    atomic_init(&g->completed, 0);
    atomic_init(&g->need, GRACE_IDLE);
    atomic_init(&g->wakes_at, GRACE_IDLE);
}

/*
 * The number whose completion makes safe what was unlinked before this call. Period
 * begun+1 starts after the unlink is visible (see rcu_order_unlink), so it waits for
 * every section that may have seen it. Context: registered thread, after the unlink.
 */
static inline uint32_t grace_stamp(const struct grace *g)
{
    rcu_order_unlink();
    return atomic_load_explicit(&g->begun, memory_order_acquire) + 1;
}

/* Has the period of a stamp ended? Context: any thread. */
static inline bool grace_is_over(const struct grace *g, uint32_t stamp)
{
    return (int32_t)(atomic_load_explicit(&g->completed, memory_order_acquire) - stamp) >= 0;
}

/*
 * Number a period that begins now, and publish that it has ended: it ends all with lower
 * numbers too. Several may run at once. Context: any thread.
 */
static inline uint32_t grace_begin(struct grace *g)
{
    return atomic_fetch_add_explicit(&g->begun, 1, memory_order_acq_rel) + 1;
}

void grace_complete(struct grace *g, uint32_t number);

/*
 * Run a period here and now if that takes no waiting. True when one has ended. What waits for
 * longer grows cold: who stores much memory at a time gets the same lines back out of the
 * cache. Context: registered thread, outside a section and a shard.
 */
bool grace_try(struct grace *g);

/*
 * Slow half of grace_ask(): raises the need and, if the reclaimer sleeps so deep, wakes it
 * by a system call that does not wait. Context: any thread, also in shard.
 */
void grace_wake(struct grace *g, enum grace_need need);

/*
 * Sleep until the need is at least `wakes_at` or timeout_us have passed (negative: no
 * timeout); may return early. Context: reclaimer.
 */
void grace_sleep(struct grace *g, enum grace_need wakes_at, int64_t timeout_us);

/* Is the need known already? See grace_ask(). Context: any thread, also in shard. */
static inline bool grace_is_asked(const struct grace *g, enum grace_need need)
{
    return atomic_load_explicit(&g->need, memory_order_relaxed) >= (uint32_t)need;
}

/*
 * Ask for a grace period, after grace_stamp(): then the period of that stamp will be run. The
 * need is cleared before a period is numbered, and the stamp was read with acquire; so
 * whoever still finds an old need here holds a stamp that the period it stands for ends.
 * Cheap when already asked. Context: any thread, also in shard.
 */
static inline void grace_ask(struct grace *g, enum grace_need need)
{
    if (!grace_is_asked(g, need)) {
        grace_wake(g, need);
    }
}

#endif
