/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lag: percentiles of the histogram against sorted numbers, its least and greatest values, and
 * what its windows forget.
 */
#include "lib/expiry/lag.h"

#include "tests/common/rng.h"
#include "tests/common/unit.h"

#define NUMBERS 5000

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static struct lag lag;

static struct lag_sum collect(enum lag_window window, msec_t now)
{
    struct lag_sum sum = {0};

    lag_collect(&lag, window, now, &sum);
    return sum;
}

TEST(no_item_means_no_lag)
{
    lag_reset(&lag);
    struct lag_sum sum = collect(LAG_1M, CLOCK_FIRST_MS);
    ck_assert_uint_eq(lag_percentile(&sum, 50), 0);
    ck_assert_uint_eq(lag_percentile(&sum, 100), 0);
    ck_assert_uint_eq(sum.count, 0);
}

TEST(one_number_is_every_percentile)
{
    for (uint64_t v = 0; v < 100000; v = v < 20 ? v + 1 : v * 5 / 4) {
        lag_reset(&lag);
        lag_add(&lag, CLOCK_FIRST_MS, v);
        struct lag_sum sum = collect(LAG_10M, CLOCK_FIRST_MS);
        ck_assert_uint_eq(lag_percentile(&sum, 0), v);
        ck_assert_uint_eq(lag_percentile(&sum, 50), v);
        ck_assert_uint_eq(lag_percentile(&sum, 100), v);
        ck_assert_uint_eq(sum.max_ms, v);
        ck_assert_uint_eq(sum.count, 1);
    }
}

/* A percentile is at most an eighth too great, and never too small. */
TEST(percentiles_are_exact_to_an_eighth)
{
    static uint64_t numbers[NUMBERS];
    struct rng rng;

    rng_init(&rng, 7);
    lag_reset(&lag);
    for (int i = 0; i < NUMBERS; i++) {
        numbers[i] = rng_next(&rng) >> (40 + rng_below(&rng, 24));
        lag_add(&lag, 1000000, numbers[i]);
    }
    struct lag_sum sum = collect(LAG_1M, 1000000);
    qsort(numbers, NUMBERS, sizeof(numbers[0]), by_size);
    for (int pct = 0; pct < 100; pct++) {
        uint64_t exact = numbers[NUMBERS * pct / 100];
        uint64_t got = lag_percentile(&sum, pct);

        ck_assert_uint_ge(got, exact);
        ck_assert_uint_le(got, exact + exact / 8);
    }
    ck_assert_uint_eq(lag_percentile(&sum, 100), numbers[NUMBERS - 1]);
}

TEST(the_maximum_is_kept_beyond_the_last_bin)
{
    lag_reset(&lag);
    lag_add(&lag, CLOCK_FIRST_MS, UINT64_MAX);
    lag_add(&lag, CLOCK_FIRST_MS, 3);
    struct lag_sum sum = collect(LAG_1M, CLOCK_FIRST_MS);
    ck_assert_uint_eq(sum.max_ms, UINT64_MAX);
    ck_assert_uint_eq(sum.bin[LAG_BINS - 1], 1);
    ck_assert_uint_eq(lag_percentile(&sum, 0), 3);
}

/* A window has everything of its length, and nothing that is a tenth of it older. */
TEST_LOOP(a_window_forgets, LAG_WINDOWS)
{
    const msec_t length = _i == LAG_1M ? 60000 : 600000;

    for (msec_t start = CLOCK_FIRST_MS; start < 4 * length; start += length / 7) {
        lag_reset(&lag);
        lag_add(&lag, start, 5000);
        for (msec_t t = start; t < start + 3 * length; t += length / 60) {
            struct lag_sum sum = collect((enum lag_window)_i, t);

            ck_assert(t >= start + length || (sum.count != 0 && sum.max_ms == 5000));
            ck_assert(t < start + length + length / 10 || sum.max_ms <= 1);
            if (t >= start + length) {
                lag_add(&lag, t, 1); /* the slots of old times are used again */
            }
        }
    }
}

TEST(sums_of_shards_are_one_distribution)
{
    struct lag_sum sum = {0};

    for (unsigned shard = 0; shard < 4; shard++) {
        lag_reset(&lag);
        for (unsigned i = 0; i < 100; i++) {
            lag_add(&lag, 1000000, shard == 0 ? 1000 : 2);
        }
        lag_collect(&lag, LAG_1M, 1000000, &sum);
    }
    ck_assert_uint_eq(sum.count, 400);
    ck_assert_uint_eq(lag_percentile(&sum, 50), 2);
    ck_assert_uint_ge(lag_percentile(&sum, 80), 1000);
    ck_assert_uint_eq(sum.max_ms, 1000);
}

TEST(what_one_has_counted_goes_to_another)
{
    static struct lag other;

    lag_reset(&lag);
    lag_reset(&other);
    lag_add(&other, 1012000 - LAG_SLOTS * 6000, 9000); /* too old for the shorter window */
    for (unsigned i = 0; i < 10; i++) {
        lag_add(&lag, 1000000, 5);
        lag_add(&other, 1000000, 50);  /* the same slot */
        lag_add(&other, 1006000, 500); /* a newer one */
        lag_add(&lag, 1012000, 7);
    }
    lag_absorb(&lag, &other);
    struct lag_sum sum = collect(LAG_1M, 1012000);
    ck_assert_uint_eq(sum.count, 40);
    ck_assert_uint_eq(sum.max_ms, 500);
    ck_assert_uint_eq(collect(LAG_10M, 1012000).count, 41);
    lag_absorb(&lag, &other); /* it has forgotten */
    ck_assert_uint_eq(collect(LAG_1M, 1012000).count, 40);
}
