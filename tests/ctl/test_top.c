/* SPDX-License-Identifier: BSD-3-Clause */
/* sample, top, bar: the figures of two answers, and their places on a screen of 80x24. */
#include <math.h>

#include "ctl/show.h"
#include "ctl/top.h"
#include "tests/common/unit.h"

static struct top *top;
static struct sheet *sheet;

/* A line; shard -1: of no shard. */
static void add(struct stats *s, int shard, const char *name, double v)
{
    char prefix[16] = "";
    char line[200];

    if (shard >= 0) {
        snprintf(prefix, sizeof(prefix), "%d:", shard);
    }
    int len = snprintf(line, sizeof(line), "STAT %s%s %.0f", prefix, name, v);
    ck_assert(stats_take(s, span_of(line, (size_t)len)));
}

/* An answer of a server with shards whose counters are at `at`. */
static void answer(struct stats_sample *s, unsigned shards, double at)
{
    stats_fini(&s->general);
    stats_fini(&s->shards);
    add(&s->general, -1, "limit_maxbytes", 64 << 20);
    add(&s->general, -1, "max_connections", 1024);
    add(&s->general, -1, "curr_connections", 512);
    add(&s->general, -1, "cmd_get", 100 * at);
    add(&s->general, -1, "get_hits", 75 * at);
    add(&s->general, -1, "cmd_set", 20 * at);
    add(&s->general, -1, "curr_items", 1000);
    add(&s->general, -1, "bytes", 1 << 20);
    for (unsigned i = 0; i < shards; i++) {
        add(&s->shards, (int)i, "curr_items", 100 * (i + 1));
        add(&s->shards, (int)i, "resident_bytes", 1 << 20);
        add(&s->shards, (int)i, "cmd_get", (i + 1) * at);
        add(&s->shards, (int)i, "get_hits", at);
        add(&s->shards, (int)i, "expire_lag_p99_ms", 10 * i);
        add(&s->shards, (int)i, "expired_active", 5 * at);
        add(&s->shards, (int)i, "lazyfree_pending_bytes", 1000);
    }
}

static void make_top(void)
{
    static struct ctl c;

    top = calloc(1, sizeof(*top));
    sheet = calloc(1, sizeof(*sheet));
    top->c = &c;
    top->server = "/run/mayfly/control";
    top->interval_s = 1;
}

static void drop_top(void)
{
    sample_fini(&top->sample[0]);
    sample_fini(&top->sample[1]);
    free(top);
    free(sheet);
}

TEST_FIXTURE(make_top, drop_top)

/* Two answers, two seconds apart. */
static void make_rounds(unsigned shards)
{
    answer(&top->sample[0], shards, 100);
    top->sample[0].at_s = 10;
    sample_derive(&top->sample[0], NULL);
    answer(&top->sample[1], shards, 300);
    top->sample[1].at_s = 12;
    sample_derive(&top->sample[1], &top->sample[0]);
    top->last = 1;
    top->rounds = 2;
}

TEST(rates_are_those_of_the_interval)
{
    const struct stats_sample *s = &top->sample[1];

    make_rounds(2);
    ck_assert_uint_eq(s->shard_count, 2);
    ck_assert(s->all.figure[FIGURE_ops] == 120 * 200 / 2.0);
    ck_assert(s->all.figure[FIGURE_hit_pct] == 75);
    ck_assert(s->shard[1].figure[FIGURE_ops] == 200);
    ck_assert(s->shard[1].figure[FIGURE_hit_pct] == 50);
    ck_assert(s->all.figure[FIGURE_expired] == 1000);
    ck_assert(s->all.figure[FIGURE_lag_ms] == 10); /* the worst, not the sum */
    ck_assert(s->all.figure[FIGURE_backlog] == 2000);
    ck_assert(s->all.figure[FIGURE_items] == 1000);
}

TEST(one_answer_has_no_rates)
{
    answer(&top->sample[0], 1, 100);
    sample_derive(&top->sample[0], NULL);
    ck_assert(isnan(top->sample[0].all.figure[FIGURE_ops]));
    ck_assert(isnan(top->sample[0].shard[0].figure[FIGURE_hit_pct]));
    ck_assert(top->sample[0].shard[0].figure[FIGURE_items] == 100);
}

TEST(counters_that_were_reset_are_no_negative_rates)
{
    answer(&top->sample[0], 1, 300);
    sample_derive(&top->sample[0], NULL);
    answer(&top->sample[1], 1, 10);
    top->sample[1].at_s = 1;
    sample_derive(&top->sample[1], &top->sample[0]);
    ck_assert(top->sample[1].all.figure[FIGURE_ops] == 1200);
}

