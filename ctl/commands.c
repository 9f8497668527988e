/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/commands.h"

#include "ctl/ctl.h"
#include "ctl/describe.h"

int command_run(struct ctl *c, const struct words *args)
{
    enum command_id id = ctl_command_find(args->word[0].ptr);
    const struct command_row *row;
    unsigned given = args->count - 1;
    int status;

    if (id == COMMAND_COUNT) {
        return ctl_fail(c, CTL_USAGE, "there is no command %.100s (see mayflyctl help)",
                        args->word[0].ptr);
    }
    row = &ctl_commands[id];
    if (c->options.help) {
        describe_command(c->out, id);
        return CTL_OK;
    }
    if (given < row->least || given > row->most) {
        return ctl_fail(c, CTL_USAGE, "usage: mayflyctl %s%s%s", row->name,
                        row->args[0] != '\0' ? " " : "", row->args);
    }
    if (!options_fit(&c->options, id, c->why, sizeof(c->why))) {
        return CTL_USAGE;
    }
    status = row->run(c, args);
    if ((fflush(c->out) != 0 || ferror(c->out)) && status == CTL_OK) {
        status = ctl_fail(c, CTL_SYSTEM, "the output cannot be written");
    }
    return status;
}
