/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics_text: which format a client gets, and the form of what it gets.
 */
#include "daemon/stats/metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <time.h>

#include "daemon/stats/stats.h"
#include "daemon/worker/insight.h"
#include "tests/common/unit.h"
#include "tests/daemon/conn/solo.h"

static struct buf out;

static void teardown(void)
{
    buf_fini(&out);
    solo_teardown();
}

TEST_FIXTURE(solo_setup, teardown)

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

    snprintf(begin, sizeof(begin), "\n%s ", line);
    buf_clear(&out);
    ck_assert(metrics_compose(&solo.crew, METRICS_TEXT, &out));
    ck_assert(buf_append(&out, "", 1));
    const char *at = strstr(buf_begin(&out), begin);
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

static double cpu_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Some time in system mode, of which a young process may have none. */
static void call_the_kernel(void)
{
    struct rusage usage;

    do {
        for (int i = 0; i < 1000; i++) {
            (void)access("/", F_OK);
        }
        getrusage(RUSAGE_SELF, &usage);
    } while (usage.ru_stime.tv_sec == 0 && usage.ru_stime.tv_usec < 20000);
}

/* Descriptors, without that of the folder itself. */
static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    ck_assert_ptr_nonnull(dir);
    for (const struct dirent *d = readdir(dir); d != NULL; d = readdir(dir)) {
        n += d->d_name[0] != '.';
    }
    closedir(dir);
    return n - 1;
}

TEST(the_process_is_described)
{
    const double resident = sample("process_resident_memory_bytes");

    call_the_kernel();
    const double before = cpu_seconds();
    const double cpu = sample("process_cpu_seconds_total");

    ck_assert_double_ge(cpu, before);
    ck_assert_double_le(cpu, cpu_seconds());
    ck_assert_double_gt(resident, 1e6);
    /* Address space is reserved for all of -m. */
    ck_assert_double_ge(sample("process_virtual_memory_bytes"), resident + 32 * MIB);
    ck_assert_double_eq(sample("process_open_fds"), count_descriptors());
    solo.crew.engine.started -= 5000 * 1000;
    ck_assert_double_eq_tol(sample("process_start_time_seconds"), (double)time(NULL) - 5000,
                            1000);
}

/* What is counted in milliseconds is shown in seconds. */
TEST(milliseconds_become_seconds)
{
    solo.crew.attach.away_ms = 2500;
    ck_assert_double_eq(sample("mayfly_restart_away_seconds"), 2.5);
}

static void count_requests(struct worker *w)
{
    static const uint64_t took_ns[] = {1, 4095, 4096, 8191, 1000000, UINT64_C(1) << 32};

    for (size_t i = 0; i < sizeof(took_ns) / sizeof(took_ns[0]); i++) {
        latency_add(w, KIND_GET, took_ns[i], 1);
    }
}

#define OF_GETS(what) sample("mayfly_request_duration_seconds_" what)

/* A bucket counts the requests that took less than its bound. */
TEST(buckets_end_at_their_bounds)
{
    solo_run(count_requests);
    ck_assert_double_eq(OF_GETS("bucket{command=\"get\",le=\"4.096e-06\"}"), 2);
    ck_assert_double_eq(OF_GETS("bucket{command=\"get\",le=\"8.192e-06\"}"), 4);
    ck_assert_double_eq(OF_GETS("bucket{command=\"get\",le=\"0.000524288\"}"), 4);
    ck_assert_double_eq(OF_GETS("bucket{command=\"get\",le=\"0.001048576\"}"), 5);
    ck_assert_double_eq(OF_GETS("bucket{command=\"get\",le=\"4.2949673\"}"), 5);
    ck_assert_double_eq(OF_GETS("bucket{command=\"get\",le=\"+Inf\"}"), 6);
    ck_assert_double_eq(OF_GETS("count{command=\"get\"}"), 6);
    ck_assert_double_eq_tol(OF_GETS("sum{command=\"get\"}"), 4.295983679, 1e-9);
    ck_assert_double_eq(OF_GETS("count{command=\"set\"}"), 0);
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
    ck_assert(metrics_compose(&solo.crew, METRICS_OPEN, &out));
    size_t n = buf_len(&out);
    ck_assert(buf_append(&out, "", 1));
    const char *text = buf_begin(&out);
    ck_assert_str_eq(text + n - 6, "# EOF\n");
    ck_assert_ptr_nonnull(strstr(text, "# TYPE mayfly_cmd_get counter\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nmayfly_cmd_get_total 0\n"));
    ck_assert_ptr_nonnull(strstr(text, "# UNIT mayfly_held_bytes bytes\n"));
    ck_assert_ptr_nonnull(strstr(text, "# TYPE mayfly_held_bytes gauge\n"));
}
