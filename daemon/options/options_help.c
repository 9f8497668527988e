/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The texts made from the tables: -h, -V, -i, and the generated parts of the manual.
 */
#include "daemon/options/options_help.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/version.h"
#include "daemon/options/options_print.h"
#include "daemon/options/options_rows.h"
#include "daemon/options/options_topics.h"
#include "daemon/options/options_value.h"

/* Columns: where the description begins, and where lines end. */
#define HELP_INDENT 30
#define HELP_WIDTH  92

/* Is there a flag --no-name? */
static bool has_no_form(const struct option_row *row)
{
    return row->kind == OPT_BOOL && row->letter == 0;
}

/* What follows the flag: "=<threads>", "[=0..2]", "=auto|ascii|binary". Fills out. */
static void value_form(const struct option_row *row, char *out)
{
    char word[OPTION_TEXT_BYTES];
    size_t used = 0;
    switch (row->kind) {
    case OPT_BOOL:
    case OPT_LEVEL:
        out[0] = '\0';
        return;
    case OPT_SWITCH:
        snprintf(out, OPTION_TEXT_BYTES, "[=%s]", row->unit);
        return;
    case OPT_ENUM:
        for (unsigned n = 0; option_word(row, n, OPTION_WORD_TYPED, word) != NULL; n++) {
            used += (size_t)snprintf(out + used, OPTION_TEXT_BYTES - used, "%c%s",
                                     n == 0 ? '=' : '|', word);
        }
        return;
    default:
        snprintf(out, OPTION_TEXT_BYTES, "=<%s>", row->unit);
        return;
    }
}

/* The words about range and default, or nothing. Fills out. */
static void value_note(enum option_id id, char *out)
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
        snprintf(out, OPTION_TEXT_BYTES, "%lld to %lld, default: unset", (long long)row->min,
                 (long long)row->max);
    } else if (is_counted && row->max < INT32_MAX && row->max != 65535) {
        snprintf(out, OPTION_TEXT_BYTES, "%lld to %lld, default: %s", (long long)row->min,
                 (long long)row->max, typed);
    } else {
        snprintf(out, OPTION_TEXT_BYTES, "default: %s", typed);
    }
}

