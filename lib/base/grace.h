/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers of grace periods. A period gets its number when it begins. A thread that unlinks
 * an object stamps it by grace_stamp(), and may reuse its memory once grace_is_over(). The
 * reclaimer runs the periods; a worker that stores large values also tries one now and then
 * (grace_try()). Numbers are compared by distance, so 32 bits that wrap are enough.
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
    GRACE_HURRY, /* a thread waits for one */
};

struct grace {
    /* [atomic] */
    _Atomic uint32_t begun;     /* number of the newest period begun (release) */
    _Atomic uint32_t completed; /* this period and all before it have ended (release) */
    _Atomic uint32_t need;      /* enum grace_need; the futex word the reclaimer sleeps on */
    _Atomic uint32_t wakes_at;  /* least need that must wake the reclaimer; IDLE: it is awake */
};

static inline void grace_init(struct grace *g)
{
    atomic_init(&g->begun, 0);
    atomic_init(&g->completed, 0);
    atomic_init(&g->need, GRACE_IDLE);
    atomic_init(&g->wakes_at, GRACE_IDLE);
}

/*
 * The number of the period after whose end no thread can see what was unlinked before this
 * call. Period begun + 1 starts after the unlink is visible (see rcu_order_unlink()), so it
 * waits for every section that may have seen the object. Context: registered thread, after the
 * unlink.
 */
static inline uint32_t grace_stamp(const struct grace *g)
{
    rcu_order_unlink();
    return atomic_load_explicit(&g->begun, memory_order_acquire) + 1;
}

/* Has the period with the number of a stamp ended? Context: any thread. */
static inline bool grace_is_over(const struct grace *g, uint32_t stamp)
{
    return (int32_t)(atomic_load_explicit(&g->completed, memory_order_acquire) - stamp) >= 0;
}

/*
 * grace_begin() returns the number of a period that begins now. grace_complete() publishes that
 * this period and all with lower numbers have ended. Several may run at once. Context: any
 * thread.
 */
static inline uint32_t grace_begin(struct grace *g)
{
    return atomic_fetch_add_explicit(&g->begun, 1, memory_order_acq_rel) + 1;
}

void grace_complete(struct grace *g, uint32_t number);

/*
 * Run a period at once if that takes no waiting. True when one has ended. Memory that is reused
 * soon is still in the CPU's cache, which outweighs the cost for a thread that stores large
 * values. Always false while the calling thread is in a section. Context: registered thread,
 * outside a shard.
 */
bool grace_try(struct grace *g);

/*
 * The slow half of grace_ask(): raise the need, and wake the reclaimer if it sleeps and must be
 * woken for this need. The system call for that does not wait. Context: any thread, also in
 * shard.
 */
void grace_wake(struct grace *g, enum grace_need need);

/*
 * Sleep until the need is at least `wakes_at`, or until timeout_us have passed (negative: no
 * timeout). May return early. Context: reclaimer.
 */
void grace_sleep(struct grace *g, enum grace_need wakes_at, int64_t timeout_us);

/* Has this need been raised already? See grace_ask(). Context: any thread, also in shard. */
static inline bool grace_is_asked(const struct grace *g, enum grace_need need)
{
    return atomic_load_explicit(&g->need, memory_order_relaxed) >= (uint32_t)need;
}

/*
 * Ask for a grace period, after grace_stamp(): the period of that stamp will then be run. The
 * need is cleared before a period gets its number, and the stamp was read with acquire. So a
 * thread that still finds an old need here has a stamp which the coming period will end. Cheap
 * when the need has been raised already. Context: any thread, also in shard.
 */
static inline void grace_ask(struct grace *g, enum grace_need need)
{
    if (!grace_is_asked(g, need)) {
        grace_wake(g, need);
    }
}

#endif
