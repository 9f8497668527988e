/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for the lock of a shard: see lock.h.
 */
#include "lib/base/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The lock is held for a microsecond or less. So spin for about as long before going to sleep
 * in the kernel, which costs more than that.
 */
#define SPINS 60

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/*
 * Counted as a sleeper: take the lock, or sleep until woken. False: it was woken, and is not
 * counted any more.
 */
static bool take_asleep(struct lock *l)
{
    while (!lock_try(l)) {
        if (syscall(SYS_futex, &l->state, FUTEX_WAIT_PRIVATE, LOCK_HELD, NULL, NULL, 0) == 0) {
            return false;
        }
    }
    atomic_fetch_sub_explicit(&l->sleepers, 1, memory_order_relaxed);
    return true;
}

void lock_wait(struct lock *l)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&l->state, memory_order_relaxed) == LOCK_FREE && lock_try(l)) {
            return;
        }
        pause_cpu();
    }
    do {
        atomic_fetch_add_explicit(&l->sleepers, 1, memory_order_relaxed);
        /*
         * A holder that does not see this sleeper has released the lock before the fence ended,
         * so it is not found held by that one.
         */
        rcu_fence_heavy();
    } while (!take_asleep(l));
}

/*
 * The thread that is woken is no longer counted: until it runs, which may be long, nobody wakes
 * again. One that is about to sleep is not woken, and stays counted.
 */
void lock_wake(struct lock *l)
{
    if (syscall(SYS_futex, &l->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 1) {
        atomic_fetch_sub_explicit(&l->sleepers, 1, memory_order_relaxed);
    }
}

#ifdef MAYFLY_DEBUG

/* The address of this variable names the thread. */
static _Thread_local char this_thread;

void lock_note_holder(struct lock *l, bool is_held)
{
    atomic_store_explicit(&l->holder, is_held ? &this_thread : NULL, memory_order_relaxed);
}

bool lock_is_held_here(const struct lock *l)
{
    return atomic_load_explicit(&l->holder, memory_order_relaxed) == &this_thread;
}

#endif
