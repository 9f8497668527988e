/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/commands.h"

#include <poll.h>
#include <stdio.h>

#include "ctl/ctl.h"
#include "ctl/describe.h"

/* Has the reader of a pipe had enough, as `head` has? That is no failure. */
static bool has_left(FILE *out)
{
    struct pollfd p = {.fd = fileno(out)};

    return poll(&p, 1, 0) == 1 && (p.revents & POLLERR) != 0;
}

int command_run(struct ctl *c, const struct ctl_words *args)
{
    enum command_id id = ctl_command_find(args->word[0].ptr);
    const struct ctl_command_row *row;
    unsigned given = args->count - 1;
    int status;

    if (id == COMMAND_COUNT) {
        const char *near = ctl_command_near(args->word[0].ptr);

        return near != NULL
                   ? ctl_fail(c, CTL_USAGE, "there is no command %.100s (did you mean %s?)",
                              args->word[0].ptr, near)
                   : ctl_fail(c, CTL_USAGE, "there is no command %.100s (see mayflyctl help)",
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
    if ((fflush(c->out) != 0 || ferror(c->out)) && (status == CTL_OK || id == COMMAND_check) &&
        !has_left(c->out)) {
        status = ctl_fail(c, CTL_SYSTEM, "the output cannot be written");
    }
    return status;
}
