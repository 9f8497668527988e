/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * latency: what is counted on several workers, its percentiles, and resets. No worker runs.
 */
#include "daemon/worker/insight.h"

#include "daemon/worker/crew.h"
#include "tests/common/unit.h"

#define WORKERS 2

static struct crew crew;
static struct worker *workers;

static void setup(void)
{
    workers = aligned_alloc(64, WORKERS * sizeof(*workers));
    ck_assert_ptr_nonnull(workers);
    memset(workers, 0, WORKERS * sizeof(*workers));
    memset(&crew, 0, sizeof(crew));
    crew.workers = workers;
    atomic_store(&crew.roster.created, WORKERS);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].crew = &crew;
        workers[i].insight.latency = calloc(1, sizeof(struct latency));
        ck_assert_ptr_nonnull(workers[i].insight.latency);
    }
}

static void teardown(void)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        free(workers[i].insight.latency);
    }
    free(workers);
}

TEST_FIXTURE(setup, teardown)

static struct latency_sum all(enum command_kind kind)
{
    struct latency_sum sum;

    memset(&sum, 0, sizeof(sum));
    latency_collect_all(&crew, kind, &sum);
    return sum;
}

TEST(workers_are_summed_by_kind)
{
    latency_add(&workers[0], KIND_GET, 1000, 3);
    latency_add(&workers[1], KIND_GET, 2000000, 1);
    latency_add(&workers[1], KIND_SET, 5, 1);
    struct latency_sum sum = all(KIND_GET);
    ck_assert_uint_eq(sum.count, 4);
    ck_assert_uint_eq(sum.sum_ns, 2003000);
    ck_assert_uint_eq(sum.max_ns, 2000000);
    ck_assert_uint_ge(latency_percentile_ns(&sum, 50), 1000);
    ck_assert_uint_le(latency_percentile_ns(&sum, 50), 1000 + 1000 / 16);
    ck_assert_uint_eq(latency_percentile_ns(&sum, 99), 2000000);
    ck_assert_uint_eq(all(KIND_SET).count, 1);
    ck_assert_uint_eq(all(KIND_DELETE).count, 0);
    memset(&sum, 0, sizeof(sum));
    latency_collect(&workers[0], KIND_GET, &sum);
    ck_assert_uint_eq(sum.count, 3);
    ck_assert_uint_eq(sum.max_ns, 1000);
}

TEST(a_reset_is_seen_before_the_worker_counts_again)
{
    latency_add(&workers[0], KIND_GET, 1000, 3);
    latency_add(&workers[1], KIND_SET, 1000, 3);
    latency_reset(&crew);
    ck_assert_uint_eq(all(KIND_GET).count, 0);
    latency_add(&workers[0], KIND_SET, 7, 1);
    ck_assert_uint_eq(all(KIND_GET).count, 0);
    ck_assert_uint_eq(all(KIND_GET).max_ns, 0);
    ck_assert_uint_eq(all(KIND_SET).count, 1);
    ck_assert_uint_eq(all(KIND_SET).max_ns, 7);
}

TEST(what_takes_very_long_is_in_the_last_bin)
{
    latency_add(&workers[0], KIND_ADMIN, UINT64_C(1) << 50, 1);
    struct latency_sum sum = all(KIND_ADMIN);
    ck_assert_uint_eq(sum.bin[LATENCY_BINS - 1], 1);
    ck_assert_uint_eq(latency_percentile_ns(&sum, 50), UINT64_C(1) << 50);
}
