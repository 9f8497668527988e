/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is counted of active expiry: the longest slice, the stale share, the average time to
 * live, how late it was; and when a home worker that sleeps is woken.
 */
#include "lib/shard/expire.h"

#include <pthread.h>
#include <time.h>

#include "lib/base/reclaim.h"
#include "lib/shard/info.h"
#include "tests/lib/fixture.h"

FIXTURE_OF_EACH_TEST(f)

static const struct cycle_config cfg = {.effort = 10, .hz = 10, .slice_us = 1000000};

#define HELD_MS 300

static _Atomic bool is_held;

/* Another thread that is in the shard for long, as one that the system took the CPU from. */
static void *hold_shard(void *arg)
{
    const struct timespec pause = {0, HELD_MS * 1000000L};

    shard_enter(f.shard);
    atomic_store(&is_held, true);
    (void)nanosleep(&pause, NULL);
    shard_leave(f.shard);
    return NULL;
}

TEST(a_slice_that_waits_is_not_long)
{
    pthread_t thread;

    fixture_set_until(&f, "k", 10, fixture_now(&f) + 10);
    clock_advance(&f.engine.clock, 10);
    atomic_store(&is_held, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, hold_shard, NULL), 0);
    while (!atomic_load(&is_held)) {
    }
    usec_t before = clock_mono_us();
    (void)shard_expire_slice(f.shard, CYCLE_SLOW, &cfg);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_active), 1);
    /* Unless this thread came so late that it did not wait. */
    if (clock_mono_us() - before > HELD_MS * 1000 / 2) {
        ck_assert_uint_lt(fixture_counter(&f, CTR_expire_slice_longest_us), HELD_MS * 1000 / 3);
    }
}

TEST_ALONE(a_slice_that_works_is_counted)
{
    for (unsigned i = 0; i < 5000; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + 10);
    }
    clock_advance(&f.engine.clock, 10);
    fixture_expire(&f);
    ck_assert_uint_gt(fixture_counter(&f, CTR_expire_slice_longest_us), 0);
}

/* All time of all slices, in microseconds: a single one cannot have used more of the CPU. */
TEST_ALONE(the_time_of_slices_is_counted)
{
    for (unsigned i = 0; i < 8000; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + 10);
    }
    clock_advance(&f.engine.clock, 10);
    ck_assert(!shard_expire_slice(f.shard, CYCLE_SLOW, &cfg) ||
              fixture_counter(&f, CTR_expired_active) > 0);
    uint64_t all = fixture_counter(&f, CTR_expire_cycle_us);
    ck_assert_uint_ge(all * 2, fixture_counter(&f, CTR_expire_slice_longest_us));
    fixture_expire(&f);
}

/* Cycles are counted by their kind, once each, and slices one by one. */
TEST_ALONE(cycles_are_counted_by_kind)
{
    const struct cycle_config short_slices = {.effort = 1, .hz = 1, .slice_us = 0};
    uint64_t slices = 0;

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
}

/* When the first have expired the home worker sleeps until the next. */
TEST_ALONE(a_slice_leaves_the_next_deadline)
{
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
}

/* All that a loop reads counts as checked: what is due, and what it only sorts by time. */
TEST_ALONE(what_is_sorted_counts_as_checked)
{
    for (unsigned i = 0; i < 20; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + 2000);
    }
    clock_advance(&f.engine.clock, 1900);
    (void)shard_expire_slice(f.shard, CYCLE_SLOW, &cfg);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expire_checked), 20);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_active), 0);
    clock_advance(&f.engine.clock, 100);
    fixture_expire(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expire_checked), 40);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_active), 20);
}

