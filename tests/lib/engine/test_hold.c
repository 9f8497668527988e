/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Holding expired items: when it ends, and what happens where there is no room left. That
 * nobody finds them meanwhile is in test_passive.c.
 */
#include "lib/engine/engine.h"

#include "lib/shard/expire.h"
#include "lib/shard/info.h"
#include "tests/lib/fixture.h"

#define HOLD_MS 60000

static struct fixture f;

static void hold(void)
{
    engine_hold_expired(&f.engine, fixture_now(&f) + HOLD_MS);
}

static void assert_sampler_rests(void)
{
    static const struct cycle_config cfg = {.effort = 10, .hz = 10, .slice_us = 1000000};

    ck_assert(!shard_wants_fast(f.shard, &cfg, fixture_now(&f)));
    ck_assert(!shard_expire_slice(f.shard, CYCLE_SLOW, &cfg));
}

/* Nothing is dropped for its deadline, and this number of items exists. */
static void assert_kept(uint64_t items)
{
    assert_sampler_rests();
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), items);
    ck_assert_uint_eq(fixture_counter(&f, CTR_reclaimed), 0);
    fixture_verify(&f);
}

static void end_hold(void)
{
    clock_advance(&f.engine.clock, HOLD_MS);
    fixture_expire(&f);
}

TEST_ALONE(counters_are_made_in_its_place)
{
    struct fetch get = {.vivifies = true, .vivify_deadline = MSEC_NEVER};

    fixture_start(&f, NULL);
    hold();
    fixture_set_until(&f, "k", 10, fixture_now(&f) + 10);
    clock_advance(&f.engine.clock, 10);
    ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
    ck_assert(get.is_created);
    assert_kept(1);
}

TEST_ALONE(the_end_comes_by_itself)
{
    fixture_start(&f, NULL);
    const msec_t now = fixture_now(&f);

    ck_assert_int_eq(engine_hold_left(&f.engine, now), 0);
    hold();
    ck_assert_int_eq(engine_hold_left(&f.engine, now), HOLD_MS);
    fixture_set_until(&f, "k", 10, now + 10);
    fixture_set_until(&f, "late", 10, now + HOLD_MS + 500);
    /* A home worker sleeps until the end of the hold. */
    ck_assert_int_eq(shard_next_due(f.shard), now + HOLD_MS);
    clock_advance(&f.engine.clock, HOLD_MS - 1);
    assert_kept(2);
    ck_assert_int_eq(engine_hold_left(&f.engine, fixture_now(&f)), 1);
    clock_advance(&f.engine.clock, 1);
    ck_assert_int_eq(engine_hold_left(&f.engine, fixture_now(&f)), 0);
    fixture_expire(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 1);
    ck_assert_int_eq(fixture_get(&f, "late").deadline, now + HOLD_MS + 500);
    clock_advance(&f.engine.clock, 100);
    ck_assert_int_eq(engine_hold_left(&f.engine, fixture_now(&f)), 0);
    /* It can also be ended before. */
    hold();
    clock_advance(&f.engine.clock, 400);
    assert_sampler_rests();
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 1);
    engine_hold_expired(&f.engine, 0);
    ck_assert(!fixture_has(&f, "late"));
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_lazy), 1);
}

/* A slot on its way: what is kept in one shard must not meet a new item in the other. */
TEST_ALONE(what_expires_while_its_slot_moves_is_not_held)
{
    enum { KEYS = 200 };
    fixture_start_sized(&f, 2, FIXTURE_LIMIT);
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + 10);
    }
    fixture_begin_move(&f);
    hold();
    clock_advance(&f.engine.clock, 10);
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set(&f, fixture_key("k", i), 20);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), KEYS);
    end_hold();
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_check(&f, fixture_key("k", i), 20);
    }
}

/* On a primary that holds expired items, and on a replica, which expires none by itself. */
TEST_LOOP(what_is_held_moves_with_its_slot, 2)
{
    static const size_t lens[] = {10, 16343, 100000, 1000000}; /* the last: whole segments */
    const bool is_replica = _i == 1;
    fixture_start_sized_threaded(&f, 2, 64 * MIB);
    ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS, 0), MF_OK);
    if (is_replica) {
        engine_follow_due(&f.engine, DUE_NOTHING);
    } else {
        hold();
    }
    for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        fixture_set_until(&f, fixture_key("k", i), lens[i], fixture_now(&f) + 10);
    }
    clock_advance(&f.engine.clock, 10);
    ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS, 1), MF_OK);
    ck_assert_uint_eq(ctr_get(shard_counters(f.engine.shards[1]), CTR_curr_items), 4);
    ck_assert_uint_eq(fixture_counter(&f, CTR_reclaimed), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 4);
    for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        ck_assert(!fixture_has(&f, fixture_key("k", i)));
    }
    engine_follow_due(&f.engine, MSEC_NEVER);
    end_hold();
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_active), 4);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
}

/* Memory comes first: no store fails, and nothing alive is evicted, for what is held. */
TEST_LOOP_ALONE(where_room_is_short_it_goes_first, 2)
{
    const bool evictions = _i == 0;
    struct engine_config cfg;
    struct shard_info info;
    unsigned n = 0;

    fixture_config(&cfg);
    if (!evictions) {
        fixture_policy(CHOICE_NOEVICTION);
    }
    fixture_start(&f, &cfg);
    hold();
    for (uint64_t bytes = 0; bytes < 6 * MIB; bytes = fixture_counter(&f, CTR_item_bytes)) {
        fixture_set_until(&f, fixture_key("dying", n++), 500, fixture_now(&f) + 1000);
    }
    clock_advance(&f.engine.clock, 1000);
    assert_kept(n);
    for (unsigned i = 0; fixture_counter(&f, CTR_expired_reclaim) < n / 2; i++) {
        ck_assert_int_eq(fixture_try(&f, fixture_key("new", i), 500, MSEC_NEVER), OUT_STORED);
        if (i % 16 == 0) {
            fixture_grace(&f);
        }
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    /* What is not needed for room is still there. */
    shard_info(f.shard, fixture_now(&f), &info);
    ck_assert_uint_gt(info.debt_keys, 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_reclaimed),
                      fixture_counter(&f, CTR_expired_reclaim));
}
