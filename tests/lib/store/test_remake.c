/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An item that fills the largest block, so that a deadline does not fit: given one, it becomes
 * a large value. Only shards of 128 MiB or more have such blocks.
 */

#include "tests/lib/fixture.h"

static struct fixture f;

/* With a key of one byte: the longest value with a deadline, and without one. */
#define WITH_DEADLINE 16351
#define WITHOUT       16359

static const size_t lens[] = {WITH_DEADLINE, WITH_DEADLINE + 1, WITHOUT - 4, WITHOUT};
#define LENS (sizeof(lens) / sizeof(lens[0]))

static void start(bool evictions)
{
    struct engine_config cfg;

    fixture_config(&cfg);
    cfg.limit_bytes = 128 * MIB;
    if (!evictions) {
        fixture_policy(CHOICE_NOEVICTION);
    }
    fixture_start(&f, &cfg);
    ck_assert(memory_fits(&f.shard->memory, ITEM_SIZE_MAX));
}

/* An item in a block without room for a deadline, fetched once. */
static struct got make(const char *key, size_t len)
{
    fixture_set(&f, key, len);
    ck_assert(!fixture_get(&f, key).is_large);
    (void)fixture_use(&f, key, 1);
    return fixture_get(&f, key);
}

/* It is unchanged except for its deadline and its place. */
static struct got check(const char *key, const struct got *old, msec_t deadline)
{
    struct got got = fixture_get(&f, key);

    fixture_check(&f, key, old->len);
    ck_assert_int_eq(got.deadline, deadline);
    ck_assert_int_eq(got.is_large, old->len > WITH_DEADLINE);
    ck_assert_uint_eq(got.flags, old->flags);
    ck_assert(got.was_fetched);
    fixture_verify(&f);
    return got;
}

TEST(the_largest_block_is_as_large_as_this_test_believes)
{
    start(true);
    fixture_set(&f, "k", WITHOUT);
    ck_assert(!fixture_get(&f, "k").is_large);
    fixture_set(&f, "k", WITHOUT + 1);
    ck_assert(fixture_get(&f, "k").is_large);
    fixture_set_until(&f, "k", WITH_DEADLINE, fixture_now(&f) + 10);
    ck_assert(!fixture_get(&f, "k").is_large);
    fixture_set_until(&f, "k", WITH_DEADLINE + 1, fixture_now(&f) + 10);
    ck_assert(fixture_get(&f, "k").is_large);
}

/* A client's cas that takes a wide header: what just fitted a block no longer does. */
TEST(a_large_cas_takes_room_as_well)
{
    struct erase d = {.marks_stale = true, .cas_new = ITEM_NARROW_CAS_MAX};
    struct got got;

    start(true);
    const msec_t until = fixture_now(&f) + 1000;

    fixture_set_until(&f, "k", WITH_DEADLINE, until);
    for (int i = 0; i < 2; i++, d.cas_new++) {
        ck_assert_int_eq(fixture_erase(&f, "k", &d), OUT_DELETED);
        fixture_check(&f, "k", WITH_DEADLINE);
        got = fixture_get(&f, "k");
        ck_assert_uint_eq(got.is_large, i);
        ck_assert_uint_eq(got.cas, d.cas_new);
        ck_assert_int_eq(got.deadline, until);
        ck_assert(got.is_stale);
        fixture_verify(&f);
    }
}

/* Upper bits of a deadline take a wide header, too. */
TEST(a_far_deadline_takes_room_as_well)
{
    static const msec_t far = DEADLINE_LOW + 1;

    start(true);
    const msec_t until = fixture_now(&f) + 1000;

    for (size_t len = WITH_DEADLINE - ITEM_WIDE_BYTES; len <= WITH_DEADLINE; len++) {
        const bool is_large = len > WITH_DEADLINE - ITEM_WIDE_BYTES;
        struct got old = make("k", len);

        ck_assert_int_eq(fixture_touch(&f, "k", until), OUT_TOUCHED);
        (void)check("k", &old, until);
        ck_assert_int_eq(fixture_touch(&f, "k", far), OUT_TOUCHED);
        fixture_check(&f, "k", len);
        ck_assert_uint_eq(fixture_get(&f, "k").is_large, is_large);
        ck_assert_int_eq(fixture_get(&f, "k").deadline, far);
        ck_assert_uint_eq(fixture_get(&f, "k").cas, old.cas);
        fixture_verify(&f);
        fixture_set_until(&f, "k", len, far);
        ck_assert_uint_eq(fixture_get(&f, "k").is_large, is_large);
        ck_assert_int_eq(fixture_get(&f, "k").deadline, far);
        ck_assert_int_eq(fixture_touch(&f, "k", until), OUT_TOUCHED);
        fixture_check(&f, "k", len);
        ck_assert_int_eq(fixture_get(&f, "k").deadline, until);
        fixture_verify(&f);
    }
}