/* A cycle that ends by itself is not cut; one that uses up the share of the CPU is. */
TEST_ALONE(a_cycle_that_is_cut_is_counted)
{
    const struct cycle_config capped = {
        .effort = 1, .hz = 1, .slice_us = 1000000, .cpu_pct = 1};
    usec_t began;

    do {
        fixture_start(&f, NULL);
        for (unsigned i = 0; i < 401; i++) {
            fixture_set_until(&f, fixture_key("k", i), 10,
                              fixture_now(&f) + (i == 0 ? 10 : 20));
        }
        clock_advance(&f.engine.clock, 10);
        (void)shard_expire_slice(f.shard, CYCLE_SLOW, &cfg);
        ck_assert_uint_eq(fixture_counter(&f, CTR_expired_active), 1);
        ck_assert_uint_eq(fixture_counter(&f, CTR_expire_time_cap_reached), 0);
        clock_advance(&f.engine.clock, 10);
        cycle_init(&f.shard->cycle);
        began = clock_mono_us();
        cycle_spend(&f.shard->cycle, 9999, began); /* of 10000 */
        (void)shard_expire_slice(f.shard, CYCLE_SLOW, &capped);
        began = clock_mono_us() - began;
        if (began < 900000) { /* else the window of a second may have ended */
            ck_assert_uint_lt(fixture_counter(&f, CTR_expired_active), 401);
            ck_assert_uint_eq(fixture_counter(&f, CTR_expire_time_cap_reached), 1);
        }
        fixture_stop(&f);
    } while (began >= 900000);
}

/* Rounded up: a worker that wakes a moment too early would find that it may not begin. */
TEST_ALONE(the_wait_for_a_fast_cycle_is_rounded_up)
{
    ck_assert_uint_eq(shard_fast_in_ms(f.shard, &cfg), 0);
    /* It took half an hour: the next may begin an hour after it began. */
    f.shard->cycle.fast_started_us = clock_mono_us();
    f.shard->cycle.fast_took_us = (usec_t)1800 * 1000000;
    for (unsigned i = 0; i < 100; i++) {
        usec_t from = f.shard->cycle.fast_started_us + 2 * f.shard->cycle.fast_took_us;
        usec_t before = from - clock_mono_us();
        unsigned ms = shard_fast_in_ms(f.shard, &cfg);
        usec_t after = from - clock_mono_us();

        ck_assert_int_ge((int64_t)ms * 1000, after);
        ck_assert_int_lt((int64_t)ms * 1000, before + 1000);
    }
}

/* A block that died when its grace period began is a hole at the next loop after it. */
TEST_ALONE(a_loop_makes_holes_of_what_has_died)
{
    const struct blocks *b = &f.shard->memory.blocks;
    for (unsigned i = 0; i < 21; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + (i == 0 ? 20 : 10));
    }
    clock_advance(&f.engine.clock, 10);
    fixture_expire(&f);
    ck_assert_uint_gt(b->dead_bytes, 0);
    ck_assert_uint_eq(b->hole_bytes, 0);
    struct grace *g = reclaim_grace(f.engine.reclaimer);
    uint32_t number = grace_begin(g);
    rcu_wait();
    grace_complete(g, number);
    clock_advance(&f.engine.clock, 10);
    (void)shard_expire_slice(f.shard, CYCLE_SLOW, &cfg);
    ck_assert_uint_gt(b->hole_bytes, 0);
}

/* Another thread may have shown the wheel a later time: then nothing is late. */
TEST_ALONE(what_is_early_is_not_late)
{
    struct lag_sum sum = {0};

    fixture_set_until(&f, "k", 10, fixture_now(&f) + 10);
    shard_enter(f.shard);
    ck_assert_uint_eq(wheel_debt(f.shard->wheel, fixture_now(&f) + 20), 1);
    shard_leave(f.shard);
    (void)shard_expire_slice(f.shard, CYCLE_SLOW, &cfg);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_active), 1);
    shard_enter(f.shard);
    lag_collect(&f.shard->lag, LAG_1M, fixture_now(&f), &sum);
    shard_leave(f.shard);
    ck_assert_uint_eq(sum.count, 1);
    ck_assert_uint_eq(sum.max_ms, 0);
}

/* Turned off by its option, as by a test. */
TEST_ALONE(the_sampler_can_be_turned_off)
{
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
}

