/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lookups that change the item: they make it when it is absent, win its renewal, set its
 * deadline. The expected answers are memcached's.
 */

#include "lib/memory/blocks.h"
#include "lib/memory/tidy.h"
#include "tests/lib/fixture.h"

FIXTURE_OF_EACH_TEST(f)

static const size_t lens[] = {0, 5, 1900, 2020, 16343, 32768, 100000};
#define LENS (sizeof(lens) / sizeof(lens[0]))

static void check_outs(const struct fetch *get, bool is_won, bool was_won, bool is_stale)
{
    ck_assert_int_eq(get->is_won, is_won);
    ck_assert_int_eq(get->was_won, was_won);
    ck_assert_int_eq(get->is_stale, is_stale);
}

TEST(a_miss_tells_why)
{
    struct fetch get = {.recaches = true, .recache_before = MSEC_NEVER};

    ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_MISS);
    ck_assert_int_eq(get.found.miss, MISS_ABSENT);
    fixture_set_until(&f, "k", 10, fixture_now(&f) + 5);
    clock_advance(&f.engine.clock, 5);
    ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_MISS);
    ck_assert_int_eq(get.found.miss, MISS_EXPIRED);
    ck_assert(!fixture_has(&f, "k"));
}

TEST(an_absent_key_is_made_and_won)
{
    const msec_t now = fixture_now(&f);
    struct fetch get = {.vivifies = true, .vivify_deadline = now + 30};

    ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
    ck_assert(get.is_created);
    check_outs(&get, true, false, false);
    ck_assert_int_eq(get.deadline_before, MSEC_NEVER);
    struct got got = fixture_get(&f, "k");
    ck_assert_uint_eq(got.len, 0);
    ck_assert_uint_eq(got.flags, 0);
    ck_assert_int_eq(got.deadline, now + 30);
    ck_assert(got.is_won && !got.is_stale && !got.was_fetched);
    /* The next fetch does not win it, and its deadline for new items has no effect. */
    get.vivify_deadline = now + 500;
    ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
    ck_assert(!get.is_created);
    check_outs(&get, false, true, false);
    ck_assert_int_eq(get.deadline_before, now + 30);
    clock_advance(&f.engine.clock, 30);
    get.vivify_deadline = MSEC_NEVER;
    get.cas_new = 12345;
    ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
    ck_assert(get.is_created);
    ck_assert_uint_eq(fixture_get(&f, "k").cas, 12345);
    ck_assert_uint_eq(fixture_counter(&f, CTR_total_items), 2);
}

TEST(made_with_a_deadline_that_has_passed_it_is_seen_once)
{
    struct fetch get = {.vivifies = true};

    get.vivify_deadline = fixture_now(&f);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
        ck_assert(get.is_created);
        check_outs(&get, true, false, false);
        ck_assert(!fixture_has(&f, "k"));
        fixture_verify(&f);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
}

TEST_LOOP(a_deadline_that_is_near_can_be_won_once, LENS)
{
    const size_t len = lens[_i];
    struct fetch get = {.recaches = true};
    uint64_t cas;

    const msec_t now = fixture_now(&f);

    fixture_set(&f, "k", len);
    get.recache_before = now + 1000000;
    ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
    check_outs(&get, false, false, false); /* without a deadline, none is near */
    fixture_set_until(&f, "k", len, now + 50);
    cas = fixture_get(&f, "k").cas;
    get.recache_before = now + 50;
    ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
    check_outs(&get, false, false, false);
    get.recache_before = now + 51;
    ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
    check_outs(&get, true, false, false);
    ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
    check_outs(&get, false, true, false);
    ck_assert_uint_eq(fixture_get(&f, "k").cas, cas);
    fixture_check(&f, "k", len);
    /* A newly stored item has no marks. */
    fixture_set_until(&f, "k", len, now + 50);
    ck_assert(!fixture_get(&f, "k").is_won);
}