TEST(odd_answers_do_no_harm)
{
    struct stats_sample *s = &top->sample[0];

    ck_assert(stats_take(&s->shards, span_str("STAT 4294967295:curr_items 1")));
    ck_assert(stats_take(&s->shards, span_str("STAT 99999999999:curr_items 1")));
    ck_assert(
        stats_take(&s->shards, span_str("STAT 1023:curr_items 99999999999999999999999999")));
    ck_assert(stats_take(&s->shards, span_str("STAT -1:curr_items 1")));
    ck_assert(stats_take(&s->shards, span_str("STAT : 1")));
    ck_assert(stats_take(&s->general, span_str("STAT mayfly_version \033[31m")));
    sample_derive(s, NULL);
    ck_assert_uint_eq(s->shard_count, 1024);
    top->rounds = 1;
    for (unsigned rows = 0; rows < 30; rows++) {
        for (unsigned columns = 0; columns < 100; columns += 3) {
            sheet_clear(sheet, rows, columns);
            top_draw(top, sheet);
        }
    }
}

TEST(latency_is_read_by_kind)
{
    struct stats answer = {0};
    struct stats_sample *s = &top->sample[0];

    ck_assert(stats_take(&answer, span_str("STAT get:count 5")));
    ck_assert(stats_take(&answer, span_str("STAT get:p50_us 12.5")));
    ck_assert(stats_take(&answer, span_str("STAT get:p99_us 80")));
    ck_assert(
        stats_take(&answer, span_str("STAT a_kind_with_a_name_that_is_too_long:count 5")));
    ck_assert(stats_take(&answer, span_str("STAT on yes")));
    sample_read_latency(s, &answer);
    stats_fini(&answer);
    ck_assert_uint_eq(s->latency_count, 1);
    ck_assert_str_eq(s->latency[0].kind, "get");
    ck_assert(s->latency[0].p50_us == 12.5 && s->latency[0].p99_us == 80);
}

/* ---- the screen -------------------------------------------------------------------------- */

static const char *row_text(unsigned row)
{
    static char text[5 * SHEET_COLUMNS_MAX];
    char *p = text;

    for (unsigned i = 0; i < sheet->columns; i++) {
        const char *ch = sheet->cell[row][i].text;

        p += sprintf(p, "%s", ch[0] != '\0' ? ch : " ");
    }
    *p = '\0';
    while (p > text && p[-1] == ' ') {
        *--p = '\0';
    }
    return text;
}

static void draw(void)
{
    sheet_clear(sheet, 24, 80);
    top_draw(top, sheet);
}

TEST(it_fits_80_columns_and_24_rows)
{
    make_rounds(2);
    draw();
    ck_assert_str_eq(
        row_text(8),
        "SHARD   items     bytes  hit%  ops/s evict/s expire/s   debt      lag   reclaim");
    ck_assert_str_eq(
        row_text(9),
        "  all    1000   1.0 MiB    75  12.0k       0     1000      -    10 ms   2.0 KiB");
    ck_assert(strstr(row_text(1), "2.0 MiB of 64.0 MiB") != NULL);
    ck_assert(strstr(row_text(1), "[#.....") != NULL);
    ck_assert(strncmp(row_text(23), "q quit", 6) == 0);
    for (unsigned row = 0; row < 24; row++) {
        for (const char *p = row_text(row); *p != '\0'; p++) {
            ck_assert((unsigned char)*p < 0x80);
        }
    }
}

static void take_word(struct stats *s, const char *name, const char *word)
{
    char line[100];

    snprintf(line, sizeof(line), "STAT %s %s", name, word);
    ck_assert(stats_take(s, span_str(line)));
}

/* What is at the right end of a row. */
static void assert_row_ends(unsigned row, const char *shown)
{
    const char *text = row_text(row);

    ck_assert_msg(strlen(text) >= strlen(shown), "%s", text);
    ck_assert_str_eq(text + strlen(text) - strlen(shown), shown);
}

/* What `stats replication` says, and what the fourth row ends with. */
static void assert_role(const char *role, const char *state, double lag_ms, double online,
                        const char *shown)
{
    struct stats *r = &top->sample[1].replication;

    make_rounds(1);
    stats_fini(r);
    take_word(r, "role", role);
    take_word(r, "repl_state", state);
    add(r, -1, "repl_lag_ms", lag_ms);
    add(r, -1, "connected_replicas", 2 * online);
    add(r, -1, "online_replicas", online);
    draw();
    assert_row_ends(3, shown);
}

