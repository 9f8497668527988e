/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is due in a wheel, to the millisecond; which of it goes first; and its figures when
 * nodes and blocks are moved.
 */
#include "tests/lib/expiry/one_wheel.h"

#define SECOND ((msec_t)1000)

#define ITEMS_MAX 5601u

static struct wheel_info info_now(void)
{
    struct wheel_info info;

    wheel_info(wheel, now, &info);
    return info;
}

static const msec_t ttls[] = {1, 2 * SECOND, 100 * SECOND, 36000 * SECOND};

/* Buckets of half a second and more are partly due: the millisecond decides. */
TEST_LOOP(a_deadline_is_due_in_its_millisecond, sizeof(ttls) / sizeof(ttls[0]))
{
    start_wheel(ITEMS_MAX, 432000 * SECOND);
    add_item(0, now + ttls[_i]);
    now += ttls[_i] - 1;
    ck_assert_uint_eq(info_now().debt_keys, 0);
    ck_assert_uint_eq(info_now().alive_keys, 1);
    now += 1;
    ck_assert_uint_eq(info_now().debt_keys, 1);
    ck_assert_uint_eq(info_now().alive_keys, 0);
}

/* Wherever in the ring of milliseconds it begins. */
TEST_LOOP(what_was_due_first_goes_first, 16)
{
    handle_t out[1];
    unsigned sampled;

    start_wheel(ITEMS_MAX, CLOCK_FIRST_MS + _i * 64);
    add_item(0, now + 505);
    add_item(1, now + 5);
    now += 506;
    ck_assert_uint_eq(wheel_sample(wheel, now, out, 1, &sampled), 1);
    ck_assert_uint_eq(out[0], handle_of(1));
}

/*
 * More are due than are read for the oldest, and whole nodes of an old bucket are put below
 * what came late.
 */
TEST(the_oldest_is_found_among_what_was_in_the_way)
{
    const uint32_t n = ITEMS_MAX - 1; /* full nodes of 14 */

    start_wheel(ITEMS_MAX, 432000 * SECOND);
    for (uint32_t i = 0; i < n; i++) {
        add_item(i, now + 10);
    }
    now += 5000;
    ck_assert_uint_eq(wheel_debt(wheel, now), n);
    add_item(n, now - 100);
    for (unsigned i = 0; i < 100; i++) {
        (void)wheel_behind(wheel, now);
    }
    ck_assert_uint_eq(info_now().debt_keys, n + 1);
    ck_assert_int_eq(info_now().debt_oldest_ms, 4990);
}

/* In a bucket of a minute that was begun: what is left in it may be earlier than the rest. */
TEST(the_earliest_is_found_in_a_bucket_that_is_half_refined)
{
    const msec_t first = 20 * 65536;
    handle_t out[64];
    unsigned sampled;
    bool is_found = false;

    start_wheel(ITEMS_MAX, 1000 * SECOND);
    for (uint32_t i = 0; i < 31; i++) {
        add_item(i, first + (i == 0 ? 10 : 300));
    }
    now = first - 40 * SECOND;
    ck_assert_uint_eq(wheel_sample(wheel, now, out, 20, &sampled), 0);
    ck_assert_uint_eq(sampled, 20);
    unsigned n = wheel_soonest(wheel, out, 64);
    for (unsigned i = 0; i < n; i++) {
        is_found = is_found || out[i] == handle_of(0);
    }
    ck_assert(is_found);
}

/* A copy may be larger or smaller: the bytes that are due, and will be, follow. */
TEST_LOOP(a_block_of_another_size_is_counted, 4)
{
    const uint32_t units = _i % 2 == 0 ? UNITS + 9 : UNITS - 1;

    start_wheel(ITEMS_MAX, CLOCK_FIRST_MS);
    add_item(0, now + 5 * SECOND);
    now += _i < 2 ? 0 : 6 * SECOND;
    ck_assert_uint_eq(wheel_debt(wheel, now), _i < 2 ? 0 : 1);
    memcpy(item_of(1), item_of(0), FAKE_BYTES);
    atomic_store(&item_of(1)->shape, (uint16_t)(units | SHAPE_TTL));
    wheel_moved(wheel, handle_of(0), handle_of(1));
    struct wheel_info info = info_now();
    ck_assert_uint_eq(_i < 2 ? info.forecast_bytes[1] : info.debt_bytes, units * ITEM_UNIT);
    wheel_remove(wheel, handle_of(1));
    info = info_now();
    ck_assert_uint_eq(info.forecast_bytes[1] + info.debt_bytes, 0);
}
