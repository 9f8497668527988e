/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See options_print.h.
 */
#include "daemon/options/options_print.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "daemon/base/version.h"
#include "daemon/options/conf_line.h"
#include "daemon/options/options_message.h"
#include "daemon/options/options_rows.h"
#include "daemon/options/options_value.h"
#include "lib/base/check.h"

/* Where the comments begin, if the value leaves room. */
#define COMMENT_COLUMN 40

/* Where lines of --describe=config end. */
#define TEMPLATE_WIDTH 79

const char *option_where(const struct settings *s, enum option_id id, char *text)
{
    const struct option_place *place = &s->places[id];
    char name[OPTION_GIVEN_BYTES];

    switch (setting_source(s, id)) {
    case OPTION_DEFAULT:
        return option_has_default(s, id) ? "default" : "follows from another option";
    case OPTION_ENVIRONMENT:
        snprintf(text, OPTION_WHERE_BYTES, "environment: %s",
                 option_in_form(id, OPTION_BY_VARIABLE, name));
        return text;
    case OPTION_MEMCACHED_CONF:
    case OPTION_FILE:
        snprintf(text, OPTION_WHERE_BYTES, "%.*s:%u", PATH_MAX,
                 place->file != NULL ? place->file : "", place->line);
        return text;
    case OPTION_COMMAND_LINE:
        return "command line";
    case OPTION_RUN_TIME:
        return "run time";
    }
    unreachable();
}

/* A comment ends with its line, so what could end it is not printed. */
static void put_comment(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        fputc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, out);
    }
}

static void put_setting(FILE *out, const struct settings *s, enum option_id id)
{
    char text[OPTION_TEXT_BYTES];
    char where[OPTION_WHERE_BYTES];
    const int name_len = fprintf(out, "%s = ", option_rows[id].name);
    const size_t column = (size_t)name_len + conf_value_print(out, option_typed(s, id, text));

    fprintf(out, "%*s # ", column < COMMENT_COLUMN ? (int)(COMMENT_COLUMN - column) : 0, "");
    put_comment(out, option_where(s, id, where));
    fputc('\n', out);
}

void options_print_config(FILE *out, const struct settings *s)
{
    fprintf(out, "# The options of %s %s, and where each value comes from.\n", MAYFLY_NAME,
            MAYFLY_VERSION);
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        const bool is_worth_it =
            (row->traits & OPT_IGNORED) == 0 || setting_source(s, id) != OPTION_DEFAULT;

        if (row->name[0] != '\0' && is_worth_it) {
            put_setting(out, s, id);
        }
    }
}

/* ---- described --------------------------------------------------------------------------- */

/* Append to a text of OPTION_DESCRIPTION_BYTES. */
static MF_PRINTF(2, 3) void append(char *text, const char *fmt, ...)
{
    const size_t len = strlen(text);
    va_list args;

    va_start(args, fmt);
    vsnprintf(text + len, OPTION_DESCRIPTION_BYTES - len, fmt, args);
    va_end(args);
}

static void append_words(char *text, const struct option_row *row)
{
    char word[OPTION_TEXT_BYTES];

    append(text, "One of");
    for (unsigned n = 0; option_word(row, n, OPTION_WORD_TYPED, word) != NULL; n++) {
        append(text, "%s %s", n > 0 ? "," : "", word);
    }
}

const char *option_describe(const struct option_row *row, char *text)
{
    char range[OPTION_TEXT_BYTES];

    text[0] = '\0';
    option_range(row, range);
    switch (row->kind) {
    case OPT_BOOL:
        append(text, "Yes or no");
        break;
    case OPT_ENUM:
        append_words(text, row);
        break;
    case OPT_CHAR:
        append(text, "One character");
        break;
    case OPT_STR:
    case OPT_LIST:
        append(text, "%c%s", toupper((unsigned char)row->unit[0]), row->unit + 1);
        break;
    case OPT_MB:
    case OPT_KB:
        append(text, "%s, or a size with suffix k, m or g", range);
        break;
    default:
        append(text, "%c%s%s, %s%s", toupper((unsigned char)row->unit[0]), row->unit + 1,
               row->kind == OPT_OCTAL  ? " in octal"
               : row->kind == OPT_SIZE ? " with suffix k, m, g or none"
                                       : "",
               range, option_may_be_unset(row) ? "; empty: unset" : "");
        break;
    }
    if (row->letter != 0) {
        append(text, "; flag -%c", row->letter);
    }
    if (row->life == OPT_LIVE) {
        append(text, "; live");
    }
    return text;
}

/* ---- the template ------------------------------------------------------------------------ */

/* Print a sentence as a comment, from this column on; returns where it ended. */
static size_t put_sentence(FILE *out, size_t column, const char *text)
{
    for (bool is_first = true; *text != '\0'; is_first = false) {
        const size_t len = strcspn(text, " ");
        if (column == 0 || column + 1 + len + 1 > TEMPLATE_WIDTH) {
            fputs(column > 0 ? "\n# " : "# ", out);
            column = 2;
        } else {
            fputc(' ', out);
            column++;
        }
        fputc(is_first ? toupper((unsigned char)text[0]) : text[0], out);
        fwrite(text + 1, 1, len - 1, out);
        column += len;
        text += len;
        text += strspn(text, " ");
    }
    fputc('.', out);
    return column + 1;
}

void options_print_template(FILE *out)
{
    struct settings defaults;
    char text[OPTION_DESCRIPTION_BYTES];
    char value[OPTION_TEXT_BYTES];

    settings_init(&defaults);
    fputs("# Configuration of mayflyd, read with --config FILE; see mayfly.conf(5). Every\n"
          "# option is here, at its default. Flags on the command line override the file, and\n"
          "# the file overrides the environment (memory-limit is MAYFLY_MEMORY_LIMIT there).\n"
          "#\n"
          "#   mayflyd --config FILE --check-config    what is wrong with it\n"
          "#   mayflyd --config FILE --print-config    what is in effect, and what has set it\n"
          "#\n"
          "# A line is name = value; a value with a # or blanks at its ends stands in double\n"
          "# quotes. What is live can be changed while the server runs, by config set. A\n"
          "# folder of further files (*.conf, in the order of their names) is read by\n"
          "#\n"
          "#   include = mayfly.conf.d\n",
          out);
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];

        if (row->name[0] == '\0' || (row->traits & OPT_IGNORED) != 0) {
            continue;
        }
        fputc('\n', out);
        const size_t column = put_sentence(out, 0, row->help);
        put_sentence(out, column, option_describe(row, text));
        fprintf(out, "\n#%s =", row->name);
        const char *typed = option_typed(&defaults, id, value);
        if (typed[0] != '\0') {
            fputc(' ', out);
            conf_value_print(out, typed);
        }
        fputc('\n', out);
    }
    settings_fini(&defaults);
}
