/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock of a shard: a word taken by one compare-and-swap and released by a plain store, and
 * the number of sleeping threads. Writers take and release it several times per request, and it
 * is hardly ever contended. So the fast paths are inlined: they take a sixth of the
 * instructions of a pthread mutex. Not recursive.
 *
 * Release needs no atomic exchange. Futex locks commonly use one to learn of sleepers, but an
 * exchange waits until everything stored under the lock has reached the cache, which is slow
 * when these lines come from another CPU. Instead the thread that goes to sleep makes sure that
 * the holder sees it. First it spins for longer than a store takes. If it is not woken within
 * some milliseconds, it issues the heavy half of an asymmetric fence (rcu.h).
 */
#ifndef MAYFLY_LIB_BASE_LOCK_H
#define MAYFLY_LIB_BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/check.h"
#include "lib/base/rcu.h"

enum lock_state { LOCK_FREE, LOCK_HELD };

struct lock {
    _Atomic uint32_t state;    /* [atomic] enum lock_state; the futex word */
    _Atomic uint32_t sleepers; /* [atomic] threads that sleep, or are about to, and not woken */
#ifdef MAYFLY_DEBUG
    _Atomic(const void *) holder; /* [atomic] names the thread that holds it; NULL: none */
#endif
};

/* Make a free lock. Context: before it is shared. */
static inline void lock_init(struct lock *l)
{
    atomic_init(&l->state, LOCK_FREE);
    atomic_init(&l->sleepers, 0);
#ifdef MAYFLY_DEBUG
    atomic_init(&l->holder, NULL);
#endif
}

/*
 * Debug builds only: the lock records which thread holds it, so that a function can check that
 * its caller does. lock_note_holder() records the calling thread, or none, as the holder.
 * lock_is_held_here() returns whether the calling thread is the holder. Context: any thread.
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

/* The slow halves: wait for the lock; wake one waiting thread. Context: any thread. */
void lock_wait(struct lock *l);
void lock_wake(struct lock *l);

/* Take the lock if it is free. Context: any thread. */
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

/* Take the lock; waits if another thread holds it. Context: a thread that does not hold it. */
static inline void lock_take(struct lock *l)
{
    lock_must_not_be_held(l);
    if (MF_UNLIKELY(!lock_try(l))) {
        lock_wait(l);
    }
}

/* Release the lock. Context: the thread that took it. */
static inline void lock_give(struct lock *l)
{
    lock_must_be_held(l);
    lock_note(l, false);
    atomic_store_explicit(&l->state, LOCK_FREE, memory_order_release);
    rcu_fence_light();
    if (MF_UNLIKELY(atomic_load_explicit(&l->sleepers, memory_order_relaxed) != 0)) {
        lock_wake(l);
    }
}

#endif
