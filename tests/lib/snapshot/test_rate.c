/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rate: a writer rests until a stop, or until the rate allows what was written. A rate that
 * was changed counts from then on, whatever was written before.
 */
#include "lib/snapshot/save.h"

#include <pthread.h>

#include "tests/common/unit.h"

#define GIB ((uint64_t)1 << 30)

static _Atomic uint64_t rate_max;
static _Atomic bool is_to_stop;
static struct rate rate;

static void begin(uint64_t bytes_per_second)
{
    atomic_store(&rate_max, bytes_per_second);
    atomic_store(&is_to_stop, false);
    rate = (struct rate){.per_second = 0};
    rate_keep(&rate, 0, &rate_max, &is_to_stop);
}

static void *write_a_gib(void *arg)
{
    rate_keep(&rate, GIB, &rate_max, &is_to_stop);
    return NULL;
}

/* It would rest for 34 years. */
TEST_LOOP(no_rate_and_a_stop_end_the_rest, 2)
{
    pthread_t writer;

    begin(1);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_a_gib, NULL), 0);
    if (_i == 0) {
        atomic_store(&rate_max, 0);
    } else {
        atomic_store(&is_to_stop, true);
    }
    ck_assert_int_eq(pthread_join(writer, NULL), 0);
}

/* What was written before would take a day at this rate. */
TEST(another_rate_counts_from_now_on)
{
    begin(0);
    rate_keep(&rate, GIB, &rate_max, &is_to_stop);
    atomic_store(&rate_max, GIB / 86400);
    rate_keep(&rate, GIB, &rate_max, &is_to_stop);
    ck_assert_uint_eq(rate.per_second, GIB / 86400);
}

TEST(no_rate_is_no_rest)
{
    begin(0);
    for (uint64_t n = 0; n < 1000; n++) {
        rate_keep(&rate, n * GIB, &rate_max, &is_to_stop);
    }
}
