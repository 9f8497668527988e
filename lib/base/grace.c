/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the reclaimer sleeps and is woken: a futex on the word that says how urgently a grace
 * period is needed.
 *
 * No wake-up is lost. The sleeper stores wakes_at, and then the kernel compares the need with
 * the value that the sleeper has read; the waker changes the need, and then reads wakes_at. At
 * least one of the two sees the other's store: all four steps are sequentially consistent, and
 * the kernel's comparison is a full barrier. A need below wakes_at changes the word without a
 * wake-up: then the sleeper has a timeout, and reads the need when it is over.
 */
#include "lib/base/grace.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/context.h"

#define US_PER_SEC 1000000LL
#define NS_PER_US  1000LL

void grace_complete(struct grace *g, uint32_t number)
{
    uint32_t had = atomic_load_explicit(&g->completed, memory_order_relaxed);

    while ((int32_t)(number - had) > 0 &&
           !atomic_compare_exchange_weak_explicit(&g->completed, &had, number,
                                                  memory_order_release, memory_order_relaxed)) {
    }
}

bool grace_try(struct grace *g)
{
    uint32_t number = grace_begin(g);

    /* If this fails, objects dated with this number wait for the end of a later period. */
    if (!rcu_try_wait()) {
        return false;
    }
    grace_complete(g, number);
    return true;
}

void grace_wake(struct grace *g, enum grace_need need)
{
    uint32_t had = atomic_load(&g->need);

    do {
        if (had >= (uint32_t)need) {
            return; /* the thread that raised it has also woken the reclaimer */
        }
    } while (!atomic_compare_exchange_weak(&g->need, &had, (uint32_t)need));

    uint32_t wakes_at = atomic_load(&g->wakes_at);
    if (wakes_at != GRACE_IDLE && (uint32_t)need >= wakes_at) {
        /* Cannot fail in a way that matters: there is one waiter at most, the word is valid. */
        (void)syscall(SYS_futex, &g->need, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
}

void grace_sleep(struct grace *g, enum grace_need wakes_at, int64_t timeout_us)
{
    struct timespec ts = {0};

    must_be_reclaimer();
    must_not_be_reading();
    atomic_store(&g->wakes_at, (uint32_t)wakes_at);
    uint32_t need = atomic_load(&g->need);
    if (need < (uint32_t)wakes_at) {
        if (timeout_us >= 0) {
            ts.tv_sec = (time_t)(timeout_us / US_PER_SEC);
            ts.tv_nsec = (long)(timeout_us % US_PER_SEC * NS_PER_US);
        }
        /* Woken, timed out, changed word, or a signal: in any case the caller checks again. */
        (void)syscall(SYS_futex, &g->need, FUTEX_WAIT_PRIVATE, need,
                      timeout_us >= 0 ? &ts : NULL, NULL, 0);
    }
    atomic_store_explicit(&g->wakes_at, GRACE_IDLE, memory_order_relaxed);
}
