/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Help and other texts made from the tables. Context of all: main.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_HELP_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_HELP_H

#include <stdbool.h>
#include <stdio.h>

#include "daemon/options/options_rows.h"

/* -h, -V and -i. */
void options_print_help(FILE *out);
void options_print_version(FILE *out);
void options_print_license(FILE *out);

/* Is there a flag --no-name? */
bool option_has_no_form(const struct option_row *row);

/* What follows a flag: "=<threads>", "[=0..2]", "=auto|ascii|binary". Fills text. */
void option_value_form(const struct option_row *row, char *text);

/* The words about range and default, or nothing. Fills text. */
void option_value_note(enum option_id id, char *text);

/* Call put for each flag and name that is accepted without effect; letter 0: only with -o. */
void options_each_ignored(FILE *out, void (*put)(FILE *out, const char *name, int letter));

#endif
