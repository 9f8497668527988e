/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See options_message.h.
 */
#include "daemon/options/options_message.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/version.h"
#include "daemon/options/options_live.h"
#include "daemon/options/options_rows.h"
#include "lib/base/context.h"

/* A message with a path in it, and what it says of that. */
#define MESSAGE_BYTES 8192

/* [main] Where messages go instead of standard error, while a running server reads again. */
static option_sink_fn sink;

void option_messages_to(option_sink_fn fn)
{
    must_be_main();
    sink = fn;
}

void option_say(const char *fmt, ...)
{
    char text[MESSAGE_BYTES];
    va_list args;

    must_be_main();
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (sink != NULL) {
        sink(text);
    } else {
        fprintf(stderr, MAYFLY_NAME ": %s\n", text);
    }
}

const char *option_in_form(enum option_id id, enum option_form form, char *text)
{
    const struct option_row *row = &option_rows[id];
    char name[OPTION_TEXT_BYTES];

    must(id < OPTION_COUNT);
    switch (form) {
    case OPTION_BY_LETTER:
        snprintf(text, OPTION_GIVEN_BYTES, "-%c", row->letter);
        break;
    case OPTION_BY_FLAG:
        snprintf(text, OPTION_GIVEN_BYTES, "--%s", row->name);
        break;
    case OPTION_BY_SUBOPTION:
        snprintf(text, OPTION_GIVEN_BYTES, "-o %.*s", OPTION_NAME_MAX,
                 option_shown_name(id, name));
        break;
    case OPTION_BY_VARIABLE:
        snprintf(text, OPTION_GIVEN_BYTES, OPTION_VARIABLE_PREFIX "%.*s", OPTION_NAME_MAX,
                 option_shown_name(id, name));
        for (char *c = text; *c != '\0'; c++) {
            *c = (char)toupper((unsigned char)*c);
        }
        break;
    case OPTION_BY_NAME:
        snprintf(text, OPTION_GIVEN_BYTES, "%s", row->name);
        break;
    }
    return text;
}

const char *option_given(const struct settings *s, enum option_id id, char *text)
{
    const enum option_source source = setting_source(s, id);
    const bool is_given = source != OPTION_DEFAULT && source != OPTION_RUN_TIME;
    const enum option_form usual =
        option_rows[id].letter != 0 ? OPTION_BY_LETTER : OPTION_BY_FLAG;

    return option_in_form(id, is_given ? (enum option_form)s->places[id].form : usual, text);
}

void option_fault(const struct settings *s, enum option_id id, const char *fmt, ...)
{
    const struct option_place *place = &s->places[id];
    char given[OPTION_GIVEN_BYTES];
    char text[MESSAGE_BYTES / 2];
    char where[MESSAGE_BYTES / 4] = "";
    va_list args;

    must_be_main();
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    option_given(s, id, given);
    if (setting_source(s, id) != OPTION_DEFAULT && place->file != NULL) {
        snprintf(where, sizeof(where), "%s:%u: ", place->file, place->line);
    }
    if (sink == NULL && (log_is_journal() || log_is_json())) {
        log_error("options, %s%s: %s", where, given, text);
    } else {
        option_say("%s%s: %s", where, given, text);
    }
}
