/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for a shard's lock: see lock.h.
 */
#include "lib/base/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * What is done under the lock takes a microsecond or less: look for about as long before
 * the kernel is asked, which costs more than that.
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
    /* From here on the state says that somebody may be waiting, also when we get it. */
    while (atomic_exchange_explicit(&l->state, LOCK_WAITED, memory_order_acquire) !=
           LOCK_FREE) {
        syscall(SYS_futex, &l->state, FUTEX_WAIT_PRIVATE, LOCK_WAITED, NULL, NULL, 0);
    }
}

void lock_wake(struct lock *l)
{
    syscall(SYS_futex, &l->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
