/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `latency`, `hotkeys`, `bigkeys`, `slowlog`: show answers that are tables. An answer is one of
 * two kinds. Either the name of each statistic consists of row and column, as "get:p99_us", or
 * each line is a row of fields "name=value". All rows and columns are shown, so that a server
 * may add some.
 */
#include <inttypes.h>
#include <string.h>

#include "ctl/answer.h"
#include "ctl/ask.h"
#include "ctl/commands.h"
#include "ctl/json.h"
#include "ctl/show.h"
#include "lib/base/num.h"

#define COLUMNS_MAX 16

struct stats_table {
    const struct stats *s;
    struct span column[COLUMNS_MAX]; /* [borrowed] of s */
    size_t width[COLUMNS_MAX];
    unsigned columns;
    size_t first; /* width of the names of rows */
    bool is_flat; /* it has too many columns, and is shown as a list */
};

/* Split "row:column". Without a colon the row is empty. */
static void split_row(struct span name, struct span *row, struct span *column)
{
    size_t at = name.len;

    while (at > 0 && name.ptr[at - 1] != ':') {
        at--;
    }
    *row = span_of(name.ptr, at > 0 ? at - 1 : 0);
    *column = span_of(name.ptr + at, name.len - at);
}

static unsigned find_column(const struct stats_table *t, struct span column)
{
    unsigned i = 0;

    while (i < t->columns && !span_eq(t->column[i], column)) {
        i++;
    }
    return i;
}

static void lay_out(const struct ctl *c, struct stats_table *t)
{
    for (size_t i = 0; i < t->s->count && !t->is_flat; i++) {
        struct span row, column;

        split_row(stats_name(t->s, i), &row, &column);
        unsigned n = find_column(t, column);
        if (row.len == 0) {
            continue; /* it is printed before the table */
        }
        if (n == COLUMNS_MAX) {
            t->is_flat = true;
            return;
        }
        if (n == t->columns) {
            t->column[n] = column;
            t->width[n] = show_columns(column, c->is_utf8);
            t->columns++;
        }
        size_t width = show_value(NULL, unit_of(column), stats_value(t->s, i), c->is_utf8);
        t->width[n] = width > t->width[n] ? width : t->width[n];
        width = show_columns(row, c->is_utf8);
        t->first = width > t->first ? width : t->first;
    }
}

/* Print lines with a name and a value. all: every statistic; else those that have no row. */
static void put_flat(const struct ctl *c, const struct stats *s, bool all)
{
    struct span row, column;
    size_t width = 0;

    for (size_t i = 0; i < s->count; i++) {
        size_t columns = show_columns(stats_name(s, i), c->is_utf8);

        split_row(stats_name(s, i), &row, &column);
        width = (all || row.len == 0) && columns > width && columns <= 60 ? columns : width;
    }
    for (size_t i = 0; i < s->count; i++) {
        split_row(stats_name(s, i), &row, &column);
        if (!all && row.len > 0) {
            continue;
        }
        show_pad(c->out, width, show_text(c->out, stats_name(s, i), c->is_utf8));
        fputs("  ", c->out);
        (void)show_value(c->out, unit_of(stats_name(s, i)), stats_value(s, i), c->is_utf8);
        fputc('\n', c->out);
    }
}

/* Print a row, whose statistics begin at the i-th. Returns the index after the last one. */
static size_t put_row(const struct ctl *c, const struct stats_table *t, size_t i)
{
    struct span row, column, other;
    struct span name[COLUMNS_MAX];
    struct span value[COLUMNS_MAX];

    memset(name, 0, sizeof(name));
    memset(value, 0, sizeof(value));
    split_row(stats_name(t->s, i), &row, &column);
    for (other = row; i < t->s->count; i++) {
        split_row(stats_name(t->s, i), &other, &column);
        if (!span_eq(other, row)) {
            break;
        }
        unsigned n = find_column(t, column);
        name[n] = column;
        value[n] = stats_value(t->s, i);
    }
    show_pad(c->out, t->first, show_text(c->out, row, c->is_utf8));
    for (unsigned n = 0; n < t->columns; n++) {
        size_t columns = show_value(NULL, unit_of(name[n]), value[n], c->is_utf8);
        bool is_last = n + 1 == t->columns;
        double number;
        bool is_left = !num_fraction(value[n], &number);

        fputs("  ", c->out);
        if (!is_left) {
            show_pad(c->out, t->width[n], columns);
        }
        (void)show_value(c->out, unit_of(name[n]), value[n], c->is_utf8);
        if (is_left && !is_last) {
            show_pad(c->out, t->width[n], columns);
        }
    }
    fputc('\n', c->out);
    return i;
}

