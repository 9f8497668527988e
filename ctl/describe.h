/* SPDX-License-Identifier: BSD-3-Clause */
/* Help, made of the tables. tools/docs makes the manual and the completion of shells. */
#ifndef MAYFLY_CTL_DESCRIBE_H
#define MAYFLY_CTL_DESCRIBE_H

#include <stdio.h>

#include "ctl/options.h"

/* Help: of everything, or of one command. */
void describe_help(FILE *out);
void describe_command(FILE *out, enum command_id id);

/* Length of the first sentence of the help of a command, without its full stop. */
int describe_brief_len(const char *help);

#endif
