/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Live options that a program hands over to the one that it becomes (daemon/service/upgrade.h):
 * those that differ from what files and command line said, which are the ones that `config
 * rewrite` would write. As text that any version can read, one line for each:
 *
 *     NAME GIVEN VALUE
 *
 * A value with a blank or a quote is quoted as in a configuration file (conf_line.h).
 * If files and command line still say GIVEN, the next program takes VALUE; if they say
 * something else by now, that is newer and counts.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_PASSED_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_PASSED_H

#include <stdbool.h>

#include "daemon/options/settings.h"
#include "lib/base/buf.h"
#include "lib/base/span.h"

/*
 * Append the lines. given: what files and command line said last; live: the values now; only
 * live options of either are looked at. False: no memory. Context: main.
 */
bool options_passed_write(struct buf *out, const struct settings *given,
                          const struct settings *live);

enum passed_option {
    PASSED_TAKEN,      /* the value is in the settings, set at run time */
    PASSED_OVERRIDDEN, /* files or command line have another value than before */
    PASSED_REFUSED,    /* this version does not accept it; why says so */
};

/* What became of a line. All texts are borrowed for the call. */
typedef void (*option_passed_fn)(void *arg, enum passed_option result, const char *name,
                                 const char *value, const char *why);

/*
 * Take what lines of options_passed_write() say into settings of options_parse(), and call fn
 * for each that changes something or would have. Any bytes may stand there. If rules between
 * options are broken then (options_check()), the settings are as before, and fn is told so
 * of each option that had been taken. Context: main, before start.
 */
void options_passed_take(struct settings *s, struct span lines, option_passed_fn fn, void *arg);

#endif
