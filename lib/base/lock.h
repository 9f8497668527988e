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
#include <stddef.h>
#include <stdint.h>

#include "lib/base/check.h"

enum lock_state { LOCK_FREE, LOCK_HELD, LOCK_WAITED };

struct lock {
    _Atomic uint32_t state; /* [atomic] enum lock_state; the futex word */
#ifdef MAYFLY_DEBUG
    _Atomic(const void *) holder; /* [atomic] names the thread that has it; NULL: nobody has */
#endif
};

static inline void lock_init(struct lock *l)
{
    atomic_init(&l->state, LOCK_FREE);
#ifdef MAYFLY_DEBUG
    atomic_init(&l->holder, NULL);
#endif
}

/*
 * Debug builds: the lock knows which thread holds it, so that a function can check that its
 * caller does. Note the calling thread (or nobody) as the holder; does it hold the lock?
 * Context: any thread.
 */
void lock_note_holder(struct lock *l, bool is_held);
bool lock_is_held_here(const struct lock *l);

#ifdef MAYFLY_DEBUG
#define lock_note(l, is_held) lock_note_holder(l, is_held)
#else
#define lock_note(l, is_held) ((void)0)
#endif

#define lock_must_be_held(l)     debug_must(lock_is_held_here(l))
#define lock_must_not_be_held(l) debug_must(!lock_is_held_here(l))

/* For a structure that is given the lock that guards it; NULL: only one thread uses it. */
#define lock_must_guard(l) debug_must((l) == NULL || lock_is_held_here(l))

/* Slow halves: wait for the lock; wake one that waits. Context: any thread. */
void lock_wait(struct lock *l);
void lock_wake(struct lock *l);

/* Context: any thread. */
static inline bool lock_try(struct lock *l)
{
    uint32_t expected = LOCK_FREE;

    if (!atomic_compare_exchange_strong_explicit(&l->state, &expected, LOCK_HELD,
                                                 memory_order_acquire, memory_order_relaxed)) {
        return false;
    }
    lock_note(l, true);
    return true;
}

static inline void lock_take(struct lock *l)
{
    lock_must_not_be_held(l);
    if (MF_UNLIKELY(!lock_try(l))) {
        lock_wait(l);
    }
}

/* Context: the thread that took it. */
static inline void lock_give(struct lock *l)
{
    lock_must_be_held(l);
    lock_note(l, false);
    if (MF_UNLIKELY(atomic_exchange_explicit(&l->state, LOCK_FREE, memory_order_release) ==
                    LOCK_WAITED)) {
        lock_wake(l);
    }
}

#endif
