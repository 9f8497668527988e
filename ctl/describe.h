/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts made of the tables: help, the manual's lists, completion of shells. */
#ifndef MAYFLY_CTL_DESCRIBE_H
#define MAYFLY_CTL_DESCRIBE_H

#include <stdbool.h>
#include <stdio.h>

#include "ctl/options.h"

/* Help: of everything, or of one command. */
void describe_help(FILE *out);
void describe_command(FILE *out, enum command_id id);

/*
 * A generated file by its name: "commands" and "options" of the manual (mdoc), "bash", "zsh".
 * False: there is no such.
 */
bool describe_part(FILE *out, const char *part);

#endif
