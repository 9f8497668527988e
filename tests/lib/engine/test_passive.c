/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine that follows a primary: an item past its deadline is never found, and stays until
 * the primary has told a time after it; so does one that is held. What else is different
 * meanwhile, and what a promotion changes.
 */
#include "lib/engine/engine.h"

#include "lib/memory/tidy.h"
#include "lib/reshard/migrate.h"
#include "lib/shard/expire.h"
#include "lib/shard/flush.h"
#include "lib/shard/info.h"
#include "lib/shard/upkeep.h"
#include "tests/lib/engine/attached.h"

static const struct cycle_config cfg = {
    .effort = 10, .hz = 10, .slice_us = 1000000, .cpu_pct = 100};

/* In a block, in pieces, in segments. */
static const size_t lens[] = {10, 16343, 100000};

static void follow(msec_t due)
{
    engine_follow_due(&f.engine, due);
}

/* Mask what is due from now on: by a limit, or by a hold. */
static void mask(bool holds)
{
    if (holds) {
        engine_hold_expired(&f.engine, fixture_now(&f) + 600000);
    } else {
        follow(fixture_now(&f));
    }
}

static void pass(msec_t ms)
{
    clock_advance(&f.engine.clock, ms);
}

static uint64_t items(void)
{
    return fixture_counter(&f, CTR_curr_items);
}

static void sampler_works(void)
{
    if (shard_wants_fast(f.shard, &cfg, fixture_now(&f))) {
        (void)shard_expire_slice(f.shard, CYCLE_FAST, &cfg);
    }
    (void)shard_expire_slice(f.shard, CYCLE_SLOW, &cfg);
}

/* All that a home worker does by itself: both cycles, upkeep, tidying. */
static void home_works(void)
{
    sampler_works();
    (void)shard_maintain(f.shard, fixture_now(&f), 1000);
    (void)shard_tidy(f.shard, &cfg, fixture_now(&f));
}

static msec_t due_gone(void)
{
    shard_enter(f.shard);
    msec_t gone = shard_due_gone(f.shard, fixture_now(&f));
    shard_leave(f.shard);
    return gone;
}

static struct shard_info info_now(void)
{
    struct shard_info info;

    shard_info(f.shard, fixture_now(&f), &info);
    return info;
}

TEST_LOOP_ALONE(what_is_masked_stays_and_is_not_found, 6)
{
    const bool holds = _i / 3 != 0;
    struct fetch get = {.recaches = true, .recache_before = MSEC_NEVER};
    struct erase mark = {.marks_stale = true};
    struct put p = {.key = "k", .ptr = "1", .len = 1};
    uint64_t number;

    fixture_start(&f, NULL);
    msec_t due = fixture_now(&f) + 10;
    mask(holds);
    if (!holds) {
        follow(due - 1);
    }
    fixture_set_until(&f, "k", lens[_i % 3], due);
    uint64_t bytes = fixture_counter(&f, CTR_item_bytes);
    ck_assert(fixture_has(&f, "k"));
    pass(10);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert(!fixture_has(&f, "k"));
        ck_assert_int_eq(fixture_get(&f, "k").miss, MISS_EXPIRED);
        ck_assert_int_eq(fixture_delete(&f, "k"), OUT_NOT_FOUND);
        ck_assert_int_eq(fixture_erase(&f, "k", &mark), OUT_NOT_FOUND);
        ck_assert_int_eq(fixture_touch(&f, "k", MSEC_NEVER), OUT_NOT_FOUND);
        ck_assert_int_eq(fixture_arith(&f, "k", false, 1, &number), OUT_NOT_FOUND);
        ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_MISS);
        ck_assert_int_eq(get.found.miss, MISS_EXPIRED);
        p.mode = STORE_REPLACE;
        ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_NOT_STORED);
        p.mode = STORE_APPEND;
        ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_NOT_STORED);
        p.mode = STORE_CAS;
        ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_NOT_FOUND);
        if (holds) {
            /* Dead when it arrives, it takes no place. */
            struct put dead = {.key = "k", .ptr = "1", .len = 1, .deadline = fixture_now(&f)};
            ck_assert_int_eq(fixture_store(&f, &dead, NULL), OUT_STORED);
        }
        home_works();
        ck_assert_uint_eq(items(), 1);
        ck_assert_uint_eq(fixture_counter(&f, CTR_item_bytes), bytes);
        ck_assert_uint_eq(info_now().debt_keys, holds ? 1 : 0);
        ck_assert(holds ? due_gone() < due : due_gone() == due - 1);
        fixture_verify(&f);
        pass(100000); /* the primary is silent */
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_reclaimed), 0);
}