TEST(the_role_is_shown_where_there_is_more_than_one_server)
{
    assert_role("replica", "online", 3, 0, "replica, lag 3 ms");
    assert_role("replica", "catching_up", 3, 0, "replica, catching_up");
    assert_role("replica", "\033[31m", 3, 0, "replica, ?[31m");
    assert_role("primary", "primary", 0, 1, "replicas: 1 of 2");
    ck_assert_int_eq(sheet->cell[3][79].style, SHEET_BAD);
    assert_role("replica", "online", 0, 0, "replica, lag 0 s");
    ck_assert_int_eq(sheet->cell[3][79].style, SHEET_DIM);
    assert_role("primary", "primary", 0, 0, "");
    ck_assert_ptr_null(strstr(row_text(3), "replica"));
}

/* What `stats moves` says, and what the fifth row ends with. */
static void assert_move(const char *state, const char *waits_for, const char *shown)
{
    struct stats *m = &top->sample[1].moves;

    make_rounds(1);
    stats_fini(m);
    take_word(m, "move_state", state);
    take_word(m, "move_waits_for", waits_for);
    add(m, -1, "move_items_all", 1000);
    add(m, -1, "move_items_done", 400);
    add(m, -1, "move_evicted", 30);
    draw();
    assert_row_ends(4, shown);
}

TEST(a_move_is_shown_while_it_is_under_way)
{
    assert_move("moving", "none", "moves 43 %");
    ck_assert_int_eq(sheet->cell[4][79].style, SHEET_DIM);
    assert_move("waiting", "room", "moves 43 %, no room");
    ck_assert_int_eq(sheet->cell[4][79].style, SHEET_BAD);
    assert_move("idle", "none", "");
    ck_assert_ptr_null(strstr(row_text(4), "moves"));
}

TEST(keys_sort_and_scroll)
{
    make_rounds(30);
    draw();
    ck_assert(strncmp(row_text(10), "    0", 5) == 0);
    ck_assert(top_key(top, 'i', 24));
    draw();
    ck_assert(strstr(row_text(8), "ITEMS") != NULL);
    ck_assert(strncmp(row_text(10), "   29", 5) == 0);
    ck_assert(top_key(top, 'R', 24));
    draw();
    ck_assert(strncmp(row_text(10), "    0", 5) == 0);
    ck_assert(top_key(top, 'n', 24));
    ck_assert(top_key(top, 'R', 24));
    ck_assert(top_key(top, TOP_KEY_DOWN, 24));
    draw();
    ck_assert(strncmp(row_text(10), "    1", 5) == 0);
    for (unsigned i = 0; i < 9; i++) {
        ck_assert(top_key(top, TOP_KEY_PAGE_DOWN, 24));
    }
    draw();
    ck_assert(strncmp(row_text(22), "   29", 5) == 0);
    for (unsigned i = 0; i < 9; i++) {
        ck_assert(top_key(top, TOP_KEY_PAGE_UP, 24));
    }
    draw();
    ck_assert(strncmp(row_text(10), "    0", 5) == 0);
    for (unsigned i = 0; i < FIGURE_COUNT + 1; i++) {
        ck_assert(top_key(top, '>', 24));
    }
    ck_assert(top_key(top, '<', 24));
    ck_assert(top_key(top, 0x7fff, 24));
    ck_assert(!top_key(top, 'q', 24));
}

TEST(help_and_pause)
{
    make_rounds(1);
    ck_assert(top_key(top, '?', 24));
    draw();
    ck_assert(strstr(row_text(0), "keys") != NULL);
    ck_assert(strstr(row_text(16), "reclaim") != NULL);
    ck_assert(top_key(top, 'x', 24));
    ck_assert(top_key(top, 'p', 24));
    draw();
    ck_assert(strstr(row_text(0), "paused") != NULL);
}

TEST(trouble_is_shown)
{
    make_rounds(1);
    snprintf(top->trouble, sizeof(top->trouble), "no connection\033[2J");
    draw();
    ck_assert_str_eq(row_text(23), "no connection?[2J");
}

TEST(bars_and_sparklines_have_their_columns)
{
    static const double values[] = {0, 1, 2, NAN, 4, 8};
    char text[BAR_TEXT_BYTES];

    bar_text(text, 0.5, 10, false);
    ck_assert_str_eq(text, "#####.....");
    bar_text(text, 7, 4, false);
    ck_assert_str_eq(text, "####");
    bar_text(text, -1, 4, false);
    ck_assert_str_eq(text, "....");
    bar_text(text, NAN, 4, false);
    ck_assert_str_eq(text, "....");
    bar_text(text, 1, 1000, true);
    ck_assert_uint_eq(strlen(text), (size_t)3 * BAR_COLUMNS_MAX);
    spark_text(text, values, 6, 8, false);
    ck_assert_str_eq(text, "  __. -#");
    spark_text(text, values, 6, 2, false);
    ck_assert_str_eq(text, "-#");
    spark_text(text, values, 6, 3, true);
    ck_assert_str_eq(text, " \u2584\u2588");
}
