/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * New deadlines under conditions: which items get them, and that the others stay as they are.
 */
#include "lib/store/touch.h"

#include "lib/memory/cursor.h"
#include "tests/lib/fixture.h"

FIXTURE_OF_EACH_TEST(f)

static enum miss miss; /* why the last change did not find it */

/* A change of k's deadline, whose conditions are the letters in `only`: n x g l. */
static enum outcome change(msec_t deadline, const char *only)
{
    struct deadline_change c = {
        .deadline = deadline,
        .if_endless = strchr(only, 'n') != NULL,
        .if_volatile = strchr(only, 'x') != NULL,
        .if_later = strchr(only, 'g') != NULL,
        .if_earlier = strchr(only, 'l') != NULL,
    };
    struct found found;

    rcu_begin();
    enum outcome out = engine_touch_if(&f.engine, fixture_hash(&f, "k"), span_str("k"), &c,
                                       fixture_now(&f), &found);
    ck_assert((found.item != NULL) == (out == OUT_TOUCHED || out == OUT_NOT_STORED));
    rcu_end();
    miss = found.miss;
    return out;
}

TEST_LOOP(conditions_compare_with_the_deadline_there_is, 3)
{
    static const size_t lens[] = {5, 16343, 100000};

    const msec_t now = fixture_now(&f);

    ck_assert_int_eq(change(now + 10, ""), OUT_NOT_FOUND);
    ck_assert_int_eq(change(now + 10, "n"), OUT_NOT_FOUND);
    fixture_set(&f, "k", lens[_i]);
    /* No deadline is later than all. */
    ck_assert_int_eq(change(now + 10, "x"), OUT_NOT_STORED);
    ck_assert_int_eq(change(now + 10, "g"), OUT_NOT_STORED);
    ck_assert_int_eq(change(MSEC_NEVER, "x"), OUT_NOT_STORED);
    ck_assert_int_eq(fixture_get(&f, "k").deadline, MSEC_NEVER);
    ck_assert_int_eq(change(now + 100, "l"), OUT_TOUCHED);
    ck_assert_int_eq(fixture_get(&f, "k").deadline, now + 100);
    ck_assert_int_eq(change(now + 200, "n"), OUT_NOT_STORED);
    ck_assert_int_eq(change(now + 100, "g"), OUT_NOT_STORED);
    ck_assert_int_eq(change(now + 100, "l"), OUT_NOT_STORED);
    ck_assert_int_eq(change(now + 99, "xg"), OUT_NOT_STORED);
    ck_assert_int_eq(fixture_get(&f, "k").deadline, now + 100);
    ck_assert_int_eq(change(now + 101, "xg"), OUT_TOUCHED);
    ck_assert_int_eq(change(now + 90, "xl"), OUT_TOUCHED);
    ck_assert_int_eq(fixture_get(&f, "k").deadline, now + 90);
    ck_assert_int_eq(change(MSEC_NEVER, "x"), OUT_TOUCHED);
    ck_assert_int_eq(fixture_get(&f, "k").deadline, MSEC_NEVER);
    ck_assert_int_eq(change(now + 7, "n"), OUT_TOUCHED);
    fixture_check(&f, "k", lens[_i]);
}

TEST(a_deadline_that_has_passed_deletes_if_the_conditions_hold)
{
    const msec_t now = fixture_now(&f);

    fixture_set_until(&f, "k", 5, now + 10);
    ck_assert_int_eq(change(now, "g"), OUT_NOT_STORED);
    ck_assert_int_eq(change(now, "n"), OUT_NOT_STORED);
    ck_assert(fixture_has(&f, "k"));
    ck_assert_int_eq(change(now, "l"), OUT_TOUCHED);
    ck_assert(!fixture_has(&f, "k"));
    ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_lazy), 0);
}

/* An item gets a new block with room for a deadline: how it was used goes on. */
TEST_LOOP(the_first_deadline_keeps_how_an_item_was_used, 3)
{
    static const size_t lens[] = {5, 16343, 100000};

    fixture_set(&f, "k", lens[_i]);
    (void)fixture_use(&f, "k", 2);
    struct got was = fixture_get(&f, "k");
    const uint8_t heat = atomic_load(&was.item->heat);
    const uint32_t access_s = item_used(was.item);

    clock_advance(&f.engine.clock, 5000);
    ck_assert_int_eq(change(fixture_now(&f) + 1000, ""), OUT_TOUCHED);
    struct got is = fixture_get(&f, "k");
    ck_assert(is.item != was.item);
    ck_assert_uint_eq(atomic_load(&is.item->heat), heat);
    ck_assert_uint_eq(item_used(is.item), access_s);
    ck_assert_uint_eq(is.cas, was.cas);
}

