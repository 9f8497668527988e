/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws the view of `top` on a sheet: see top.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/show.h"
#include "ctl/top.h"

#define HEAD_ROWS  9 /* above the table, including its titles */
#define FOOT_ROWS  1
#define NAME_WIDTH 5
#define LABEL      11 /* width of labels, in columns */

unsigned top_room(unsigned rows)
{
    unsigned taken = HEAD_ROWS + FOOT_ROWS + 1; /* 1: the sum */

    return rows > taken ? rows - taken : 1;
}

/* ---- head -------------------------------------------------------------------------------- */

static double get(const struct stats_sample *s, const char *name)
{
    return stats_get(&s->general, name);
}

static void draw_title(const struct top *t, struct sheet *s)
{
    const struct stats_sample *now = &t->sample[t->last];
    char up[UNIT_TEXT_BYTES], every[UNIT_TEXT_BYTES];
    struct span version = span_str("?");

    (void)stats_find(&now->general, "mayfly_version", &version);
    duration_text(up, get(now, "uptime"));
    duration_text(every, t->interval_s);
    sheet_style(s, 0, 0, s->columns, SHEET_TITLE);
    unsigned x = sheet_put(s, 0, 0, SHEET_TITLE, "mayfly %.*s  %.200s  up %s  %.0f workers",
                           version.len > 20 ? 20 : (int)version.len, version.ptr, t->server, up,
                           get(now, "threads"));
    if (t->is_paused) {
        snprintf(every, sizeof(every), "paused");
    }
    if (x + 2 + strlen(every) <= s->columns) {
        sheet_put_right(s, 0, s->columns, SHEET_TITLE, every);
    }
}

static void draw_bar(struct sheet *s, unsigned row, const char *label, double share,
                     const char *words, bool is_bad)
{
    unsigned columns = s->columns > 70 ? 30 : 15;
    char bar[BAR_TEXT_BYTES];

    bar_text(bar, share, columns, s->is_utf8);
    (void)sheet_put(s, row, 0, SHEET_BOLD, "%s", label);
    unsigned x = sheet_put(s, row, LABEL, SHEET_PLAIN, "[");
    x = sheet_put(s, row, x, is_bad ? SHEET_BAD : SHEET_GOOD, "%s", bar);
    (void)sheet_put(s, row, x, SHEET_PLAIN, "] %s", words);
}

static void draw_memory(const struct stats_sample *now, struct sheet *s, unsigned row)
{
    double limit = get(now, "limit_maxbytes");
    double held = now->shard_count > 0 ? sample_sum(now, "resident_bytes") : get(now, "bytes");
    char held_text[UNIT_TEXT_BYTES], limit_text[UNIT_TEXT_BYTES];
    char words[3 * UNIT_TEXT_BYTES];

    unit_short(held_text, UNIT_BYTES, held);
    unit_short(limit_text, UNIT_BYTES, limit);
    snprintf(words, sizeof(words), "%s of %s", held_text, limit_text);
    draw_bar(s, row, "memory", limit > 0 ? held / limit : 0, words, held > 1.05 * limit);
}

static void draw_connections(const struct stats_sample *now, struct sheet *s, unsigned row)
{
    double most = get(now, "max_connections");
    double open = get(now, "curr_connections");
    char words[3 * UNIT_TEXT_BYTES];

    snprintf(words, sizeof(words), "%.0f of %.0f, %.0f refused", open, most,
             get(now, "rejected_connections"));
    draw_bar(s, row, "clients", most > 0 ? open / most : 0, words,
             most > 0 && open > 0.8 * most);
}

static void draw_spark(const struct top *t, struct sheet *s, unsigned row, const char *label,
                       enum top_past what, double v, const char *unit)
{
    unsigned columns = s->columns > LABEL + 40 ? s->columns - LABEL - 30 : 10;
    char spark[BAR_TEXT_BYTES];
    char text[UNIT_TEXT_BYTES];

    columns = columns > BAR_COLUMNS_MAX ? BAR_COLUMNS_MAX : columns;
    top_number(text, UNIT_NONE, v);
    spark_text(spark, t->past[what], t->past_count, columns, s->is_utf8);
    (void)sheet_put(s, row, 0, SHEET_BOLD, "%s", label);
    sheet_put_right(s, row, LABEL + 7, SHEET_PLAIN, text);
    (void)sheet_put(s, row, LABEL + 8, SHEET_PLAIN, "%s", unit);
    (void)sheet_put(s, row, LABEL + 11, SHEET_GOOD, "%s", spark);
}

/* Write a text to the right of the sparkline. */
static void draw_aside(struct sheet *s, unsigned row, const char *text)
{
    if (s->columns > LABEL + 40) {
        (void)sheet_put(s, row, s->columns - 18, SHEET_DIM, "%s", text);
    }
}

