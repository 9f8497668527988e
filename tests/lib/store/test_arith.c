/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arith: what counts as a number, how numbers wrap, stop at 0 and are padded, and what an item
 * keeps.
 */

#include "tests/lib/fixture.h"

FIXTURE_OF_EACH_TEST(f)

static void put_text(const char *text, size_t len)
{
    struct put p = {.key = "n", .ptr = text, .len = len, .flags = 42};

    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
}

static void check_text(const char *text)
{
    struct got got = fixture_get(&f, "n");

    ck_assert(got.is_hit);
    ck_assert_uint_eq(got.len, strlen(text));
    ck_assert_mem_eq(got.value, text, got.len);
    ck_assert_uint_eq(got.flags, 42);
}

#define MAX UINT64_MAX

static const struct {
    const char *before;
    bool is_decr;
    uint64_t delta;
    enum outcome out;
    uint64_t number;
    const char *after;
} rows[] = {
    {"10", false, 5, OUT_NUMBER, 15, "15"},
    {"10", true, 4, OUT_NUMBER, 6, "6 "},
    {"0", false, 0, OUT_NUMBER, 0, "0"},
    {"0", true, 1, OUT_NUMBER, 0, "0"},
    {"5", true, MAX, OUT_NUMBER, 0, "0"},
    {"99", false, 1, OUT_NUMBER, 100, "100"},
    {"100", true, 1, OUT_NUMBER, 99, "99 "},
    {"100", true, 100, OUT_NUMBER, 0, "0  "},
    {"18446744073709551615", false, 1, OUT_NUMBER, 0, "0                   "},
    {"18446744073709551615", false, MAX, OUT_NUMBER, MAX - 1, "18446744073709551614"},
    {"18446744073709551614", false, 1, OUT_NUMBER, MAX, "18446744073709551615"},
    {"18446744073709551615", true, MAX, OUT_NUMBER, 0, "0                   "},
    {"1", false, MAX, OUT_NUMBER, 0, "0"},
    {"2", false, MAX - 1, OUT_NUMBER, 0, "0"},
    {"0", false, MAX, OUT_NUMBER, MAX, "18446744073709551615"},
    {"18446744073709551616", false, 1, OUT_NON_NUMERIC, 0, NULL},
    {"99999999999999999999", false, 1, OUT_NON_NUMERIC, 0, NULL},
    {"184467440737095516150", false, 1, OUT_NON_NUMERIC, 0, NULL},
    {"00000000000000000000000000000007", false, 1, OUT_NUMBER, 8,
     "8                               "},
    {" 7", false, 1, OUT_NUMBER, 8, "8 "},
    {"\t \n7", false, 3, OUT_NUMBER, 10, "10  "},
    {"7 ", false, 3, OUT_NUMBER, 10, "10"},
    {"7 apples", false, 3, OUT_NUMBER, 10, "10      "},
    {"+7", false, 3, OUT_NUMBER, 10, "10"},
    {"-0", false, 3, OUT_NUMBER, 3, "3 "},
    {"-7", false, 3, OUT_NON_NUMERIC, 0, NULL},
    {"", false, 1, OUT_NON_NUMERIC, 0, NULL},
    {" ", false, 1, OUT_NON_NUMERIC, 0, NULL},
    {"-", false, 1, OUT_NON_NUMERIC, 0, NULL},
    {"--1", false, 1, OUT_NON_NUMERIC, 0, NULL},
    {"- 1", false, 1, OUT_NON_NUMERIC, 0, NULL},
    {"abc", false, 1, OUT_NON_NUMERIC, 0, NULL},
    {"1a", false, 1, OUT_NON_NUMERIC, 0, NULL},
    {"0x10", false, 1, OUT_NON_NUMERIC, 0, NULL},
    {"1.5", true, 1, OUT_NON_NUMERIC, 0, NULL},
    {"1e3", true, 1, OUT_NON_NUMERIC, 0, NULL},
};

TEST_LOOP(rules, sizeof(rows) / sizeof(rows[0]))
{
    uint64_t number = 0;
    uint64_t cas;

    fixture_start(&f, NULL);
    put_text(rows[_i].before, strlen(rows[_i].before));
    cas = fixture_get(&f, "n").cas;
    enum outcome out = fixture_arith(&f, "n", rows[_i].is_decr, rows[_i].delta, &number);
    ck_assert_msg(out == rows[_i].out, "\"%s\": outcome %d", rows[_i].before, (int)out);
    if (out == OUT_NUMBER) {
        ck_assert_uint_eq(number, rows[_i].number);
        check_text(rows[_i].after);
        ck_assert_uint_gt(fixture_get(&f, "n").cas, cas);
    } else {
        check_text(rows[_i].before);
        ck_assert_uint_eq(fixture_get(&f, "n").cas, cas);
    }
}

