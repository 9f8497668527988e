/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rows of options.def and compat.def as data. For this folder; others use options.h and
 * settings.h.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_ROWS_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/options/settings.h"
#include "lib/base/check.h"

enum option_kind {
#define KIND(kind, type, scale) OPT_##kind,
#include "lib/base/option_kinds.def"
    OPT_STR,
    OPT_LIST,
};

enum option_life { OPT_BOOT, OPT_LIVE };

/* Traits, a set of bits. */
#define OPT_IGNORED    1u
#define OPT_CLAMPED    2u
#define OPT_UNSET_NO   4u
#define OPT_UNSET_NULL 8u
#define OPT_SHARE      16u
#define OPT_AUTO       32u

struct option_row {
    enum option_kind kind;
    enum option_life life;
    unsigned traits;
    int letter;    /* 0: none */
    int status;    /* exit status for a bad value */
    size_t offset; /* in struct settings */
    double def;    /* in the unit of the command line, as are min and max */
    double min;
    double max;
    const char *name; /* with dashes; "": not settable */
    const char *unit;
    const char *help;
};

/*
 * The properties of a kind. Numbers are passed as doubles, which are exact for every range of
 * options.def.
 */
enum option_field { FIELD_BYTE, FIELD_32, FIELD_64, FIELD_DOUBLE, FIELD_TEXT };
enum option_bounds { RANGE_NONE, RANGE_WHOLE, RANGE_ABOVE }; /* ABOVE: without its least */

struct option_kind_row {
    enum option_field field;
    double scale; /* stored units in one unit of the command line */
    enum option_bounds range;
    const char *form; /* form of a flag's value, with its unit; NULL: the words */
    bool may_stand_alone;
    /*
     * Print the number in the form of `stats settings` (stored) and in the form of the command
     * line (in its unit). Both return text, filled. NULL for texts.
     */
    const char *(*show)(const struct option_row *row, double number, char *text);
    const char *(*type)(const struct option_row *row, double number, char *text);
    /* Parse a typed value. False: why (OPTION_TEXT_BYTES) has the reason. */
    bool (*read)(const struct option_row *row, const char *value, double *number, char *why);
};

/* By enum option_kind. */
extern const struct option_kind_row option_kinds[];

/* Fill why (OPTION_TEXT_BYTES) and return false, so that a caller can return it. */
MF_PRINTF(2, 3) bool option_refuse(char *why, const char *fmt, ...);

/* "one of ..." with the words of a row of kind ENUM. Fills text. */
const char *option_list_words(const struct option_row *row, char *text);

/*
 * The least and the greatest number as a user types them, such as "1 to 512", with the unit
 * where it is easily mistaken; "" where values are no numbers. Fills text. Context: any thread.
 */
const char *option_range(const struct option_row *row, char *text);

/* In the order of enum option_id. */
extern const struct option_row option_rows[OPTION_COUNT];

/*
 * The lines of `stats settings`, in order: a row, or OPTION_COUNT and the text; or, where there
 * are words, whether a row has this number.
 */
struct option_line {
    const char *name;
    enum option_id id;
    const char *value;
    int64_t number;
    const char *words[2]; /* for no and yes; NULL: none */
    bool is_as_given;     /* as a user types it */
};
extern const struct option_line option_lines[];
extern const size_t option_line_count;

enum compat_verdict { COMPAT_ALIAS, COMPAT_TAKEN, COMPAT_REFUSED, COMPAT_INSTEAD };
enum compat_arg { COMPAT_NO_ARG, COMPAT_ARG, COMPAT_MAY_ARG };

struct compat_row {
    enum compat_verdict verdict;
    int letter; /* 0: none */
    enum compat_arg arg;
    enum option_id option; /* COMPAT_ALIAS: the option that it means */
    enum compat_id id;     /* COMPAT_TAKEN: its index in settings.compat */
    const char *name;
    const char *text; /* why it has no effect; the refused feature; the alternative */
    bool is_of_redis; /* also a long flag */
    bool is_in_bytes; /* COMPAT_ALIAS: a number without suffix is in bytes */
};

extern const struct compat_row compat_rows[];
extern const size_t compat_row_count;

/* Are the names the same, apart from - and _? Context: any thread. */
bool option_name_is(const char *row_name, const char *given, size_t given_len);

/* The row of compat.def with this name, or NULL. Context: any thread. */
const struct compat_row *compat_find(const char *name, size_t len);

/* Can the option be given without a value? Context: any thread. */
bool option_may_stand_alone(const struct option_row *row);

/* Is it of kind STR or LIST? Context: any thread. */
bool option_is_text(const struct option_row *row);

/* Is its value an address (replica_address.h)? */
static inline bool option_is_address(enum option_id id)
{
    return id == OPTION_replicaof || id == OPTION_replica_announce;
}

/* Can the option be without a value? Then its default is none. Context: any thread. */
bool option_may_be_unset(const struct option_row *row);

/*
 * The n-th word of a row's unit ("auto:shown|ascii|binary"), as it is typed or as it is shown.
 * Fills text. NULL: there are fewer words. Context: any thread.
 */
enum option_word { OPTION_WORD_TYPED, OPTION_WORD_SHOWN };
const char *option_word(const struct option_row *row, unsigned n, enum option_word form,
                        char *text);

#endif