/* The first to meet it is the sampler, a reader, or a writer. */
TEST_LOOP_ALONE(what_the_limit_has_reached_goes_and_nothing_later, 3)
{
    uint64_t number;

    fixture_start(&f, NULL);
    msec_t due = fixture_now(&f) + 10;
    follow(DUE_NOTHING);
    fixture_set_until(&f, "first", 10, due);
    fixture_set_until(&f, "later", 10, due + 1);
    pass(1000);
    follow(due - 1);
    ck_assert(!fixture_has(&f, "first"));
    home_works();
    ck_assert_uint_eq(items(), 2);
    follow(due);
    if (_i == 0) {
        home_works();
    }
    for (unsigned i = 0; i < 2; i++) {
        const char *key = i == 0 ? "first" : "later";

        if (_i == 1) {
            ck_assert(!fixture_has(&f, key));
        } else if (_i == 2) {
            ck_assert_int_eq(fixture_arith(&f, key, false, 1, &number), OUT_NOT_FOUND);
        }
    }
    ck_assert_uint_eq(items(), 1);
    home_works();
    ck_assert_uint_eq(items(), 1);
    ck_assert_int_eq(due_gone(), due);
    follow(due + 1);
    home_works();
    ck_assert_uint_eq(items(), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_active), _i == 0 ? 2 : 1);
}

/* A time after the present is the present. */
TEST_ALONE(a_limit_that_has_not_come_lets_nothing_go_early)
{
    fixture_start(&f, NULL);
    msec_t due = fixture_now(&f) + 10;
    fixture_set_until(&f, "k", 10, due);
    follow(due + 5000);
    home_works();
    ck_assert(fixture_has(&f, "k"));
    ck_assert_int_eq(due_gone(), fixture_now(&f));
    pass(10);
    home_works();
    ck_assert_uint_eq(items(), 0);
}

TEST_ALONE(a_limit_does_not_go_back_unless_it_is_set_anew)
{
    fixture_start(&f, NULL);
    msec_t due = fixture_now(&f) + 10;
    pass(100);
    ck_assert(!engine_is_passive(&f.engine));
    ck_assert_int_eq(shard_due_now(f.shard, fixture_now(&f)), fixture_now(&f));
    follow(DUE_NOTHING);
    ck_assert(engine_is_passive(&f.engine));
    ck_assert_int_eq(shard_due_now(f.shard, fixture_now(&f)), DUE_NOTHING);
    follow(due + 20);
    follow(due);
    ck_assert_int_eq(shard_due_now(f.shard, fixture_now(&f)), due + 20);
    follow(DUE_NOTHING);
    ck_assert_int_eq(shard_due_now(f.shard, fixture_now(&f)), DUE_NOTHING);
    follow(due);
    ck_assert_int_eq(shard_due_now(f.shard, fixture_now(&f)), due);
    ck_assert(engine_is_passive(&f.engine));
    follow(MSEC_NEVER);
    ck_assert(!engine_is_passive(&f.engine));
    ck_assert_int_eq(shard_due_now(f.shard, fixture_now(&f)), fixture_now(&f));
}

