/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a value is stored, shown, and read from text: by the kind of its row, never by the
 * option. Text is accepted only if all of it is understood: "12abc", "-5" for a size and "" are
 * errors (memcached takes what it can read of them).
 *
 * A field is found by its offset, so the accesses here are builtin atomics on the plain type:
 * the fields of LIVE rows are _Atomic of the same size, and those of BOOT rows do not change
 * once there are threads. Texts of LIVE rows have their own type (live_text.h).
 */
#include "daemon/options/options_value.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>

#include "daemon/options/cpu_list.h"
#include "daemon/options/live_text.h"
#include "daemon/options/options_rows.h"
#include "daemon/options/replica_address.h"
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"

_Static_assert(sizeof(_Atomic uint32_t) == sizeof(uint32_t) &&
                   sizeof(_Atomic uint64_t) == sizeof(uint64_t) &&
                   sizeof(_Atomic bool) == sizeof(bool) &&
                   sizeof(_Atomic double) == sizeof(double),
               "live settings have the layout of plain ones");

/* ---- stored ------------------------------------------------------------------------------ */

/* Stored units in one unit of the command line. */
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

static int64_t load_number(const struct settings *s, const struct option_row *row)
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
    } else if (row->kind == OPT_DEC2 || row->kind == OPT_DEC3) {
        option_store_decimal(s, row, load_decimal(from, row));
    } else {
        option_store_number(s, row, load_number(from, row) / scale_of(row));
    }
    setting_set_share(s, id, setting_share(from, id));
    atomic_store_explicit(&s->sources[id], (uint8_t)setting_source(from, id),
                          memory_order_relaxed);
}

bool option_is(const struct settings *s, enum option_id id, int64_t number)
{
    must(id < OPTION_COUNT);
    return load_number(s, &option_rows[id]) == number * scale_of(&option_rows[id]);
}

/* ---- shown ------------------------------------------------------------------------------- */

const char *option_show(const struct settings *s, enum option_id id, char *text)
{
    const struct option_row *row = &option_rows[id];
    const char *value;

    must(id < OPTION_COUNT);
    switch (row->kind) {
    case OPT_BOOL:
    case OPT_ENUM:
        return option_word(row, (unsigned)load_number(s, row), OPTION_WORD_SHOWN, text);
    case OPT_OCTAL:
        snprintf(text, OPTION_TEXT_BYTES, "%o", (unsigned)load_number(s, row));
        return text;
    case OPT_CHAR:
        snprintf(text, OPTION_TEXT_BYTES, "%c", (int)load_number(s, row));
        return text;
    case OPT_DEC2:
        snprintf(text, OPTION_TEXT_BYTES, "%.2f", load_decimal(s, row));
        return text;
    case OPT_DEC3:
        snprintf(text, OPTION_TEXT_BYTES, "%.3f", load_decimal(s, row));
        return text;
    case OPT_STR:
    case OPT_LIST:
        value = load_text(s, row, text);
        if (value != NULL) {
            return value;
        }
        if ((row->traits & OPT_UNSET_NO) != 0) {
            return "no";
        }
        return (row->traits & OPT_UNSET_NULL) != 0 ? "(null)" : "NULL";
    default:
        snprintf(text, OPTION_TEXT_BYTES, "%" PRId64, load_number(s, row));
        return text;
    }
}

/* A number of bytes with the largest suffix that keeps it a whole number. */
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

/* A number in the unit of the command line, as a user types it. Fills text. */
static const char *type_number(const struct option_row *row, int64_t number, char *text)
{
    switch (row->kind) {
    case OPT_ENUM:
        return option_word(row, (unsigned)number, OPTION_WORD_TYPED, text);
    case OPT_SIZE:
        show_size(number, text);
        return text;
    case OPT_OCTAL:
        snprintf(text, OPTION_TEXT_BYTES, "%o", (unsigned)number);
        return text;
    case OPT_CHAR:
        snprintf(text, OPTION_TEXT_BYTES, "%c", (int)number);
        return text;
    default:
        snprintf(text, OPTION_TEXT_BYTES, "%" PRId64, number);
        return text;
    }
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
    const char *value;

    must(id < OPTION_COUNT);
    switch (row->kind) {
    case OPT_STR:
    case OPT_LIST:
        value = load_text(s, row, text);
        return value != NULL ? value : "";
    case OPT_BOOL:
        return load_number(s, row) != 0 ? "yes" : "no";
    case OPT_DEC2:
    case OPT_DEC3:
        snprintf(text, OPTION_TEXT_BYTES, "%.15g", load_decimal(s, row));
        return text;
    default:
        if (option_may_be_unset(row) && load_number(s, row) == row->def) {
            return "";
        }
        if (setting_share(s, id) != 0) {
            return type_share(row, setting_share(s, id), text);
        }
        return type_number(row, load_number(s, row) / scale_of(row), text);
    }
}

