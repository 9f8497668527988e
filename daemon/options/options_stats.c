/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lines of `stats` for mayfly-stats(7), from the tables of counters, of options, and of the
 * other lines (daemon/base/stats_lines.def). Part of options_help.c.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "daemon/options/options_help.h"
#include "daemon/options/options_print.h"
#include "daemon/options/options_rows.h"
#include "lib/base/counters.h"

enum section {
#define SECTION(id, command, text) SECTION_##id,
#include "daemon/base/stats_lines.def"
    SECTIONS
};

static const struct {
    const char *command;
    const char *text;
} sections[] = {
#define SECTION(id, command, text) {command, text},
#include "daemon/base/stats_lines.def"
};

static const struct {
    enum section section;
    const char *name;
    const char *unit;
    const char *help;
} lines[] = {
#define STAT(section, name, unit, help) {SECTION_##section, name, unit, help},
#include "daemon/base/stats_lines.def"
};

static const struct {
    enum section section;
    unsigned where;
} shown[] = {
#define SHOWN(section, where) {SECTION_##section, where},
#include "daemon/base/stats_lines.def"
};

/* A sentence of a line's help: its first letter large, a full stop at its end. */
static void put_text(FILE *out, const char *text, const char *unit)
{
    fprintf(out, "%c%s", toupper((unsigned char)text[0]), text + 1);
    if (unit[0] != '\0') {
        fprintf(out, ", in %s", unit);
    }
    fputs(".\n", out);
}

static const char *condition_of(unsigned marks)
{
    static const struct {
        unsigned mark;
        const char *text;
    } conditions[] = {
        {CTR_IF_IDLE, "with idle_timeout"},
        {CTR_IF_UDP, "with UDP"},
        {CTR_IF_SESSIONS, "with TLS and ssl_session_cache"},
        {CTR_IF_TLS, "with TLS"},
        {CTR_IF_AUTH, "with authentication"},
    };

    for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++) {
        if ((marks & conditions[i].mark) != 0) {
            return conditions[i].text;
        }
    }
    return NULL;
}

static void put_counter(FILE *out, const struct counter_row *row)
{
    static const char *const kinds[] = {
        [CTR_KIND_COUNT] = "counts",
        [CTR_KIND_TOTAL] = "counts, also over a reset",
        [CTR_KIND_GAUGE] = "goes up and down",
    };
    const char *condition = condition_of(row->shown);

    fprintf(out, ".It Li %s\n", row->line);
    put_text(out, row->meaning, "");
    fprintf(out, ".Pq %s%s%s\n", kinds[row->kind], condition != NULL ? "; " : "",
            condition != NULL ? condition : "");
}

static void put_counters(FILE *out, enum section section)
{
    unsigned where = 0;

    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        where |= shown[i].section == section ? shown[i].where : 0;
    }
    for (unsigned id = 0; id < CTR_COUNT; id++) {
        if ((counter_rows[id].shown & where) != 0) {
            put_counter(out, &counter_rows[id]);
        }
    }
}

static void put_lines(FILE *out, enum section section)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (lines[i].section == section) {
            fprintf(out, ".It Li %s\n", lines[i].name);
            put_text(out, lines[i].help, lines[i].unit);
        }
    }
}

/* The help says what a switch does that is on; its line may be "no" or "off" then. */
static void put_help(FILE *out, const struct option_row *row)
{
    char text[OPTION_DESCRIPTION_BYTES];
    char word[OPTION_TEXT_BYTES];

    if (row->kind == OPT_BOOL && option_word(row, 1, OPTION_WORD_SHOWN, word) != NULL &&
        (strcmp(word, "no") == 0 || strcmp(word, "off") == 0)) {
        snprintf(text, sizeof(text), "%.20s: %s", word, row->help);
        put_text(out, text, "");
    } else {
        put_text(out, row->help, "");
    }
}

static void put_settings(FILE *out)
{
    for (size_t i = 0; i < option_line_count; i++) {
        const struct option_line *line = &option_lines[i];
        const struct option_row *row = &option_rows[line->id];

        if (line->name[0] == '\0') {
            continue;
        }
        fprintf(out, ".It Li %s\n", line->name);
        if (line->id == OPTION_COUNT) {
            put_text(out, "always the same; memcached's, without effect here", "");
            continue;
        }
        if (line->words[0] != NULL) {
            char word[OPTION_TEXT_BYTES];

            fprintf(out, "%s where %s is %s, else %s.\n", line->words[1], row->name,
                    option_word(row, (unsigned)line->number, OPTION_WORD_TYPED, word),
                    line->words[0]);
            continue;
        }
        if (line->is_as_given) {
            fprintf(out, "The value of %s as it was given.\n", row->name);
            continue;
        }
        put_help(out, row);
        if ((row->traits & OPT_IGNORED) != 0) {
            fputs(".Pq memcached's; without effect here\n", out);
        } else {
            fprintf(out, ".Pq Cm %s\n", row->name);
        }
    }
}

void options_print_stats(FILE *out)
{
    fputs(".\\\" Made from counters.def, options.def and stats_lines.def by `make docs`: "
          "do not edit.\n",
          out);
    for (unsigned s = 0; s < SECTIONS; s++) {
        if (s == SECTION_BOTH) {
            continue;
        }
        fprintf(out, ".Ss %s\n", sections[s].command);
        put_text(out, sections[s].text, "");
        fputs(".Bl -tag -width Ds\n", out);
        if (s == SECTION_SETTINGS) {
            put_settings(out);
        }
        put_lines(out, s);
        if (s == SECTION_EXPIRE || s == SECTION_SHARDS) {
            put_lines(out, SECTION_BOTH);
        }
        put_counters(out, s);
        fputs(".El\n", out);
    }
}