TEST(an_expired_item_is_not_there)
{
    const msec_t now = fixture_now(&f);

    fixture_set_until(&f, "k", 5, now + 10);
    clock_advance(&f.engine.clock, 10);
    ck_assert_int_eq(change(now + 100, "g"), OUT_NOT_FOUND);
    ck_assert_int_eq(miss, MISS_EXPIRED);
    ck_assert_uint_eq(fixture_counter(&f, CTR_expired_lazy), 1);
    ck_assert_int_eq(change(now + 100, "g"), OUT_NOT_FOUND);
    ck_assert_int_eq(miss, MISS_ABSENT);
}

/* A policy keeps items with a deadline apart: the segments of a value count where it is. */
TEST(a_large_value_that_gets_a_deadline_counts_in_its_new_chain)
{
    fixture_policy(CHOICE_VOLATILE_LRU);
    fixture_set(&f, "k", 300000);
    ck_assert_int_eq(fixture_get(&f, "k").chain, CHAIN_MAIN);
    ck_assert_int_eq(fixture_touch(&f, "k", fixture_now(&f) + 1000), OUT_TOUCHED);
    ck_assert_int_eq(fixture_get(&f, "k").chain, CHAIN_SMALL);
    fixture_check(&f, "k", 300000);
    fixture_verify(&f);
    ck_assert_int_eq(fixture_delete(&f, "k"), OUT_DELETED);
}

/* The last item without a deadline in the segment that is cleaned next; false: none. */
static bool next_to_move(char key[ITEM_KEY_MAX + 1])
{
    struct memory *m = &f.shard->memory;
    bool is_found = false;

    shard_enter(f.shard);
    segment_t n = m->cursor.segment != 0 ? m->cursor.segment : cursor_emptiest(m);
    for (uint32_t at = n == m->cursor.segment ? m->cursor.offset : 0;
         n != 0 && at < m->arena.segments[n].fill;) {
        const struct item *it = memory_item(m, segment_handle(&m->arena, n) + at / ITEM_UNIT);

        if (item_is_live(it) && it->key_len != 0 && !item_has_ttl(it)) {
            snprintf(key, ITEM_KEY_MAX + 1, "%.*s", it->key_len, item_key(it));
            is_found = true;
        }
        at += item_bytes(it);
    }
    shard_leave(f.shard);
    return is_found;
}

/* Where nothing is evicted, a touch makes room by cleaning, and may move the very item. */
TEST(a_touch_that_moves_the_item_keeps_its_marks)
{
    static const struct erase stale = {.marks_stale = true};
    char key[ITEM_KEY_MAX + 1];
    unsigned touched = 0;

    fixture_start(&f, NULL);
    fixture_policy(CHOICE_NOEVICTION);
    for (unsigned i = 0; fixture_try(&f, fixture_key("k", i), 700, MSEC_NEVER) == OUT_STORED;
         i++) {
        (void)fixture_erase(&f, fixture_key("k", i), &stale);
        if (next_to_move(key) && fixture_get(&f, key).is_stale) {
            (void)fixture_touch(&f, key, fixture_now(&f) + 1000);
            ck_assert(fixture_get(&f, key).is_stale);
            touched++;
        }
    }
    ck_assert_uint_gt(touched, 100);
    fixture_verify(&f);
}

/* Deadlines around those for which a wide header is needed, and beyond what it has room for. */
TEST_LOOP(a_far_deadline_is_kept_to_the_millisecond, 3)
{
    static const msec_t years = INT64_C(365) * 24 * 60 * 60 * 1000;
    static const size_t lens[] = {5, 16343, 100000};
    const msec_t deadlines[] = {
        5000, DEADLINE_LOW - 1, DEADLINE_LOW + 1, 80 * years + 123, 3 * (DEADLINE_LOW + 1) - 2,
        6000, DEADLINE_MAX};

    for (size_t i = 0; i < sizeof(deadlines) / sizeof(deadlines[0]); i++) {
        fixture_set_until(&f, "set", lens[_i], deadlines[i]);
        ck_assert_int_eq(fixture_get(&f, "set").deadline, deadlines[i]);
        fixture_set(&f, "k", lens[_i]);
        for (size_t k = 0; k < sizeof(deadlines) / sizeof(deadlines[0]); k++) {
            ck_assert_int_eq(change(deadlines[i], ""), OUT_TOUCHED);
            ck_assert_int_eq(fixture_get(&f, "k").deadline, deadlines[i]);
            ck_assert_int_eq(change(deadlines[k], ""), OUT_TOUCHED);
            ck_assert_int_eq(fixture_get(&f, "k").deadline, deadlines[k]);
            ck_assert_int_eq(change(MSEC_NEVER, ""), OUT_TOUCHED);
            ck_assert_int_eq(fixture_get(&f, "k").deadline, MSEC_NEVER);
        }
        fixture_check(&f, "k", lens[_i]);
        fixture_verify(&f);
    }
    /* Not there: this one is a millisecond later, and those that are too far come earlier. */
    ck_assert_int_eq(change(DEADLINE_LOW, ""), OUT_TOUCHED);
    ck_assert_int_eq(fixture_get(&f, "k").deadline, DEADLINE_LOW + 1);
    ck_assert_int_eq(change(MSEC_NEVER - 1, ""), OUT_TOUCHED);
    ck_assert_int_eq(fixture_get(&f, "k").deadline, DEADLINE_MAX);
}

