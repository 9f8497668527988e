/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics_text: which format a client gets, and the form of what it gets.
 */
#include "daemon/metrics/metrics_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/stats/stats_sum.h"
#include "tests/common/unit.h"
#include "tests/daemon/conn/solo.h"

static struct buf out;

static void setup(void)
{
    solo_setup();
    buf_init(&out);
}

static void teardown(void)
{
    buf_fini(&out);
    solo_teardown();
}

TEST_FIXTURE(setup, teardown)

TEST(openmetrics_for_who_accepts_it)
{
    static const struct {
        const char *accept;
        enum metrics_format want;
    } rows[] = {
        {NULL, METRICS_TEXT},
        {"", METRICS_TEXT},
        {"*/*", METRICS_TEXT},
        {"text/plain", METRICS_TEXT},
        {"application/openmetrics-text", METRICS_OPEN},
        {"application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
         "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
         METRICS_OPEN},
        {"text/plain, application/openmetrics-text; version=1.0.0", METRICS_OPEN},
        {"application/openmetrics-text;q=0.1", METRICS_OPEN},
        {"application/openmetrics-text;q=0", METRICS_TEXT},
        {"application/openmetrics-text;q=0.000, text/plain", METRICS_TEXT},
        {",,, ,", METRICS_TEXT},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_int_eq(metrics_format_for(rows[i].accept), rows[i].want);
    }
}

/* The value of a sample, by its name and labels. */
static double sample(const char *line)
{
    char begin[96];
    const char *at;

    snprintf(begin, sizeof(begin), "\n%s ", line);
    buf_clear(&out);
    ck_assert(metrics_compose(&solo.crew, METRICS_TEXT, &out));
    ck_assert(buf_append(&out, "", 1));
    at = strstr(buf_begin(&out), begin);
    ck_assert_msg(at != NULL, "no %s", line);
    return strtod(at + strlen(begin), NULL);
}

TEST(counters_are_told_in_base_units)
{
    struct counters *c = &solo.worker->counters;
    struct counters *main = &solo.crew.counters;

    ck_assert_double_eq(sample("mayfly_cmd_get_total"), 0);
    ctr_set(c, CTR_cmd_get, 9007199254740991); /* the largest that a double holds exactly */
    ck_assert_double_eq(sample("mayfly_cmd_get_total"), 9007199254740991.0);
    ctr_set(main, CTR_listen_disabled_us, 2500000);
    ck_assert_double_eq(sample("mayfly_listen_disabled_seconds_total"), 2.5);
    ctr_set(c, CTR_conn_yields, 7);
    ck_assert_double_eq(sample("mayfly_conn_yields_total{worker=\"0\"}"), 7);
    /* What is counted in total in memcached's words is so in the suffix. */
    ck_assert_double_eq(sample("mayfly_connections_total{worker=\"0\"}"), 0);
}

/* Those of the snapshot are those of `stats persistence`, also where there is none. */
TEST(the_snapshot_is_told)
{
    ck_assert_double_eq(sample("mayfly_rdb_enabled"), 0);
    ck_assert_double_eq(sample("mayfly_rdb_last_bgsave_status"), 1);
    ck_assert_double_eq(sample("mayfly_rdb_last_bgsave_time_seconds"), 0);
    ck_assert_double_eq(sample("mayfly_rdb_saves_total"), 0);
}

/* Prometheus takes a counter that falls for a restart. */
TEST(a_reset_of_statistics_changes_nothing)
{
    ctr_set(&solo.worker->counters, CTR_cmd_get, 5);
    stats_sum_reset(&solo.crew);
    ck_assert_double_eq(sample("mayfly_cmd_get_total"), 5);
}

TEST(openmetrics_has_units_and_an_end)
{
    const char *text;
    size_t n;

    ck_assert(metrics_compose(&solo.crew, METRICS_OPEN, &out));
    n = buf_len(&out);
    ck_assert(buf_append(&out, "", 1));
    text = buf_begin(&out);
    ck_assert_str_eq(text + n - 6, "# EOF\n");
    ck_assert_ptr_nonnull(strstr(text, "# TYPE mayfly_cmd_get counter\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nmayfly_cmd_get_total 0\n"));
    ck_assert_ptr_nonnull(strstr(text, "# UNIT mayfly_held_bytes bytes\n"));
    ck_assert_ptr_nonnull(strstr(text, "# TYPE mayfly_held_bytes gauge\n"));
}
