/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store: the options of meta and binary commands: append compares a cas, the new item's cas is
 * chosen, an older cas is accepted, and append makes the item.
 */

#include "tests/lib/fixture.h"

FIXTURE_OF_EACH_TEST(f)

/* As a span and as a body, small and large. */
static const struct {
    size_t len, portion;
} shapes[] = {{5, 0}, {1990, 0}, {5000, 0}, {100000, 0}, {40000, 7000}, {100000, 30000}};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static char bytes[200000];

/* Store a value of this size whose bytes are derived from `seed`. */
static struct put shaped(int i, enum store_mode mode, uint64_t seed)
{
    fixture_fill(bytes, shapes[i].len, seed);
    return (struct put){.mode = mode,
                        .key = "k",
                        .ptr = bytes,
                        .len = shapes[i].len,
                        .portion = shapes[i].portion,
                        .flags = (uint32_t)seed};
}

static void check_shaped(size_t at, size_t total, int i, uint64_t seed)
{
    struct got got = fixture_get(&f, "k");

    ck_assert(got.is_hit);
    ck_assert_uint_eq(got.len, total);
    fixture_fill(bytes, shapes[i].len, seed);
    ck_assert_mem_eq(got.value + at, bytes, shapes[i].len);
}

TEST_LOOP(append_and_prepend_may_compare_a_cas, SHAPES)
{
    const size_t len = shapes[_i].len;
    struct put p = shaped(_i, STORE_APPEND, 1);
    uint64_t cas;

    p.compares_cas = true;
    p.cas = 1;
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_NOT_STORED);
    for (enum store_mode mode = STORE_APPEND; mode <= STORE_PREPEND; mode++) {
        p = shaped(_i, STORE_SET, 1);
        ck_assert_int_eq(fixture_store(&f, &p, &cas), OUT_STORED);
        ck_assert_uint_eq(p.value_len, len);
        p = shaped(_i, mode, 2);
        p.compares_cas = true;
        p.cas = cas + 1;
        ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_EXISTS);
        p.cas = 0;
        ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_EXISTS);
        check_shaped(0, len, _i, 1);
        p = shaped(_i, mode, 2);
        p.compares_cas = true;
        p.cas = cas;
        p.cas_new = 11;
        ck_assert_int_eq(fixture_store(&f, &p, &cas), OUT_STORED);
        ck_assert_uint_eq(p.value_len, 2 * len);
        ck_assert_uint_eq(cas, 11);
        ck_assert_uint_eq(fixture_get(&f, "k").cas, 11);
        ck_assert_uint_eq(fixture_get(&f, "k").flags, 1);
        check_shaped(mode == STORE_APPEND ? 0 : len, 2 * len, _i, 1);
        check_shaped(mode == STORE_APPEND ? len : 0, 2 * len, _i, 2);
    }
}

TEST_LOOP(append_and_prepend_may_make_the_item, SHAPES)
{
    const size_t len = shapes[_i].len;

    for (enum store_mode mode = STORE_APPEND; mode <= STORE_PREPEND; mode++) {
        msec_t deadline = mode == STORE_APPEND ? fixture_now(&f) + 100 : MSEC_NEVER;
        uint64_t cas;

        for (uint64_t n = 1; n <= 2; n++) {
            struct put p = shaped(_i, mode, n);

            p.vivifies = true;
            p.deadline = n == 1 ? deadline : fixture_now(&f) + 5000;
            ck_assert_int_eq(fixture_store(&f, &p, &cas), OUT_STORED);
            ck_assert_uint_eq(p.value_len, n * len);
            ck_assert_uint_eq(fixture_get(&f, "k").cas, cas);
            ck_assert_uint_eq(fixture_get(&f, "k").flags, 1);
            ck_assert_int_eq(fixture_get(&f, "k").deadline, deadline);
        }
        check_shaped(mode == STORE_APPEND ? 0 : len, 2 * len, _i, 1);
        fixture_delete(&f, "k");
    }
}

