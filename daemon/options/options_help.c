/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The texts of -h, -V and -i.
 */
#include "daemon/options/options.h"

#include <string.h>

#include "daemon/base/version.h"
#include "daemon/base/wrap.h"
#include "daemon/options/options_live.h"
#include "daemon/options/options_value.h"

/* Columns: where the description begins, and where lines end. */
#define HELP_INDENT 30
#define HELP_WIDTH  92

bool option_has_no_form(const struct option_row *row)
{
    return row->kind == OPT_BOOL && row->letter == 0;
}

void option_value_form(const struct option_row *row, char *out)
{
    const char *form = option_kinds[row->kind].form;
    char word[OPTION_TEXT_BYTES];
    size_t used = 0;

    if (form != NULL) {
        used = strcspn(form, "%");
        snprintf(out, OPTION_TEXT_BYTES, "%.*s%s%s", (int)used, form,
                 form[used] != '\0' ? row->unit : "",
                 form[used] != '\0' ? form + used + 2 : "");
        return;
    }
    for (unsigned n = 0; option_word(row, n, OPTION_WORD_TYPED, word) != NULL; n++) {
        used += (size_t)snprintf(out + used, OPTION_TEXT_BYTES - used, "%c%s",
                                 n == 0 ? '=' : '|', word);
    }
}

void option_value_note(enum option_id id, char *out)
{
    const struct option_row *row = &option_rows[id];
    char def[OPTION_TEXT_BYTES];
    const char *typed = option_show_default(id, def);
    out[0] = '\0';
    if (row->kind == OPT_LEVEL || (row->kind == OPT_BOOL && row->letter != 0) ||
        typed[0] == '\0') {
        return;
    }
    const bool is_counted = row->kind == OPT_U32 || row->kind == OPT_I32;
    if (is_counted && option_may_be_unset(row)) {
        snprintf(out, OPTION_TEXT_BYTES, "%.0f to %.0f, default: unset", row->min, row->max);
    } else if (is_counted && row->max < INT32_MAX && row->max != 65535) {
        snprintf(out, OPTION_TEXT_BYTES, "%.0f to %.0f, default: %s", row->min, row->max,
                 typed);
    } else {
        snprintf(out, OPTION_TEXT_BYTES, "default: %s", typed);
    }
}

/* Print words after `column`, in lines from HELP_INDENT to HELP_WIDTH. */
static void put_wrapped(FILE *out, size_t column, const char *text)
{
    struct wrap w = {.out = out, .width = HELP_WIDTH, .column = column, .indent = HELP_INDENT};

    if (column + 1 >= HELP_INDENT) {
        fputc('\n', out);
        w.column = 0;
    }
    wrap_text(&w, text);
    fputc('\n', out);
}

static void put_row(FILE *out, enum option_id id)
{
    const struct option_row *row = &option_rows[id];
    char form[OPTION_TEXT_BYTES];
    char note[OPTION_TEXT_BYTES];
    char text[3 * OPTION_TEXT_BYTES];
    option_value_form(row, form);
    option_value_note(id, note);
    const int used = row->letter != 0
                         ? fprintf(out, "  -%c, --%s%s", row->letter, row->name, form)
                         : fprintf(out, "      --%s%s%s",
                                   option_has_no_form(row) ? "[no-]" : "", row->name, form);
    snprintf(text, sizeof(text), "%s%s%s%s", row->help, note[0] != '\0' ? " (" : "", note,
             note[0] != '\0' ? ")" : "");
    put_wrapped(out, used > 0 ? (size_t)used : 0, text);
}

/* The rows with a letter, or those without; none of the ignored ones. */
static void put_rows(FILE *out, bool has_letter)
{
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        if (!(row->traits & OPT_IGNORED) && (row->letter != 0) == has_letter) {
            put_row(out, id);
        }
    }
}

void options_each_ignored(FILE *out, void (*put)(FILE *out, const char *name, int letter))
{
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        if ((row->traits & OPT_IGNORED) && row->name[0] != '\0') {
            put(out, row->name, row->letter);
        }
    }
    for (size_t i = 0; i < compat_row_count; i++) {
        if (compat_rows[i].verdict == COMPAT_TAKEN) {
            put(out, compat_rows[i].name, compat_rows[i].letter);
        }
    }
}

static void put_ignored(FILE *out, const char *name, int letter)
{
    char text[OPTION_TEXT_BYTES];

    if (letter != 0) {
        fprintf(out, "  -%c, --%s\n", letter, name);
    } else {
        fprintf(out, "  -o %s\n", option_with_underscores(name, text));
    }
}

void options_print_help(FILE *out)
{
    fprintf(out,
            "%s %s, speaks the protocol of memcached %s\n"
            "usage: mayflyd [options]\n\n",
            MAYFLY_NAME, MAYFLY_VERSION, MEMCACHED_LEVEL);
    put_rows(out, true);
    fprintf(out, "  -o, --extended=<list>\n");
    put_wrapped(
        out, 0,
        "comma separated list of name or name=value, for any option that has a long form; in "
        "names - and _ are the same, and no_ before a name turns a switch off");
    fprintf(out, "      --config=<file>\n");
    put_wrapped(out, 0, "read options from this file, see mayfly.conf(5); flags override it");
    fprintf(out, "      --memcached-conf=<file>\n");
    put_wrapped(
        out, 0,
        "read flags from a file like Debian's /etc/memcached.conf; all others override it");
    fprintf(out, "      --check-config\n");
    put_wrapped(out, 0, "say whether a start with these options would succeed, and exit");
    fprintf(out, "      --print-config\n");
    put_wrapped(out, 0, "print all options, their values and where these come from, and exit");
    fprintf(out, "  -h, --help\n  -i, --license\n  -V, --version\n\n");
    put_rows(out, false);
    fprintf(out, "\nAccepted for compatibility with memcached, without effect:\n");
    options_each_ignored(out, put_ignored);
}

void options_print_version(FILE *out)
{
    fprintf(out, "%s %s (memcached %s)\n", MAYFLY_NAME, MAYFLY_VERSION, MEMCACHED_LEVEL);
}

/* COPYING as a C string; the build makes it. */
static const char license[] =
#include "daemon/options/license.inc"
    ;

void options_print_license(FILE *out)
{
    options_print_version(out);
    fprintf(out, "\n%s", license);
}