/* Write the role at the right end of a row, unless the server is a primary without replicas. */
static void draw_role(const struct stats_sample *now, struct sheet *s, unsigned row)
{
    const struct stats *r = &now->replication;
    struct span role = {0};
    struct span state = {0};
    bool is_bad;
    char lag[UNIT_TEXT_BYTES];
    char text[2 * UNIT_TEXT_BYTES];

    if (s->columns <= LABEL + 40 || !stats_find(r, "role", &role) ||
        !stats_find(r, "repl_state", &state)) {
        return;
    }
    if (span_is(role, "primary")) {
        double all = stats_get(r, "connected_replicas");
        double online = stats_get(r, "online_replicas");

        if (all == 0) {
            return;
        }
        is_bad = online < all;
        snprintf(text, sizeof(text), "replicas: %.0f of %.0f", online, all);
    } else if (span_is(state, "online")) {
        is_bad = false;
        top_number(lag, UNIT_MS, stats_get(r, "repl_lag_ms"));
        snprintf(text, sizeof(text), "replica, lag %s", lag);
    } else {
        is_bad = true;
        snprintf(text, sizeof(text), "replica, %.*s", state.len > 12 ? 12 : (int)state.len,
                 state.ptr);
    }
    sheet_put_right(s, row, s->columns, is_bad ? SHEET_BAD : SHEET_DIM, text);
}

static void draw_latency(const struct stats_sample *now, struct sheet *s, unsigned row)
{
    unsigned x = LABEL;

    (void)sheet_put(s, row, 0, SHEET_BOLD, "latency");
    for (unsigned i = 0; i < now->latency_count; i++) {
        const struct latency_sample *l = &now->latency[i];
        char half[UNIT_TEXT_BYTES], most[UNIT_TEXT_BYTES];
        char text[3 * UNIT_TEXT_BYTES];

        if (!(l->count > 0) || isnan(l->p50_us) || isnan(l->p99_us)) {
            continue;
        }
        top_number(half, UNIT_US, l->p50_us);
        top_number(most, UNIT_US, l->p99_us);
        snprintf(text, sizeof(text), "%s %s, 99%% %s", l->kind, half, most);
        if (x + strlen(text) > s->columns) {
            break;
        }
        x = sheet_put(s, row, x, SHEET_PLAIN, "%s", text) + 3;
    }
    if (x == LABEL) {
        (void)sheet_put(s, row, x, SHEET_DIM, "-");
    }
}

/* Write the progress of a move of items to other shards. */
static void draw_move(const struct stats_sample *now, struct sheet *s, unsigned row)
{
    char text[UNIT_TEXT_BYTES];

    if (s->columns <= LABEL + 40 || !sample_is_moving(&now->moves)) {
        return;
    }
    bool is_bad = stats_is(&now->moves, "move_waits_for", "room");
    snprintf(text, sizeof(text), "moves %.0f %%%s", 100 * sample_move_share(&now->moves),
             is_bad ? ", no room" : "");
    sheet_put_right(s, row, s->columns, is_bad ? SHEET_BAD : SHEET_DIM, text);
}

static void draw_head(const struct top *t, struct sheet *s)
{
    const struct stats_sample *now = &t->sample[t->last];
    const double *all = now->all.figure;
    char text[2 * UNIT_TEXT_BYTES];
    char value[UNIT_TEXT_BYTES];

    draw_title(t, s);
    draw_memory(now, s, 1);
    draw_connections(now, s, 2);
    draw_spark(t, s, 3, "ops/s", PAST_OPS, all[FIGURE_ops], "");
    draw_role(now, s, 3);
    draw_spark(t, s, 4, "hit ratio", PAST_HITS, all[FIGURE_hit_pct], "%");
    draw_move(now, s, 4);
    draw_spark(t, s, 5, "expired/s", PAST_EXPIRED, all[FIGURE_expired], "");
    top_number(value, UNIT_NONE, all[FIGURE_debt]);
    snprintf(text, sizeof(text), "debt %s", value);
    draw_aside(s, 5, text);
    draw_spark(t, s, 6, "evicted/s", PAST_EVICTED, all[FIGURE_evicted], "");
    top_number(value, UNIT_BYTES, all[FIGURE_backlog]);
    snprintf(text, sizeof(text), "reclaim %s", value);
    draw_aside(s, 6, text);
    draw_latency(now, s, 7);
}

/* ---- table ------------------------------------------------------------------------------- */

/* The argument of the comparison: qsort() passes none to it. */
static const struct top *sorted;