static void put_table(const struct ctl *c, const struct stats *s)
{
    struct stats_table t = {.s = s};
    size_t i = 0;

    lay_out(c, &t);
    put_flat(c, s, t.is_flat);
    if (t.is_flat || t.columns == 0) {
        return;
    }
    show_pad(c->out, t.first, 0);
    for (unsigned n = 0; n < t.columns; n++) {
        fputs("  ", c->out);
        show_pad(c->out, t.width[n], show_columns(t.column[n], c->is_utf8));
        (void)show_text(c->out, t.column[n], c->is_utf8);
    }
    fputc('\n', c->out);
    while (i < s->count) {
        struct span row, column;

        split_row(stats_name(s, i), &row, &column);
        i = row.len == 0 ? i + 1 : put_row(c, &t, i);
    }
}

/* Write an object with an object for each row. Statistics without a row are members of it. */
static void put_json(const struct ctl *c, const struct stats *s)
{
    struct span open = {0};
    struct json j = ctl_json(c);

    json_begin(&j, NULL, '{');
    for (size_t i = 0; i < s->count; i++) {
        struct span row, column;

        split_row(stats_name(s, i), &row, &column);
        if (open.len > 0 && !span_eq(open, row)) {
            json_end(&j, '{');
            open.len = 0;
        }
        if (row.len > 0 && open.len == 0) {
            json_name(&j, row);
            json_begin(&j, NULL, '{');
            open = row;
        }
        json_pair(&j, column, stats_value(s, i));
    }
    if (open.len > 0) {
        json_end(&j, '{');
    }
    json_end(&j, '{');
}

/* ---- asking ------------------------------------------------------------------------------ */

/* Add a statistic for a field of a row. False: no memory, or it is too long. */
static bool add_stat(struct stats *s, uint64_t row, struct span column, struct span value)
{
    char line[4096];
    int len = snprintf(line, sizeof(line), "STAT %" PRIu64 ":%.*s %.*s", row,
                       column.len > 100 ? 100 : (int)column.len, column.ptr,
                       value.len > 3500 ? 3500 : (int)value.len, value.ptr);

    return len > 0 && (size_t)len < sizeof(line) && stats_take(s, span_of(line, (size_t)len));
}

/* Add the fields of "WORD id=7 name=value ...". The row is the id, or else `number`. */
static bool take_fields(struct stats *s, struct span line, uint64_t number)
{
    struct span word = span_word(&line);
    struct span rest = line;
    struct span name, value;
    uint64_t row = number;
    bool is_row = false;

    for (size_t i = 0; i < word.len; i++) {
        if (word.ptr[i] < 'A' || word.ptr[i] > 'Z') {
            return false;
        }
    }
    if (answer_field(&rest, &name, &value) && span_is(name, "id")) {
        (void)num_u64(value, &row);
        line = rest;
    }
    while (answer_field(&line, &name, &value)) {
        if (!add_stat(s, row, name.len > 0 ? name : span_str("count"), value)) {
            return false;
        }
        is_row = true;
    }
    return is_row;
}

/* Is it a number that is the whole answer, without END, such as "SLOWLOG 5"? */
static bool is_alone(struct span line)
{
    uint64_t count;

    (void)span_word(&line);
    return num_u64(span_word(&line), &count) == MF_OK && line.len == 0;
}

