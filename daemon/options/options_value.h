/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses, stores and shows the value of one setting, by its row.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_VALUE_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/options/options_rows.h"
#include "daemon/options/settings.h"

/*
 * Parse a value by the row's kind, check its range, store it. value NULL: the option was given
 * without one. False if it is not acceptable: why (OPTION_TEXT_BYTES) then has the reason, and
 * nothing was stored. True: why is empty, or reports that another value was stored
 * (OPT_CLAMPED). If a higher source has set the option before, nothing changes and the result
 * is true. Context: before start; for LIVE rows any thread.
 */
bool option_set(struct settings *s, enum option_id id, const char *value,
                enum option_source source, char *why);

/*
 * Give an option the value and source that it has in other settings. Not for texts of BOOT
 * rows. Context: any thread for LIVE rows, else before start.
 */
void option_copy(struct settings *s, const struct settings *from, enum option_id id);

/*
 * Reset an option that this source or a lower one has set to its default. Returns false for
 * options that always have a value. Context: before start.
 */
bool option_unset(struct settings *s, enum option_id id, enum option_source source);

/* no_<name>: turn a BOOL or SWITCH off. False for other kinds. Context: before start. */
bool option_set_off(struct settings *s, enum option_id id, enum option_source source);

/*
 * The value in the form of `stats settings`: points into the settings (texts of BOOT rows), a
 * table, or text, which has room for OPTION_TEXT_BYTES. Context: any thread.
 */
const char *option_show(const struct settings *s, enum option_id id, char *text);

/* Has an option of numbers this value, in the unit of the command line? Context: any thread. */
bool option_is(const struct settings *s, enum option_id id, int64_t number);

/*
 * The value as a user would type it, so that option_set() reads it again; "" for an option that
 * is unset. Points into the settings, a table, or text. Context: any thread.
 */
const char *option_typed(const struct settings *s, enum option_id id, char *text);

/* The same for a row in megabytes or kilobytes, with the suffix of the unit. */
const char *option_typed_in_bytes(const struct settings *s, enum option_id id, char *text);

/* Is the value the default, whether it was given or not? Context: main. */
bool option_has_default(const struct settings *s, enum option_id id);

/*
 * The default as a user would type it, "" when there is none to type. Fills text. Context: any
 * thread.
 */
const char *option_show_default(enum option_id id, char *text);

/*
 * Store a number, in the unit of the command line. Context: any thread for LIVE rows, else
 * before start.
 */
void option_store(struct settings *s, const struct option_row *row, double number);

/* Unset a text. Context: any thread for LIVE rows, else before start or after the threads. */
void option_unset_text(struct settings *s, const struct option_row *row);

#endif
