/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The texts made from the tables. Context of all: main.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_OPTIONS_HELP_H
#define MAYFLY_DAEMON_OPTIONS_OPTIONS_HELP_H

#include <stdio.h>

/* -h, -V and -i. */
void options_print_help(FILE *out);
void options_print_version(FILE *out);
void options_print_license(FILE *out);

/*
 * Parts of the manual, in mdoc: the synopsis and the list of options of mayflyd(8), and the
 * list of mayfly.conf(5). --describe prints them.
 */
void options_print_synopsis(FILE *out);
void options_print_manual(FILE *out);
void options_print_settings(FILE *out);
void options_print_stats(FILE *out); /* options_stats.c */

#endif
