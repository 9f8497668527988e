/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counters: the table is complete and its names are unique; sums, gauges, maxima. The two
 * vocabularies of results in err.h are similar tables, and are tested here as well.
 */
#include "lib/base/counters.h"
#include "lib/base/err.h"
#include "tests/common/unit.h"

TEST(every_row_is_complete)
{
    for (unsigned i = 0; i < CTR_COUNT; i++) {
        const struct counter_row *row = &counter_rows[i];

        ck_assert_ptr_nonnull(row->name);
        ck_assert_msg(row->line != NULL && row->line[0] != '\0', "%s", row->name);
    }
}

TEST(names_are_unique)
{
    for (unsigned i = 0; i < CTR_COUNT; i++) {
        for (unsigned j = 0; j < i; j++) {
            ck_assert_str_ne(counter_rows[i].name, counter_rows[j].name);
            ck_assert_str_ne(counter_rows[i].line, counter_rows[j].line);
        }
    }
}

/* `stats shards` sums the words of one shard and its worker, so it may show no others. */
TEST(a_counter_is_shown_where_its_writer_is)
{
    const unsigned of_shard = CTR_IN_EXPIRY | CTR_IN_RELEASE | CTR_IN_MEMORY;

    for (unsigned i = 0; i < CTR_COUNT; i++) {
        const struct counter_row *row = &counter_rows[i];

        /* What nobody writes is made of others of the shard. */
        ck_assert_msg((row->shown & of_shard) == 0 || row->writer == CTR_WRITER_SHARD ||
                          row->writer == CTR_WRITER_NONE,
                      "%s", row->name);
        ck_assert_msg((row->shown & CTR_IN_WORKER) == 0 || row->writer == CTR_WRITER_WORKER,
                      "%s", row->name);
        ck_assert_msg((row->shown & CTR_IN_GRACE) == 0 || row->writer == CTR_WRITER_RECLAIM,
                      "%s", row->name);
    }
}

TEST(sums_over_writers)
{
    struct counters *set = calloc(2, sizeof(*set));
    uint64_t sum[CTR_COUNT] = {0};

    ck_assert_ptr_nonnull(set);
    ctr_add(&set[0], CTR_cmd_get, 3);
    ctr_add(&set[0], CTR_cmd_get, 4);
    ctr_add(&set[1], CTR_cmd_get, 5);
    ctr_add(&set[1], CTR_curr_items, 2);
    ctr_add(&set[1], CTR_curr_items, (uint64_t)-1);
    ctr_max(&set[1], CTR_lazyfree_wait_max_us, 9);
    ctr_max(&set[1], CTR_lazyfree_wait_max_us, 7);

    counters_sum(sum, &set[0]);
    counters_sum(sum, &set[1]);
    ck_assert_uint_eq(sum[CTR_cmd_get], 12);
    ck_assert_uint_eq(sum[CTR_curr_items], 1);
    ck_assert_uint_eq(sum[CTR_lazyfree_wait_max_us], 9);
    ck_assert_uint_eq(sum[CTR_cmd_set], 0);
    free(set);
}

/* A shard may subtract what another one added: single words wrap, their sum does not. */
TEST(gauge_may_be_negative_in_one_set)
{
    struct counters *set = calloc(2, sizeof(*set));
    uint64_t sum[CTR_COUNT] = {0};

    ck_assert_ptr_nonnull(set);
    ctr_add(&set[0], CTR_curr_items, (uint64_t)-3);
    ctr_add(&set[1], CTR_curr_items, 5);
    counters_sum(sum, &set[0]);
    counters_sum(sum, &set[1]);
    ck_assert_uint_eq(sum[CTR_curr_items], 2);
    free(set);
}

TEST(errors_have_texts)
{
    ck_assert_str_eq(mf_strerror(MF_OK), "success");
    ck_assert_str_eq(mf_strerror(MF_ENOMEM), "out of memory");
    for (int i = 0; i < (int)MF_ERR_COUNT; i++) {
        ck_assert_str_ne(mf_strerror((enum mf_err) - i), "unknown error");
    }
    ck_assert_str_eq(mf_strerror((enum mf_err)1), "unknown error");
    ck_assert_str_eq(mf_strerror((enum mf_err)(-(int)MF_ERR_COUNT)), "unknown error");
}

TEST(outcomes_have_names)
{
    ck_assert_str_eq(outcome_name(OUT_STORED), "STORED");
    for (int i = 0; i < (int)OUT_COUNT; i++) {
        ck_assert_str_ne(outcome_name((enum outcome)i), "unknown outcome");
    }
    ck_assert_str_eq(outcome_name(OUT_COUNT), "unknown outcome");
}
