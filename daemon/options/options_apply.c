/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See options_apply.h.
 */
#include "daemon/options/options_apply.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "daemon/base/log.h"
#include "daemon/base/version.h"
#include "daemon/options/options_live.h"
#include "daemon/options/options_rows.h"
#include "daemon/options/options_value.h"
#include "lib/base/context.h"

/* A message with a path in it, and what it says of that. */
#define MESSAGE_BYTES 8192

/* Print a message with the place; the option is taken. */
static MF_PRINTF(2, 3) void warn(const struct option_giver *g, const char *fmt, ...)
{
    char text[MESSAGE_BYTES];

    MF_FORMAT(text, sizeof(text), fmt);
    if (g->place.file != NULL) {
        option_say(g->settings->messages, "%s:%u: %s", g->place.file, g->place.line, text);
    } else {
        option_say(g->settings->messages, "%s", text);
    }
}

int option_complain(struct option_giver *g, int status, const char *fmt, ...)
{
    char text[MESSAGE_BYTES];

    g->status = g->errors == 0 ? status : g->status;
    g->errors++;
    if (g->errors > OPTION_ERRORS_MAX) {
        if (g->errors == OPTION_ERRORS_MAX + 1) {
            option_say(g->settings->messages, "More errors are not shown");
        }
        return status;
    }
    MF_FORMAT(text, sizeof(text), fmt);
    warn(g, "%s", text);
    return status;
}

const char *option_hint(const char *given, size_t len, char *text)
{
    const char *name = option_nearest(given, len);

    if (name != NULL) {
        snprintf(text, OPTION_TEXT_BYTES, " (did you mean \"%s\"?)", name);
    } else {
        snprintf(text, OPTION_TEXT_BYTES, " (see " MAYFLY_NAME " --help)");
    }
    return text;
}

/* Remember the line that has set it, if it was not kept as it was. */
static void note_place(struct option_giver *g, enum option_id id)
{
    if (setting_source(g->settings, id) == g->source) {
        g->settings->places[id] = g->place;
    }
}

int option_apply(struct option_giver *g, enum option_id id, const char *given,
                 const char *value)
{
    char why[OPTION_TEXT_BYTES];

    if (option_set(g->settings, id, value, g->source, why)) {
        note_place(g, id);
        if (why[0] != '\0') {
            warn(g, "%s: %s", given, why);
        }
        return 0;
    }
    return option_complain(g, value != NULL ? option_rows[id].status : EXIT_FAILURE, "%s: %s",
                           given, why);
}

bool option_apply_off(struct option_giver *g, enum option_id id)
{
    if (!option_set_off(g->settings, id, g->source)) {
        return false;
    }
    note_place(g, id);
    return true;
}

int option_apply_or_unset(struct option_giver *g, enum option_id id, const char *given,
                          const char *value)
{
    if (value != NULL && value[0] == '\0' && option_unset(g->settings, id, g->source)) {
        if (setting_source(g->settings, id) == OPTION_DEFAULT) {
            g->settings->places[id] = g->place;
        }
        return 0;
    }
    return option_apply(g, id, given, value);
}

int option_apply_compat(struct option_giver *g, const struct compat_row *row, const char *given,
                        const char *value)
{
    char text[OPTION_ALIAS_BYTES];

    switch (row->verdict) {
    case COMPAT_ALIAS:
        g->place.is_in_bytes = row->is_in_bytes;
        return option_apply_or_unset(g, row->option, given,
                                     value != NULL ? option_alias_value(row->name, value, text)
                                                   : NULL);
    case COMPAT_REFUSED:
        return option_complain(g, EX_USAGE, "%s: this server is not built with %s support",
                               given, row->text);
    case COMPAT_INSTEAD:
        return option_complain(g, EXIT_FAILURE, "%s: an option of Redis: %s", given, row->text);
    case COMPAT_TAKEN:
        break;
    }
    if (row->arg == COMPAT_ARG && (value == NULL || value[0] == '\0')) {
        return option_complain(g, EXIT_FAILURE, "%s: a value is missing", given);
    }
    g->settings->compat[row->id] = true;
    return 0;
}

/* Turn the option <name> of no_<name> off. False: there is none that can be turned off. */
static bool set_off_by_name(struct option_giver *g, const char *name, size_t len)
{
    enum option_id id = option_find(name, len);

    return id != OPTION_COUNT && option_apply_off(g, id);
}

