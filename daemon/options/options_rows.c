/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables that options.def and compat.def become, the storage of a value by its row, and
 * how it is shown. How a value is read from text is in options_value.c.
 *
 * A field is found by its offset, so the accesses here are by builtin atomics on the plain
 * type: the fields of LIVE rows are _Atomic of the same size, those of BOOT rows do not
 * change once there are threads.
 */
#include "daemon/options/options_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "daemon/options/options.h"
#include "lib/base/check.h"
#include "lib/base/mem.h"

_Static_assert(sizeof(_Atomic uint32_t) == sizeof(uint32_t) &&
                   sizeof(_Atomic uint64_t) == sizeof(uint64_t) &&
                   sizeof(_Atomic bool) == sizeof(bool) &&
                   sizeof(_Atomic double) == sizeof(double),
               "live settings have the layout of plain ones");

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
        .def = (int64_t)(def_),                                                                \
        .min = (int64_t)(min_),                                                                \
        .max = (int64_t)(max_),                                                                \
        .dec_def = (double)(def_),                                                             \
        .dec_min = (double)(min_),                                                             \
        .dec_max = (double)(max_),                                                             \
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
    {settings, OPTION_##field, NULL},
#define LINE(settings, value) {settings, OPTION_COUNT, value},
#define SAME(settings, field) {settings, OPTION_##field, NULL},
#include "daemon/options/options.def"
};
const size_t option_line_count = sizeof(option_lines) / sizeof(option_lines[0]);

