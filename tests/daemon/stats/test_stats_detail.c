/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts by prefix: what is counted, the bound, the reset, and the dump over several workers.
 * The workers have no threads here: their mailboxes are on one loop, which the test runs.
 */
#include "daemon/stats/stats_parts.h"

#include "daemon/worker/crew.h"
#include "tests/common/unit.h"

#define WORKERS 2u

static struct crew *crew;
static struct stats_shared shared;
static struct settings settings;
static uv_loop_t loop;
static struct buf portion;
static struct buf answer; /* all portions */
static unsigned portions;
static unsigned portions_wanted; /* portions after which the client gives up; 0: never */
static bool is_answered;

static void setup(void)
{
    crew = aligned_alloc(64, (sizeof(*crew) + 63) / 64 * 64);
    ck_assert_ptr_nonnull(crew);
    memset(crew, 0, sizeof(*crew));
    settings_init(&settings);
    crew->settings = &settings;
    crew->stats = &shared;
    memset(&shared, 0, sizeof(shared));
    crew->workers = aligned_alloc(64, WORKERS * sizeof(struct worker));
    ck_assert_ptr_nonnull(crew->workers);
    memset(crew->workers, 0, WORKERS * sizeof(struct worker));
    atomic_store(&crew->roster.created, WORKERS);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct worker *w = &crew->workers[i];

        w->magic = WORKER_MAGIC;
        w->id = i;
        w->crew = crew;
        w->settings = &settings;
        w->engine = &crew->engine;
        ck_assert_int_eq(mailbox_init(&w->mailbox, &loop, w), 0);
        list_init(&w->tasks.waiting);
    }
    portions_wanted = 0;
}

static void teardown(void)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        ck_assert_uint_eq(crew->workers[i].later_count, 0);
        mailbox_close(&crew->workers[i].mailbox);
        detail_table_destroy(&crew->workers[i].detail);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    buf_fini(&answer);
    buf_fini(&portion);
    settings_fini(&settings);
    free(crew->workers);
    free(crew);
}

TEST_FIXTURE(setup, teardown)

static void count(unsigned worker, enum stats_detail_op op, const char *key)
{
    stats_detail_count(&crew->workers[worker], op, key, strlen(key));
}

static void on_answer(void *arg, struct buf *out, struct stats_gather *rest)
{
    ck_assert_ptr_eq(arg, &answer);
    ck_assert_ptr_eq(out, &portion);
    ck_assert(buf_append(&answer, buf_begin(out), buf_len(out)));
    portions++;
    is_answered = rest == NULL;
    if (rest != NULL) {
        ck_assert_uint_le(buf_len(out), 64 * 1024);
        buf_fini(out);
        stats_go_on(rest, portions != portions_wanted);
    }
}

/* Let the workers work until there is an answer. */
static void serve(void)
{
    while (!is_answered) {
        for (uint32_t i = 0; i < WORKERS; i++) {
            tasks_run(&crew->workers[i]);
        }
        uv_run(&loop, UV_RUN_NOWAIT);
    }
}

/* Ask worker 0; returns the whole answer, NUL-terminated. */
static const char *ask(const char *args)
{
    buf_clear(&answer);
    buf_clear(&portion);
    portions = 0;
    is_answered = false;
    enum stats_result result =
        stats_command(&crew->workers[0], span_str(args), &portion, on_answer, &answer);
    if (result == STATS_LATER) {
        serve();
    } else {
        ck_assert_int_eq(result, STATS_DONE);
        ck_assert(buf_append(&answer, buf_begin(&portion), buf_len(&portion)));
    }
    ck_assert(buf_append(&answer, "", 1));
    return buf_begin(&answer);
}

TEST(prefix_counts_by_kind)
{
    count(0, STATS_DETAIL_SET, "a:1");
    count(0, STATS_DETAIL_GET_HIT, "a:1");
    count(0, STATS_DETAIL_GET_MISS, "a:2:x");
    count(0, STATS_DETAIL_DELETE, "a:");
    ck_assert_str_eq(ask("detail dump"), "PREFIX a get 2 hit 1 set 1 del 1\r\nEND\r\n");
}

TEST(key_without_delimiter_is_not_counted)
{
    count(0, STATS_DETAIL_SET, "plain");
    ck_assert_str_eq(ask("detail dump"), "END\r\n");
}

TEST(empty_prefix_is_one)
{
    count(0, STATS_DETAIL_GET_MISS, ":x");
    ck_assert_str_eq(ask("detail dump"), "PREFIX  get 1 hit 0 set 0 del 0\r\nEND\r\n");
}

