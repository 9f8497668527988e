/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/commands.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/json.h"

int describe_brief_len(const char *help)
{
    const char *end = strstr(help, ". ");

    return end != NULL ? (int)(end - help) : (int)strlen(help) - 1;
}

/* ---- help -------------------------------------------------------------------------------- */

static void put_option(FILE *out, const struct ctl_option_row *row)
{
    char letter[4] = "";
    char left[64];

    if (row->letter != '\0') {
        snprintf(letter, sizeof(letter), "-%c,", row->letter);
    }
    snprintf(left, sizeof(left), "%3s --%s%s%s", letter, row->name, row->arg != NULL ? " " : "",
             row->arg != NULL ? row->arg : "");
    fprintf(out, "  %-26s %s", left, row->help);
    if (row->value != NULL) {
        fprintf(out, " [%s]", row->value);
    }
    fputc('\n', out);
}

void describe_help(FILE *out)
{
    fputs("usage: mayflyctl [OPTION...] [COMMAND [ARGUMENT...]]\n"
          "\n"
          "Queries and controls a running mayflyd. Without a command it opens a "
          "prompt.\n"
          "\n"
          "Commands:\n",
          out);
    for (unsigned id = 0; id < COMMAND_COUNT; id++) {
        const struct ctl_command_row *row = &ctl_commands[id];

        fprintf(out, "  %-10s %.*s\n", row->name, describe_brief_len(row->help), row->help);
    }
    fputs("\n\"mayflyctl help COMMAND\" describes a command. Options:\n", out);
    for (unsigned id = 0; id < OPT_COUNT; id++) {
        if (ctl_options[id].who == OPTION_ANY) {
            put_option(out, &ctl_options[id]);
        }
    }
    fputs("\nExit status: 0 done; 1 the answer is no, or there is advice; 2 usage error;\n"
          "3 no connection or a timeout; 4 refused; 5 invalid answer; 6 system error;\n"
          "check: also 65 not a snapshot; 66 unreadable.\n",
          out);
}

void describe_command(FILE *out, enum command_id id)
{
    const struct ctl_command_row *row = &ctl_commands[id];
    bool has_options = false;

    fprintf(out, "usage: mayflyctl [OPTION...] %s%s%s\n\n%s\n", row->name,
            row->args[0] != '\0' ? " " : "", row->args, row->help);
    for (unsigned i = 0; i < OPT_COUNT; i++) {
        if (option_goes_with(&ctl_options[i], id)) {
            fputs(has_options ? "" : "\nOptions:\n", out);
            has_options = true;
            put_option(out, &ctl_options[i]);
        }
    }
}

int cmd_help(struct ctl *c, const struct ctl_words *args)
{
    enum command_id id = COMMAND_COUNT;

    if (args->count > 1) {
        id = ctl_command_find(args->word[1].ptr);
        if (id == COMMAND_COUNT) {
            return ctl_fail(c, CTL_USAGE, "there is no command %.100s", args->word[1].ptr);
        }
    }
    if (c->options.json) {
        struct json j = ctl_json(c);

        json_begin(&j, NULL, '{');
        for (unsigned i = 0; i < COMMAND_COUNT; i++) {
            if (id == COMMAND_COUNT || id == i) {
                json_text(&j, ctl_commands[i].name, span_str(ctl_commands[i].help));
            }
        }
        json_end(&j, '{');
    } else if (id != COMMAND_COUNT) {
        describe_command(c->out, id);
    } else {
        describe_help(c->out);
    }
    return CTL_OK;
}

/* ---- run --------------------------------------------------------------------------------- */

/* Has the reader of a pipe closed it, as `head` does? That is no failure. */
static bool has_left(FILE *out)
{
    struct pollfd p = {.fd = fileno(out)};

    return poll(&p, 1, 0) == 1 && (p.revents & POLLERR) != 0;
}

int command_run(struct ctl *c, const struct ctl_words *args)
{
    enum command_id id = ctl_command_find(args->word[0].ptr);
    unsigned given = args->count - 1;

    if (id == COMMAND_COUNT) {
        const char *near = ctl_command_near(args->word[0].ptr);

        return near != NULL
                   ? ctl_fail(c, CTL_USAGE, "there is no command %.100s (did you mean %s?)",
                              args->word[0].ptr, near)
                   : ctl_fail(c, CTL_USAGE, "there is no command %.100s (see mayflyctl help)",
                              args->word[0].ptr);
    }
    const struct ctl_command_row *row = &ctl_commands[id];
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
    int status = row->run(c, args);
    if ((fflush(c->out) != 0 || ferror(c->out)) && (status == CTL_OK || id == COMMAND_check) &&
        !has_left(c->out)) {
        status = ctl_fail(c, CTL_SYSTEM, "the output cannot be written");
    }
    return status;
}