TEST(a_nul_is_no_end)
{
    put_text("5\0", 2);
    ck_assert_int_eq(fixture_arith(&f, "n", false, 1, NULL), OUT_NON_NUMERIC);
}

TEST(an_absent_key_is_not_made)
{
    ck_assert_int_eq(fixture_arith(&f, "n", false, 1, NULL), OUT_NOT_FOUND);
    ck_assert(!fixture_has(&f, "n"));
}

/*
 * A number followed by blanks may fill the largest block; a value cut into pieces is not a
 * number.
 */
TEST(long_values)
{
    static char text[20000];

    memset(text, ' ', sizeof(text));
    text[0] = '4';
    put_text(text, 1900);
    ck_assert_int_eq(fixture_arith(&f, "n", false, 96, NULL), OUT_NUMBER);
    ck_assert_uint_eq(fixture_get(&f, "n").len, 1900);
    ck_assert_mem_eq(fixture_get(&f, "n").value, "100   ", 6);
    put_text(text, sizeof(text));
    ck_assert(fixture_get(&f, "n").is_large);
    ck_assert_int_eq(fixture_arith(&f, "n", false, 1, NULL), OUT_NON_NUMERIC);
    ck_assert_uint_eq(fixture_get(&f, "n").len, sizeof(text));
}

TEST(the_deadline_stays)
{
    struct put p = {.key = "n", .ptr = "9", .len = 1};

    const msec_t until = fixture_now(&f) + 100;

    p.deadline = until;
    ck_assert_int_eq(fixture_store(&f, &p, NULL), OUT_STORED);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(fixture_arith(&f, "n", false, 1, NULL), OUT_NUMBER);
        ck_assert_int_eq(fixture_get(&f, "n").deadline, until);
        clock_advance(&f.engine.clock, 1);
    }
    ck_assert_int_eq(fixture_arith(&f, "n", false, 1, NULL), OUT_NOT_FOUND);
}

TEST(a_cas_may_be_asked_for)
{
    struct arith a = {.key = span_str("n"), .delta = 1, .compares_cas = true};

    a.hash = engine_hash(&f.engine, "n", 1);
    put_text("1", 1);
    a.cas_expected = fixture_get(&f, "n").cas + 1;
    rcu_begin();
    ck_assert_int_eq(engine_arith(&f.engine, &a, fixture_now(&f)), OUT_EXISTS);
    rcu_end();
    check_text("1");
    a.cas_expected--;
    rcu_begin();
    ck_assert_int_eq(engine_arith(&f.engine, &a, fixture_now(&f)), OUT_NUMBER);
    rcu_end();
    check_text("2");
    ck_assert_uint_eq(fixture_get(&f, "n").cas, a.cas);
}

TEST(an_absent_key_can_be_made)
{
    struct arith a = {.delta = 3,
                      .vivifies = true,
                      .initial = 13,
                      .compares_cas = true, /* nothing to compare with */
                      .cas_expected = 5};

    a.vivify_deadline = fixture_now(&f) + 60;
    ck_assert_int_eq(fixture_arith_as(&f, "n", &a), OUT_NUMBER);
    ck_assert(a.is_created);
    ck_assert_uint_eq(a.number, 13);
    ck_assert_int_eq(a.deadline_now, a.vivify_deadline);
    ck_assert_uint_eq(fixture_get(&f, "n").len, 2);
    ck_assert_mem_eq(fixture_get(&f, "n").value, "13", 2);
    ck_assert_uint_eq(fixture_get(&f, "n").flags, 0);
    ck_assert_int_eq(fixture_get(&f, "n").deadline, a.vivify_deadline);
    ck_assert_uint_eq(fixture_get(&f, "n").cas, a.cas);
    a.compares_cas = false;
    ck_assert_int_eq(fixture_arith_as(&f, "n", &a), OUT_NUMBER);
    ck_assert(!a.is_created);
    ck_assert_uint_eq(a.number, 16);
    ck_assert_int_eq(a.deadline_now, fixture_now(&f) + 60);
    ck_assert_int_ne(a.deadline_before, a.deadline_now);
    clock_advance(&f.engine.clock, 60);
    a.vivify_deadline = MSEC_NEVER;
    a.cas_new = 777;
    ck_assert_int_eq(fixture_arith_as(&f, "n", &a), OUT_NUMBER);
    ck_assert(a.is_created);
    ck_assert_uint_eq(a.cas, 777);
    ck_assert_uint_eq(fixture_get(&f, "n").cas, 777);
    /* With a deadline that has passed, the request counts the number, and the item is gone. */
    fixture_delete(&f, "n");
    a.vivify_deadline = fixture_now(&f);
    ck_assert_int_eq(fixture_arith_as(&f, "n", &a), OUT_NUMBER);
    ck_assert(a.is_created);
    ck_assert(!fixture_has(&f, "n"));
    ck_assert_uint_eq(fixture_counter(&f, CTR_total_items), 3);
}