static int compare(const void *a, const void *b)
{
    const struct stats_sample *now = &sorted->sample[sorted->last];
    unsigned i = *(const unsigned *)a;
    unsigned k = *(const unsigned *)b;
    double x = now->shard[i].figure[sorted->sort];
    double y = now->shard[k].figure[sorted->sort];
    int order = 0;

    if (sorted->sorts_by_figure) {
        x = isnan(x) ? -1 : x;
        y = isnan(y) ? -1 : y;
        order = x < y ? 1 : x > y ? -1 : 0; /* the highest first */
    }
    if (order == 0) {
        order = i < k ? -1 : i > k ? 1 : 0;
    }
    return sorted->is_reversed ? -order : order;
}

static void draw_row(struct sheet *s, unsigned row, const char *name,
                     const struct shard_sample *one, enum sheet_style style)
{
    unsigned x = NAME_WIDTH;

    sheet_put_right(s, row, NAME_WIDTH, style, name);
    for (unsigned f = 0; f < FIGURE_COUNT; f++) {
        char text[UNIT_TEXT_BYTES];

        top_number(text, figure_rows[f].unit, one->figure[f]);
        x += 1 + figure_rows[f].width;
        if (x > s->columns) {
            return;
        }
        sheet_put_right(s, row, x, style, text);
    }
}

static void draw_titles(const struct top *t, struct sheet *s, unsigned row)
{
    unsigned x = NAME_WIDTH;

    sheet_style(s, row, 0, s->columns, SHEET_TITLE);
    sheet_put_right(s, row, x, SHEET_TITLE, t->sorts_by_figure ? "shard" : "SHARD");
    for (unsigned f = 0; f < FIGURE_COUNT; f++) {
        char title[32];

        snprintf(title, sizeof(title), "%s", figure_rows[f].title);
        for (char *p = title; t->sorts_by_figure && f == t->sort && *p != '\0'; p++) {
            *p = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
        }
        x += 1 + figure_rows[f].width;
        if (x > s->columns) {
            return;
        }
        sheet_put_right(s, row, x, SHEET_TITLE, title);
    }
}

static void draw_table(const struct top *t, struct sheet *s)
{
    const struct stats_sample *now = &t->sample[t->last];
    static unsigned order[SAMPLE_SHARDS_MAX];
    unsigned room = top_room(s->rows);

    for (unsigned i = 0; i < now->shard_count; i++) {
        order[i] = i;
    }
    sorted = t;
    qsort(order, now->shard_count, sizeof(order[0]), compare);
    draw_titles(t, s, HEAD_ROWS - 1);
    draw_row(s, HEAD_ROWS, "all", &now->all, SHEET_BOLD);
    for (unsigned i = 0; i < room && t->first + i < now->shard_count; i++) {
        unsigned shard = order[t->first + i];
        char name[16];

        snprintf(name, sizeof(name), "%u", shard);
        draw_row(s, HEAD_ROWS + 1 + i, name, &now->shard[shard], SHEET_PLAIN);
    }
}

/* ---- help and foot ----------------------------------------------------------------------- */

static void draw_help(struct sheet *s)
{
    static const char *const lines[] = {
        "q       quit                 ?       this help",
        "n       sort by number       < >     sort by the column before, after",
        "R       the other way round  p       pause, go on",
        "+ -     longer, shorter      arrows  scroll (also page up, page down)",
    };
    unsigned row = 2;

    sheet_style(s, 0, 0, s->columns, SHEET_TITLE);
    (void)sheet_put(s, 0, 0, SHEET_TITLE, "mayflyctl top: keys; any key goes back");
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        (void)sheet_put(s, row++, 1, SHEET_PLAIN, "%s", lines[i]);
    }
    row++;
    (void)sheet_put(s, row++, 1, SHEET_BOLD, "A letter sorts by its column:");
    for (unsigned f = 0; f < FIGURE_COUNT; f++) {
        (void)sheet_put(s, row++, 1, SHEET_PLAIN, "%c  %-9s %s", figure_rows[f].letter,
                        figure_rows[f].title, figure_rows[f].help);
    }
}

void top_draw(const struct top *t, struct sheet *s)
{
    if (t->shows_help) {
        draw_help(s);
        return;
    }
    if (t->rounds > 0) {
        draw_head(t, s);
        draw_table(t, s);
    }
    if (s->rows > 0 && t->trouble[0] != '\0') {
        sheet_style(s, s->rows - 1, 0, s->columns, SHEET_PLAIN);
        (void)sheet_put(s, s->rows - 1, 0, SHEET_BAD, "%s", t->trouble);
    } else if (s->rows > 0) {
        (void)sheet_put(s, s->rows - 1, 0, SHEET_DIM,
                        "q quit  ? help  < > sort  R reverse  p pause  + - interval");
    }
}
