/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints settings as a configuration file. Context of all: main.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_PRINT_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_PRINT_H

#include <limits.h>
#include <stdio.h>

#include "daemon/options/options_rows.h"
#include "daemon/options/settings.h"

/* Room for a path and the number of a line. */
#define OPTION_WHERE_BYTES (PATH_MAX + 16)

/* Where the value of an option comes from, such as "default" or "FILE:12". Fills text. */
const char *option_where(const struct settings *s, enum option_id id, char *text);

/*
 * --print-config: every option that has an effect or was set, with its value and, as a comment,
 * its source. A configuration file of these lines gives the same values. No option is secret:
 * passwords and keys are in files of their own, and only the names of these are shown.
 */
void options_print_config(FILE *out, const struct settings *s);

#endif