TEST(a_number_can_get_a_deadline)
{
    struct arith a = {.delta = 1, .touches = true};

    ck_assert_int_eq(fixture_arith_as(&f, "n", &a), OUT_NOT_FOUND);
    put_text("8", 1);
    a.deadline = fixture_now(&f) + 30;
    ck_assert_int_eq(fixture_arith_as(&f, "n", &a), OUT_NUMBER);
    ck_assert_int_eq(fixture_get(&f, "n").deadline, a.deadline);
    ck_assert_int_eq(a.deadline_now, a.deadline);
    a.touches = false;
    ck_assert_int_eq(fixture_arith_as(&f, "n", &a), OUT_NUMBER);
    ck_assert_int_eq(fixture_get(&f, "n").deadline, a.deadline);
    a.touches = true;
    a.deadline = MSEC_NEVER;
    ck_assert_int_eq(fixture_arith_as(&f, "n", &a), OUT_NUMBER);
    ck_assert_int_eq(fixture_get(&f, "n").deadline, MSEC_NEVER);
    check_text("11");
    a.deadline = fixture_now(&f);
    ck_assert_int_eq(fixture_arith_as(&f, "n", &a), OUT_NUMBER);
    ck_assert_uint_eq(a.number, 12);
    ck_assert(!fixture_has(&f, "n"));
}

/*
 * As in memcached: a number of the same length keeps the item, a longer one makes a new item.
 */
TEST(marks_stay_while_the_length_does)
{
    struct erase stale = {.marks_stale = true};
    struct fetch get = {0};

    put_text("5", 1);
    ck_assert_int_eq(fixture_erase(&f, "n", &stale), OUT_DELETED);
    ck_assert_int_eq(fixture_arith(&f, "n", false, 1, NULL), OUT_NUMBER);
    ck_assert(fixture_get(&f, "n").is_stale && !fixture_get(&f, "n").is_won);
    ck_assert_int_eq(fixture_fetch(&f, "n", &get), OUT_HIT);
    fixture_use(&f, "n", 1);
    ck_assert_int_eq(fixture_arith(&f, "n", false, 1, NULL), OUT_NUMBER);
    ck_assert(fixture_get(&f, "n").is_stale && fixture_get(&f, "n").is_won);
    ck_assert(fixture_get(&f, "n").was_fetched);
    ck_assert_int_eq(fixture_arith(&f, "n", false, 100, NULL), OUT_NUMBER);
    ck_assert(!fixture_get(&f, "n").is_stale && !fixture_get(&f, "n").is_won);
    ck_assert(!fixture_get(&f, "n").was_fetched);
    check_text("107");
    ck_assert_int_eq(fixture_erase(&f, "n", &stale), OUT_DELETED);
    ck_assert_int_eq(fixture_arith(&f, "n", true, 100, NULL), OUT_NUMBER);
    ck_assert(fixture_get(&f, "n").is_stale);
    check_text("7  ");
}

/*
 * An empty value is rejected before the cas is compared, any other value that is not a number
 * after.
 */
TEST(a_cas_is_compared_between_the_checks)
{
    struct arith a = {.delta = 1, .compares_cas = true, .cas_expected = 1u << 30};
    static char large[5000] = "1";

    put_text("", 0);
    ck_assert_int_eq(fixture_arith_as(&f, "n", &a), OUT_NON_NUMERIC);
    put_text(large, sizeof(large));
    ck_assert_int_eq(fixture_arith_as(&f, "n", &a), OUT_EXISTS);
    put_text("abc", 3);
    ck_assert_int_eq(fixture_arith_as(&f, "n", &a), OUT_EXISTS);
    a.cas_expected = fixture_get(&f, "n").cas;
    ck_assert_int_eq(fixture_arith_as(&f, "n", &a), OUT_NON_NUMERIC);
}
