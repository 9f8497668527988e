/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is counted of active expiry: the longest slice, and what the estimates say when no key
 * has a deadline any more.
 */
#include "lib/shard/expire.h"

#include <pthread.h>
#include <time.h>

#include "lib/shard/info.h"
#include "tests/common/unit.h"
#include "tests/lib/fixture.h"

static struct fixture f;

static const struct cycle_config cfg = {.effort = 10, .hz = 10, .slice_us = 1000000};

#define HELD_MS 300

static _Atomic bool is_held;

/* Another thread that is in the shard for long, as one that the system took the CPU from. */
static void *hold_shard(void *arg)
{
    const struct timespec pause = {0, HELD_MS * 1000000L};

    (void)arg;
    shard_enter(f.shard);
    atomic_store(&is_held, true);
    (void)nanosleep(&pause, NULL);
    shard_leave(f.shard);
    return NULL;
}

TEST(a_slice_that_waits_is_not_long)
{
    usec_t before;
    pthread_t thread;

    fixture_start(&f, NULL);
    fixture_set_until(&f, "k", 10, fixture_now(&f) + 10);
    clock_advance(&f.engine.clock, 10);
    atomic_store(&is_held, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, hold_shard, NULL), 0);
    while (!atomic_load(&is_held)) {
    }
    before = clock_mono_us();
    (void)shard_expire_slice(f.shard, CYCLE_SLOW, &cfg);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_active), 1);
    /* Unless this thread came so late that it did not wait. */
    if (clock_mono_us() - before > HELD_MS * 1000 / 2) {
        ck_assert_uint_lt(fixture_counter(&f, CTR_expire_slice_longest_us), HELD_MS * 1000 / 3);
    }
    fixture_stop(&f);
}

TEST(a_slice_that_works_is_counted)
{
    fixture_start(&f, NULL);
    for (unsigned i = 0; i < 5000; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + 10);
    }
    clock_advance(&f.engine.clock, 10);
    fixture_expire(&f);
    ck_assert_uint_gt(fixture_counter(&f, CTR_expire_slice_longest_us), 0);
    fixture_stop(&f);
}

static struct shard_info info_now(void)
{
    struct shard_info info;

    shard_info(f.shard, fixture_now(&f), &info);
    return info;
}

/* Many expire, so the estimate rises; it falls to 0 with the last of them, however it went. */
TEST_LOOP(nothing_is_stale_where_nothing_has_a_deadline, 3)
{
    fixture_start(&f, NULL);
    for (unsigned round = 0; round < 30; round++) {
        for (unsigned i = 0; i < 100; i++) {
            fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + 10);
        }
        fixture_set_until(&f, "late", 10, fixture_now(&f) + 100000);
        clock_advance(&f.engine.clock, 10);
        fixture_expire(&f);
    }
    ck_assert(info_now().stale_pct > 1);
    if (_i == 0) {
        ck_assert_int_eq(fixture_delete(&f, "late"), OUT_DELETED);
    } else if (_i == 1) {
        fixture_flush(&f, fixture_now(&f));
    } else {
        clock_advance(&f.engine.clock, 100000);
        fixture_expire(&f);
    }
    ck_assert_uint_eq(info_now().volatile_keys, 0);
    ck_assert(info_now().stale_pct == 0 && info_now().avg_ttl_ms == 0);
    if (_i == 2) {
        ck_assert(f.shard->cycle.stale_pct == 0); /* a new key does not bring it back */
    }
    fixture_stop(&f);
}