int option_apply_suboption(struct option_giver *g, const char *text)
{
    const size_t len = strcspn(text, "=");
    const char *value = text[len] == '=' ? text + len + 1 : NULL;
    const struct compat_row *row = compat_find(text, len);
    const enum option_id id = option_find(text, len);
    char given[OPTION_GIVEN_BYTES];
    char hint[OPTION_TEXT_BYTES];

    g->place.form = OPTION_BY_SUBOPTION;
    g->place.is_in_bytes = false;
    snprintf(given, sizeof(given), "-o %.*s",
             (int)(len < OPTION_NAME_MAX ? len : OPTION_NAME_MAX), text);
    if (row != NULL) {
        return option_apply_compat(g, row, given, value);
    }
    if (id != OPTION_COUNT) {
        return option_apply_or_unset(g, id, given, value);
    }
    if (len > 3 && option_name_is("no-", text, 3) && set_off_by_name(g, text + 3, len - 3)) {
        return 0;
    }
    if (len == 0) {
        return option_complain(g, EXIT_FAILURE, "-o: the name of an option is missing");
    }
    return option_complain(g, EXIT_FAILURE, "%s: unknown option%s", given,
                           option_hint(text, len, hint));
}

/* An option by any of its names, of which `given` is shown. */
static int apply_named(struct option_giver *g, struct span name, const char *given,
                       const char *value)
{
    const struct compat_row *row = compat_find(name.ptr, name.len);
    const enum option_id id = option_find(name.ptr, name.len);
    char hint[OPTION_TEXT_BYTES];

    g->place.is_in_bytes = false;
    if (row == NULL && id != OPTION_COUNT) {
        return option_apply_or_unset(g, id, given, value);
    }
    if (row != NULL && row->verdict == COMPAT_TAKEN) {
        return option_complain(g, EXIT_FAILURE,
                               "%s: a flag of memcached without effect here (%s)", given,
                               row->text);
    }
    if (row != NULL) {
        return option_apply_compat(g, row, given, value);
    }
    return option_complain(g, EXIT_FAILURE, "%s: unknown option%s", given,
                           option_hint(name.ptr, name.len, hint));
}

int option_apply_setting(struct option_giver *g, struct span name, const char *value)
{
    char given[OPTION_GIVEN_BYTES];

    g->place.form = OPTION_BY_NAME;
    snprintf(given, sizeof(given), "%.*s",
             (int)(name.len < OPTION_NAME_MAX ? name.len : OPTION_NAME_MAX), name.ptr);
    return apply_named(g, name, given, value);
}

int option_apply_variable(struct option_giver *g, const char *variable, struct span name,
                          const char *value)
{
    g->place.form = OPTION_BY_VARIABLE;
    return apply_named(g, name, variable, value);
}

/* ---- messages ---------------------------------------------------------------------------- */

void option_say(struct option_messages *to, const char *fmt, ...)
{
    char text[MESSAGE_BYTES];

    must_be_main();
    MF_FORMAT(text, sizeof(text), fmt);
    if (to == NULL) {
        fprintf(stderr, MAYFLY_NAME ": %s\n", text);
        return;
    }
    if (to->first[0] == '\0') {
        snprintf(to->first, sizeof(to->first), "%.*s", (int)sizeof(to->first) - 1, text);
    }
    if (to->is_logged) {
        log_error("options, %s", text);
    }
}

const char *option_in_form(enum option_id id, enum option_form form, char *text)
{
    char name[OPTION_TEXT_BYTES];

    must(id < OPTION_COUNT);
    const struct option_row *row = &option_rows[id];
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

/* The option as it was typed; if it was not given, as it can be typed. Fills text. */
static const char *put_given(const struct settings *s, enum option_id id, char *text)
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

    must_be_main();
    MF_FORMAT(text, sizeof(text), fmt);
    put_given(s, id, given);
    if (setting_source(s, id) != OPTION_DEFAULT && place->file != NULL) {
        snprintf(where, sizeof(where), "%s:%u: ", place->file, place->line);
    }
    if (s->messages == NULL && (log_is_journal() || log_is_json())) {
        log_error("options, %s%s: %s", where, given, text);
    } else {
        option_say(s->messages, "%s%s: %s", where, given, text);
    }
}
