/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats_sum: which words a sum consists of. Two workers without threads, an engine of three
 * shards.
 */
#include "daemon/stats/stats.h"

#include "daemon/base/log.h"
#include "daemon/worker/crew.h"
#include "lib/base/mem.h"
#include "lib/base/reclaim.h"
#include "tests/common/unit.h"

#define WORKERS 2u
#define SHARDS  3u

static struct crew crew;
static struct stats_shared shared;

static void setup(void)
{
    struct engine_config cfg;

    memset(&crew, 0, sizeof(crew));
    memset(&shared, 0, sizeof(shared));
    engine_config_init(&cfg);
    cfg.shards = SHARDS;
    cfg.limit_bytes = 64 << 20;
    ck_assert_int_eq(engine_start(&crew.engine, &cfg), MF_OK);
    reclaim_stop(crew.engine.reclaimer); /* nothing changes by itself */
    crew.stats = &shared;
    atomic_store(&crew.roster.created, WORKERS);
    crew.workers = mem_alloc_aligned(WORKERS * sizeof(*crew.workers), 64);
    ck_assert_ptr_nonnull(crew.workers);
    memset(crew.workers, 0, WORKERS * sizeof(*crew.workers));
}

static void teardown(void)
{
    mem_free(crew.workers);
    engine_stop(&crew.engine);
}

TEST_FIXTURE(setup, teardown)

/* The counters of each writer of this kind in turn; NULL after the last. */
static struct counters *writer_of(enum counter_writer writer, uint32_t n)
{
    switch (writer) {
    case CTR_WRITER_WORKER:
        return n < WORKERS ? &crew.workers[n].counters : NULL;
    case CTR_WRITER_SHARD:
        return n < SHARDS ? (struct counters *)(uintptr_t)shard_counters(crew.engine.shards[n])
                          : NULL;
    case CTR_WRITER_RECLAIM:
        return n < 1 ? (struct counters *)(uintptr_t)reclaim_counters(crew.engine.reclaimer)
                     : NULL;
    case CTR_WRITER_MAIN:
        return n < 1 ? &crew.counters : NULL;
    case CTR_WRITER_ANY:
        return n < 1 ? (struct counters *)(uintptr_t)log_counters() : NULL;
    case CTR_WRITER_NONE:
        return NULL;
    }
    return NULL;
}

/* Add to every word of a counter; returns the sum of what was added. */
static uint64_t add_everywhere(enum counter id)
{
    uint64_t sum = 0;
    struct counters *c;

    for (uint32_t n = 0; (c = writer_of(counter_rows[id].writer, n)) != NULL; n++) {
        uint64_t more = 1000 * (id + 1) + n;

        ctr_add(c, id, more);
        sum += more;
    }
    ck_assert(sum > 0 || counter_rows[id].writer == CTR_WRITER_NONE);
    return sum;
}

TEST(every_writer_of_a_counter_is_in_its_sum)
{
    uint64_t before[CTR_COUNT];
    uint64_t after[CTR_COUNT];
    uint64_t added[CTR_COUNT];

    stats_sum_raw(&crew, before);
    for (unsigned id = 0; id < CTR_COUNT; id++) {
        added[id] = add_everywhere((enum counter)id);
    }
    stats_sum_raw(&crew, after);
    added[CTR_total_items] -= added[CTR_arith_in_place]; /* they are not shown as stored */
    for (unsigned id = 0; id < CTR_COUNT; id++) {
        if (id != CTR_expire_slice_longest_us && counter_rows[id].writer != CTR_WRITER_NONE) {
            ck_assert_msg(after[id] - before[id] == added[id], "%s", counter_rows[id].name);
        }
    }
}

/* Stored: 100; there: 10; gone for other reasons: 1 to 7. */
TEST(what_is_neither_there_nor_gone_otherwise_was_overwritten)
{
    static const enum counter others[] = {
        CTR_expired_lazy,    CTR_expired_active, CTR_expired_reclaim, CTR_evictions,
        CTR_expired_at_once, CTR_deleted_items,  CTR_flushed_items,
    };
    uint64_t sum[CTR_COUNT] = {0};

    sum[CTR_total_items] = 100;
    sum[CTR_arith_in_place] = 5;
    sum[CTR_curr_items] = 10;
    for (unsigned i = 0; i < 7; i++) {
        sum[others[i]] = i + 1;
    }
    counters_derive(sum);
    ck_assert_uint_eq(sum[CTR_overwritten_items], 100 - 10 - 28);
    ck_assert_uint_eq(sum[CTR_total_items], 95);
    /* Words that were read at different moments may seem to be too many. */
    sum[CTR_curr_items] = 1000;
    counters_derive(sum);
    ck_assert_uint_eq(sum[CTR_overwritten_items], 0);
}

TEST(of_the_longest_slice_the_longest_counts)
{
    static const uint64_t longest[SHARDS] = {5, 70, 30};
    uint64_t sum[CTR_COUNT];

    for (uint32_t i = 0; i < SHARDS; i++) {
        ctr_set(writer_of(CTR_WRITER_SHARD, i), CTR_expire_slice_longest_us, longest[i]);
    }
    stats_sum_raw(&crew, sum);
    ck_assert_uint_eq(sum[CTR_expire_slice_longest_us], 70);
}

/* Counts restart at 0; gauges and totals stay. */
TEST(reset_begins_counts_anew)
{
    uint64_t before[CTR_COUNT];
    uint64_t after[CTR_COUNT];

    for (unsigned id = 0; id < CTR_COUNT; id++) {
        (void)add_everywhere((enum counter)id);
    }
    stats_sum(&crew, before);
    stats_sum_reset(&crew);
    stats_sum(&crew, after);
    for (unsigned id = 0; id < CTR_COUNT; id++) {
        bool is_reset = counter_rows[id].kind == CTR_KIND_COUNT;

        ck_assert_msg(before[id] > 0 || counter_rows[id].writer == CTR_WRITER_NONE, "%s",
                      counter_rows[id].name);
        ck_assert_msg(after[id] == (is_reset ? 0 : before[id]), "%s", counter_rows[id].name);
    }
    /* And go on from there. */
    ctr_add(writer_of(CTR_WRITER_WORKER, 1), CTR_get_hits, 3);
    stats_sum(&crew, after);
    ck_assert_uint_eq(after[CTR_get_hits], 3);
}
