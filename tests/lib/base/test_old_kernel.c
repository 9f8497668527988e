/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kernel from before Linux 4.14: its membarrier knows only the command that takes
 * milliseconds, which is all that liburcu asks for. Locks and grace periods do without the
 * newer one.
 */
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include "lib/base/lock.h"
#include "lib/base/rcu.h"
#include "tests/common/unit.h"

#define THREADS 3
#define ROUNDS  2000

/* Calls of the library under test; liburcu's own are not replaced. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
    long arg[6];
    va_list ap;

    va_start(ap, number);
    for (int i = 0; i < 6; i++) {
        arg[i] = va_arg(ap, long);
    }
    va_end(ap);
    if (number != SYS_membarrier) {
        return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
    }
    if ((int)arg[0] == MEMBARRIER_CMD_QUERY) {
        return MEMBARRIER_CMD_GLOBAL;
    }
    errno = EINVAL;
    return -1;
}

static struct lock lock;
static uint64_t guarded; /* not atomic: [lock] */

static void *take_often(void *arg)
{
    rcu_register();
    for (unsigned i = 0; i < ROUNDS; i++) {
        lock_take(&lock);
        guarded++;
        if (i % 64 == 0) {
            (void)sched_yield(); /* long enough that the others go to sleep */
        }
        lock_give(&lock);
    }
    rcu_unregister();
    return arg;
}

TEST(sleepers_are_seen_and_woken)
{
    pthread_t thread[THREADS];

    ck_assert(!rcu_has_barriers);
    lock_init(&lock);
    lock_take(&lock);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&thread[i], NULL, take_often, NULL), 0);
    }
    WAIT_UNTIL(atomic_load(&lock.sleepers) == THREADS);
    lock_give(&lock);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    ck_assert_uint_eq(guarded, (uint64_t)THREADS * ROUNDS);
    ck_assert_uint_eq(atomic_load(&lock.sleepers), 0);
}

static _Atomic bool may_end;
static _Atomic bool is_there;

static void *idle(void *arg)
{
    rcu_register();
    is_there = true;
    WAIT_UNTIL(may_end);
    rcu_unregister();
    return arg;
}

/* Only a period that waits can end, unless nobody else reads. */
TEST(no_period_ends_without_waiting_while_others_read)
{
    pthread_t other;

    rcu_register();
    ck_assert(rcu_try_wait());
    ck_assert_int_eq(pthread_create(&other, NULL, idle, NULL), 0);
    WAIT_UNTIL(is_there);
    ck_assert(!rcu_try_wait());
    rcu_wait();
    may_end = true;
    pthread_join(other, NULL);
    rcu_unregister();
}
