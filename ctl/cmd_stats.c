/* SPDX-License-Identifier: BSD-3-Clause */
/* `stats`: prints statistics once, or repeatedly with what has changed. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "ctl/answer.h"
#include "ctl/ask.h"
#include "ctl/commands.h"
#include "ctl/json.h"
#include "ctl/show.h"
#include "lib/base/counters.h"
#include "lib/base/num.h"

/* The name without its shard number: "hits" for "0:hits". */
static struct span bare_name(struct span name)
{
    struct span shard, rest;

    return span_split(name, ':', &shard, &rest) ? rest : name;
}

/* The row of a statistic in the table of counters; NULL: there is none. */
static const struct counter_row *find_counter(struct span name)
{
    name = bare_name(name);
    for (unsigned id = 0; id < CTR_COUNT; id++) {
        if (span_is(name, counter_rows[id].line)) {
            return &counter_rows[id];
        }
    }
    return NULL;
}

/* Widths of the names and of the values, in columns. */
struct widths {
    size_t name, value;
};

static struct widths measure(const struct ctl *c, const struct stats *s)
{
    struct widths w = {0, 0};

    for (size_t i = 0; i < s->count; i++) {
        size_t name = show_columns(stats_name(s, i), c->is_utf8);
        size_t value = show_columns(stats_value(s, i), c->is_utf8);

        w.name = name > w.name && name <= 48 ? name : w.name;
        w.value = value > w.value && value <= 20 ? value : w.value;
    }
    return w;
}

/* Print a name and its value. Numbers are right-aligned. */
static void put_pair(const struct ctl *c, struct widths w, struct span name, struct span value)
{
    size_t columns = show_columns(value, c->is_utf8);
    double number;

    show_pad(c->out, w.name, show_text(c->out, name, c->is_utf8));
    fputs("  ", c->out);
    if (num_fraction(value, &number)) {
        show_pad(c->out, w.value, columns);
    }
    (void)show_text(c->out, value, c->is_utf8);
}

static void put_rows(const struct ctl *c, const struct stats *s)
{
    struct widths w = measure(c, s);

    for (size_t i = 0; i < s->count; i++) {
        struct span name = stats_name(s, i);
        struct span value = stats_value(s, i);
        const struct counter_row *row = c->options.explain ? find_counter(name) : NULL;
        char text[UNIT_TEXT_BYTES] = "";
        double number;

        put_pair(c, w, name, value);
        if (num_fraction(value, &number)) {
            unit_text(text, unit_of(name), number);
        }
        if (text[0] != '\0') {
            fprintf(c->out, "  %s", text);
        }
        if (row != NULL) {
            fprintf(c->out, "%s  %s", text[0] == '\0' ? "" : ";", row->meaning);
        }
        fputc('\n', c->out);
    }
}

void stats_put_json(const struct ctl *c, struct json *j, const struct stats *s)
{
    json_begin(j, NULL, '{');
    for (size_t i = 0; i < s->count; i++) {
        struct span name = stats_name(s, i);
        const struct counter_row *row = c->options.explain ? find_counter(name) : NULL;

        if (!c->options.explain) {
            json_pair(j, name, stats_value(s, i));
            continue;
        }
        json_name(j, name);
        json_begin(j, NULL, '{');
        json_scalar(j, "value", stats_value(s, i));
        if (row != NULL) {
            json_text(j, "meaning", span_str(row->meaning));
        }
        json_end(j, '{');
    }
    json_end(j, '{');
}

/* ---- again and again --------------------------------------------------------------------- */

/* Find the number that the i-th line of s had in the answer before. False: it had none. */
static bool number_before(const struct stats *before, const struct stats *s, size_t i,
                          double *v)
{
    struct span name = stats_name(s, i);

    if (i < before->count && span_eq(stats_name(before, i), name)) {
        return num_fraction(stats_value(before, i), v);
    }
    for (size_t k = 0; k < before->count; k++) {
        if (span_eq(stats_name(before, k), name)) {
            return num_fraction(stats_value(before, k), v);
        }
    }
    return false;
}

/* How much the number of the i-th line changed. False: it did not, or it is no number. */
static bool change_of(const struct stats *before, const struct stats *s, size_t i, double *by)
{
    double was, is;

    if (!num_fraction(stats_value(s, i), &is) || !number_before(before, s, i, &was)) {
        return false;
    }
    *by = is - was;
    return *by != 0;
}

static void put_changes(const struct ctl *c, const struct stats *before, const struct stats *s,
                        double seconds)
{
    struct widths w = measure(c, s);
    char text[UNIT_TEXT_BYTES];
    time_t now = time(NULL);
    struct tm tm;

    if (localtime_r(&now, &tm) != NULL && strftime(text, sizeof(text), "%H:%M:%S", &tm) > 0) {
        fprintf(c->out, "\n%s, after %.3g s\n", text, seconds);
    }
    for (size_t i = 0; i < s->count; i++) {
        struct span name = stats_name(s, i);
        double by;

        if (!change_of(before, s, i, &by) || unit_of(name) == UNIT_UNIX_S ||
            span_is(bare_name(name), "uptime")) {
            continue;
        }
        put_pair(c, w, name, stats_value(s, i));
        unit_short(text, unit_of(name), by);
        fprintf(c->out, "  %s%s", by > 0 ? "+" : "", text);
        unit_short(text, unit_of(name), by / seconds);
        fprintf(c->out, "  %s/s\n", text);
    }
}