/* The order of the flags decides which deadline is compared. */
TEST_LOOP(touch_and_recache_keep_their_order, LENS)
{
    const size_t len = lens[_i];

    const msec_t now = fixture_now(&f);
    const struct {
        msec_t before, touch;
        bool touches_first, wins;
    } rows[] = {
        {now + 20, now + 100, true, false},    {now + 20, now + 100, false, true},
        {MSEC_NEVER, now + 10, true, true},    {MSEC_NEVER, now + 10, false, false},
        {now + 20, MSEC_NEVER, true, false},   {now + 20, MSEC_NEVER, false, true},
        {now + 100, now + 20, false, false},   {now + 100, now + 20, true, true},
        {MSEC_NEVER, MSEC_NEVER, true, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fetch get = {.recaches = true,
                            .recache_before = now + 30,
                            .touches = true,
                            .touch_deadline = rows[i].touch,
                            .touches_first = rows[i].touches_first};
        uint64_t cas;

        fixture_set_until(&f, "k", len, rows[i].before);
        cas = fixture_get(&f, "k").cas;
        ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
        check_outs(&get, rows[i].wins, false, false);
        ck_assert_int_eq(get.deadline_before, rows[i].before);
        ck_assert_int_eq(fixture_get(&f, "k").deadline, rows[i].touch);
        ck_assert_int_eq(fixture_get(&f, "k").is_won, rows[i].wins);
        ck_assert_uint_eq(fixture_get(&f, "k").cas, cas);
        fixture_check(&f, "k", len);
        fixture_verify(&f);
    }
}

TEST_LOOP(touched_to_a_deadline_that_has_passed_it_is_seen_once_more, LENS)
{
    struct fetch get = {.touches = true};

    fixture_set(&f, "k", lens[_i]);
    get.touch_deadline = fixture_now(&f);
    ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
    ck_assert(!fixture_has(&f, "k"));
    ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_MISS);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
}

static void mark(const char *key, bool is_won)
{
    struct erase stale = {.marks_stale = true};
    struct fetch get = {0};

    ck_assert_int_eq(fixture_erase(&f, key, &stale), OUT_DELETED);
    if (is_won) {
        ck_assert_int_eq(fixture_fetch(&f, key, &get), OUT_HIT);
    }
}

static void check_marks(const char *key, bool is_stale, bool is_won)
{
    struct got got = fixture_get(&f, key);

    ck_assert(got.is_hit);
    ck_assert_int_eq(got.is_stale, is_stale);
    ck_assert_int_eq(got.is_won, is_won);
}

TEST_LOOP(marks_survive_touch, LENS)
{
    const size_t len = lens[_i];

    const msec_t now = fixture_now(&f);

    fixture_set(&f, "stale", len);
    fixture_set(&f, "won", len);
    mark("stale", false);
    mark("won", true);
    /* The first touch makes room for a deadline, so the items move to other blocks. */
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(fixture_touch(&f, "stale", now + 1000 + i), OUT_TOUCHED);
        ck_assert_int_eq(fixture_touch(&f, "won", now + 1000 + i), OUT_TOUCHED);
        check_marks("stale", true, false);
        check_marks("won", true, true);
    }
    fixture_check(&f, "stale", len);
    fixture_check(&f, "won", len);
}

TEST(marks_survive_cleaning)
{
    char key[8];

    for (unsigned i = 0; i < 600; i++) {
        (void)snprintf(key, sizeof(key), "%u", i);
        fixture_set(&f, key, 1000);
        if (i % 3 != 0) {
            mark(key, i % 3 == 2);
        }
    }
    for (unsigned i = 0; i < 600; i++) {
        (void)snprintf(key, sizeof(key), "%u", i);
        if (i % 8 != 0) {
            ck_assert_int_eq(fixture_delete(&f, key), OUT_DELETED);
        }
    }
    fixture_grace(&f);
    shard_enter(f.shard);
    blocks_ripen(&f.shard->memory, 1 << 20);
    (void)tidy_slice(&f.shard->memory, 1 << 20, fixture_now(&f));
    shard_leave(f.shard);
    ck_assert_uint_gt(fixture_counter(&f, CTR_cursor_moved_bytes), 20000);
    for (unsigned i = 0; i < 600; i += 8) {
        (void)snprintf(key, sizeof(key), "%u", i);
        check_marks(key, i % 3 != 0, i % 3 == 2);
        fixture_check(&f, key, 1000);
    }
}

TEST(marks_survive_a_move_to_another_shard)
{
    char key[8];

    fixture_start_sized_threaded(&f, 2, 16 * MIB);
    for (unsigned i = 0; i < 60; i++) {
        (void)snprintf(key, sizeof(key), "%u", i);
        fixture_set(&f, key, lens[i % LENS]);
        if (i % 3 != 0) {
            mark(key, i % 3 == 2);
        }
    }
    for (uint16_t to = 0; to < 2; to++) {
        ck_assert_int_eq(engine_move_slots(&f.engine, 0, ROUTE_SLOTS, to), MF_OK);
        for (unsigned i = 0; i < 60; i++) {
            (void)snprintf(key, sizeof(key), "%u", i);
            ck_assert_uint_eq(fixture_get(&f, key).shard->id, to);
            check_marks(key, i % 3 != 0, i % 3 == 2);
            ck_assert_int_eq(fixture_get(&f, key).was_fetched, false);
            fixture_check(&f, key, lens[i % LENS]);
        }
    }
}
