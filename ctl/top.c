/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/top.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "ctl/commands.h"
#include "ctl/json.h"
#include "lib/base/mem.h"

/* ---- rounds ------------------------------------------------------------------------------ */

static void remember(struct top *t, enum top_past what, double v)
{
    t->past[what][t->past_count - 1] = v;
}

enum ctl_status top_round(struct top *t)
{
    unsigned next = 1 - t->last;
    const struct stats_sample *before = t->rounds > 0 ? &t->sample[t->last] : NULL;
    enum ctl_status status = sample_take(t->c, &t->sample[next], before);

    if (status != CTL_OK) {
        snprintf(t->trouble, sizeof(t->trouble), "%s", t->c->why);
        return status;
    }
    t->trouble[0] = '\0';
    t->last = next;
    t->rounds++;
    if (before == NULL) {
        return CTL_OK;
    }
    if (t->past_count == TOP_PAST) {
        for (unsigned i = 0; i < PAST_COUNT; i++) {
            memmove(t->past[i], t->past[i] + 1, (TOP_PAST - 1) * sizeof(double));
        }
    } else {
        t->past_count++;
    }
    const double *all = t->sample[t->last].all.figure;
    remember(t, PAST_OPS, all[FIGURE_ops]);
    remember(t, PAST_HITS, all[FIGURE_hit_pct]);
    remember(t, PAST_EXPIRED, all[FIGURE_expired]);
    remember(t, PAST_EVICTED, all[FIGURE_evicted]);
    return CTL_OK;
}

static void scroll(struct top *t, int by, unsigned rows)
{
    unsigned count = t->sample[t->last].shard_count;
    unsigned room = top_room(rows);
    unsigned most = count > room ? count - room : 0;
    int first = (int)t->first + by;

    t->first = first < 0 ? 0 : (unsigned)first > most ? most : (unsigned)first;
}

bool top_key(struct top *t, int key, unsigned rows)
{
    int page = (int)top_room(rows);

    if (t->shows_help) {
        t->shows_help = false;
        return key != 'q';
    }
    switch (key) {
    case 'q':
        return false;
    case '?':
        t->shows_help = true;
        break;
    case 'n':
        t->sorts_by_figure = false;
        break;
    case '<':
        t->sort = t->sort > 0 ? t->sort - 1 : FIGURE_COUNT - 1;
        t->sorts_by_figure = true;
        break;
    case '>':
        t->sort = t->sorts_by_figure ? (t->sort + 1) % FIGURE_COUNT : t->sort;
        t->sorts_by_figure = true;
        break;
    case 'R':
        t->is_reversed = !t->is_reversed;
        break;
    case 'p':
        t->is_paused = !t->is_paused;
        break;
    case '+':
        t->interval_s = t->interval_s < 60 ? t->interval_s * 2 : t->interval_s;
        break;
    case '-':
        t->interval_s = t->interval_s > 0.2 ? t->interval_s / 2 : t->interval_s;
        break;
    case TOP_KEY_UP:
        scroll(t, -1, rows);
        break;
    case TOP_KEY_DOWN:
        scroll(t, 1, rows);
        break;
    case TOP_KEY_PAGE_UP:
        scroll(t, -page, rows);
        break;
    case TOP_KEY_PAGE_DOWN:
        scroll(t, page, rows);
        break;
    default:
        for (unsigned f = 0; f < FIGURE_COUNT; f++) {
            if (figure_rows[f].letter == key) {
                t->sort = (enum figure_id)f;
                t->sorts_by_figure = true;
            }
        }
        break;
    }
    return true;
}

/* ---- lines and JSON ---------------------------------------------------------------------- */

void top_number(char text[UNIT_TEXT_BYTES], enum unit unit, double v)
{
    if (isnan(v)) {
        snprintf(text, UNIT_TEXT_BYTES, "-");
    } else {
        unit_short(text, unit, v);
    }
}

static void put_line(const struct top *t)
{
    const struct stats_sample *s = &t->sample[t->last];
    FILE *out = t->c->out;
    time_t now = time(NULL);
    char text[UNIT_TEXT_BYTES];
    struct tm tm;

    if (t->rounds % 20 == 2) {
        fputs("time    ", out);
        for (unsigned f = 0; f < FIGURE_COUNT; f++) {
            fprintf(out, " %*s", (int)figure_rows[f].width, figure_rows[f].title);
        }
        fputc('\n', out);
    }
    if (localtime_r(&now, &tm) == NULL || strftime(text, sizeof(text), "%H:%M:%S", &tm) == 0) {
        snprintf(text, sizeof(text), "%8s", "");
    }
    fputs(text, out);
    for (unsigned f = 0; f < FIGURE_COUNT; f++) {
        top_number(text, figure_rows[f].unit, s->all.figure[f]);
        fprintf(out, " %*s", (int)figure_rows[f].width, text);
    }
    fputc('\n', out);
}