/* An option that says whether the server measures what a table shows. */
struct switched {
    const char *option;
    const char *off[2]; /* values that turn it off */
    const char *on;     /* a value that turns it on */
};

static bool has_content(const struct stats *s)
{
    double number;

    for (size_t i = 0; i < s->count; i++) {
        if (!num_fraction(stats_value(s, i), &number) || number != 0) {
            return true;
        }
    }
    return false;
}

/* If the option is off, print how to turn it on. False: it is on, or its state is unknown. */
static bool tell_off(struct ctl *c, const struct switched *by)
{
    struct span value = {0};
    struct stats s = {0};
    bool is_off = ask_stats_if_any(c, CTL_OK, "settings", &s) == CTL_OK &&
                  stats_find(&s, by->option, &value) &&
                  (span_is(value, by->off[0]) || span_is(value, by->off[1]));

    stats_fini(&s);
    c->why[0] = '\0';
    if (is_off) {
        fprintf(c->out, "%s is off. To turn it on: mayflyctl config set %s %s\n", by->option,
                by->option, by->on);
    }
    return is_off;
}

/*
 * Send a request, and show the table that is the answer, or "OK". by: the option that explains
 * an empty table, or NULL.
 */
static enum ctl_status show_answer(struct ctl *c, const char *text, const struct switched *by)
{
    struct stats s = {0};
    struct span line = {0};
    uint64_t number = 0;
    enum ctl_status status = ask_line(c, "%s", text);

    while ((status = ask_answer(c, status, &line)) == CTL_OK && !answer_is_end(line)) {
        if (!stats_take(&s, line) && !take_fields(&s, line, number++)) {
            status = ask_garbled(c, line);
        } else if (is_alone(line)) {
            break;
        }
    }
    bool is_table = status == CTL_OK && !span_is(line, "OK") && !span_is(line, "RESET");
    if (status == CTL_OK && c->options.json) {
        put_json(c, &s);
    } else if (is_table && by != NULL && !has_content(&s) && tell_off(c, by)) {
        /* tell_off() has printed the reason */
    } else if (status == CTL_OK && s.count > 0) {
        put_table(c, &s);
    } else if (status == CTL_OK) {
        fputs(is_table ? "no entries\n" : "OK\n", c->out);
    }
    stats_fini(&s);
    return status;
}

/* "<name> reset" is a command. Any other argument is sent after "stats <name>". */
static enum ctl_status show_section(struct ctl *c, const struct ctl_words *args,
                                    const char *name, const struct switched *by)
{
    char line[256];

    if (args->count > 1 && span_is(args->word[1], "reset")) {
        snprintf(line, sizeof(line), "%s reset", name);
    } else if (args->count > 1) {
        snprintf(line, sizeof(line), "stats %s %.200s", name, args->word[1].ptr);
    } else {
        snprintf(line, sizeof(line), "stats %s", name);
    }
    return show_answer(c, line, by);
}

int cmd_latency(struct ctl *c, const struct ctl_words *args)
{
    static const struct switched by = {"latency_stats", {"no", "off"}, "yes"};

    return show_section(c, args, "latency", &by);
}

int cmd_hotkeys(struct ctl *c, const struct ctl_words *args)
{
    static const struct switched by = {"hotkeys", {"0", "0"}, "100"};

    return show_section(c, args, "hotkeys", &by);
}

int cmd_bigkeys(struct ctl *c, const struct ctl_words *args)
{
    return show_section(c, args, "bigkeys", NULL);
}

int cmd_slowlog(struct ctl *c, const struct ctl_words *args)
{
    static const struct switched by = {"slowlog_us", {"0", "-1"}, "10000"};
    char line[256];

    snprintf(line, sizeof(line), "slowlog %.100s%s%.100s",
             args->count > 1 ? args->word[1].ptr : "get", args->count > 2 ? " " : "",
             args->count > 2 ? args->word[2].ptr : "");
    return show_answer(c, line, &by);
}
