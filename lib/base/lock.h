/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock of a shard: a futex word with three states (U. Drepper, "Futexes are tricky", 2004,
 * mutex2). Taken and released several times a request by writers and nearly never contended, so
 * its fast paths are inlined: one compare-and-swap in, one exchange out, a sixth of what a
 * pthread mutex executes. Not recursive.
 */
#ifndef MAYFLY_LIB_BASE_LOCK_H
#define MAYFLY_LIB_BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/check.h"

enum lock_state { LOCK_FREE, LOCK_HELD, LOCK_WAITED };

struct lock {
    _Atomic uint32_t state; /* [atomic] enum lock_state; the futex word */
};

static inline void lock_init(struct lock *l)
{
    atomic_init(&l->state, LOCK_FREE);
}

/* Slow halves: wait for the lock; wake one that waits. Context: any thread. */
void lock_wait(struct lock *l);
void lock_wake(struct lock *l);

/* Context: any thread. */
static inline bool lock_try(struct lock *l)
{
    uint32_t expected = LOCK_FREE;

    return atomic_compare_exchange_strong_explicit(&l->state, &expected, LOCK_HELD,
                                                   memory_order_acquire, memory_order_relaxed);
}

static inline void lock_take(struct lock *l)
{
    if (MF_UNLIKELY(!lock_try(l))) {
        lock_wait(l);
    }
}

/* Context: the thread that took it. */
static inline void lock_give(struct lock *l)
{
    if (MF_UNLIKELY(atomic_exchange_explicit(&l->state, LOCK_FREE, memory_order_release) ==
                    LOCK_WAITED)) {
        lock_wake(l);
    }
}

#endif
