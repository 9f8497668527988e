/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text for people. Bytes from a server (keys, values, messages) go through show_text(), because
 * a terminal may take some of them for commands. Control characters (of ASCII, C1 and Unicode),
 * bytes that are not UTF-8, and characters that change the direction of writing are shown as
 * \xNN. A backslash is doubled, so that show_unescape() restores the bytes.
 */
#ifndef MAYFLY_CTL_SHOW_H
#define MAYFLY_CTL_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/span.h"

/* Print bytes escaped; without is_utf8 also whatever is not ASCII. Returns the columns. */
size_t show_text(FILE *out, struct span s, bool is_utf8);

/* The columns that show_text() would take. */
size_t show_columns(struct span s, bool is_utf8);

/* Print blanks after text of `columns` columns, up to `width`. */
void show_pad(FILE *out, size_t width, size_t columns);

/*
 * Undo the escapes: \xNN, \n, \r, \t, \0, \\, \", \'. out has room for s.len bytes, and may be
 * s.ptr. False: there is another backslash.
 */
bool show_unescape(char *out, size_t *len, struct span s);

/* What a number counts. */
enum unit { UNIT_NONE, UNIT_BYTES, UNIT_US, UNIT_MS, UNIT_S, UNIT_PCT, UNIT_UNIX_S };

/* The unit of a statistic, by its name (without a prefix such as "0:"). */
enum unit unit_of(struct span name);

#define UNIT_TEXT_BYTES 48

/*
 * Write a number in a readable unit: "1.5 GiB", "2 h 5 min", "350 us". unit_text() writes an
 * empty text where the plain number is as readable; unit_short() always writes the number.
 */
void unit_text(char text[UNIT_TEXT_BYTES], enum unit unit, double v);
void unit_short(char text[UNIT_TEXT_BYTES], enum unit unit, double v);

/* Print a value, a number in a readable unit. out NULL: print nothing. Returns the columns. */
size_t show_value(FILE *out, enum unit unit, struct span value, bool is_utf8);

/* A number in four or five columns: 999, 9999, 12.3k, 4.5M. */
void number_short(char text[UNIT_TEXT_BYTES], double v);

/* Seconds in words: "3 days 4 h", "12 min 5 s", "1.25 s". */
void duration_text(char text[UNIT_TEXT_BYTES], double seconds);

/* ---- bar.c ------------------------------------------------------------------------------- */

/*
 * Bars and sparklines of characters: block characters where the output takes UTF-8, else ASCII.
 */

/* Most columns that are drawn, and bytes that these take with their NUL. */
#define BAR_COLUMNS_MAX 128
#define BAR_TEXT_BYTES  (3 * BAR_COLUMNS_MAX + 1)

/*
 * A bar of `columns` columns, of which `share` is filled (0 to 1; values outside are clamped).
 */
void bar_text(char text[BAR_TEXT_BYTES], double share, unsigned columns, bool is_utf8);

/*
 * A sparkline of the last `columns` of n values, oldest first. Heights are relative to the
 * highest value; a NAN is a blank.
 */
void spark_text(char text[BAR_TEXT_BYTES], const double *values, size_t n, unsigned columns,
                bool is_utf8);

/* ---- progress.c -------------------------------------------------------------------------- */

/*
 * Progress of a long operation: a line on standard error, if that is a terminal. It is
 * overwritten with each update and removed at the end.
 */

struct progress {
    const char *what; /* [borrowed] "saved" */
    bool is_shown;
    double began_s, told_s;
    uint64_t bytes, items;
};

void progress_begin(struct progress *p, const char *what);

/* Add to the amount done; items 0: their number is unknown. */
void progress_add(struct progress *p, uint64_t bytes, uint64_t items);

/* Show any text as the progress. */
void progress_tell(struct progress *p, const char *text);

void progress_end(struct progress *p);

#endif
