/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a value is stored, shown, and read from text: by the kind of its row (options_kind.c),
 * never by the option. Text is accepted only if all of it is understood: "12abc", "-5" for a
 * size and "" are errors (memcached takes what it can read of them).
 *
 * A field is found by its offset, so the accesses here are builtin atomics on the plain type:
 * the fields of LIVE rows are _Atomic of the same size, and those of BOOT rows do not change
 * once there are threads. Texts of LIVE rows have their own type (settings.h).
 */
#include "daemon/options/options_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "daemon/options/cpu_list.h"
#include "daemon/options/options_rows.h"
#include "daemon/options/replica_address.h"
#include "daemon/options/settings.h"
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"

_Static_assert(sizeof(_Atomic uint32_t) == sizeof(uint32_t) &&
                   sizeof(_Atomic uint64_t) == sizeof(uint64_t) &&
                   sizeof(_Atomic bool) == sizeof(bool) &&
                   sizeof(_Atomic double) == sizeof(double),
               "live settings have the layout of plain ones");

/* ---- stored ------------------------------------------------------------------------------ */

static const struct option_kind_row *kind_of(const struct option_row *row)
{
    return &option_kinds[row->kind];
}

void option_store(struct settings *s, const struct option_row *row, double number)
{
    void *field = (char *)s + row->offset;

    number *= kind_of(row)->scale;
    switch (kind_of(row)->field) {
    case FIELD_BYTE:
        __atomic_store_n((uint8_t *)field, (uint8_t)number, __ATOMIC_RELAXED);
        break;
    case FIELD_32:
        __atomic_store_n((uint32_t *)field, (uint32_t)(int64_t)number, __ATOMIC_RELAXED);
        break;
    case FIELD_64:
        __atomic_store_n((uint64_t *)field, (uint64_t)number, __ATOMIC_RELAXED);
        break;
    case FIELD_DOUBLE:
        __atomic_store((double *)field, &number, __ATOMIC_RELAXED);
        break;
    case FIELD_TEXT:
        unreachable();
    }
}

/* The number as it is stored. */
static double load_number(const struct settings *s, const struct option_row *row)
{
    const void *field = (const char *)s + row->offset;
    double number;

    switch (kind_of(row)->field) {
    case FIELD_BYTE:
        return __atomic_load_n((const uint8_t *)field, __ATOMIC_RELAXED);
    case FIELD_32:
        return row->kind == OPT_I32
                   ? (double)__atomic_load_n((const int32_t *)field, __ATOMIC_RELAXED)
                   : (double)__atomic_load_n((const uint32_t *)field, __ATOMIC_RELAXED);
    case FIELD_64:
        return (double)__atomic_load_n((const uint64_t *)field, __ATOMIC_RELAXED);
    case FIELD_DOUBLE:
        __atomic_load((const double *)field, &number, __ATOMIC_RELAXED);
        return number;
    case FIELD_TEXT:
        break;
    }
    unreachable();
}

/* The same in the unit of the command line. */
static double load_typed(const struct settings *s, const struct option_row *row)
{
    return load_number(s, row) / kind_of(row)->scale;
}

/* ---- texts ------------------------------------------------------------------------------- */

static bool is_live_text(const struct option_row *row)
{
    return option_is_text(row) && row->life == OPT_LIVE;
}

static const struct live_text *live_text_of(const struct settings *s,
                                            const struct option_row *row)
{
    must(is_live_text(row));
    return (const struct live_text *)(const void *)((const char *)s + row->offset);
}

static char *const *boot_text_of(const struct settings *s, const struct option_row *row)
{
    must(option_is_text(row) && row->life == OPT_BOOT);
    return (char *const *)(const void *)((const char *)s + row->offset);
}

/* The text, in the settings or copied to text (OPTION_TEXT_BYTES); NULL: it is unset. */
static const char *load_text(const struct settings *s, const struct option_row *row, char *text)
{
    if (is_live_text(row)) {
        return live_text_get(live_text_of(s, row), text, OPTION_TEXT_BYTES) > 0 ? text : NULL;
    }
    return *boot_text_of(s, row);
}

static void store_live_text(struct settings *s, const struct option_row *row, const char *value)
{
    must(is_live_text(row));
    live_text_set((struct live_text *)(void *)((char *)s + row->offset), value);
}

/* Store a text, which is now the settings', and release the old one. */
static void store_boot_text(struct settings *s, const struct option_row *row, char *text)
{
    char **field = (char **)(void *)((char *)s + row->offset);

    must(option_is_text(row) && row->life == OPT_BOOT);
    mem_free(*field);
    *field = text;
}

void option_unset_text(struct settings *s, const struct option_row *row)
{
    if (is_live_text(row)) {
        store_live_text(s, row, "");
    } else {
        store_boot_text(s, row, NULL);
    }
}

