/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kinds of options, one row each, and what differs between them: how a number is shown,
 * typed and read.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "daemon/options/options_rows.h"
#include "lib/base/num.h"

/* ---- shown and typed --------------------------------------------------------------------- */

#define print(text, ...) (snprintf(text, OPTION_TEXT_BYTES, __VA_ARGS__), (text))

static const char *show_whole(const struct option_row *row, double number, char *text)
{
    (void)row;
    return print(text, "%.0f", number);
}

static const char *show_octal(const struct option_row *row, double number, char *text)
{
    (void)row;
    return print(text, "%o", (unsigned)number);
}

static const char *show_char(const struct option_row *row, double number, char *text)
{
    (void)row;
    return print(text, "%c", (int)number);
}

static const char *show_word(const struct option_row *row, double number, char *text)
{
    return option_word(row, (unsigned)number, OPTION_WORD_SHOWN, text);
}

static const char *show_fraction(const struct option_row *row, double number, char *text)
{
    return print(text, "%.*f", row->kind == OPT_DEC2 ? 2 : 3, number);
}

static const char *type_bool(const struct option_row *row, double number, char *text)
{
    (void)row;
    return print(text, "%s", number != 0 ? "yes" : "no");
}

static const char *type_word(const struct option_row *row, double number, char *text)
{
    return option_word(row, (unsigned)number, OPTION_WORD_TYPED, text);
}

/* A number of bytes with the largest suffix that keeps it a whole number. */
static const char *type_size(const struct option_row *row, double number, char *text)
{
    static const char suffix[] = {'\0', 'k', 'm', 'g'};
    int64_t bytes = (int64_t)number;
    unsigned i = 0;

    (void)row;
    while (i + 1 < sizeof(suffix) && bytes != 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        i++;
    }
    return print(text, "%" PRId64 "%.1s", bytes, &suffix[i]);
}

static const char *type_fraction(const struct option_row *row, double number, char *text)
{
    (void)row;
    return print(text, "%.15g", number);
}

const char *option_range(const struct option_row *row, char *text)
{
    const struct option_kind_row *kind = &option_kinds[row->kind];
    const bool is_above = kind->range == RANGE_ABOVE;
    char least[OPTION_TEXT_BYTES];
    char greatest[OPTION_TEXT_BYTES];

    if (kind->range == RANGE_NONE) {
        return print(text, "%s", "");
    }
    return print(text, "%s%.30s%s%.30s%s%s%s", is_above ? "more than " : "",
                 kind->type(row, row->min, least), is_above ? ", at most " : " to ",
                 kind->type(row, row->max, greatest), kind->scale > 1 ? " " : "",
                 kind->scale > 1 ? row->unit : "",
                 (row->traits & OPT_SHARE) != 0  ? ", or 1% to 100%"
                 : (row->traits & OPT_AUTO) != 0 ? ", or auto"
                                                 : "");
}

/* ---- read from text ---------------------------------------------------------------------- */

bool option_refuse(char *why, const char *fmt, ...)
{
    MF_FORMAT(why, OPTION_TEXT_BYTES, fmt);
    return false;
}

static bool read_bool(const struct option_row *row, const char *value, double *out, char *why)
{
    static const char *const words[][2] = {
        {"no", "yes"}, {"off", "on"}, {"false", "true"}, {"0", "1"}};

    (void)row;
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        for (int truth = 0; truth <= 1; truth++) {
            if (strcasecmp(value, words[i][truth]) == 0) {
                *out = truth;
                return true;
            }
        }
    }
    return option_refuse(why, "\"%.40s\" is neither yes nor no", value);
}

static bool read_octal(const struct option_row *row, const char *value, double *out, char *why)
{
    char range[OPTION_TEXT_BYTES];
    char *end;

    *out = (double)strtoul(value, &end, 8);
    return (value[0] != '\0' && strspn(value, "01234567") == strlen(value)) ||
           option_refuse(why, "\"%.40s\" is not an octal number (%s)", value,
                         option_range(row, range));
}

static bool read_char(const struct option_row *row, const char *value, double *out, char *why)
{
    (void)row;
    *out = (unsigned char)value[0];
    return strlen(value) == 1 || option_refuse(why, "\"%.40s\" is not one character", value);
}

/* Say why text is no number of this row. */
static bool refuse_number(const struct option_row *row, const char *value, enum mf_err err,
                          char *why)
{
    const bool takes_suffix = option_kinds[row->kind].field == FIELD_64;
    char range[OPTION_TEXT_BYTES];

    option_range(row, range);
    return err == MF_ERANGE
               ? option_refuse(why, "\"%.40s\" is too large (%s)", value, range)
               : option_refuse(why, "\"%.40s\" is not a number%s (%s)", value,
                               takes_suffix ? " with suffix k, m, g or none" : "", range);
}

