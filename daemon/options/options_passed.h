/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Live options that a program hands over to the one that it becomes (daemon/service/server.h).
 * These are the options that differ from files and command line, which `config rewrite` would
 * write. The format is text that any version can read, one line for each:
 *
 *     NAME GIVEN VALUE
 *
 * A value with a blank or a quote is quoted as in a configuration file (conf_line.h). If files
 * and command line still have GIVEN, the next program takes VALUE. If they have another value
 * by now, that is newer and is used.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_PASSED_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_PASSED_H

#include <stdbool.h>

#include "daemon/options/settings.h"
#include "lib/base/buf.h"
#include "lib/base/span.h"

/*
 * Append the lines. given: the values of files and command line; live: the present values. Only
 * live options are compared. Returns false without memory. Context: main.
 */
bool options_passed_write(struct buf *out, const struct settings *given,
                          const struct settings *live);

enum passed_option {
    PASSED_TAKEN,      /* the value is in the settings, set at run time */
    PASSED_OVERRIDDEN, /* files or command line have another value than before */
    PASSED_REFUSED,    /* this version rejects it, for the reason in why */
};

/* What became of a line. All texts are borrowed for the call. */
typedef void (*option_passed_fn)(void *arg, enum passed_option result, const char *name,
                                 const char *value, const char *why);

/*
 * Apply the lines of options_passed_write() to settings of options_parse(), and call fn for
 * each line that changes something or would have. The lines may have any bytes. If rules
 * between options are broken then (options_check()), the settings are restored, and fn is
 * called with that for each option that had been taken. Context: main, before start.
 */
void options_passed_take(struct settings *s, struct span lines, option_passed_fn fn, void *arg);

#endif
