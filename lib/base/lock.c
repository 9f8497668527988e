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

void lock_wait(struct lock *l)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&l->state, memory_order_relaxed) == LOCK_FREE && lock_try(l)) {
            return;
        }
        pause_cpu();
    }
    /* From here on the state says that threads may be waiting, even when this one gets it. */
    while (atomic_exchange_explicit(&l->state, LOCK_WAITED, memory_order_acquire) !=
           LOCK_FREE) {
        syscall(SYS_futex, &l->state, FUTEX_WAIT_PRIVATE, LOCK_WAITED, NULL, NULL, 0);
    }
    lock_note(l, true);
}

void lock_wake(struct lock *l)
{
    syscall(SYS_futex, &l->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
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
