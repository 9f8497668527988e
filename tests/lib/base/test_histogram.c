/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * histogram: bins cover all numbers without a gap, in order, as narrow as promised.
 */
#include "lib/base/histogram.h"

#include "tests/common/rng.h"
#include "tests/common/unit.h"

#define STEPS_LOG2 4u
#define OCTAVES    20u
#define BINS       HISTOGRAM_BINS(OCTAVES, STEPS_LOG2)

TEST(each_number_up_to_the_last_has_its_bin)
{
    unsigned before = 0;

    ck_assert_uint_eq(histogram_bin(0, BINS, STEPS_LOG2), 0);
    for (uint64_t v = 1; v < UINT64_C(1) << OCTAVES; v++) {
        unsigned bin = histogram_bin(v, BINS, STEPS_LOG2);

        if (bin != before) {
            ck_assert_uint_eq(bin, before + 1);
            ck_assert_uint_eq(histogram_bin_end(before, STEPS_LOG2), v - 1);
            before = bin;
        }
    }
    ck_assert_uint_eq(before, BINS - 1);
}

TEST(greater_numbers_are_in_the_last_bin)
{
    ck_assert_uint_eq(histogram_bin(UINT64_C(1) << OCTAVES, BINS, STEPS_LOG2), BINS - 1);
    ck_assert_uint_eq(histogram_bin(UINT64_MAX, BINS, STEPS_LOG2), BINS - 1);
}

TEST(a_bin_is_as_narrow_as_promised)
{
    for (unsigned bin = 1; bin < BINS; bin++) {
        uint64_t least = histogram_bin_end(bin - 1, STEPS_LOG2) + 1;
        uint64_t most = histogram_bin_end(bin, STEPS_LOG2);

        ck_assert_uint_le(most - least, least >> STEPS_LOG2);
    }
}

TEST(percentiles)
{
    uint64_t bins[BINS];

    memset(bins, 0, sizeof(bins));
    ck_assert_uint_eq(histogram_percentile(bins, BINS, STEPS_LOG2, 0, 0, 50), 0);
    bins[histogram_bin(3, BINS, STEPS_LOG2)] = 98;
    bins[histogram_bin(1000, BINS, STEPS_LOG2)] = 2;
    ck_assert_uint_eq(histogram_percentile(bins, BINS, STEPS_LOG2, 100, 1001, 50), 3);
    ck_assert_uint_eq(histogram_percentile(bins, BINS, STEPS_LOG2, 100, 1001, 97), 3);
    ck_assert_uint_eq(histogram_percentile(bins, BINS, STEPS_LOG2, 100, 1001, 99), 1001);
    /* Beyond the last bin the greatest number is what is known. */
    bins[BINS - 1] = 100;
    ck_assert_uint_eq(histogram_percentile(bins, BINS, STEPS_LOG2, 200, UINT64_C(1) << 40, 99),
                      UINT64_C(1) << 40);
}