TEST_LOOP(a_cas_can_be_chosen, SHAPES)
{
    static const enum store_mode modes[] = {STORE_ADD, STORE_REPLACE, STORE_SET, STORE_CAS};
    uint64_t cas = 0;

    for (unsigned i = 0; i < 4; i++) {
        struct put p = shaped(_i, modes[i], i);

        p.cas = cas;
        p.cas_new = UINT64_MAX - i;
        ck_assert_int_eq(fixture_store(&f, &p, &cas), OUT_STORED);
        ck_assert_uint_eq(cas, UINT64_MAX - i);
        ck_assert_uint_eq(fixture_get(&f, "k").cas, cas);
        check_shaped(0, shapes[_i].len, _i, i);
    }
    /* The next cas is drawn as usual. */
    struct put p = shaped(_i, STORE_SET, 9);

    ck_assert_int_eq(fixture_store(&f, &p, &cas), OUT_STORED);
    ck_assert_uint_lt(cas, 1u << 30);
}

TEST_LOOP(an_older_cas_makes_a_stale_item, SHAPES)
{
    struct fetch get = {0};
    uint64_t cas;

    const msec_t now = fixture_now(&f);

    fixture_set(&f, "other", 1); /* takes the cas of 1 */
    struct put p = shaped(_i, STORE_CAS, 1);
    p.takes_older = true;
    p.cas = 5;
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_NOT_FOUND);
    for (unsigned i = 0; i < 2; i++) {
        msec_t deadline = i == 0 ? now + 1000 : MSEC_NEVER;

        fixture_set_until(&f, "k", 10, deadline);
        cas = fixture_get(&f, "k").cas;
        p = shaped(_i, STORE_CAS, 1);
        p.takes_older = true;
        p.cas = cas + 1;
        ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_EXISTS);
        p.cas = 0;
        ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_EXISTS);
        fixture_check(&f, "k", 10);
        for (unsigned n = 1; n <= 2; n++) {
            p = shaped(_i, STORE_CAS, n);
            p.takes_older = true;
            p.cas = cas - 1;
            p.deadline = now + 50;
            ck_assert_int_eq(fixture_store(&f, &p, &cas), OUT_STORED);
            check_shaped(0, shapes[_i].len, _i, n);
            ck_assert_uint_eq(fixture_get(&f, "k").cas, cas);
            ck_assert_uint_eq(fixture_get(&f, "k").flags, n);
            ck_assert_int_eq(fixture_get(&f, "k").deadline, deadline);
            ck_assert_int_eq(fixture_get(&f, "k").is_stale, true);
            ck_assert_int_eq(fixture_get(&f, "k").is_won, n == 2);
            ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
        }
        /* The same cas: stored as usual. */
        p = shaped(_i, STORE_CAS, 3);
        p.takes_older = true;
        p.cas = cas;
        p.deadline = now + 50;
        ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
        ck_assert_int_eq(fixture_get(&f, "k").deadline, now + 50);
        ck_assert(!fixture_get(&f, "k").is_stale && !fixture_get(&f, "k").is_won);
    }
}

TEST_LOOP(what_is_stored_anew_has_no_marks, SHAPES)
{
    static const enum store_mode modes[] = {STORE_SET, STORE_REPLACE, STORE_APPEND,
                                            STORE_PREPEND, STORE_CAS};
    struct erase stale = {.marks_stale = true};
    struct fetch get = {0};

    for (unsigned i = 0; i < 10; i++) {
        struct put p = shaped(_i, modes[i / 2], i);

        fixture_set(&f, "k", shapes[_i].len);
        ck_assert_int_eq(fixture_erase(&f, "k", &stale), OUT_DELETED);
        if (i & 1) {
            ck_assert_int_eq(fixture_fetch(&f, "k", &get), OUT_HIT);
        }
        ck_assert(fixture_use(&f, "k", 1).is_stale);
        p.cas = fixture_get(&f, "k").cas;
        ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
        ck_assert(!fixture_get(&f, "k").is_stale && !fixture_get(&f, "k").is_won);
        ck_assert(!fixture_get(&f, "k").was_fetched);
    }
}