/* Print words after `column`, in lines from HELP_INDENT to HELP_WIDTH. */
static void put_wrapped(FILE *out, size_t column, const char *text)
{
    if (column + 1 >= HELP_INDENT) {
        fputc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", (int)(HELP_INDENT - column), "");
    column = HELP_INDENT;
    while (*text != '\0') {
        const size_t len = strcspn(text, " ");
        if (column > HELP_INDENT && column + 1 + len > HELP_WIDTH) {
            fprintf(out, "\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        } else if (column > HELP_INDENT) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, len, out);
        column += len;
        text += len;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void put_row(FILE *out, enum option_id id)
{
    const struct option_row *row = &option_rows[id];
    char form[OPTION_TEXT_BYTES];
    char note[OPTION_TEXT_BYTES];
    char text[3 * OPTION_TEXT_BYTES];
    value_form(row, form);
    value_note(id, note);
    const int used =
        row->letter != 0
            ? fprintf(out, "  -%c, --%s%s", row->letter, row->name, form)
            : fprintf(out, "      --%s%s%s", has_no_form(row) ? "[no-]" : "", row->name, form);
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

/* A name as users of memcached write it after -o, with underscores. */
static const char *suboption_name(const char *name, char *text)
{
    size_t i;
    for (i = 0; name[i] != '\0' && i + 1 < OPTION_TEXT_BYTES; i++) {
        text[i] = name[i] == '-' ? '_' : name[i];
    }
    text[i] = '\0';
    return text;
}

/* Call put for each flag and name of compat.def with this verdict. */
static void each_compat(FILE *out, enum compat_verdict verdict,
                        void (*put)(FILE *out, const char *name, int letter))
{
    char text[OPTION_TEXT_BYTES];
    for (size_t i = 0; i < compat_row_count; i++) {
        const struct compat_row *row = &compat_rows[i];
        if (row->verdict == verdict) {
            put(out, row->letter != 0 ? row->name : suboption_name(row->name, text),
                row->letter);
        }
    }
}

/* Call put for each flag and name that is accepted without effect. */
static void each_ignored(FILE *out, void (*put)(FILE *out, const char *name, int letter))
{
    char text[OPTION_TEXT_BYTES];
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        if ((row->traits & OPT_IGNORED) && row->name[0] != '\0') {
            put(out, row->letter != 0 ? row->name : suboption_name(row->name, text),
                row->letter);
        }
    }
    each_compat(out, COMPAT_TAKEN, put);
}

static void put_ignored(FILE *out, const char *name, int letter)
{
    if (letter != 0) {
        fprintf(out, "  -%c, --%s\n", letter, name);
    } else {
        fprintf(out, "  -o %s\n", name);
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
    each_ignored(out, put_ignored);
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

/* ---- the manual -------------------------------------------------------------------------- */

/*
 * Print a sentence for mdoc, with a capital and a full stop, in lines that are not too long for
 * mandoc. A backslash is special, and so is a point or quote at the start of a line.
 */
#define MDOC_WIDTH 78
static void put_mdoc(FILE *out, const char *text)
{
    size_t column = 0;
    for (bool is_first = true; *text != '\0'; is_first = false) {
        const size_t len = strcspn(text, " ");
        if (column > 0 && column + 1 + len > MDOC_WIDTH) {
            fputc('\n', out);
            column = 0;
        } else if (column > 0) {
            fputc(' ', out);
            column++;
        }
        if (column == 0 && (*text == '.' || *text == '\'')) {
            fputs("\\&", out);
        }
        for (size_t i = 0; i < len; i++) {
            if (text[i] == '\\') {
                fputs("\\e", out);
            } else {
                fputc(is_first && i == 0 ? toupper((unsigned char)text[i]) : text[i], out);
            }
        }
        column += len;
        text += len;
        text += strspn(text, " ");
    }
    fputs(".\n", out);
}

static void put_mdoc_form(FILE *out, const struct option_row *row)
{
    char form[OPTION_TEXT_BYTES];
    value_form(row, form);
    fputs(".It ", out);
    if (row->letter != 0) {
        fprintf(out, "Fl %c , ", row->letter);
    }
    fprintf(out, "Fl \\-%s%s", has_no_form(row) ? "[no-]" : "", row->name);
    if (form[0] == '=' && form[1] == '<') {
        fprintf(out, " Ns = Ns Ar %.*s", (int)strcspn(form + 2, ">"), row->unit);
    } else if (form[0] != '\0') {
        fprintf(out, " Ns %s", form);
    }
    fputc('\n', out);
}

static void put_mdoc_row(FILE *out, enum option_id id)
{
    const struct option_row *row = &option_rows[id];
    char note[OPTION_TEXT_BYTES];
    put_mdoc_form(out, row);
    put_mdoc(out, row->help);
    value_note(id, note);
    if (note[0] != '\0') {
        put_mdoc(out, note);
    }
    if (row->life == OPT_LIVE) {
        put_mdoc(out, "live");
    }
}

static void put_mdoc_ignored(FILE *out, const char *name, int letter)
{
    if (letter != 0) {
        fprintf(out, ".It Fl %c , Fl \\-%s\n", letter, name);
    } else {
        fprintf(out, ".It Cm %s\n", name);
    }
}

/* Names of Redis: those that are accepted, then those that are not. */
static void put_mdoc_redis(FILE *out)
{
    fputs(".Ss Names of Redis\n"
          "These names of Redis are accepted on the command line, in the file and by\n"
          ".Ic config set ,\nas values mean the same.\n"
          ".Bl -tag -width Ds -compact\n",
          out);
    for (size_t i = 0; i < compat_row_count; i++) {
        const struct compat_row *row = &compat_rows[i];

        if (row->is_of_redis && row->verdict == COMPAT_ALIAS) {
            fprintf(out, ".It Cm %s\n.Cm %s%s\n", row->name, option_rows[row->option].name,
                    row->is_in_bytes ? ", in bytes or with suffix kb, mb or gb" : "");
        }
    }
    fputs(".El\n.Pp\nOptions of Redis that mean something else here, or nothing:\n"
          ".Bl -tag -width Ds -compact\n",
          out);
    for (size_t i = 0; i < compat_row_count; i++) {
        if (compat_rows[i].verdict == COMPAT_INSTEAD) {
            fprintf(out, ".It Cm %s\n", compat_rows[i].name);
            put_mdoc(out, compat_rows[i].text);
        }
    }
    fputs(".El\n", out);
}

static void begin_topic(FILE *out, const char *title)
{
    fprintf(out, ".Ss %s\n.Bl -tag -width Ds\n", title);
}

static void end_topic(FILE *out)
{
    fputs(".El\n", out);
}

void options_print_manual(FILE *out)
{
    fputs(
        ".\\\" Made from options.def, topics.def and compat.def by `make docs`: do not edit.\n",
        out);
    options_each_by_topic(out, begin_topic, put_mdoc_row, end_topic);
    fputs(".Ss Options without effect\n"
          "These options and\n.Fl o\nnames of\n.Xr memcached 1\n"
          "are accepted, after the same checks of their values, and have no effect here.\n"
          ".Bl -tag -width Ds -compact\n",
          out);
    each_ignored(out, put_mdoc_ignored);
    fputs(".El\n.Ss Options that are refused\n"
          "These\n.Fl o\nnames of\n.Xr memcached 1\n"
          "end the start with a message, because mayfly does not have what they ask for:\n"
          ".Bl -tag -width Ds -compact\n",
          out);
    each_compat(out, COMPAT_REFUSED, put_mdoc_ignored);
    fputs(".El\n", out);
    put_mdoc_redis(out);
}

static void put_mdoc_setting(FILE *out, enum option_id id)
{
    const struct option_row *row = &option_rows[id];
    struct settings defaults;
    char text[OPTION_DESCRIPTION_BYTES];
    char value[OPTION_TEXT_BYTES];

    settings_init(&defaults);
    fprintf(out, ".It Cm %s No = %s\n", row->name, option_typed(&defaults, id, value));
    settings_fini(&defaults);
    put_mdoc(out, row->help);
    put_mdoc(out, option_describe(row, text));
}

void options_print_settings(FILE *out)
{
    fputs(".\\\" Made from options.def and topics.def by `make docs`: do not edit.\n", out);
    options_each_by_topic(out, begin_topic, put_mdoc_setting, end_topic);
}

/* Is this the row of a flag that the synopsis shows, with or without a value? */
static bool is_in_synopsis(const struct option_row *row, int letter, bool has_value)
{
    return row->letter == letter && !(row->traits & OPT_IGNORED) &&
           option_may_stand_alone(row) != has_value;
}

static void put_synopsis_value(FILE *out, const struct option_row *row)
{
    char word[OPTION_TEXT_BYTES];
    fprintf(out, ".Op Fl %c", row->letter);
    if (row->kind != OPT_ENUM) {
        fprintf(out, " Ar %s\n", row->unit);
        return;
    }
    for (unsigned n = 0; option_word(row, n, OPTION_WORD_TYPED, word) != NULL; n++) {
        fprintf(out, "%s Cm %s", n == 0 ? "" : " |", word);
    }
    fputc('\n', out);
}

/* A to Z, each before its small letter. */
static int next_letter(int letter)
{
    if (letter >= 'A' && letter <= 'Z') {
        return tolower(letter);
    }
    return letter == 'z' ? 0 : toupper(letter) + 1;
}

void options_print_synopsis(FILE *out)
{
    fputs(".\\\" Made from options.def by `make docs`: do not edit.\n.Nm\n.Op Fl ", out);
    for (int letter = 'A'; letter != 0; letter = next_letter(letter)) {
        for (unsigned id = 0; id < OPTION_COUNT; id++) {
            if (is_in_synopsis(&option_rows[id], letter, false)) {
                fputc(letter, out);
            }
        }
    }
    fputc('\n', out);
    for (int letter = 'A'; letter != 0; letter = next_letter(letter)) {
        for (unsigned id = 0; id < OPTION_COUNT; id++) {
            if (is_in_synopsis(&option_rows[id], letter, true)) {
                put_synopsis_value(out, &option_rows[id]);
            }
        }
        if (letter == 'o') {
            fputs(".Op Fl o Ar list\n", out);
        }
    }
    fputs(".Nm\n.Fl h | i | V\n", out);
}
