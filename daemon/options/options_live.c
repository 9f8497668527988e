/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options of a running server: see options_live.h. Any thread: the rows are constant, and the
 * fields of live rows are atomics.
 */
#include "daemon/options/options_live.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "daemon/options/options_rows.h"
#include "daemon/options/options_value.h"
#include "lib/base/check.h"
#include "lib/base/edits.h"

/* ---- names ------------------------------------------------------------------------------- */

enum option_id option_find(const char *name, size_t len)
{
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        if (option_name_is(option_rows[id].name, name, len)) {
            return id;
        }
    }
    for (size_t i = 0; i < compat_row_count; i++) {
        const struct compat_row *row = &compat_rows[i];

        if (row->verdict == COMPAT_ALIAS && option_name_is(row->name, name, len)) {
            return row->option;
        }
    }
    return OPTION_COUNT;
}

const char *option_alias_value(const char *name, const char *value,
                               char text[OPTION_ALIAS_BYTES])
{
    const struct compat_row *row = compat_find(name, strlen(name));
    const size_t len = strlen(value);

    if (row == NULL || !row->is_in_bytes || len == 0 || len + 2 > OPTION_ALIAS_BYTES ||
        value[len - 1] < '0' || value[len - 1] > '9') {
        return value;
    }
    snprintf(text, OPTION_ALIAS_BYTES, "%sb", value);
    return text;
}

const char *option_instead(const char *name, size_t len)
{
    const struct compat_row *row = compat_find(name, len);

    return row != NULL && row->verdict == COMPAT_INSTEAD ? row->text : NULL;
}

const char *option_name(enum option_id id)
{
    must(id < OPTION_COUNT);
    return option_rows[id].name;
}

const char *option_nearest(const char *given, size_t len)
{
    struct edits_guess best = {0};

    if (len > OPTION_NAME_MAX) {
        return NULL;
    }
    for (unsigned i = 0; i < OPTION_COUNT + compat_row_count; i++) {
        edits_guess(&best, span_of(given, len),
                    span_str(i < OPTION_COUNT ? option_rows[i].name
                                              : compat_rows[i - OPTION_COUNT].name));
    }
    return best.edits > 0 ? best.name.ptr : NULL;
}

/* ---- changing ---------------------------------------------------------------------------- */

/* A list is joined from what a source gives one after the other: it is fixed after start. */
#define OPT(kind, field, letter, name, def, min, max, unit, life, traits, status, settings,    \
            help)                                                                              \
    _Static_assert(OPT_##kind != OPT_LIST || OPT_##life == OPT_BOOT,                           \
                   "a list is fixed after start: " name);
#include "daemon/options/options.def"

bool option_is_live(enum option_id id, char *why)
{
    const struct option_row *row = &option_rows[id];

    must(id < OPTION_COUNT);
    if ((row->traits & OPT_IGNORED) != 0) {
        snprintf(why, OPTION_TEXT_BYTES, "has no effect in this server");
        return false;
    }
    if (row->life != OPT_LIVE) {
        snprintf(why, OPTION_TEXT_BYTES, "needs a restart");
        return false;
    }
    return true;
}

bool option_change(struct settings *s, enum option_id id, const char *value, char *why)
{
    return option_is_live(id, why) && option_set(s, id, value, OPTION_RUN_TIME, why);
}

unsigned options_differing(const struct settings *a, const struct settings *b, bool is_live,
                           enum option_id *ids)
{
    char text[OPTION_TEXT_BYTES];
    char other[OPTION_TEXT_BYTES];
    unsigned count = 0;

    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];

        if (row->name[0] != '\0' && (row->traits & OPT_IGNORED) == 0 &&
            (row->life == OPT_LIVE) == is_live &&
            strcmp(option_typed(a, id, text), option_typed(b, id, other)) != 0) {
            ids[count++] = id;
        }
    }
    return count;
}

void options_copy_live(struct settings *s, const struct settings *from)
{
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        if (option_rows[id].life == OPT_LIVE) {
            option_copy(s, from, id);
        }
    }
}

/* ---- showing ----------------------------------------------------------------------------- */

const char *option_with_underscores(const char *name, char *text)
{
    snprintf(text, OPTION_TEXT_BYTES, "%s", name);
    for (char *dash = strchr(text, '-'); dash != NULL; dash = strchr(dash, '-')) {
        *dash = '_';
    }
    return text;
}

const char *option_shown_name(enum option_id id, char *text)
{
    return option_with_underscores(option_name(id), text);
}

/* Does one of the patterns mean the option? */
static bool is_meant(enum option_id id, const char *const *patterns, unsigned count)
{
    const struct option_row *row = &option_rows[id];
    char name[OPTION_TEXT_BYTES];

    if (row->name[0] == '\0' || (row->traits & OPT_IGNORED) != 0) {
        return false;
    }
    (void)option_shown_name(id, name);
    for (unsigned i = 0; i < count; i++) {
        if (fnmatch(patterns[i], name, 0) == 0 || fnmatch(patterns[i], row->name, 0) == 0 ||
            option_find(patterns[i], strlen(patterns[i])) == id) {
            return true;
        }
    }
    return false;
}

unsigned options_matching(const char *pattern, bool only_live, enum option_id *ids)
{
    unsigned count = 0;

    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        if ((!only_live || option_rows[id].life == OPT_LIVE) && is_meant(id, &pattern, 1)) {
            ids[count++] = id;
        }
    }
    return count;
}

void options_each_matching(const struct settings *s, const char *const *patterns,
                           unsigned count, option_fn fn, void *arg)
{
    char text[OPTION_TEXT_BYTES];
    char name[OPTION_TEXT_BYTES];

    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        if (is_meant(id, patterns, count)) {
            fn(arg, option_shown_name(id, name), option_typed(s, id, text));
        }
    }
}
