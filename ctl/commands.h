/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions that run the commands of commands.def. Each returns an enum ctl_status; that of
 * check may also return EX_DATAERR and EX_NOINPUT.
 */
#ifndef MAYFLY_CTL_COMMANDS_H
#define MAYFLY_CTL_COMMANDS_H

#include <stdio.h>

#include "ctl/options.h"

struct ctl;
struct json;
struct stats;

#define COMMAND(id, args, least, most, words_, help)                                           \
    int cmd_##id(struct ctl *c, const struct ctl_words *args_);
#include "ctl/commands.def"
#undef COMMAND

/*
 * Run a command line: options were read to c->options, args begins with the command's name.
 * Returns an enum ctl_status; what went wrong is in c->why.
 */
int command_run(struct ctl *c, const struct ctl_words *args);

/* Write an answer of statistics as a JSON object. */
void stats_put_json(const struct ctl *c, struct json *j, const struct stats *s);

/* Print the help: of everything, or of one command. */
void describe_help(FILE *out);
void describe_command(FILE *out, enum command_id id);

/* Length of the first sentence of the help of a command, without its full stop. */
int describe_brief_len(const char *help);

#endif