static bool read_whole(const struct option_row *row, const char *value, double *out, char *why)
{
    int64_t number = 0;
    const enum mf_err err = num_i64(span_str(value), &number);

    *out = (double)number;
    return err == MF_OK || refuse_number(row, value, err, why);
}

/* A size in the row's unit, or with a suffix: then it is a multiple of the unit. */
static bool read_size(const struct option_row *row, const char *value, double *out, char *why)
{
    static const char letters[] = "kKmMgG";
    size_t len = strlen(value);
    const bool is_in_bytes = len > 1 && (value[len - 1] == 'b' || value[len - 1] == 'B');
    int64_t number = 0;
    int shift = 0;

    len -= is_in_bytes;
    const char *letter = len > 0 ? memchr(letters, value[len - 1], sizeof(letters) - 1) : NULL;
    shift = letter != NULL ? (int)(10 * ((letter - letters) / 2 + 1)) : 0;
    const int64_t unit = shift != 0 || is_in_bytes ? option_kinds[row->kind].scale : 1;
    enum mf_err err = num_i64(span_of(value, len - (shift != 0)), &number);
    if (err == MF_OK && __builtin_mul_overflow(number, INT64_C(1) << shift, &number)) {
        err = MF_ERANGE;
    }
    *out = (double)(number / unit);
    if (err == MF_OK && number % unit != 0) {
        return option_refuse(why, "\"%.40s\" is not a whole number of %s", value, row->unit);
    }
    return err == MF_OK || refuse_number(row, value, err, why);
}

static bool read_fraction(const struct option_row *row, const char *value, double *out,
                          char *why)
{
    return num_fraction(span_str(value), out) || refuse_number(row, value, MF_EINVAL, why);
}

const char *option_list_words(const struct option_row *row, char *text)
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

static bool read_word(const struct option_row *row, const char *value, double *out, char *why)
{
    char word[OPTION_TEXT_BYTES];

    for (unsigned n = 0; option_word(row, n, OPTION_WORD_TYPED, word) != NULL; n++) {
        if (strcmp(word, value) == 0) {
            *out = n;
            return true;
        }
    }
    return option_refuse(why, "\"%.40s\" is not %.*s", value, OPTION_TEXT_BYTES,
                         option_list_words(row, word));
}

/* ---- the table --------------------------------------------------------------------------- */

#define ALONE true

/* How the field of a type is loaded and stored. */
#define FIELD_OF(type)                                                                         \
    _Generic((type)0, bool                                                                     \
             : FIELD_BYTE, char                                                                \
             : FIELD_BYTE, int32_t                                                             \
             : FIELD_32, uint32_t                                                              \
             : FIELD_32, uint64_t                                                              \
             : FIELD_64, double                                                                \
             : FIELD_DOUBLE)
#define NUMBER(kind, ...)                                                                      \
    [OPT_##kind] = {FIELD_OF(option_##kind##_BOOT), OPTION_SCALE_##kind, __VA_ARGS__}

const struct option_kind_row option_kinds[] = {
    NUMBER(BOOL, RANGE_NONE, "", ALONE, show_word, type_bool, read_bool),
    NUMBER(SWITCH, RANGE_WHOLE, "[=%s]", ALONE, show_whole, show_whole, read_whole),
    NUMBER(I32, RANGE_WHOLE, "=<%s>", false, show_whole, show_whole, read_whole),
    NUMBER(U32, RANGE_WHOLE, "=<%s>", false, show_whole, show_whole, read_whole),
    NUMBER(LEVEL, RANGE_WHOLE, "", ALONE, show_whole, show_whole, read_whole),
    NUMBER(OCTAL, RANGE_WHOLE, "=<%s>", false, show_octal, show_octal, read_octal),
    NUMBER(ENUM, RANGE_NONE, NULL, false, show_word, type_word, read_word),
    NUMBER(CHAR, RANGE_NONE, "=<%s>", false, show_char, show_char, read_char),
    NUMBER(SIZE, RANGE_WHOLE, "=<%s>", false, show_whole, type_size, read_size),
    NUMBER(MB, RANGE_WHOLE, "=<%s>", false, show_whole, show_whole, read_size),
    NUMBER(KB, RANGE_WHOLE, "=<%s>", false, show_whole, show_whole, read_size),
    NUMBER(DEC2, RANGE_ABOVE, "=<%s>", false, show_fraction, type_fraction, read_fraction),
    NUMBER(DEC3, RANGE_ABOVE, "=<%s>", false, show_fraction, type_fraction, read_fraction),
    [OPT_STR] = {FIELD_TEXT, 1, RANGE_NONE, "=<%s>", false, NULL, NULL, NULL},
    [OPT_LIST] = {FIELD_TEXT, 1, RANGE_NONE, "=<%s>", false, NULL, NULL, NULL},
};
