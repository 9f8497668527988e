/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lag: percentiles of the histogram against sorted numbers, and its least and greatest values.
 */
#include "lib/expiry/lag.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/common/rng.h"
#include "tests/common/unit.h"

#define NUMBERS 5000

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

TEST(no_item_means_no_lag)
{
    struct lag l = {0};

    ck_assert_uint_eq(lag_percentile(&l, 50), 0);
    ck_assert_uint_eq(lag_percentile(&l, 100), 0);
}

TEST(one_number_is_every_percentile)
{
    for (uint64_t v = 0; v < 100000; v = v < 20 ? v + 1 : v * 5 / 4) {
        struct lag l = {0};

        lag_add(&l, v);
        ck_assert_uint_eq(lag_percentile(&l, 0), v);
        ck_assert_uint_eq(lag_percentile(&l, 50), v);
        ck_assert_uint_eq(lag_percentile(&l, 100), v);
        ck_assert_uint_eq(l.max_ms, v);
        ck_assert_uint_eq(l.count, 1);
    }
}

/* A percentile is at most an eighth too great, and never too small. */
TEST(percentiles_are_exact_to_an_eighth)
{
    static uint64_t numbers[NUMBERS];
    struct lag l = {0};
    struct rng rng;

    rng_init(&rng, 7);
    for (int i = 0; i < NUMBERS; i++) {
        numbers[i] = rng_next(&rng) >> (32 + rng_below(&rng, 32));
        lag_add(&l, numbers[i]);
    }
    qsort(numbers, NUMBERS, sizeof(numbers[0]), by_size);
    for (int pct = 0; pct < 100; pct++) {
        uint64_t exact = numbers[NUMBERS * pct / 100];
        uint64_t got = lag_percentile(&l, pct);

        ck_assert_uint_ge(got, exact);
        ck_assert_uint_le(got, exact + exact / 8);
    }
    ck_assert_uint_eq(lag_percentile(&l, 100), numbers[NUMBERS - 1]);
}

TEST(the_maximum_is_kept_beyond_the_last_bin)
{
    struct lag l = {0};

    lag_add(&l, UINT64_MAX);
    lag_add(&l, 3);
    ck_assert_uint_eq(l.max_ms, UINT64_MAX);
    ck_assert_uint_eq(l.bin[LAG_BINS - 1], 1);
    ck_assert_uint_eq(lag_percentile(&l, 0), 3);
}
