/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slowlog: the latest entries, in order, whatever its length is set to meanwhile.
 */
#include "daemon/worker/slowlog.h"

#include "tests/common/unit.h"

static struct slowlog s;

static void setup(void)
{
    slowlog_init(&s);
}

static void teardown(void)
{
    slowlog_fini(&s);
}

TEST_FIXTURE(setup, teardown)

static void add(uint64_t us, uint32_t max)
{
    struct slow_entry e = {.us = us};

    slowlog_add(&s, &e, max);
}

/* The latest are `newest` and the numbers before it, n of them. */
static void assert_latest(uint64_t newest, uint32_t n, uint32_t max)
{
    struct slow_entry got[64];

    ck_assert_uint_eq(slowlog_len(&s, max), n);
    ck_assert_uint_eq(slowlog_copy(&s, got, 64, max), n);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_uint_eq(got[i].us, newest - i);
        ck_assert_uint_eq(got[i].id, newest - i);
    }
}

TEST(an_empty_one)
{
    assert_latest(0, 0, 8);
    slowlog_reset(&s);
    assert_latest(0, 0, 8);
}

TEST(the_latest_are_kept)
{
    for (uint64_t i = 0; i < 20; i++) {
        add(i, 8);
        assert_latest(i, i < 8 ? (uint32_t)i + 1 : 8, 8);
    }
    slowlog_reset(&s);
    assert_latest(0, 0, 8);
    add(20, 8);
    assert_latest(20, 1, 8);
}

TEST(its_length_may_change)
{
    uint64_t i = 0;

    for (; i < 11; i++) {
        add(i, 8);
    }
    assert_latest(10, 3, 3); /* at once, before the next entry */
    add(i++, 3);
    assert_latest(11, 3, 3);
    for (; i < 20; i++) {
        add(i, 12);
    }
    assert_latest(19, 11, 12);
    add(i, 12);
    assert_latest(20, 12, 12);
    add(21, 1);
    assert_latest(21, 1, 1);
}

TEST(fewer_can_be_asked_for)
{
    struct slow_entry got[2];

    for (uint64_t i = 0; i < 5; i++) {
        add(i, 8);
    }
    ck_assert_uint_eq(slowlog_copy(&s, got, 2, 8), 2);
    ck_assert_uint_eq(got[0].us, 4);
    ck_assert_uint_eq(got[1].us, 3);
    ck_assert_uint_eq(slowlog_copy(&s, got, 0, 8), 0);
}
