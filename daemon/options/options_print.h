/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings as a configuration file has them. Context of all: main.
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
 * where it comes from. A configuration file of these lines gives the same values. No option is
 * a secret: passwords and keys stand in files of their own, of which only the name is shown.
 */
void options_print_config(FILE *out, const struct settings *s);

#endif