/* Then a flush that is to come is all that the home worker wakes for. */
TEST_ALONE(a_flush_is_awaited_without_the_sampler)
{
    msec_t at = fixture_now(&f) + 500;
    fixture_set_until(&f, "k", 10, fixture_now(&f) + 10);
    fixture_flush(&f, at);
    ck_assert_int_le(shard_next_due(f.shard), fixture_now(&f) + 10);
    shard_hold_sampler(f.shard, true);
    ck_assert_int_eq(shard_next_due(f.shard), at);
    ck_assert_int_eq(shard_sleep_until(f.shard), at);
}

static struct shard_info info_now(void)
{
    struct shard_info info;

    shard_info(f.shard, fixture_now(&f), &info);
    return info;
}

/* The share of keys that are due and still there, whatever cycles saw before. */
TEST_ALONE(the_stale_share_is_that_of_the_debt)
{
    for (unsigned i = 0; i < 1000; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10,
                          fixture_now(&f) + (i < 200 ? 10 : 99999));
    }
    struct shard_info info = info_now();
    ck_assert(shard_info_stale_pct(&info) == 0);
    clock_advance(&f.engine.clock, 10);
    info = info_now();
    ck_assert(shard_info_stale_pct(&info) == 20);
    fixture_expire(&f);
    info = info_now();
    ck_assert(shard_info_stale_pct(&info) == 0);
    fixture_flush(&f, fixture_now(&f));
    info = info_now();
    ck_assert(shard_info_stale_pct(&info) == 0 && shard_info_avg_ttl_ms(&info) == 0);
}

static void assert_average(uint64_t ttl)
{
    struct shard_info info = info_now();
    double avg = shard_info_avg_ttl_ms(&info);

    ck_assert_msg(avg >= (double)ttl * 0.999 && avg <= (double)ttl * 1.001,
                  "average TTL %f instead of %llu", avg, (unsigned long long)ttl);
}

/* However far: nothing has to be sampled for it, and what is due does not count. */
TEST_LOOP_ALONE(the_average_time_to_live_is_exact, 5)
{
    static const msec_t ttls[] = {50, 3000, 100000, 86400000, 3000000000};

    fixture_expire(&f); /* after a slow start the wheel is behind, and would estimate */
    for (unsigned i = 0; i < 10000; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + ttls[_i]);
    }
    assert_average((uint64_t)ttls[_i]);
    for (unsigned i = 0; i < 5000; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + 20);
        (void)fixture_touch(&f, fixture_key("k", 5000 + i), fixture_now(&f) + ttls[_i] + 1000);
    }
    clock_advance(&f.engine.clock, 20);
    assert_average((uint64_t)(ttls[_i] + 1000 - 20));
    fixture_expire(&f);
    assert_average((uint64_t)(ttls[_i] + 1000 - 20));
}

/* Together they are more than 64 bits hold. */
TEST_ALONE(the_average_of_many_shards_is_exact)
{
    const uint64_t ttl = UINT64_C(1) << 40; /* the most that one key counts */
    struct shard_info sum = {.alive_keys = 64 * (uint64_t)UINT32_MAX,
                             .ttl_sum_ms = (unsigned __int128)ttl * UINT32_MAX * 64};

    fixture_set_until(&f, "k", 10, fixture_now(&f) + ttl);
    shard_info_add(f.shard, fixture_now(&f), &sum);
    ck_assert_uint_eq(sum.alive_keys, 64 * (uint64_t)UINT32_MAX + 1);
    ck_assert(shard_info_avg_ttl_ms(&sum) == (double)ttl);
}

static uint64_t lag_max(enum lag_window window)
{
    return info_now().lag[window].max_ms;
}

static void expire_late(const char *key, msec_t ms)
{
    fixture_set_until(&f, key, 10, fixture_now(&f) + 10);
    clock_advance(&f.engine.clock, 10 + ms);
    fixture_expire(&f);
}

