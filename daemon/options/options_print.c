/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See options.h.
 */
#include "daemon/options/options.h"

#include "daemon/base/version.h"
#include "daemon/options/conf_line.h"
#include "daemon/options/options_value.h"
#include "lib/base/check.h"

/* Where the comments begin, if the value leaves room. */
#define COMMENT_COLUMN 40

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
