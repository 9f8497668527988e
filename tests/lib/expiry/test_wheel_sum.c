/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sum of all deadlines in a wheel, from which the average time to live follows: whatever
 * the deadlines are, and however many of them are due.
 */
#include "tests/lib/expiry/one_wheel.h"

#define SECOND    ((msec_t)1000)
#define MINUTE    (60 * SECOND)
#define HOUR      (60 * MINUTE)
#define DAY       (24 * HOUR)
#define ITEMS_MAX 20010u

static msec_t deadlines[ITEMS_MAX]; /* MSEC_NEVER: not in the wheel */

static void start(msec_t at)
{
    start_wheel(ITEMS_MAX, at);
    for (uint32_t i = 0; i < ITEMS_MAX; i++) {
        deadlines[i] = MSEC_NEVER;
    }
}

static void add(uint32_t i, msec_t deadline)
{
    add_item(i, deadline);
    deadlines[i] = item_deadline(item_of(i));
}

static void take_out(uint32_t i)
{
    wheel_remove(wheel, handle_of(i));
    deadlines[i] = MSEC_NEVER;
}

static void drain(void)
{
    handle_t out[20];
    unsigned sampled = 1;

    for (unsigned idle = 0; idle < 3; idle = sampled == 0 ? idle + 1 : 0) {
        unsigned n = wheel_sample(wheel, now, out, 20, &sampled);

        for (unsigned i = 0; i < n; i++) {
            take_out(out[i] / UNITS - 1);
        }
    }
}

/* Exactly what the items say. */
static struct wheel_info check_sum(void)
{
    const msec_t most = (msec_t)1 << 40;
    struct wheel_info info;
    uint64_t alive = 0;
    uint64_t ttl = 0;

    for (uint32_t i = 0; i < ITEMS_MAX; i++) {
        if (deadlines[i] != MSEC_NEVER && deadlines[i] > now) {
            alive++;
            ttl += (uint64_t)((deadlines[i] < most ? deadlines[i] : most) - now);
        }
    }
    wheel_info(wheel, now, &info);
    ck_assert_uint_eq(info.alive_keys, alive);
    ck_assert(info.ttl_sum_ms == ttl);
    return info;
}

/* Together they are more than 64 bits hold. */
TEST(any_deadlines_can_be_added_up)
{
    static const msec_t odd[] = {INT64_MIN / 2, INT64_MIN / 2 + 1, MSEC_NEVER - 1, -1, 0};

    start(5 * DAY);
    for (uint32_t i = 0; i < 5000; i++) {
        add(i, i % 10 < 5 ? odd[i % 5] : now + (msec_t)i * MINUTE);
    }
    (void)check_sum();
    ck_assert(wheel_verify(wheel));
    for (uint32_t i = 0; i < 5000; i++) {
        if (i % 10 < 5) {
            take_out(i);
            take_out(i); /* it has no position: nothing is subtracted again */
        }
    }
    ck_assert_uint_eq(check_sum().alive_keys, 2500);
}

TEST(changes_are_followed)
{
    start(CLOCK_FIRST_MS);
    for (uint32_t i = 0; i < 3000; i++) {
        add(i, now + DAY + (msec_t)i);
    }
    for (uint32_t i = 0; i < 1000; i++) {
        ck_assert(wheel_retime(wheel, handle_of(i), deadlines[i] + SECOND));
        deadlines[i] += SECOND;
    }
    (void)check_sum();
    for (uint32_t i = 1000; i < 2000; i++) {
        struct item *it = item_at(base, handle_of(i + 5000));

        fake_item(it, UNITS, deadlines[i] + MINUTE);
        ck_assert(wheel_replace(wheel, handle_of(i), handle_of(i + 5000)));
        deadlines[i + 5000] = deadlines[i] + MINUTE;
        deadlines[i] = MSEC_NEVER;
    }
    (void)check_sum();
}

/* More are due than are read for it, in buckets of all sizes, and few are alive. */
TEST_LOOP(debt_does_not_spoil_the_average, 16)
{
    static const msec_t ttls[] = {20, 2 * SECOND, 100 * SECOND, 20 * HOUR};
    static const msec_t late[] = {1, 10 * SECOND, 3 * HOUR, 30 * DAY};
    msec_t ttl = ttls[_i % 4];
    struct wheel_info info;

    start(CLOCK_FIRST_MS);
    for (uint32_t i = 0; i < 20000; i++) {
        add(i, now + ttl);
    }
    for (uint32_t i = 20000; i < ITEMS_MAX; i++) {
        add(i, now + 365 * DAY);
    }
    now += ttl + late[_i / 4];
    wheel_info(wheel, now, &info);
    if (ttl == 20) {
        (void)check_sum(); /* the finest buckets need not be read */
    } else if (info.alive_keys == 10) {
        /* Otherwise a bucket is partly due, and counts by its share of the time. */
        unsigned __int128 want = 10 * (unsigned __int128)(365 * DAY - ttl - late[_i / 4]);

        ck_assert(info.ttl_sum_ms >= want / 2);
        ck_assert(info.ttl_sum_ms <= want * 2);
    }
    /* Some steps later those that are in the way are in the bucket of what is due. */
    for (unsigned i = 0; i < 60; i++) {
        handle_t out[20];
        unsigned sampled;

        (void)wheel_sample(wheel, now, out, 20, &sampled);
    }
    ck_assert(wheel_verify(wheel));
    drain();
    ck_assert_uint_eq(check_sum().alive_keys, 10);
}