void option_copy(struct settings *s, const struct settings *from, enum option_id id)
{
    const struct option_row *row = &option_rows[id];
    char text[OPTION_TEXT_BYTES];

    must(id < OPTION_COUNT);
    if (is_live_text(row)) {
        (void)live_text_get(live_text_of(from, row), text, sizeof(text));
        store_live_text(s, row, text);
    } else {
        option_store(s, row, load_typed(from, row));
    }
    setting_set_share(s, id, setting_share(from, id));
    atomic_store_explicit(&s->sources[id], (uint8_t)setting_source(from, id),
                          memory_order_relaxed);
}

bool option_is(const struct settings *s, enum option_id id, int64_t number)
{
    must(id < OPTION_COUNT);
    return load_typed(s, &option_rows[id]) == (double)number;
}

/* ---- shown ------------------------------------------------------------------------------- */

const char *option_show(const struct settings *s, enum option_id id, char *text)
{
    const struct option_row *row = &option_rows[id];

    must(id < OPTION_COUNT);
    if (!option_is_text(row)) {
        return kind_of(row)->show(row, load_number(s, row), text);
    }
    const char *value = load_text(s, row, text);
    if (value != NULL) {
        return value;
    }
    if ((row->traits & OPT_UNSET_NO) != 0) {
        return "no";
    }
    return (row->traits & OPT_UNSET_NULL) != 0 ? "(null)" : "NULL";
}

static const char *type_share(const struct option_row *row, uint32_t percent, char *text)
{
    if ((row->traits & OPT_AUTO) != 0) {
        return "auto";
    }
    snprintf(text, OPTION_TEXT_BYTES, "%" PRIu32 "%%", percent);
    return text;
}

const char *option_typed(const struct settings *s, enum option_id id, char *text)
{
    const struct option_row *row = &option_rows[id];

    must(id < OPTION_COUNT);
    if (option_is_text(row)) {
        const char *value = load_text(s, row, text);

        return value != NULL ? value : "";
    }
    if (option_may_be_unset(row) && load_typed(s, row) == row->def) {
        return "";
    }
    return setting_share(s, id) != 0 ? type_share(row, setting_share(s, id), text)
                                     : kind_of(row)->type(row, load_typed(s, row), text);
}

const char *option_typed_in_bytes(const struct settings *s, enum option_id id, char *text)
{
    const struct option_row *row = &option_rows[id];

    must(row->kind == OPT_MB || row->kind == OPT_KB);
    if (setting_share(s, id) != 0) {
        return type_share(row, setting_share(s, id), text);
    }
    snprintf(text, OPTION_TEXT_BYTES, "%.0f%s", load_typed(s, row),
             row->kind == OPT_MB ? "mb" : "kb");
    return text;
}

bool option_has_default(const struct settings *s, enum option_id id)
{
    struct settings defaults;
    char text[OPTION_TEXT_BYTES];
    char other[OPTION_TEXT_BYTES];

    settings_init(&defaults);
    const bool is_same =
        strcmp(option_typed(s, id, text), option_typed(&defaults, id, other)) == 0;
    settings_fini(&defaults);
    return is_same;
}

const char *option_show_default(enum option_id id, char *text)
{
    const struct option_row *row = &option_rows[id];

    must(id < OPTION_COUNT);
    if (option_is_text(row)) {
        return "";
    }
    return row->kind == OPT_BOOL ? (row->def != 0 ? "on" : "off")
                                 : kind_of(row)->type(row, row->def, text);
}

/* ---- read from text ---------------------------------------------------------------------- */

/* Is the value meant as a share of the machine? */
static bool is_share(const struct option_row *row, const char *value)
{
    const size_t len = strlen(value);

    return ((row->traits & OPT_AUTO) != 0 && strcmp(value, "auto") == 0) ||
           ((row->traits & OPT_SHARE) != 0 && len > 0 && value[len - 1] == '%');
}

static bool read_share(const struct option_row *row, const char *value, uint32_t *percent,
                       char *why)
{
    if ((row->traits & OPT_AUTO) != 0) {
        *percent = 100;
        return true;
    }
    return (num_u32(span_of(value, strlen(value) - 1), percent) == MF_OK && *percent >= 1 &&
            *percent <= 100) ||
           option_refuse(why, "\"%.40s\" is not a percentage from 1%% to 100%%", value);
}

static bool refuse_missing(const struct option_row *row, char *why)
{
    char text[OPTION_TEXT_BYTES];

    if (row->kind == OPT_ENUM) {
        return option_refuse(why, "a value is missing, %.*s", OPTION_TEXT_BYTES / 4 * 3,
                             option_list_words(row, text));
    }
    return option_refuse(why, "a value is missing (%s)",
                         option_range(row, text)[0] != '\0' ? text : row->unit);
}

/*
 * Is the number within the row's bounds? A clamped one is moved to the nearest bound, and why
 * says so.
 */
