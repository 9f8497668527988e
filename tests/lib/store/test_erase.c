/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * delete, and what a client may ask for instead: to make the item stale, so that its next
 * reader renews it, or to keep it without its value. With small, large and medium values.
 */

#include "lib/shard/value.h"
#include "tests/lib/fixture.h"

FIXTURE_OF_EACH_TEST(f)

/* 2020 bytes leave no room for a deadline in the largest block. */
static const size_t lens[] = {0, 5, 1900, 2020, 16343, 32768, 100000};
#define LENS (sizeof(lens) / sizeof(lens[0]))

static enum outcome erase(struct erase d)
{
    return fixture_erase(&f, "k", &d);
}

static void use(const char *key)
{
    ck_assert(fixture_use(&f, key, 1).is_hit);
}

TEST_LOOP(without_more_it_deletes, LENS)
{
    ck_assert_int_eq(erase((struct erase){0}), OUT_NOT_FOUND);
    fixture_set(&f, "k", lens[_i]);
    ck_assert_int_eq(erase((struct erase){0}), OUT_DELETED);
    ck_assert(!fixture_has(&f, "k"));
    ck_assert_int_eq(erase((struct erase){.marks_stale = true}), OUT_NOT_FOUND);
    ck_assert_int_eq(erase((struct erase){.drops_value = true}), OUT_NOT_FOUND);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
}

TEST(a_cas_is_compared_before_anything)
{
    struct erase d = {.compares_cas = true};
    uint64_t cas;

    ck_assert_int_eq(erase(d), OUT_NOT_FOUND);
    fixture_set(&f, "k", 10);
    cas = fixture_get(&f, "k").cas;
    for (int i = 0; i < 4; i++) {
        d.marks_stale = (i & 1) != 0;
        d.drops_value = (i & 2) != 0;
        d.cas_expected = 0;
        ck_assert_int_eq(erase(d), OUT_EXISTS);
        d.cas_expected = cas + 1;
        ck_assert_int_eq(erase(d), OUT_EXISTS);
    }
    fixture_check(&f, "k", 10);
    ck_assert_uint_eq(fixture_get(&f, "k").cas, cas);
    ck_assert(!fixture_get(&f, "k").is_stale);
    d.cas_expected = cas;
    ck_assert_int_eq(erase(d), OUT_DELETED);
}

/* With and without a deadline, before and after; the value and its use counts stay. */
TEST_LOOP(a_stale_item_stays_with_a_new_cas, LENS)
{
    const size_t len = lens[_i];

    const msec_t now = fixture_now(&f);

    for (int i = 0; i < 6; i++) {
        struct erase d = {.marks_stale = true, .touches = i >= 2};
        msec_t before = i & 1 ? now + 1000 : MSEC_NEVER;
        struct got got;

        d.deadline = i >= 4 ? MSEC_NEVER : now + 50;
        fixture_set_until(&f, "k", len, before);
        use("k");
        struct got old = fixture_get(&f, "k");
        ck_assert_int_eq(erase(d), OUT_DELETED);
        fixture_check(&f, "k", len);
        got = fixture_get(&f, "k");
        ck_assert_uint_gt(got.cas, old.cas);
        ck_assert(got.is_stale && !got.is_won && got.was_fetched);
        ck_assert_int_eq(got.deadline, d.touches ? d.deadline : before);
        fixture_verify(&f);
        d.cas_new = 7;
        ck_assert_int_eq(erase(d), OUT_DELETED);
        ck_assert_uint_eq(fixture_get(&f, "k").cas, 7);
        fixture_check(&f, "k", len);
        fixture_settle(&f);
    }
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 1);
}

TEST_LOOP(a_stale_item_can_be_won_again, LENS)
{
    struct fetch get = {0};

    fixture_set(&f, "k", lens[_i]);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(erase((struct erase){.marks_stale = true}), OUT_DELETED);
        ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
        ck_assert(get.is_won && get.is_stale && !get.was_won);
        ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
        ck_assert(!get.is_won && get.is_stale && get.was_won);
    }
    fixture_check(&f, "k", lens[_i]);
}