TEST(a_far_deadline_comes_and_one_that_was_taken_away_does_not)
{
    clock_freeze(&f.engine.clock);
    fixture_set_until(&f, "far", 5, 2 * DEADLINE_LOW + 5000);
    fixture_set_until(&f, "near", 5, DEADLINE_LOW - 1);
    fixture_set_until(&f, "k", 5, 5000);
    ck_assert_int_eq(change(MSEC_NEVER, ""), OUT_TOUCHED);
    clock_advance(&f.engine.clock, DEADLINE_LOW - 2 - fixture_now(&f));
    fixture_check(&f, "near", 5);
    clock_advance(&f.engine.clock, 1);
    ck_assert(!fixture_has(&f, "near"));
    clock_advance(&f.engine.clock, 2 * DEADLINE_LOW + 4999 - fixture_now(&f));
    fixture_check(&f, "far", 5);
    fixture_check(&f, "k", 5);
    clock_advance(&f.engine.clock, 1);
    ck_assert(!fixture_has(&f, "far"));
    fixture_check(&f, "k", 5);
}

/* As a replica stores what its primary has: also what is past its deadline, by any clock. */
TEST(a_deadline_before_the_clock_began_is_one_that_has_come)
{
    static const msec_t deadlines[] = {0, -1, -(DEADLINE_LOW + 1), INT64_MIN};
    static const size_t lens[] = {5, 100000};

    for (unsigned i = 0; i < 8; i++) {
        char *value = mem_zalloc(lens[i % 2]);
        struct store st = {.hash = fixture_hash(&f, "k"),
                           .key = span_str("k"),
                           .value = span_of(value, lens[i % 2]),
                           .deadline = deadlines[i / 2],
                           .takes_due = true};

        ck_assert_ptr_nonnull(value);
        fixture_set(&f, "k", 5);
        rcu_begin();
        ck_assert_int_eq(engine_store(&f.engine, &st, fixture_now(&f)), OUT_STORED);
        rcu_end();
        mem_free(value);
        ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 1);
        fixture_verify(&f);
        fixture_expire(&f);
        ck_assert_uint_eq(fixture_counter(&f, CTR_curr_items), 0);
        ck_assert(!fixture_has(&f, "k"));
    }
}

/* What makes a new block keeps the far deadline, or gives it a near one. */
TEST(a_far_deadline_outlives_changes_of_the_value)
{
    static const msec_t far = 5 * DEADLINE_LOW;
    struct put p = {.key = "n", .ptr = "41", .len = 2, .deadline = far};
    struct put more = {.mode = STORE_APPEND, .key = "n", .ptr = "0", .len = 1};
    uint64_t number;

    const msec_t near = fixture_now(&f) + 1000;
    struct arith back = {.delta = 1, .touches = true, .deadline = near};

    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
    ck_assert_int_eq(fixture_arith(&f, "n", false, 1, &number), OUT_NUMBER);
    ck_assert_int_eq(fixture_get(&f, "n").deadline, far);
    ck_assert_int_eq(fixture_store(&f, &more, NULL), OUT_STORED);
    ck_assert_int_eq(fixture_get(&f, "n").deadline, far);
    ck_assert_int_eq(fixture_touch(&f, "n", MSEC_NEVER), OUT_TOUCHED);
    ck_assert_int_eq(fixture_store(&f, &more, NULL), OUT_STORED);
    ck_assert_int_eq(fixture_get(&f, "n").deadline, MSEC_NEVER);
    ck_assert_int_eq(fixture_touch(&f, "n", far), OUT_TOUCHED);
    ck_assert_int_eq(fixture_arith_as(&f, "n", &back), OUT_NUMBER);
    ck_assert_int_eq(fixture_get(&f, "n").deadline, near);
    ck_assert_uint_eq(back.number, 4201);
}
