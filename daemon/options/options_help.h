/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The texts made from the tables. Context of all: any thread.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_HELP_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_HELP_H

#include <stdio.h>

/* -h, -V and -i. */
void options_print_help(FILE *out);
void options_print_version(FILE *out);
void options_print_license(FILE *out);

/* The synopsis and the options list of the manual, in mdoc: --describe. */
void options_print_synopsis(FILE *out);
void options_print_manual(FILE *out);

#endif
