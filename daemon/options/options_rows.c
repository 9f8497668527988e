/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables that options.def and compat.def become, and the reading of their columns.
 */
#include "daemon/options/options_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "lib/base/check.h"

const struct option_row option_rows[OPTION_COUNT] = {
#define ROW(place, kind_, field, letter_, name_, def_, min_, max_, unit_, life_, traits_,      \
            status_, settings_, help_)                                                         \
    [OPTION_##field] = {                                                                       \
        .kind = OPT_##kind_,                                                                   \
        .life = OPT_##life_,                                                                   \
        .traits = (traits_),                                                                   \
        .letter = (letter_),                                                                   \
        .status = (status_),                                                                   \
        .offset = offsetof(struct settings, place),                                            \
        .def = (double)(def_),                                                                 \
        .min = (double)(min_),                                                                 \
        .max = (double)(max_),                                                                 \
        .name = (name_),                                                                       \
        .unit = (unit_),                                                                       \
        .help = (help_),                                                                       \
    },
#define OPT(kind, field, ...)        ROW(field, kind, field, __VA_ARGS__)
#define ENGINE_OPT(kind, field, ...) ROW(engine.field, kind, field, __VA_ARGS__)
#include "daemon/options/options.def"
};

const struct option_line option_lines[] = {
#define OPT(kind, field, letter, name, def, min, max, unit, life, traits, status, settings,    \
            help)                                                                              \
    {settings, OPTION_##field, NULL, 0, {NULL, NULL}, false},
#define LINE(settings, value)  {settings, OPTION_COUNT, value, 0, {NULL, NULL}, false},
#define SAME(settings, field)  {settings, OPTION_##field, NULL, 0, {NULL, NULL}, false},
#define GIVEN(settings, field) {settings, OPTION_##field, NULL, 0, {NULL, NULL}, true},
#define IS(settings, field, number, yes, no)                                                   \
    {settings, OPTION_##field, NULL, number, {no, yes}, false},
#include "daemon/options/options.def"
};
const size_t option_line_count = sizeof(option_lines) / sizeof(option_lines[0]);

const struct compat_row compat_rows[] = {
#define ALIAS(name, field)                                                                     \
    {COMPAT_ALIAS, 0, COMPAT_MAY_ARG, OPTION_##field, COMPAT_COUNT, name, "", false, false},
#define TAKEN(id, letter, name, arg, help)                                                     \
    {COMPAT_TAKEN, letter, COMPAT_##arg, OPTION_COUNT, COMPAT_##id, name, help, false, false},
#define REFUSED(letter, name, arg, what)                                                       \
    {COMPAT_REFUSED, letter, COMPAT_##arg, OPTION_COUNT, COMPAT_COUNT,                         \
     name,           what,   false,        false},
#define REDIS(name, field)                                                                     \
    {COMPAT_ALIAS, 0, COMPAT_ARG, OPTION_##field, COMPAT_COUNT, name, "", true, false},
#define REDIS_BYTES(name, field)                                                               \
    {COMPAT_ALIAS, 0, COMPAT_ARG, OPTION_##field, COMPAT_COUNT, name, "", true, true},
#define INSTEAD(name, text)                                                                    \
    {COMPAT_INSTEAD, 0, COMPAT_ARG, OPTION_COUNT, COMPAT_COUNT, name, text, true, false},
#include "daemon/options/compat.def"
};
const size_t compat_row_count = sizeof(compat_rows) / sizeof(compat_rows[0]);

bool option_name_is(const char *row_name, const char *given, size_t given_len)
{
    size_t i;
    for (i = 0; i < given_len && row_name[i] != '\0'; i++) {
        const char a = row_name[i] == '_' ? '-' : row_name[i];
        const char b = given[i] == '_' ? '-' : given[i];
        if (a != b) {
            return false;
        }
    }
    return i > 0 && i == given_len && row_name[i] == '\0';
}

const struct compat_row *compat_find(const char *name, size_t len)
{
    for (size_t i = 0; i < compat_row_count; i++) {
        if (option_name_is(compat_rows[i].name, name, len)) {
            return &compat_rows[i];
        }
    }
    return NULL;
}

bool option_may_stand_alone(const struct option_row *row)
{
    return option_kinds[row->kind].may_stand_alone;
}

bool option_is_text(const struct option_row *row)
{
    return option_kinds[row->kind].field == FIELD_TEXT;
}

bool option_may_be_unset(const struct option_row *row)
{
    return option_is_text(row) || (row->kind == OPT_U32 && row->def < row->min);
}

const char *option_word(const struct option_row *row, unsigned n, enum option_word form,
                        char *text)
{
    const char *word = row->unit;

    must(row->kind == OPT_BOOL || row->kind == OPT_ENUM);
    while (n-- > 0) {
        word = strchr(word, '|');
        if (word == NULL) {
            return NULL;
        }
        word++;
    }
    size_t len = strcspn(word, "|");
    const char *colon = memchr(word, ':', len);
    if (colon != NULL && form == OPTION_WORD_TYPED) {
        len = (size_t)(colon - word);
    } else if (colon != NULL) {
        len -= (size_t)(colon + 1 - word);
        word = colon + 1;
    }
    snprintf(text, OPTION_TEXT_BYTES, "%.*s", (int)len, word);
    return text;
}
