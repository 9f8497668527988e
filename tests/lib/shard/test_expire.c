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

/* All time of all slices, in microseconds: a single one cannot have used more of the CPU. */
TEST(the_time_of_slices_is_counted)
{
    uint64_t all;

    fixture_start(&f, NULL);
    for (unsigned i = 0; i < 8000; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + 10);
    }
    clock_advance(&f.engine.clock, 10);
    ck_assert(!shard_expire_slice(f.shard, CYCLE_SLOW, &cfg) ||
              fixture_counter(&f, CTR_expired_active) > 0);
    all = fixture_counter(&f, CTR_expire_cycle_us);
    ck_assert_uint_ge(all * 2, fixture_counter(&f, CTR_expire_slice_longest_us));
    fixture_expire(&f);
    fixture_stop(&f);
}

/* Cycles are counted by their kind, once each, and slices one by one. */
TEST(cycles_are_counted_by_kind)
{
    const struct cycle_config short_slices = {.effort = 1, .hz = 1, .slice_us = 0};
    uint64_t slices = 0;

    fixture_start(&f, NULL);
    for (unsigned i = 0; i < 1000; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + 10 + i % 2 * 10);
    }
    clock_advance(&f.engine.clock, 10);
    do {
        slices++;
    } while (shard_expire_slice(f.shard, CYCLE_SLOW, &short_slices));
    ck_assert_uint_gt(slices, 1);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expire_slices), slices);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expire_cycles_slow), 1);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expire_cycles_fast), 0);
    clock_advance(&f.engine.clock, 10);
    (void)shard_expire_slice(f.shard, CYCLE_FAST, &cfg);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expire_cycles_slow), 1);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expire_cycles_fast), 1);
    fixture_expire(&f);
    fixture_stop(&f);
}

/* When the first have expired the home worker sleeps until the next. */
TEST(a_slice_leaves_the_next_deadline)
{
    fixture_start(&f, NULL);
    const msec_t now = fixture_now(&f);

    for (unsigned i = 0; i < 5; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, now + 10);
    }
    fixture_set_until(&f, "next", 10, now + 300);
    ck_assert_int_le(shard_next_due(f.shard), now + 10);
    clock_advance(&f.engine.clock, 10);
    fixture_expire(&f);
    ck_assert_int_gt(shard_next_due(f.shard), now + 10);
    ck_assert_int_le(shard_next_due(f.shard), now + 300);
    clock_advance(&f.engine.clock, 290);
    fixture_expire(&f);
    ck_assert_int_eq(shard_next_due(f.shard), MSEC_NEVER);
    fixture_stop(&f);
}

/* Another thread may have shown the wheel a later time: then nothing is late. */
TEST(what_is_early_is_not_late)
{
    fixture_start(&f, NULL);
    fixture_set_until(&f, "k", 10, fixture_now(&f) + 10);
    shard_enter(f.shard);
    ck_assert_uint_eq(wheel_debt(f.shard->wheel, fixture_now(&f) + 20), 1);
    shard_leave(f.shard);
    (void)shard_expire_slice(f.shard, CYCLE_SLOW, &cfg);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_active), 1);
    ck_assert_uint_eq(f.shard->lag.count, 1);
    ck_assert_uint_eq(f.shard->lag.max_ms, 0);
    fixture_stop(&f);
}

/* Turned off by its option, as by a test. */
TEST(the_sampler_can_be_turned_off)
{
    fixture_start(&f, NULL);
    fixture_set_until(&f, "k", 10, fixture_now(&f) + 10);
    clock_advance(&f.engine.clock, 10);
    atomic_store(&fixture_options.active_expire, false);
    ck_assert(!shard_expire_slice(f.shard, CYCLE_SLOW, &cfg));
    ck_assert(!shard_wants_fast(f.shard, &cfg, fixture_now(&f)));
    ck_assert_int_eq(shard_next_due(f.shard), MSEC_NEVER);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 1);
    atomic_store(&fixture_options.active_expire, true);
    ck_assert(shard_wants_fast(f.shard, &cfg, fixture_now(&f)));
    (void)shard_expire_slice(f.shard, CYCLE_FAST, &cfg);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
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