TEST_ALONE(a_promotion_lets_all_go_that_is_due)
{
    enum { KEYS = 3000 };

    fixture_start(&f, NULL);
    follow(fixture_now(&f));
    for (unsigned i = 0; i < KEYS; i++) {
        /* Up to a minute: also such as were never in their place in time. */
        fixture_set_until(&f, fixture_key("k", i), 10, fixture_now(&f) + 1 + i * 20);
    }
    fixture_set_until(&f, "alive", 10, fixture_now(&f) + 90000);
    pass(80000);
    home_works();
    ck_assert_uint_eq(items(), KEYS + 1);
    follow(MSEC_NEVER);
    ck_assert_uint_eq(info_now().debt_keys, KEYS);
    ck_assert(shard_wants_fast(f.shard, &cfg, fixture_now(&f)));
    fixture_expire(&f);
    ck_assert_uint_eq(items(), 1);
    ck_assert(fixture_has(&f, "alive"));
    /* They could not go before. */
    ck_assert_uint_eq(info_now().lag[LAG_1M].max_ms, 0);
    ck_assert_int_eq(due_gone(), fixture_now(&f));
}

/* An engine that has expired by its own clock follows one whose clock is slower. */
TEST_ALONE(what_a_primary_has_shown_its_wheel_does_not_go_on_a_replica)
{
    fixture_start(&f, NULL);
    msec_t due = fixture_now(&f) + 10;
    fixture_set_until(&f, "a", 10, due);
    fixture_set_until(&f, "b", 10, due + 50);
    fixture_set_until(&f, "c", 10, due + 200);
    pass(100);
    (void)info_now(); /* shows the wheel the present */
    follow(DUE_NOTHING);
    home_works();
    ck_assert_uint_eq(items(), 3);
    ck_assert_int_lt(due_gone(), due);
    follow(due);
    home_works();
    ck_assert_uint_eq(items(), 3); /* until the limit comes to that time */
    ck_assert_uint_eq(info_now().debt_keys, 0);
    ck_assert_int_lt(due_gone(), due);
    ck_assert_int_eq(shard_next_due(f.shard), MSEC_NEVER);
    pass(200);
    follow(due + 90);
    home_works();
    ck_assert_uint_eq(items(), 1);
    ck_assert_int_eq(due_gone(), due + 90);
}

/* Old and new value: of each kind; with a deadline and without. */
TEST_LOOP_ALONE(a_store_replaces_what_is_masked, 72)
{
    static const enum store_mode modes[] = {STORE_SET, STORE_ADD};
    size_t len = lens[_i / 3 % 3];
    struct put p = {.mode = modes[_i / 9 % 2], .key = "k", .len = len};
    char *value = calloc(1, len);

    fixture_start(&f, NULL);
    mask(_i / 36 != 0);
    fixture_set_until(&f, "k", lens[_i % 3], fixture_now(&f) + 10);
    pass(10);
    p.ptr = value;
    p.deadline = _i / 18 % 2 != 0 ? fixture_now(&f) + 1000 : 0;
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
    ck_assert_uint_eq(fixture_get(&f, "k").len, len);
    ck_assert_uint_eq(items(), 1);
    mask(_i / 36 != 0);
    home_works();
    ck_assert_uint_eq(fixture_get(&f, "k").len, len);
    ck_assert_int_eq(fixture_delete(&f, "k"), OUT_DELETED);
    ck_assert_uint_eq(fixture_counter(&f, CTR_item_bytes), 0);
    free(value);
}

TEST_LOOP_ALONE(tidying_moves_what_is_masked, 2)
{
    unsigned kept = 0;
    unsigned calls = 0;

    fixture_start(&f, NULL);
    mask(_i != 0);
    for (unsigned i = 0; i < 8000; i++) {
        fixture_set_until(&f, fixture_key("k", i), 500, fixture_now(&f) + 1000);
    }
    for (unsigned i = 0; i < 8000; i++) {
        if (i % 10 != 0) {
            ck_assert_int_eq(fixture_delete(&f, fixture_key("k", i)), OUT_DELETED);
        } else {
            kept++;
        }
    }
    fixture_grace(&f);
    pass(1000);
    while (fixture_counter(&f, CTR_cursor_cleaned) < 50) {
        pass(TIDY_LOOK_MS);
        (void)shard_tidy(f.shard, &cfg, fixture_now(&f));
        fixture_grace(&f);
        ck_assert_uint_lt(++calls, 200);
    }
    ck_assert_uint_gt(fixture_counter(&f, CTR_cursor_moved_bytes), 0);
    ck_assert_uint_eq(items(), kept);
}