static void put_figures(struct json *j, const struct shard_sample *one)
{
#define FIGURE(id, letter, title, width, kind, unit, help)                                     \
    json_double(j, #id, one->figure[FIGURE_##id]);
#include "ctl/figures.def"
#undef FIGURE
}

/* Write the role and the lag in time; null: the server does not report it. */
static void put_role(struct json *j, const struct stats *s)
{
    struct span role = {0};
    double lag_ms;

    (void)stats_find(s, "role", &role);
    json_text(j, "role", role);
    json_double(j, "repl_lag_ms",
                stats_number(s, "repl_lag_ms", &lag_ms) && lag_ms >= 0 ? lag_ms : (double)NAN);
}

static void put_json(const struct top *t)
{
    const struct stats_sample *s = &t->sample[t->last];
    struct json j;

    json_init_lines(&j, t->c->out);
    json_begin(&j, NULL, '{');
    json_u64(&j, "time", (uint64_t)time(NULL));
    put_role(&j, &s->replication);
    json_begin(&j, "all", '{');
    put_figures(&j, &s->all);
    json_end(&j, '{');
    json_begin(&j, "shards", '[');
    for (unsigned i = 0; i < s->shard_count; i++) {
        json_begin(&j, NULL, '{');
        put_figures(&j, &s->shard[i]);
        json_end(&j, '{');
    }
    json_end(&j, '[');
    json_begin(&j, "latency", '{');
    for (unsigned i = 0; i < s->latency_count; i++) {
        json_begin(&j, s->latency[i].kind, '{');
        json_double(&j, "p50_us", s->latency[i].p50_us);
        json_double(&j, "p99_us", s->latency[i].p99_us);
        json_end(&j, '{');
    }
    json_end(&j, '{');
    json_end(&j, '{');
}

/* Print a line for each round but the first, which has no earlier one to compare with. */
static enum ctl_status put_rounds(struct top *t, uint64_t count)
{
    enum ctl_status status;

    while ((status = top_round(t)) == CTL_OK) {
        if (t->rounds > 1) {
            if (t->c->options.json) {
                put_json(t);
            } else {
                put_line(t);
            }
        }
        if (fflush(t->c->out) != 0 || (count > 0 && t->rounds > count) ||
            !ctl_sleep(t->interval_s)) {
            break;
        }
    }
    return status;
}

/* ---- the command ------------------------------------------------------------------------- */

/* Find a figure by its letter or its title. */
static bool find_sort(const char *text, enum figure_id *sort)
{
    for (unsigned f = 0; f < FIGURE_COUNT; f++) {
        if (strcmp(text, figure_rows[f].title) == 0 ||
            (text[0] == figure_rows[f].letter && text[1] == '\0')) {
            *sort = (enum figure_id)f;
            return true;
        }
    }
    return false;
}

static enum ctl_status run_top(struct top *t)
{
    struct ctl *c = t->c;

    if (c->is_terminal && !c->options.json && !c->options.lines && top_screen_is_possible()) {
        return top_screen(t, c->options.count);
    }
    return put_rounds(t, c->options.count);
}

int cmd_top(struct ctl *c, const struct ctl_words *args)
{
    struct top *t = mem_zalloc(sizeof(*t));
    char server[300];
    enum ctl_status status = CTL_OK;

    (void)args;
    if (t == NULL) {
        return ctl_fail(c, CTL_SYSTEM, "no memory");
    }
    if (c->options.host != NULL) {
        snprintf(server, sizeof(server), "%.200s:%.50s", c->options.host, c->options.port);
    } else {
        snprintf(server, sizeof(server), "%.250s", c->options.control);
    }
    t->c = c;
    t->server = server;
    t->interval_s = c->options.interval;
    t->is_utf8 = c->is_utf8 && !c->options.ascii;
    t->sort = FIGURE_ops;
    if (c->options.sort != NULL) {
        t->sorts_by_figure = find_sort(c->options.sort, &t->sort);
        if (!t->sorts_by_figure) {
            status = ctl_fail(c, CTL_USAGE, "there is no column %.100s", c->options.sort);
        }
    }
    if (status == CTL_OK) {
        status = run_top(t);
    }
    if (ctl_is_interrupted()) {
        c->why[0] = '\0';
        status = CTL_OK;
    }
    sample_fini(&t->sample[0]);
    sample_fini(&t->sample[1]);
    mem_free(t);
    return status;
}