const struct compat_row compat_rows[] = {
#define ALIAS(name, field)                                                                     \
    {COMPAT_ALIAS, 0, COMPAT_MAY_ARG, OPTION_##field, COMPAT_COUNT, name, ""},
#define TAKEN(id, letter, name, arg, help)                                                     \
    {COMPAT_TAKEN, letter, COMPAT_##arg, OPTION_COUNT, COMPAT_##id, name, help},
#define REFUSED(letter, name, arg, what)                                                       \
    {COMPAT_REFUSED, letter, COMPAT_##arg, OPTION_COUNT, COMPAT_COUNT, name, what},
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

bool option_may_stand_alone(const struct option_row *row)
{
    return row->kind == OPT_BOOL || row->kind == OPT_SWITCH || row->kind == OPT_LEVEL;
}

/* How many stored units one unit of the command line is. */
static int64_t scale_of(const struct option_row *row)
{
    switch (row->kind) {
    case OPT_MB:
        return 1 << 20;
    case OPT_KB:
        return 1 << 10;
    default:
        return 1;
    }
}

void option_store_number(struct settings *s, const struct option_row *row, int64_t number)
{
    void *field = (char *)s + row->offset;
    switch (row->kind) {
    case OPT_BOOL:
        __atomic_store_n((bool *)field, number != 0, __ATOMIC_RELAXED);
        break;
    case OPT_SWITCH:
    case OPT_I32:
    case OPT_U32:
    case OPT_LEVEL:
    case OPT_OCTAL:
    case OPT_ENUM:
        __atomic_store_n((uint32_t *)field, (uint32_t)number, __ATOMIC_RELAXED);
        break;
    case OPT_CHAR:
        *(char *)field = (char)number;
        break;
    case OPT_SIZE:
    case OPT_MB:
    case OPT_KB:
        __atomic_store_n((uint64_t *)field, (uint64_t)(number * scale_of(row)),
                         __ATOMIC_RELAXED);
        break;
    case OPT_DEC2:
    case OPT_DEC3:
    case OPT_STR:
    case OPT_LIST:
        unreachable();
    }
}

void option_store_decimal(struct settings *s, const struct option_row *row, double number)
{
    must(row->kind == OPT_DEC2 || row->kind == OPT_DEC3);
    __atomic_store((double *)(void *)((char *)s + row->offset), &number, __ATOMIC_RELAXED);
}

int64_t option_load_number(const struct settings *s, const struct option_row *row)
{
    const void *field = (const char *)s + row->offset;
    switch (row->kind) {
    case OPT_BOOL:
        return __atomic_load_n((const bool *)field, __ATOMIC_RELAXED);
    case OPT_I32:
        return __atomic_load_n((const int32_t *)field, __ATOMIC_RELAXED);
    case OPT_SWITCH:
    case OPT_U32:
    case OPT_LEVEL:
    case OPT_OCTAL:
    case OPT_ENUM:
        return __atomic_load_n((const uint32_t *)field, __ATOMIC_RELAXED);
    case OPT_CHAR:
        return *(const char *)field;
    case OPT_SIZE:
    case OPT_MB:
    case OPT_KB:
        return (int64_t)__atomic_load_n((const uint64_t *)field, __ATOMIC_RELAXED);
    case OPT_DEC2:
    case OPT_DEC3:
    case OPT_STR:
    case OPT_LIST:
        break;
    }
    unreachable();
}

static double load_decimal(const struct settings *s, const struct option_row *row)
{
    double number;
    __atomic_load((const double *)(const void *)((const char *)s + row->offset), &number,
                  __ATOMIC_RELAXED);
    return number;
}

static char *const *text_of(const struct settings *s, const struct option_row *row)
{
    return (char *const *)(const void *)((const char *)s + row->offset);
}

const char *option_word(const struct option_row *row, unsigned n, enum option_word form,
                        char *text)
{
    const char *word = row->unit;
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

const char *option_show(const struct settings *s, enum option_id id, char *text)
{
    const struct option_row *row = &option_rows[id];
    switch (row->kind) {
    case OPT_BOOL:
    case OPT_ENUM:
        return option_word(row, (unsigned)option_load_number(s, row), OPTION_WORD_SHOWN, text);
    case OPT_OCTAL:
        snprintf(text, OPTION_TEXT_BYTES, "%o", (unsigned)option_load_number(s, row));
        return text;
    case OPT_CHAR:
        snprintf(text, OPTION_TEXT_BYTES, "%c", (int)option_load_number(s, row));
        return text;
    case OPT_DEC2:
        snprintf(text, OPTION_TEXT_BYTES, "%.2f", load_decimal(s, row));
        return text;
    case OPT_DEC3:
        snprintf(text, OPTION_TEXT_BYTES, "%.3f", load_decimal(s, row));
        return text;
    case OPT_STR:
    case OPT_LIST:
        if (*text_of(s, row) != NULL) {
            return *text_of(s, row);
        }
        if ((row->traits & OPT_UNSET_NO) != 0) {
            return "no";
        }
        return (row->traits & OPT_UNSET_NULL) != 0 ? "(null)" : "NULL";
    default:
        snprintf(text, OPTION_TEXT_BYTES, "%" PRId64, option_load_number(s, row));
        return text;
    }
}

/* A number of bytes with the largest suffix that leaves it whole. */
static void show_size(int64_t bytes, char *text)
{
    static const char suffix[] = {'\0', 'k', 'm', 'g'};
    unsigned i = 0;
    while (i + 1 < sizeof(suffix) && bytes != 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        i++;
    }
    snprintf(text, OPTION_TEXT_BYTES, "%" PRId64 "%.1s", bytes, &suffix[i]);
}

const char *option_show_default(enum option_id id, char *text)
{
    const struct option_row *row = &option_rows[id];
    switch (row->kind) {
    case OPT_STR:
    case OPT_LIST:
        return "";
    case OPT_BOOL:
        return row->def != 0 ? "on" : "off";
    case OPT_ENUM:
        return option_word(row, (unsigned)row->def, OPTION_WORD_TYPED, text);
    case OPT_SIZE:
        show_size(row->def, text);
        return text;
    case OPT_OCTAL:
        snprintf(text, OPTION_TEXT_BYTES, "%o", (unsigned)row->def);
        return text;
    case OPT_CHAR:
        snprintf(text, OPTION_TEXT_BYTES, "%c", (int)row->def);
        return text;
    case OPT_DEC2:
    case OPT_DEC3:
        snprintf(text, OPTION_TEXT_BYTES, "%g", row->dec_def);
        return text;
    default:
        snprintf(text, OPTION_TEXT_BYTES, "%" PRId64, row->def);
        return text;
    }
}

void settings_init(struct settings *s)
{
    memset(s, 0, sizeof(*s));
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        switch (row->kind) {
        case OPT_STR:
        case OPT_LIST:
            break; /* NULL already */
        case OPT_DEC2:
        case OPT_DEC3:
            option_store_decimal(s, row, row->dec_def);
            break;
        default:
            option_store_number(s, row, row->def);
            break;
        }
    }
}

void settings_fini(struct settings *s)
{
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        if (row->kind == OPT_STR || row->kind == OPT_LIST) {
            char **text = (char **)(void *)((char *)s + row->offset);
            mem_free(*text);
            *text = NULL;
        }
    }
}

void options_each_setting(const struct settings *s, options_line_fn fn, void *arg)
{
    char text[OPTION_TEXT_BYTES];
    for (size_t i = 0; i < option_line_count; i++) {
        const struct option_line *line = &option_lines[i];
        if (line->name[0] != '\0') {
            fn(arg, line->name,
               line->id == OPTION_COUNT ? line->value : option_show(s, line->id, text));
        }
    }
}