/* The primary still has it, and so do its replicas with other numbers of shards. */
TEST_ALONE(what_is_masked_goes_to_another_shard)
{
    enum { KEYS = 300 };
    struct engine_config engine;

    fixture_config(&engine);
    engine.shards = 2;
    fixture_start(&f, &engine);
    msec_t due = fixture_now(&f) + 10;
    follow(due - 1);
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set_until(&f, fixture_key("k", i), 10, due);
    }
    pass(1000);
    for (unsigned to = 0; to < 2; to++) {
        /* Half of them, beside which others stay in the same segments; and the rest. */
        ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS / 2, (uint16_t)to), MF_OK);
        ck_assert_uint_eq(items(), KEYS);
        ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS, (uint16_t)to), MF_OK);
        ck_assert_uint_eq(ctr_get(&f.engine.shards[to]->counters, CTR_curr_items), KEYS);
        ck_assert(!fixture_has(&f, fixture_key("k", 0)));
        fixture_verify(&f);
    }
    follow(due);
    ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS, 0), MF_OK);
    ck_assert_uint_eq(items(), 0);
}

/* The flush of a full synchronisation: the new wheel begins with the present. */
TEST_ALONE(what_comes_after_a_flush_is_masked_as_well)
{
    fixture_start(&f, NULL);
    follow(DUE_NOTHING);
    fixture_set(&f, "old", 10);
    fixture_flush(&f, fixture_now(&f));
    home_works();
    ck_assert_uint_eq(items(), 0);
    msec_t due = fixture_now(&f) + 10;
    fixture_set_until(&f, "k", 10, due);
    pass(1000);
    home_works();
    ck_assert_uint_eq(items(), 1);
    follow(due);
    home_works();
    ck_assert_uint_eq(items(), 0);
}

/* ---- the home worker --------------------------------------------------------------------- */

static unsigned wakes;

static void wake(void *arg, uint32_t shard)
{
    wakes++;
}

TEST_ALONE(a_home_worker_is_woken_when_something_may_go)
{
    fixture_start(&f, NULL);
    follow(DUE_NOTHING);
    engine_wake_homes(&f.engine, wake, NULL);
    msec_t due = fixture_now(&f) + 10;
    fixture_set_until(&f, "k", 10, due);
    /* It sleeps without an end, rather than turn in a circle once the clock has passed. */
    ck_assert_int_eq(shard_next_due(f.shard), MSEC_NEVER);
    pass(100);
    ck_assert_int_eq(shard_sleep_until(f.shard), MSEC_NEVER);
    ck_assert(!shard_wants_fast(f.shard, &cfg, fixture_now(&f)));
    wakes = 0;
    follow(due - 10);
    ck_assert_uint_eq(wakes, 0);
    follow(due);
    ck_assert_uint_eq(wakes, 1);
    ck_assert_int_le(shard_next_due(f.shard), due);
    ck_assert(shard_wants_fast(f.shard, &cfg, fixture_now(&f)));
    home_works();
    ck_assert_uint_eq(items(), 0);
    wakes = 0;
    follow(due + 50);
    ck_assert_uint_eq(wakes, 0);
    /* What is due later has to be slept for again after a promotion. */
    fixture_set_until(&f, "k", 10, fixture_now(&f) + 1000);
    ck_assert_int_eq(shard_next_due(f.shard), MSEC_NEVER);
    wakes = 0;
    follow(MSEC_NEVER);
    ck_assert_uint_eq(wakes, 1);
    ck_assert_int_le(shard_next_due(f.shard), fixture_now(&f) + 1000);
    engine_wake_homes(&f.engine, NULL, NULL);
}

/* The limit rises in steps, and what it reaches with one could not go before. */
TEST_ALONE(the_time_until_the_limit_is_no_lag)
{
    fixture_start(&f, NULL);
    follow(fixture_now(&f));
    fixture_set_until(&f, "k", 10, fixture_now(&f) + 10);
    pass(3600000);
    (void)shard_sleep_until(f.shard);
    struct shard_info info = info_now();
    ck_assert_uint_eq(info.debt_keys, 0);
    ck_assert_int_eq(info.debt_oldest_ms, 0);
    follow(fixture_now(&f) - 100);
    ck_assert_uint_eq(info_now().debt_keys, 1);
    pass(7);
    fixture_expire(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_active), 1);
    ck_assert_uint_eq(info_now().lag[LAG_1M].max_ms, 7);
}

