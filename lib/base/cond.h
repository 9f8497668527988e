/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Condition variables that time out by the monotonic clock, so that setting the wall clock
 * changes no timeout.
 */
#ifndef MAYFLY_LIB_BASE_COND_H
#define MAYFLY_LIB_BASE_COND_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define COND_NS_PER_MS  1000000
#define COND_NS_PER_SEC 1000000000
#define COND_MS_PER_SEC 1000

/* Make a condition variable whose pthread_cond_timedwait() takes the result of cond_after(). */
static inline void cond_init(pthread_cond_t *c)
{
    pthread_condattr_t by_monotonic;

    pthread_condattr_init(&by_monotonic);
    pthread_condattr_setclock(&by_monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(c, &by_monotonic);
    pthread_condattr_destroy(&by_monotonic);
}

/* The monotonic time `ms` milliseconds from now. Context: any thread. */
static inline struct timespec cond_after(int64_t ms)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += ms / COND_MS_PER_SEC;
    at.tv_nsec += ms % COND_MS_PER_SEC * COND_NS_PER_MS;
    if (at.tv_nsec >= COND_NS_PER_SEC) {
        at.tv_sec++;
        at.tv_nsec -= COND_NS_PER_SEC;
    }
    return at;
}

#endif
