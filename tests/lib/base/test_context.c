/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context: what a thread declared itself to be, as the checks of other functions see it. In
 * debug builds also: a lock knows which thread holds it.
 */
#include "lib/base/context.h"

#include <pthread.h>

#include "lib/base/lock.h"
#include "tests/common/unit.h"

static int worker_1, worker_2, shard_1, shard_2, shard_3;

TEST(a_thread_that_said_nothing_passes_for_any)
{
    ck_assert(context_is_thread(THREAD_MAIN));
    ck_assert(context_is_thread(THREAD_RECLAIMER));
    ck_assert(context_is_worker(&worker_1));
    ck_assert(context_is_home(&shard_1));
}

static bool is_home(const void *worker, const void *shard)
{
    return worker == &worker_1 && (shard == &shard_1 || shard == &shard_3);
}

static void *be_worker_1(void *arg)
{
    bool *is_right = arg;

    context_set_thread(THREAD_WORKER, &worker_1, is_home);
    *is_right = context_is_worker(&worker_1) && !context_is_worker(&worker_2) &&
                context_is_home(&shard_1) && !context_is_home(&shard_2) &&
                context_is_home(&shard_3) && context_is_thread(THREAD_WORKER) &&
                !context_is_thread(THREAD_MAIN);
    return NULL;
}

TEST(a_worker_is_itself_and_no_other)
{
    pthread_t thread;
    bool is_right = false;

    ck_assert_int_eq(pthread_create(&thread, NULL, be_worker_1, &is_right), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(is_right);
}

static void *be_some_worker(void *arg)
{
    bool *is_right = arg;

    context_set_thread(THREAD_WORKER, NULL, NULL);
    *is_right = context_is_worker(&worker_2) && context_is_home(&shard_2) &&
                !context_is_thread(THREAD_POOL);
    return NULL;
}

TEST(a_worker_without_a_name_passes_for_all)
{
    pthread_t thread;
    bool is_right = false;

    ck_assert_int_eq(pthread_create(&thread, NULL, be_some_worker, &is_right), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(is_right);
}

TEST(a_thread_may_stand_for_another_for_a_time)
{
    const struct thread_context before = context_get();

    context_set_thread(THREAD_WORKER, &worker_1, is_home);
    ck_assert(context_is_worker(&worker_1) && !context_is_thread(THREAD_MAIN));
    context_put(before);
    ck_assert(context_is_thread(THREAD_MAIN) && context_self() == NULL);
}

TEST(an_open_section_is_noticed)
{
    rcu_register();
    ck_assert(!rcu_is_reading());
    rcu_begin();
    ck_assert(rcu_is_reading());
    rcu_end();
    ck_assert(!rcu_is_reading());
    rcu_unregister();
}

#ifdef MAYFLY_DEBUG

struct held {
    struct lock lock;
    bool is_seen_here;
};

static void *look_from_elsewhere(void *arg)
{
    struct held *h = arg;

    h->is_seen_here = lock_is_held_here(&h->lock);
    return NULL;
}

TEST(a_lock_knows_its_holder)
{
    struct held h = {.is_seen_here = true};
    pthread_t thread;

    lock_init(&h.lock);
    ck_assert(!lock_is_held_here(&h.lock));
    lock_take(&h.lock);
    ck_assert(lock_is_held_here(&h.lock));
    ck_assert_int_eq(pthread_create(&thread, NULL, look_from_elsewhere, &h), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(!h.is_seen_here);
    lock_give(&h.lock);
    ck_assert(!lock_is_held_here(&h.lock));
}

#endif
