/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options of a running server: looked up by name, shown as a user types them, changed. Words
 * and ranges are those of the rows, so code that reads options from other sources than the
 * command line uses this.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_LIVE_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_LIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/options/settings.h"

/* Longest name that a message repeats. */
#define OPTION_NAME_MAX 40

/*
 * The option with this name, or with this alias of memcached or Redis; - and _ are the same.
 * OPTION_COUNT: there is none. Context: any thread.
 */
enum option_id option_find(const char *name, size_t len);

/*
 * Convert a value given by this name to the form for option_change(): an alias may count bytes
 * where the option counts megabytes. Returns value, or text, filled. Context: any thread.
 */
#define OPTION_ALIAS_BYTES 32
const char *option_alias_value(const char *name, const char *value,
                               char text[OPTION_ALIAS_BYTES]);

/* The replacement for an option of Redis; NULL: it is not one. Context: any thread. */
const char *option_instead(const char *name, size_t len);

/* Its name, with dashes. Context: any thread. */
const char *option_name(enum option_id id);

/* A name with _ instead of dashes. Fills text (OPTION_TEXT_BYTES). Context: any thread. */
const char *option_with_underscores(const char *name, char *text);

/* Its name with _, as commands show it. Fills text (OPTION_TEXT_BYTES). Context: any thread. */
const char *option_shown_name(enum option_id id, char *text);

/*
 * The option name nearest to the given one; NULL if none is near, or if it is an option name.
 * Context: any thread.
 */
const char *option_nearest(const char *given, size_t len);

/*
 * May it be changed now? If not, why (OPTION_TEXT_BYTES) has the reason: it needs a restart, or
 * has no effect in this server. Context: any thread.
 */
bool option_is_live(enum option_id id, char *why);

/*
 * Change a live option. Returns false if the value is not acceptable: why (OPTION_TEXT_BYTES)
 * then has the reason, and nothing was changed. The new value counts as set at run time, and is
 * used from now on. The caller notifies those that depend on it. Context: any thread.
 */
bool option_change(struct settings *s, enum option_id id, const char *value, char *why);

/*
 * Fill ids (OPTION_COUNT) with the options that have an effect, are live or not as asked, and
 * have another value in b than in a; returns how many. Context: any thread for live ones, else
 * main.
 */
unsigned options_differing(const struct settings *a, const struct settings *b, bool is_live,
                           enum option_id *ids);

/* Copy the values of all live options. Context: any thread. */
void options_copy_live(struct settings *s, const struct settings *from);

/*
 * Fill ids with the options that have an effect and whose name matches the pattern, in the
 * order of options_each_matching(), and return their number; only_live: only live ones. ids has
 * room for OPTION_COUNT. Context: any thread.
 */
unsigned options_matching(const char *pattern, bool only_live, enum option_id *ids);

/*
 * Call fn for each option that has an effect and whose name matches one of these patterns of
 * the shell (fnmatch(3); with - or _), in the order of the rows: its name with _, and its value
 * as a user types it, "" for a text that is not set. Both are borrowed for the call. Context:
 * any thread.
 */
typedef void (*option_fn)(void *arg, const char *name, const char *value);
void options_each_matching(const struct settings *s, const char *const *patterns,
                           unsigned count, option_fn fn, void *arg);

#endif