TEST_ALONE(a_hold_stops_what_the_limit_allows)
{
    fixture_start(&f, NULL);
    msec_t due = fixture_now(&f) + 10;
    follow(DUE_NOTHING);
    fixture_set_until(&f, "k", 10, due);
    engine_hold_expired(&f.engine, due + 1000);
    pass(100);
    follow(due);
    home_works();
    ck_assert(!fixture_has(&f, "k"));
    ck_assert_uint_eq(items(), 1);
    ck_assert_int_eq(shard_next_due(f.shard), due + 1000);
    pass(1000);
    home_works();
    ck_assert_uint_eq(items(), 0);
}

/* ---- reads ------------------------------------------------------------------------------- */

TEST_ALONE(a_get_wins_nothing)
{
    struct erase mark = {.marks_stale = true};

    fixture_start(&f, NULL);
    fixture_set(&f, "k", 10);
    fixture_set_until(&f, "ending", 10, fixture_now(&f) + 1000);
    ck_assert_int_eq(fixture_erase(&f, "k", &mark), OUT_DELETED);
    follow(DUE_NOTHING);
    struct got before = fixture_get(&f, "k");
    for (unsigned i = 0; i < 2; i++) {
        struct fetch get = {0};

        ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
        ck_assert(get.is_stale && get.was_won && !get.is_won);
        ck_assert(fixture_get(&f, "k").is_stale && !fixture_get(&f, "k").is_won);
        ck_assert_uint_eq(fixture_get(&f, "k").cas, before.cas);
        get = (struct fetch){.recaches = true, .recache_before = MSEC_NEVER};
        ck_assert_int_eq(fixture_fetch(&f, "ending", &get), OUT_HIT);
        ck_assert(!get.is_stale && get.was_won && !get.is_won);
        ck_assert(!fixture_get(&f, "ending").is_won);
        /* One that nobody could win. */
        get.recache_before = 0;
        ck_assert_int_eq(fixture_fetch(&f, "ending", &get), OUT_HIT);
        ck_assert(!get.is_stale && !get.was_won && !get.is_won);
    }
    /* After a promotion the first client wins it. */
    follow(MSEC_NEVER);
    struct fetch get = {0};
    ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
    ck_assert(get.is_stale && !get.was_won && get.is_won);
    ck_assert(fixture_get(&f, "k").is_won);
}

/* ---- room -------------------------------------------------------------------------------- */

static unsigned fill_with_dying(size_t bytes, msec_t due)
{
    unsigned n = 0;

    while (fixture_counter(&f, CTR_item_bytes) < bytes) {
        fixture_set_until(&f, fixture_key("dying", n++), 500, due);
    }
    return n;
}

static void store_new(unsigned i)
{
    ck_assert_int_eq(fixture_try(&f, fixture_key("new", i), 500, MSEC_NEVER), OUT_STORED);
    if (i % 16 == 0) {
        fixture_grace(&f);
    }
    ck_assert_int_le(fixture_used(&f), (int64_t)(8 * MIB));
}

/*
 * Past their deadline, and after the limit: they go before anything alive is evicted. With one
 * deadline, and with some that have come only just now.
 */