const char *option_typed_in_bytes(const struct settings *s, enum option_id id, char *text)
{
    const struct option_row *row = &option_rows[id];

    must(row->kind == OPT_MB || row->kind == OPT_KB);
    if (setting_share(s, id) != 0) {
        return type_share(row, setting_share(s, id), text);
    }
    snprintf(text, OPTION_TEXT_BYTES, "%" PRId64 "%s", load_number(s, row) / scale_of(row),
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
    switch (row->kind) {
    case OPT_STR:
    case OPT_LIST:
        return "";
    case OPT_BOOL:
        return row->def != 0 ? "on" : "off";
    case OPT_DEC2:
    case OPT_DEC3:
        snprintf(text, OPTION_TEXT_BYTES, "%g", row->dec_def);
        return text;
    default:
        return type_number(row, row->def, text);
    }
}

const char *option_range(const struct option_row *row, char *text)
{
    char least[OPTION_TEXT_BYTES];
    char greatest[OPTION_TEXT_BYTES];

    switch (row->kind) {
    case OPT_BOOL:
    case OPT_CHAR:
    case OPT_ENUM:
    case OPT_STR:
    case OPT_LIST:
        text[0] = '\0';
        break;
    case OPT_DEC2:
    case OPT_DEC3:
        snprintf(text, OPTION_TEXT_BYTES, "more than %g, less than %g", row->dec_min,
                 row->dec_max);
        break;
    default:
        snprintf(text, OPTION_TEXT_BYTES, "%.30s to %.30s%s%s%s",
                 type_number(row, row->min, least), type_number(row, row->max, greatest),
                 scale_of(row) > 1 ? " " : "", scale_of(row) > 1 ? row->unit : "",
                 (row->traits & OPT_SHARE) != 0  ? ", or 1% to 100%"
                 : (row->traits & OPT_AUTO) != 0 ? ", or auto"
                                                 : "");
        break;
    }
    return text;
}

/* ---- read from text ---------------------------------------------------------------------- */

/* Fill why and say no, so that a caller can return it. */
static MF_PRINTF(2, 3) bool refuse_value(char *why, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, OPTION_TEXT_BYTES, fmt, args);
    va_end(args);
    return false;
}

static bool read_bool(const char *value, int64_t *out)
{
    static const char *const words[][2] = {
        {"no", "yes"}, {"off", "on"}, {"false", "true"}, {"0", "1"}};
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        for (int truth = 0; truth <= 1; truth++) {
            if (strcasecmp(value, words[i][truth]) == 0) {
                *out = truth;
                return true;
            }
        }
    }
    return false;
}

static bool read_octal(const char *value, int64_t *out)
{
    int64_t sum = 0;
    for (const char *p = value; *p != '\0'; p++) {
        if (*p < '0' || *p > '7' || sum > INT32_MAX) {
            return false;
        }
        sum = sum * 8 + (*p - '0');
    }
    *out = sum;
    return value[0] != '\0';
}

static bool takes_suffix(const struct option_row *row)
{
    return row->kind == OPT_SIZE || row->kind == OPT_MB || row->kind == OPT_KB;
}

/* Read a size in the row's unit, or with a suffix. MF_EINVAL: not a multiple of the unit. */
static enum mf_err read_size(const struct option_row *row, const char *value, int64_t *out)
{
    size_t len = strlen(value);
    int shift = 0;
    const bool is_in_bytes = len > 1 && (value[len - 1] == 'b' || value[len - 1] == 'B');

    len -= is_in_bytes;
    if (len > 0) {
        switch (value[len - 1]) {
        case 'k':
        case 'K':
            shift = 10;
            break;
        case 'm':
        case 'M':
            shift = 20;
            break;
        case 'g':
        case 'G':
            shift = 30;
            break;
        default:
            break;
        }
    }
    const int64_t unit = shift != 0 || is_in_bytes ? scale_of(row) : 1;
    int64_t number;
    enum mf_err err = num_i64(span_of(value, len - (shift != 0)), &number);
    if (err == MF_OK && __builtin_mul_overflow(number, INT64_C(1) << shift, &number)) {
        err = MF_ERANGE;
    }
    if (err == MF_OK && number % unit != 0) {
        err = MF_EINVAL;
    }
    if (err == MF_OK) {
        *out = number / unit;
    }
    return err;
}

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
           refuse_value(why, "\"%.40s\" is not a percentage from 1%% to 100%%", value);
}

/* Read a whole number of this row's kind; false and why when it is not one. */
static bool read_number(const struct option_row *row, const char *value, int64_t *out,
                        char *why)
{
    enum mf_err err = MF_OK;
    char range[OPTION_TEXT_BYTES];
    switch (row->kind) {
    case OPT_BOOL:
        return read_bool(value, out) ||
               refuse_value(why, "\"%.40s\" is neither yes nor no", value);
    case OPT_OCTAL:
        return read_octal(value, out) ||
               refuse_value(why, "\"%.40s\" is not an octal number (%s)", value,
                            option_range(row, range));
    case OPT_CHAR:
        *out = value[0];
        return strlen(value) == 1 || refuse_value(why, "\"%.40s\" is not one character", value);
    case OPT_SIZE:
    case OPT_MB:
    case OPT_KB:
        err = read_size(row, value, out);
        break;
    default:
        err = num_i64(span_str(value), out);
        break;
    }
    if (err == MF_ERANGE) {
        return refuse_value(why, "\"%.40s\" is too large (%s)", value,
                            option_range(row, range));
    }
    if (err == MF_EINVAL) {
        return refuse_value(why, "\"%.40s\" is not a whole number of %s", value, row->unit);
    }
    return err == MF_OK || refuse_value(why, "\"%.40s\" is not a number%s (%s)", value,
                                        takes_suffix(row) ? " with suffix k, m, g or none" : "",
                                        option_range(row, range));
}

