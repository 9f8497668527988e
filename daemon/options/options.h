/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command line, help text and `stats settings`, all from the rows of options.def
 * and compat.def.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_H

#include <stdio.h>

#include "daemon/options/settings.h"

enum options_result {
    OPTIONS_RUN,  /* the settings are complete and checked: start */
    OPTIONS_EXIT, /* end with *exit_status; help or a message was printed */
};

/*
 * Fill settings from defaults and command line, and check them against each other. Messages go
 * to standard error, help and version to standard output. The texts in the settings are copies:
 * argv is not needed afterwards (getopt permutes it). Call settings_fini() in either case.
 * Context: main, before start.
 */
enum options_result options_parse(int argc, char **argv, struct settings *out,
                                  int *exit_status);

/*
 * Log what was set and by whom at info, with one notice for each option that was accepted
 * without effect, also at info (-v). Context: main, after log_init().
 */
void options_log(const struct settings *s);

/*
 * Calls fn for each line of `stats settings`, in memcached's order, own ones last. Name and
 * value are borrowed for the call. Context: any thread.
 */
typedef void (*options_line_fn)(void *arg, const char *name, const char *value);
void options_each_setting(const struct settings *s, options_line_fn fn, void *arg);

/* The text of -h. Context: any thread. */
void options_help(FILE *out);

/* The options list of the manual, in mdoc. Context: any thread. */
void options_describe(FILE *out);

#endif