TEST_ALONE(the_lag_is_that_of_recent_minutes)
{
    expire_late("k", 300);
    ck_assert_uint_eq(lag_max(LAG_1M), 300);
    clock_advance(&f.engine.clock, 70000);
    ck_assert_uint_eq(lag_max(LAG_1M), 0);
    ck_assert_uint_eq(lag_max(LAG_10M), 300);
    clock_advance(&f.engine.clock, 660000);
    ck_assert_uint_eq(lag_max(LAG_10M), 0);
    expire_late("k", 7);
    ck_assert_uint_eq(lag_max(LAG_10M), 7);
    shard_reset_lag(f.shard);
    ck_assert_uint_eq(lag_max(LAG_1M), 0);
    ck_assert_uint_eq(lag_max(LAG_10M), 0);
}

/* Only what passes after the end of a hold, and after the search was turned on again. */
TEST_LOOP_ALONE(the_time_of_a_hold_is_no_lag, 4)
{
    fixture_set_until(&f, "k", 10, fixture_now(&f) + 10);
    if (_i < 2) {
        engine_hold_expired(&f.engine, fixture_now(&f) + 3000);
    } else if (_i == 2) {
        shard_hold_sampler(f.shard, true);
    } else {
        fixture_options.active_expire = false;
    }
    (void)shard_sleep_until(f.shard);
    clock_advance(&f.engine.clock, 3000);
    if (_i == 1) {
        engine_hold_expired(&f.engine, fixture_now(&f) + 100000);
        clock_advance(&f.engine.clock, 3000);
        engine_hold_expired(&f.engine, fixture_now(&f));
    }
    shard_hold_sampler(f.shard, false);
    fixture_options.active_expire = true;
    clock_advance(&f.engine.clock, _i < 2 ? 4 : 0);
    fixture_expire(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_active), 1);
    ck_assert_uint_eq(lag_max(LAG_1M), _i < 2 ? 4 : 0);
    expire_late("k", 6);
    ck_assert_uint_eq(lag_max(LAG_1M), 6);
}

/* ---- the home worker is woken ------------------------------------------------------------ */

static unsigned woken;

static void note_woken(void *arg, uint32_t shard)
{
    ck_assert(arg == &f && shard == 0);
    woken++;
}

static void assert_woken(const char *what, unsigned times)
{
    ck_assert_msg(woken == times, "%s: woken %u times", what, woken);
    woken = 0;
}

/* Once by each deadline that becomes the nearest, and by no other change. */
TEST_ALONE(a_nearer_deadline_wakes_the_home_worker)
{
    struct fetch get = {.vivifies = true};
    struct arith a = {.vivifies = true};
    struct erase mark = {.marks_stale = true, .touches = true};

    msec_t now = fixture_now(&f);
    fixture_set_until(&f, "a", 10, now + 9000);
    fixture_settle(&f);
    engine_wake_homes(&f.engine, note_woken, &f);
    fixture_set(&f, "far", 10);
    assert_woken("no deadline", 0);
    fixture_set_until(&f, "a", 10, now + 5000);
    assert_woken("a nearer one", 1);
    fixture_set_until(&f, "b", 10, now + 6000);
    fixture_set_until(&f, "a", 10, now + 5000);
    (void)fixture_delete(&f, "b");
    assert_woken("none that is nearer", 0);
    get.vivify_deadline = now + 400;
    (void)fixture_fetch(&f, "c", &get);
    assert_woken("a fetch that creates", 1);
    a.vivify_deadline = now + 300;
    (void)fixture_arith_as(&f, "d", &a);
    assert_woken("arithmetic that creates", 1);
    (void)fixture_touch(&f, "far", now + 200);
    assert_woken("a touch", 1);
    mark.deadline = now + 100;
    (void)fixture_erase(&f, "a", &mark);
    assert_woken("a mark", 1);
    fixture_flush(&f, now + 50);
    assert_woken("a flush that is to come", 1);
    engine_wake_homes(&f.engine, NULL, NULL);
    fixture_set_until(&f, "e", 10, now + 10);
    assert_woken("nobody is at home any more", 0);
}
