/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock: one holder at a time, with and without sleepers, and the value of the word afterwards.
 */
#include "lib/base/lock.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "tests/common/unit.h"

#define THREADS 4

#ifdef __SANITIZE_THREAD__
#define ROUNDS 3000
#else
#define ROUNDS 30000
#endif

static struct lock lock;
static uint64_t guarded; /* not atomic, so that the thread sanitizer checks the lock as well */
static _Atomic int inside;

TEST(try_takes_it_once)
{
    lock_init(&lock);
    ck_assert(lock_try(&lock));
    ck_assert(!lock_try(&lock));
    lock_give(&lock);
    ck_assert_uint_eq(atomic_load(&lock.state), LOCK_FREE);
    lock_take(&lock);
    ck_assert(!lock_try(&lock));
    lock_give(&lock);
    ck_assert(lock_try(&lock));
    lock_give(&lock);
}

static void *hammer(void *arg)
{
    unsigned id = *(unsigned *)arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        if (i % 3 == 0 && lock_try(&lock)) {
            /* taken without waiting */
        } else {
            lock_take(&lock);
        }
        must(atomic_fetch_add(&inside, 1) == 0);
        guarded++;
        if ((i + id) % 512 == 0) {
            (void)sched_yield(); /* long enough that the others go to sleep */
        }
        must(atomic_fetch_sub(&inside, 1) == 1);
        lock_give(&lock);
    }
    return NULL;
}

TEST(one_at_a_time)
{
    pthread_t thread[THREADS];
    unsigned id[THREADS];

    lock_init(&lock);
    guarded = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        id[i] = i;
        ck_assert_int_eq(pthread_create(&thread[i], NULL, hammer, &id[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    ck_assert_uint_eq(guarded, (uint64_t)THREADS * ROUNDS);
    ck_assert_uint_eq(atomic_load(&lock.sleepers), 0);
    ck_assert_uint_eq(atomic_load(&lock.state), LOCK_FREE);
}

static void *take_once(void *arg)
{
    lock_take(&lock);
    guarded++;
    lock_give(&lock);
    return NULL;
}

/* Two threads that sleep for the lock, which is held. */
static void begin_sleepers(pthread_t thread[2])
{
    lock_init(&lock);
    guarded = 0;
    lock_take(&lock);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&thread[i], NULL, take_once, NULL), 0);
    }
    WAIT_UNTIL(atomic_load(&lock.sleepers) == 2);
}

/* Each give must wake the next. */
static void give_to_sleepers(const pthread_t thread[2])
{
    lock_give(&lock);
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    ck_assert_uint_eq(guarded, 2);
    ck_assert_uint_eq(atomic_load(&lock.sleepers), 0);
    ck_assert(lock_try(&lock));
    lock_give(&lock);
}

/* Both sleep before the lock is given. */
TEST(sleepers_are_woken)
{
    pthread_t thread[2];

    begin_sleepers(thread);
    give_to_sleepers(thread);
}

/* Held for longer than the first sleep: a thread in its second sleep is woken as well. */
TEST(long_sleepers_are_woken)
{
    struct timespec longer = {.tv_nsec = 30000000};
    pthread_t thread[2];

    begin_sleepers(thread);
    (void)nanosleep(&longer, NULL);
    ck_assert_uint_eq(atomic_load(&lock.sleepers), 2);
    give_to_sleepers(thread);
}