/* "one of ...". Fills text. */
static const char *list_words(const struct option_row *row, char *text)
{
    char word[OPTION_TEXT_BYTES];
    size_t used = (size_t)snprintf(text, OPTION_TEXT_BYTES, "one of");

    for (unsigned n = 0; option_word(row, n, OPTION_WORD_TYPED, word) != NULL; n++) {
        if (used < OPTION_TEXT_BYTES) {
            used += (size_t)snprintf(text + used, OPTION_TEXT_BYTES - used, " %s", word);
        }
    }
    return text;
}

static bool read_word(const struct option_row *row, const char *value, int64_t *out, char *why)
{
    char word[OPTION_TEXT_BYTES];
    for (unsigned n = 0; option_word(row, n, OPTION_WORD_TYPED, word) != NULL; n++) {
        if (strcmp(word, value) == 0) {
            *out = n;
            return true;
        }
    }
    return refuse_value(why, "\"%.40s\" is not %.*s", value, OPTION_TEXT_BYTES,
                        list_words(row, word));
}

static bool refuse_missing(const struct option_row *row, char *why)
{
    char text[OPTION_TEXT_BYTES];

    if (row->kind == OPT_ENUM) {
        return refuse_value(why, "a value is missing, %.*s", OPTION_TEXT_BYTES / 4 * 3,
                            list_words(row, text));
    }
    return refuse_value(why, "a value is missing (%s)",
                        option_range(row, text)[0] != '\0' ? text : row->unit);
}

static bool refuse_range(const struct option_row *row, const char *value, char *why)
{
    char range[OPTION_TEXT_BYTES];

    return refuse_value(why, "%.40s is out of range (%s)", value, option_range(row, range));
}

/*
 * Is the number within the row's bounds? A clamped one is moved to the nearest bound, and why
 * says so.
 */
static bool check_range(const struct option_row *row, const char *value, int64_t *number,
                        char *why)
{
    if (row->kind == OPT_CHAR || (*number >= row->min && *number <= row->max)) {
        return true;
    }
    refuse_range(row, value, why);
    if (row->traits & OPT_CLAMPED) {
        const size_t len = strlen(why);

        *number = *number < row->min ? row->min : row->max;
        snprintf(why + len, OPTION_TEXT_BYTES - len, ": %" PRId64 " is used instead", *number);
        return true;
    }
    return false;
}

static bool set_decimal(struct settings *s, const struct option_row *row, const char *value,
                        char *why)
{
    double number;
    char range[OPTION_TEXT_BYTES];
    if (!num_fraction(span_str(value), &number)) {
        return refuse_value(why, "\"%.40s\" is not a number (%s)", value,
                            option_range(row, range));
    }
    if (!(number > row->dec_min && number < row->dec_max)) {
        return refuse_range(row, value, why);
    }
    option_store_decimal(s, row, number);
    return true;
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
        return refuse_value(why, "the value is too long (at most %u bytes)",
                            LIVE_TEXT_BYTES - 1);
    }
    if (option_is_address(id)) {
        if (!replica_address_parse(value, host, port, &wrong)) {
            return refuse_value(why, "\"%.40s\" is not an address: %s", value, wrong);
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
        return refuse_value(why, "the value is empty");
    }
    const size_t old_len = how == TEXT_ADD && old != NULL ? strlen(old) + 1 : 0;
    const size_t len = strlen(value);
    char *text = mem_alloc(old_len + len + 1);
    if (text == NULL) {
        return refuse_value(why, "out of memory");
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
    int64_t number = 1;
    if (row->kind == OPT_LEVEL && is_repeated) {
        number += load_number(s, row);
        number = number > row->max ? row->max : number;
    }
    option_store_number(s, row, number);
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
    } else if (row->kind == OPT_DEC2 || row->kind == OPT_DEC3) {
        if (!set_decimal(s, row, value, why)) {
            return false;
        }
    } else if (is_share(row, value)) {
        if (!read_share(row, value, &percent, why)) {
            return false;
        }
    } else {
        int64_t number = 0;
        const bool is_read = row->kind == OPT_ENUM ? read_word(row, value, &number, why)
                                                   : read_number(row, value, &number, why);
        if (!is_read || !check_range(row, value, &number, why)) {
            return false;
        }
        option_store_number(s, row, number);
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
        option_store_number(s, row, row->def);
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
        option_store_number(s, row, 0);
        atomic_store_explicit(&s->sources[id], (uint8_t)source, memory_order_relaxed);
    }
    return true;
}
