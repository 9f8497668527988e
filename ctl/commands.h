/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions behind the rows of commands.def. Each returns an enum ctl_status. */
#ifndef MAYFLY_CTL_COMMANDS_H
#define MAYFLY_CTL_COMMANDS_H

struct ctl;
struct ctl_words;

#define COMMAND(id, args, least, most, words_, help)                                           \
    int cmd_##id(struct ctl *c, const struct ctl_words *args_);
#include "ctl/commands.def"
#undef COMMAND

/*
 * Run a command line: options were read to c->options, args begins with the command's name.
 * Returns an enum ctl_status; what went wrong is in c->why.
 */
int command_run(struct ctl *c, const struct ctl_words *args);

#endif