TEST(workers_are_added_up)
{
    count(0, STATS_DETAIL_SET, "a:1");
    count(1, STATS_DETAIL_SET, "a:1");
    count(1, STATS_DETAIL_GET_HIT, "a:1");
    ck_assert_str_eq(ask("detail dump"), "PREFIX a get 1 hit 1 set 2 del 0\r\nEND\r\n");
}

TEST(reset_forgets_on_every_worker)
{
    count(0, STATS_DETAIL_SET, "a:1");
    count(1, STATS_DETAIL_SET, "b:1");
    atomic_fetch_add(&shared.detail_epoch, 1); /* as `stats reset` does */
    ck_assert_str_eq(ask("detail dump"), "END\r\n");
    count(1, STATS_DETAIL_SET, "b:1");
    ck_assert_str_eq(ask("detail dump"), "PREFIX b get 0 hit 0 set 1 del 0\r\nEND\r\n");
}

TEST(dump_of_40000_prefixes_is_bounded_and_loses_no_count)
{
    unsigned long long sum = 0;
    unsigned rows = 0;

    for (unsigned i = 0; i < 40000; i++) {
        char key[32];

        snprintf(key, sizeof(key), "p%u:k", i);
        count(i % WORKERS, STATS_DETAIL_SET, key);
        count(i % WORKERS, STATS_DETAIL_SET, key);
    }
    const char *text = ask("detail dump");
    for (; strncmp(text, "PREFIX ", 7) == 0; text = strchr(text, '\n') + 1) {
        unsigned long long sets;

        ck_assert_int_eq(sscanf(text, "PREFIX %*s get 0 hit 0 set %llu del 0", &sets), 1);
        sum += sets;
        rows++;
    }
    ck_assert_str_eq(text, "END\r\n");
    ck_assert_uint_eq(rows, DETAIL_PREFIXES_MAX + 1);
    ck_assert_uint_eq(sum, 80000);
    ck_assert_uint_gt(portions, 20);
}

TEST(every_prefix_of_a_long_dump_is_shown_once)
{
    static const char counts[] = " get 0 hit 0 set 1 del 1\r\n";
    static bool is_shown[5000];

    for (unsigned i = 0; i < 5000; i++) {
        char key[280];

        snprintf(key, sizeof(key), "%u-%0*u:k", i, (int)(i % 200), 0u);
        count(i % WORKERS, STATS_DETAIL_SET, key);
        count((i + 1) % WORKERS, STATS_DETAIL_DELETE, key);
    }
    const char *text = ask("detail dump");
    for (unsigned n = 0; n < 5000; n++) {
        unsigned i;

        ck_assert_int_eq(sscanf(text, "PREFIX %u-", &i), 1);
        ck_assert_uint_lt(i, 5000);
        ck_assert(!is_shown[i]);
        is_shown[i] = true;
        text = strchr(text, ' ') + 1;
        text = strchr(text, ' ');
        ck_assert(strncmp(text, counts, strlen(counts)) == 0);
        text += strlen(counts);
    }
    ck_assert_str_eq(text, "END\r\n");
}

TEST(a_dump_that_is_given_up_releases_everything)
{
    for (unsigned i = 0; i < 5000; i++) {
        char key[32];

        snprintf(key, sizeof(key), "p%u:k", i);
        count(i % WORKERS, STATS_DETAIL_SET, key);
    }
    for (portions_wanted = 1; portions_wanted < 20; portions_wanted++) {
        (void)ask("detail dump");
        ck_assert_uint_eq(portions, portions_wanted + 1); /* the last one says that it ends */
    }
}

TEST(counts_survive_off_and_on)
{
    ck_assert(!stats_detail_is_on(&crew->workers[1]));
    ck_assert_str_eq(ask("detail on"), "OK\r\n");
    ck_assert(stats_detail_is_on(&crew->workers[1]));
    count(1, STATS_DETAIL_SET, "a:1");
    ck_assert_str_eq(ask("detail off"), "OK\r\n");
    ck_assert(!stats_detail_is_on(&crew->workers[1]));
    ck_assert_str_eq(ask("detail dump"), "PREFIX a get 0 hit 0 set 1 del 0\r\nEND\r\n");
}

TEST(other_words_are_usage_errors)
{
    static const char usage[] = "CLIENT_ERROR usage: stats detail on|off|dump\r\n";

    ck_assert_str_eq(ask("detail"), usage);
    ck_assert_str_eq(ask("detail ON"), usage);
    ck_assert_str_eq(ask("nonsense"), "ERROR\r\n");
}