TEST_LOOP(a_touch_leaves_value_flags_and_cas, LENS)
{
    start(true);
    const msec_t now = fixture_now(&f);
    struct put p = {.key = "k", .len = lens[_i], .flags = 3};
    char *value = mem_alloc(p.len);
    uint64_t cas;

    ck_assert_ptr_nonnull(value);
    fixture_fill(value, p.len, 1);
    p.ptr = value;
    ck_assert_int_eq(fixture_store(&f, &p, &cas), OUT_STORED);
    ck_assert(!fixture_get(&f, "k").is_large);
    ck_assert_int_eq(fixture_touch(&f, "k", now + 50), OUT_TOUCHED);
    struct got got = fixture_get(&f, "k");
    ck_assert_uint_eq(got.len, p.len);
    ck_assert_mem_eq(got.value, value, p.len);
    ck_assert_uint_eq(got.flags, 3);
    ck_assert_uint_eq(got.cas, cas);
    ck_assert_int_eq(got.deadline, now + 50);
    ck_assert(!got.was_fetched);
    mem_free(value);
}

/* An item that was remade is not counted as stored. */
TEST_LOOP(a_touch_counts_as_it_does_for_others, LENS)
{
    start(true);
    const msec_t now = fixture_now(&f);
    struct got old = make("k", lens[_i]);

    ck_assert_int_eq(fixture_touch(&f, "k", now + 50), OUT_TOUCHED);
    (void)check("k", &old, now + 50);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 1);
    ck_assert_uint_eq(fixture_counter(&f, CTR_total_items), 1);
}

TEST_LOOP(a_touched_item_dies_at_its_deadline, LENS)
{
    start(true);
    const msec_t now = fixture_now(&f);
    struct got old = make("k", lens[_i]);

    ck_assert_int_eq(fixture_touch(&f, "k", now + 50), OUT_TOUCHED);
    /* Now that it has the fields, its deadline changes in place, also to none. */
    ck_assert_int_eq(fixture_touch(&f, "k", MSEC_NEVER), OUT_TOUCHED);
    (void)check("k", &old, MSEC_NEVER);
    ck_assert_int_eq(fixture_touch(&f, "k", now + 60), OUT_TOUCHED);
    clock_advance(&f.engine.clock, 59);
    fixture_expire(&f);
    (void)check("k", &old, now + 60);
    clock_advance(&f.engine.clock, 1);
    fixture_expire(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
    fixture_settle(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_item_bytes), 0);
}

TEST_LOOP(a_fetch_that_touches_shows_the_value, LENS)
{
    start(true);
    const msec_t now = fixture_now(&f);
    struct fetch get = {.touches = true,
                        .touch_deadline = now + 50,
                        .touches_first = true,
                        .recaches = true,
                        .recache_before = now + 100};
    struct got old = make("k", lens[_i]);

    /* The new deadline is near: the request that sets it wins, and the item is marked so. */
    ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
    ck_assert(get.is_won && !get.was_won && !get.is_stale && !get.is_created);
    ck_assert_int_eq(get.deadline_before, MSEC_NEVER);
    struct got got = check("k", &old, now + 50);
    ck_assert(got.is_won);
    ck_assert_uint_eq(got.cas, old.cas);
    ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
    ck_assert(!get.is_won && get.was_won);
}

TEST_LOOP(a_stale_item_gets_a_deadline_and_keeps_its_marks, LENS)
{
    start(true);
    const msec_t now = fixture_now(&f);
    const struct erase stale = {.marks_stale = true};
    const struct erase stale_until = {
        .marks_stale = true, .touches = true, .deadline = now + 50};
    struct fetch win = {0};
    struct got old = make("a", lens[_i]);

    /* Marked and given a deadline at once. */
    ck_assert_int_eq(fixture_erase(&f, "a", &stale_until), OUT_DELETED);
    struct got got = check("a", &old, now + 50);
    ck_assert(got.is_stale && !got.is_won);
    ck_assert_uint_gt(got.cas, old.cas);
    /* Marked, won, then given a deadline by a touch. */
    old = make("b", lens[_i]);
    ck_assert_int_eq(fixture_erase(&f, "b", &stale), OUT_DELETED);
    ck_assert_int_eq(fixture_fetch(&f, "b", &win), OUT_HIT);
    ck_assert(win.is_won);
    ck_assert_int_eq(fixture_touch(&f, "b", now + 50), OUT_TOUCHED);
    got = check("b", &old, now + 50);
    ck_assert(got.is_stale && got.is_won);
}

/* Pieces need more room than the block had: an item that cannot be remade stays unchanged. */
TEST(without_room_the_item_stays_as_it_was)
{
    static const size_t fill[] = {1000000, 16000, 100};
    char key[16];
    unsigned n = 0;

    start(false);
    struct got old = make("k", WITHOUT);

    for (size_t i = 0; i < sizeof(fill) / sizeof(fill[0]); i++) {
        do {
            (void)snprintf(key, sizeof(key), "%u", n++);
        } while (fixture_try(&f, key, fill[i], MSEC_NEVER) == OUT_STORED);
    }
    ck_assert_int_eq(fixture_touch(&f, "k", fixture_now(&f) + 50), OUT_NO_MEMORY);
    fixture_check(&f, "k", WITHOUT);
    ck_assert_int_eq(fixture_get(&f, "k").deadline, MSEC_NEVER);
    ck_assert_uint_eq(fixture_get(&f, "k").cas, old.cas);
}