TEST_LOOP_ALONE(where_room_is_short_what_is_masked_goes_first, 4)
{
    const msec_t late = _i / 2 == 0 ? 1000 : 300000;
    struct engine_config c;

    fixture_config(&c);
    if (_i % 2 != 0) {
        fixture_policy(CHOICE_NOEVICTION);
    }
    fixture_start(&f, &c);
    follow(fixture_now(&f));
    msec_t due = fixture_now(&f) + late;
    unsigned n = fill_with_dying(6 * MIB, due);
    fixture_set_until(&f, "soon", 500, due + 100);
    pass(late + 50);
    home_works();
    ck_assert_uint_eq(items(), n + 1);
    for (unsigned i = 0; fixture_counter(&f, CTR_expired_reclaim) < n / 2; i++) {
        store_new(i);
        ck_assert(fixture_has(&f, fixture_key("new", i)));
    }
    ck_assert(fixture_has(&f, "soon"));
    ck_assert_uint_eq(fixture_counter(&f, CTR_evictions), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_repl_evicted), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_reclaimed),
                      fixture_counter(&f, CTR_expired_reclaim));
    /* What is not needed for room is still there, and not for the sampler. */
    uint64_t left = items();
    sampler_works();
    ck_assert_uint_eq(items(), left);
    /* The sampler continues at a limit that is earlier than the clock was in the cursor. */
    follow(due);
    fixture_expire(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_reclaimed), n);
    ck_assert(fixture_has(&f, "soon"));
}

TEST_ALONE(evictions_are_counted_as_those_of_a_replica)
{
    fixture_start(&f, NULL);
    for (unsigned i = 0; fixture_counter(&f, CTR_evictions) < 100; i++) {
        store_new(i);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_repl_evicted), 0);
    uint64_t before = fixture_counter(&f, CTR_evictions);
    follow(DUE_NOTHING);
    for (unsigned i = 0; fixture_counter(&f, CTR_evictions) < before + 100; i++) {
        store_new(i);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_repl_evicted),
                      fixture_counter(&f, CTR_evictions) - before);
}

/* ---- cas values -------------------------------------------------------------------------- */

TEST_ALONE(values_are_drawn_above_what_was_applied)
{
    const uint64_t past = (uint64_t)1 << 57;
    uint64_t cas[3];
    uint64_t last = past;

    fixture_start_sized(&f, 2, FIXTURE_LIMIT);
    /* Both shards have a block of values. */
    for (unsigned i = 0; i < 40; i++) {
        fixture_set(&f, fixture_key("k", i), 10);
    }
    engine_raise_cas(&f.engine, past);
    for (unsigned i = 0; i < 40; i++) {
        struct put p = {.key = fixture_key("k", i), .ptr = "v", .len = 1};

        ck_assert_int_eq(fixture_store(&f, &p, &cas[0]), OUT_STORED);
        ck_assert_uint_gt(cas[0], past);
        last = cas[0] > last ? cas[0] : last;
    }
    /* It does not go back, and stays above what the clock says. */
    engine_raise_cas(&f.engine, 0);
    struct put p = {.key = "k", .ptr = "v", .len = 1};
    ck_assert_int_eq(fixture_store(&f, &p, &cas[1]), OUT_STORED);
    ck_assert_uint_gt(cas[1], last);
    fixture_stop(&f);
    fixture_start(&f, NULL);
    engine_raise_cas(&f.engine, 5);
    ck_assert_int_eq(fixture_store(&f, &p, &cas[2]), OUT_STORED);
    ck_assert_uint_gt(cas[2], engine_cas_past(clock_unix_ms(&f.engine.clock)));
}

/* ---- from the start ---------------------------------------------------------------------- */

/* A replica that restarts with its items in a file drops none before it has heard. */
TEST_LOOP(what_was_masked_is_attached, 6)
{
    const bool is_passive = _i / 3 == 0;

    make_file();
    start();
    msec_t due = fixture_now(&f) + 1000;
    follow(DUE_NOTHING);
    fixture_set_until(&f, "k", lens[_i % 3], due);
    fixture_set(&f, "alive", lens[_i % 3]);
    pass(2000);
    stop();
    starts_passive = is_passive;
    start_warm();
    starts_passive = false;
    pass(3000);
    ck_assert_int_eq(engine_is_passive(&f.engine), is_passive);
    ck_assert(!fixture_has(&f, "k"));
    fixture_check(&f, "alive", lens[_i % 3]);
    ck_assert_uint_eq(items(), is_passive ? 2 : 1);
    if (is_passive) {
        follow(fixture_now(&f));
        fixture_expire(&f);
        ck_assert_uint_eq(items(), 1);
    }
}