static void put_round(const struct ctl *c, const struct stats *before, const struct stats *s,
                      double seconds)
{
    struct json j;

    json_init_lines(&j, c->out);
    json_begin(&j, NULL, '{');
    json_u64(&j, "time", (uint64_t)time(NULL));
    json_double(&j, "seconds", seconds);
    json_name(&j, span_str("stats"));
    stats_put_json(c, &j, s);
    json_begin(&j, "per_second", '{');
    for (size_t i = 0; i < s->count; i++) {
        double by;

        if (seconds > 0 && change_of(before, s, i, &by)) {
            json_name(&j, stats_name(s, i));
            json_double(&j, NULL, by / seconds);
        }
    }
    json_end(&j, '{');
    json_end(&j, '{');
}

static enum ctl_status repeat(struct ctl *c, const char *section, struct stats *now)
{
    struct stats before = {0};
    uint64_t round = 0;
    double then = 0;
    enum ctl_status status = CTL_OK;

    while (status == CTL_OK) {
        double t = ctl_now_s();

        if (c->options.json) {
            put_round(c, &before, now, round > 0 ? t - then : 0);
        } else if (round == 0) {
            put_rows(c, now);
        } else {
            put_changes(c, &before, now, t - then);
        }
        then = t;
        round++;
        if (fflush(c->out) != 0 || round == c->options.count || !ctl_sleep(c->options.watch)) {
            break;
        }
        stats_fini(&before);
        before = *now;
        *now = (struct stats){0};
        status = ask_stats(c, section, now);
    }
    stats_fini(&before);
    return status;
}

/* ---- answers that are not of lines with a name and a value ------------------------------- */

static enum ctl_status put_lines(struct ctl *c, const char *section)
{
    struct span line = {0};
    struct json j = ctl_json(c);
    enum ctl_status status = ask_answer(c, ask_line(c, "stats %s", section), &line);

    if (status != CTL_OK) {
        return status;
    }
    json_begin(&j, NULL, '[');
    while (status == CTL_OK && !answer_is_end(line)) {
        ctl_put_answer(c, &j, line);
        status = ask_answer(c, CTL_OK, &line);
    }
    if (status == CTL_OK && !span_is(line, "END")) {
        ctl_put_answer(c, &j, line);
    }
    json_end(&j, '[');
    return status;
}

/* Join the words after `stats` to one text. False: it is too long. */
static bool join(const struct ctl_words *args, char *out, size_t room)
{
    size_t n = 0;

    out[0] = '\0';
    for (unsigned i = 1; i < args->count; i++) {
        struct span word = args->word[i];

        if (n + word.len + 2 > room || memchr(word.ptr, '\0', word.len) != NULL) {
            return false;
        }
        if (i > 1) {
            out[n++] = ' ';
        }
        memcpy(out + n, word.ptr, word.len);
        n += word.len;
        out[n] = '\0';
    }
    return true;
}

int cmd_stats(struct ctl *c, const struct ctl_words *args)
{
    struct stats s = {0};
    char section[512];
    bool has_lines = args->count > 1 &&
                     (span_is(args->word[1], "detail") || span_is(args->word[1], "cachedump") ||
                      span_is(args->word[1], "reset"));

    if (!join(args, section, sizeof(section))) {
        return ctl_fail(c, CTL_USAGE, "the name of the section is too long");
    }
    if (option_is_given(&c->options, OPT_count) && !option_is_given(&c->options, OPT_watch)) {
        return ctl_fail(c, CTL_USAGE, "--count needs --watch");
    }
    if (has_lines && option_is_given(&c->options, OPT_watch)) {
        return ctl_fail(c, CTL_USAGE, "this section cannot be watched");
    }
    if (has_lines) {
        return put_lines(c, section);
    }
    enum ctl_status status = ask_stats(c, section, &s);
    if (status == CTL_OK && option_is_given(&c->options, OPT_watch)) {
        status = repeat(c, section, &s);
    } else if (status == CTL_OK && c->options.json) {
        struct json j = ctl_json(c);

        stats_put_json(c, &j, &s);
    } else if (status == CTL_OK) {
        put_rows(c, &s);
    } else if (status == CTL_REFUSED && args->count > 1) {
        struct span near = ctl_word_near(COMMAND_stats, args->word[1]);

        if (near.len > 0) {
            status =
                ctl_fail(c, CTL_REFUSED, "the server has no stats %.100s (did you mean %.*s?)",
                         args->word[1].ptr, (int)near.len, near.ptr);
        }
    }
    stats_fini(&s);
    return status;
}