TEST_LOOP(an_empty_item_is_left, LENS)
{
    const size_t len = lens[_i];

    const msec_t now = fixture_now(&f);

    for (int i = 0; i < 8; i++) {
        struct erase d = {.drops_value = true,
                          .marks_stale = (i & 1) != 0,
                          .touches = (i & 2) != 0,
                          .cas_new = i & 4 ? 99 : 0,
                          .flags = (uint32_t)i,
                          .deadline = now + 50};
        struct put p = {.key = "k", .ptr = "flagged", .len = 7, .flags = 5};
        uint64_t cas;

        ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
        fixture_set_until(&f, "k", len, now + 1000);
        use("k");
        cas = fixture_get(&f, "k").cas;
        ck_assert_int_eq(erase(d), OUT_DELETED);
        struct got got = fixture_get(&f, "k");
        ck_assert(got.is_hit && !got.is_large && !got.was_fetched && !got.is_won);
        ck_assert_uint_eq(got.len, 0);
        ck_assert_uint_eq(got.flags, d.flags);
        ck_assert_int_eq(got.is_stale, d.marks_stale);
        ck_assert_int_eq(got.deadline, d.touches ? now + 50 : MSEC_NEVER);
        if (d.cas_new != 0) {
            ck_assert_uint_eq(got.cas, 99);
        } else if (d.marks_stale) {
            ck_assert_uint_gt(got.cas, cas);
        } else {
            ck_assert_uint_eq(got.cas, cas);
        }
        fixture_verify(&f);
    }
    fixture_settle(&f);
    ck_assert_uint_eq(f.shard->memory.arena.whole, 0);
}

TEST_LOOP(a_deadline_that_has_passed_deletes, LENS)
{
    const msec_t now = fixture_now(&f);

    for (int i = 2; i < 8; i++) {
        struct erase d = {.drops_value = (i & 2) != 0,
                          .marks_stale = (i & 4) != 0,
                          .touches = true,
                          .deadline = now - (i & 1)};

        fixture_set(&f, "k", lens[_i]);
        ck_assert_int_eq(erase(d), OUT_DELETED);
        ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0); /* before it is looked for */
        ck_assert(!fixture_has(&f, "k"));
    }
}

TEST_LOOP(a_stale_item_dies_at_its_deadline, LENS)
{
    const msec_t now = fixture_now(&f);
    struct erase d = {.marks_stale = true, .touches = true, .deadline = now + 10};

    fixture_set(&f, "k", lens[_i]);
    fixture_set(&f, "other", lens[_i]);
    ck_assert_int_eq(erase(d), OUT_DELETED);
    clock_advance(&f.engine.clock, 9);
    fixture_expire(&f);
    fixture_check(&f, "k", lens[_i]);
    clock_advance(&f.engine.clock, 1);
    fixture_expire(&f);
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 1);
    ck_assert(!fixture_has(&f, "k"));
    fixture_check(&f, "other", lens[_i]);
}

/*
 * A reader that holds the old block continues to read it; the mark is no longer visible after
 * it was removed.
 */
TEST_LOOP(readers_of_the_old_block_read_on, LENS)
{
    const size_t len = lens[_i];
    char *want = mem_alloc(len + 1);
    char *read = mem_alloc(len + 1);
    struct erase d = {.hash = 0, .key = span_str("k"), .marks_stale = true};

    d.hash = fixture_hash(&f, "k");
    fixture_set(&f, "k", len);
    rcu_begin();
    struct found found =
        engine_find(router_read(&f.engine.router), d.hash, "k", 1, fixture_now(&f));
    value_copy(found.shard, found.item, want);
    ck_assert_int_eq(engine_erase(&f.engine, &d, fixture_now(&f)), OUT_DELETED);
    ck_assert(!item_is_stale(found.item));
    value_copy(found.shard, found.item, read);
    ck_assert_mem_eq(read, want, len);
    found = engine_find(router_read(&f.engine.router), d.hash, "k", 1, fixture_now(&f));
    ck_assert(shape_is_winnable(item_shape(found.item)));
    engine_delete(&f.engine, d.hash, d.key, 0, fixture_now(&f));
    ck_assert(!item_is_stale(found.item) && !shape_is_winnable(item_shape(found.item)));
    value_copy(found.shard, found.item, read);
    ck_assert_mem_eq(read, want, len);
    rcu_end();
    mem_free(want);
    mem_free(read);
}