static bool check_range(const struct option_row *row, const char *value, double *number,
                        char *why)
{
    const enum option_bounds range = kind_of(row)->range;
    char text[OPTION_TEXT_BYTES];

    if (range == RANGE_NONE ||
        (range == RANGE_ABOVE ? *number > row->min && *number <= row->max
                              : *number >= row->min && *number <= row->max)) {
        return true;
    }
    option_refuse(why, "%.40s is out of range (%s)", value, option_range(row, text));
    if (row->traits & OPT_CLAMPED) {
        const size_t len = strlen(why);

        *number = *number < row->min ? row->min : row->max;
        snprintf(why + len, OPTION_TEXT_BYTES - len, ": %.0f is used instead", *number);
        return true;
    }
    return false;
}

enum text_how { TEXT_REPLACE, TEXT_ADD };

/* Is this a value of the option? An empty text, or another word for it, unsets it. */
static bool set_live_text(struct settings *s, enum option_id id, const char *value, char *why)
{
    const struct option_row *row = &option_rows[id];
    char host[REPLICA_HOST_BYTES];
    char port[REPLICA_PORT_BYTES];
    struct cpu_list cpus;
    const char *wrong;

    if (strlen(value) >= LIVE_TEXT_BYTES) {
        return option_refuse(why, "the value is too long (at most %u bytes)",
                             LIVE_TEXT_BYTES - 1);
    }
    if (option_is_address(id)) {
        if (!replica_address_parse(value, host, port, &wrong)) {
            return option_refuse(why, "\"%.40s\" is not an address: %s", value, wrong);
        }
        value = host[0] != '\0' ? value : "";
    }
    if (id == OPTION_worker_cpus && !cpu_list_parse(value, &cpus, why, OPTION_TEXT_BYTES)) {
        return false;
    }
    store_live_text(s, row, value);
    return true;
}

/* Replace a text, or add to a list that has an entry from the same source. */
static bool set_text(struct settings *s, const struct option_row *row, const char *value,
                     enum text_how how, char *why)
{
    const char *old = *boot_text_of(s, row);
    if (value[0] == '\0') {
        return option_refuse(why, "the value is empty");
    }
    const size_t old_len = how == TEXT_ADD && old != NULL ? strlen(old) + 1 : 0;
    const size_t len = strlen(value);
    char *text = mem_alloc(old_len + len + 1);
    if (text == NULL) {
        return option_refuse(why, "out of memory");
    }
    if (old_len > 0) {
        memcpy(text, old, old_len);
        text[old_len - 1] = ',';
    }
    memcpy(text + old_len, value, len + 1);
    store_boot_text(s, row, text);
    return true;
}

/*
 * Set an option that was given without a value, again by the same source or for the first time.
 */
static void set_alone(struct settings *s, const struct option_row *row, bool is_repeated)
{
    double number = 1;
    if (row->kind == OPT_LEVEL && is_repeated) {
        number += load_typed(s, row);
        number = number > row->max ? row->max : number;
    }
    option_store(s, row, number);
}

bool option_set(struct settings *s, enum option_id id, const char *value,
                enum option_source source, char *why)
{
    const struct option_row *row = &option_rows[id];

    must(id < OPTION_COUNT && row->name[0] != '\0');
    why[0] = '\0';
    if (setting_source(s, id) > source) {
        return true;
    }
    const bool is_repeated = setting_source(s, id) == source;
    uint32_t percent = 0;
    if (value == NULL) {
        if (!option_may_stand_alone(row)) {
            return refuse_missing(row, why);
        }
        set_alone(s, row, is_repeated);
    } else if (is_live_text(row)) {
        if (!set_live_text(s, id, value, why)) {
            return false;
        }
    } else if (option_is_text(row)) {
        const enum text_how how =
            row->kind == OPT_LIST && is_repeated ? TEXT_ADD : TEXT_REPLACE;
        if (!set_text(s, row, value, how, why)) {
            return false;
        }
    } else if (is_share(row, value)) {
        if (!read_share(row, value, &percent, why)) {
            return false;
        }
    } else {
        double number = 0;
        if (!kind_of(row)->read(row, value, &number, why) ||
            !check_range(row, value, &number, why)) {
            return false;
        }
        option_store(s, row, number);
    }
    setting_set_share(s, id, percent);
    atomic_store_explicit(&s->sources[id], (uint8_t)source, memory_order_relaxed);
    return true;
}

bool option_unset(struct settings *s, enum option_id id, enum option_source source)
{
    const struct option_row *row = &option_rows[id];

    must(id < OPTION_COUNT);
    if (!option_may_be_unset(row)) {
        return false;
    }
    if (setting_source(s, id) > source) {
        return true;
    }
    if (option_is_text(row)) {
        option_unset_text(s, row);
    } else {
        option_store(s, row, row->def);
    }
    atomic_store_explicit(&s->sources[id], OPTION_DEFAULT, memory_order_relaxed);
    return true;
}

bool option_set_off(struct settings *s, enum option_id id, enum option_source source)
{
    const struct option_row *row = &option_rows[id];

    must(id < OPTION_COUNT);
    if (row->kind != OPT_BOOL && row->kind != OPT_SWITCH) {
        return false;
    }
    if (setting_source(s, id) <= source) {
        option_store(s, row, 0);
        atomic_store_explicit(&s->sources[id], (uint8_t)source, memory_order_relaxed);
    }
    return true;
}
