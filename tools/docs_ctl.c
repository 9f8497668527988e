/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is made of ctl/commands.def and ctl/options.def: lists of mayflyctl(1), and the parts of
 * etc/completion.
 */
#include <stdio.h>
#include <string.h>

#include "ctl/commands.h"
#include "ctl/options.h"
#include "tools/docs.h"

#define EACH_COMMAND(id) for (unsigned id = 0; id < COMMAND_COUNT; id++)
#define EACH_OPTION(row)                                                                       \
    for (const struct ctl_option_row *row = ctl_options; row < ctl_options + OPT_COUNT; row++)

/* Is it an option of every command (COMMAND_COUNT), or one of this command? */
static bool is_of(const struct ctl_option_row *row, unsigned id)
{
    return id == COMMAND_COUNT ? row->who == OPTION_ANY : option_goes_with(row, id);
}

/* ---- the manual -------------------------------------------------------------------------- */

static void roff_option(const struct ctl_option_row *row)
{
    printf(".It ");
    if (row->letter != '\0') {
        printf("Fl %c , ", row->letter);
    }
    printf("Fl \\-%s%s%s\n", row->name, row->arg != NULL ? " Ar " : "",
           row->arg != NULL ? row->arg : "");
    docs_roff("%s", row->help);
    if (row->value != NULL) {
        printf("The default is\n.Ql %s .\n", row->value);
    }
}

static void roff_options(void)
{
    EACH_OPTION(row)
    {
        if (is_of(row, COMMAND_COUNT)) {
            roff_option(row);
        }
    }
}

static void roff_commands(void)
{
    EACH_COMMAND(id)
    {
        const struct ctl_command_row *command = &ctl_commands[id];
        bool has_options = false;

        printf(".It Ic %s", command->name);
        printf(command->args[0] != '\0' ? " Li \"%s\"\n" : "\n", command->args);
        docs_roff("%s", command->help);
        EACH_OPTION(row)
        {
            if (is_of(row, id)) {
                fputs(has_options ? "" : ".Bl -tag -width Ds\n", stdout);
                has_options = true;
                roff_option(row);
            }
        }
        fputs(has_options ? ".El\n" : "", stdout);
    }
}

/* ---- completion -------------------------------------------------------------------------- */

static bool wants_file(const struct ctl_option_row *row)
{
    return row->arg != NULL && (strcmp(row->arg, "FILE") == 0 || strcmp(row->arg, "PATH") == 0);
}

static void command_names(void)
{
    EACH_COMMAND(id)
    {
        printf("%s%s", id > 0 ? " " : "", ctl_commands[id].name);
    }
}

/* What may follow a command. */
static void words_after(unsigned id)
{
    if (id == COMMAND_help) {
        command_names();
    } else {
        fputs(ctl_commands[id].words, stdout);
    }
}

/* The options with an argument, as a pattern of the shell: --one|-o|--two. */
static void bash_pattern(bool of_files)
{
    const char *between = "";

    EACH_OPTION(row)
    {
        if (row->arg != NULL && wants_file(row) == of_files) {
            printf("%s--%s", between, row->name);
            between = "|";
            if (row->letter != '\0') {
                printf("|-%c", row->letter);
            }
        }
    }
}

static void bash_files(void)
{
    bash_pattern(true);
}

static void bash_values(void)
{
    bash_pattern(false);
}

static void bash_names(unsigned id)
{
    EACH_OPTION(row)
    {
        if (is_of(row, id)) {
            printf(" --%s", row->name);
        }
    }
}

static void bash_options(void)
{
    bash_names(COMMAND_COUNT);
}

static void bash_commands(void)
{
    EACH_COMMAND(id)
    {
        printf("%s        %s) words='", id > 0 ? "\n" : "", ctl_commands[id].name);
        words_after(id);
        printf("' options='");
        bash_names(id);
        printf("' ;;");
    }
}

/* Text within '...' of zsh, where [ ] and : mean something. */
static void zsh_text(const char *text, size_t len)
{
    for (const char *c = text; c < text + len; c++) {
        printf("%s%c", *c == '\'' ? "'\\'" : strchr("[]:\\", *c) != NULL ? "\\" : "", *c);
    }
}

/* One form of an option: how it is typed, and what separates it from its argument. */
static void zsh_form(const struct ctl_option_row *row, const char *typed, const char *separator)
{
    printf("        '%s%s[", typed, row->arg != NULL ? separator : "");
    zsh_text(row->help, strlen(row->help));
    putchar(']');
    if (row->arg != NULL) {
        printf(":%s:%s", row->arg, wants_file(row) ? "_files" : "");
    }
    printf("' \\\n");
}

static void zsh_options_of(unsigned id)
{
    EACH_OPTION(row)
    {
        char typed[64];

        if (is_of(row, id)) {
            snprintf(typed, sizeof(typed), "--%s", row->name);
            zsh_form(row, typed, "=");
            snprintf(typed, sizeof(typed), "-%c", row->letter);
            if (row->letter != '\0') {
                zsh_form(row, typed, "+");
            }
        }
    }
}

static void zsh_options(void)
{
    zsh_options_of(COMMAND_COUNT);
}

static void zsh_commands(void)
{
    EACH_COMMAND(id)
    {
        const char *help = ctl_commands[id].help;

        printf("        '%s:", ctl_commands[id].name);
        zsh_text(help, (size_t)describe_brief_len(help));
        printf("'\n");
    }
}

static void zsh_arguments(void)
{
    EACH_COMMAND(id)
    {
        if (id == COMMAND_config) {
            continue; /* the template has it: names of options follow */
        }
        printf("        %s) _arguments \\\n", ctl_commands[id].name);
        zsh_options_of(id);
        if (strncmp(ctl_commands[id].args, "FILE", 4) == 0) {
            printf("        '*:file:_files' ;;\n");
            continue;
        }
        printf("        '*:word:(");
        words_after(id);
        printf(")' ;;\n");
    }
}

const struct docs_part docs_ctl_parts[] = {
    {"mayflyctl-options", roff_options},
    {"mayflyctl-commands", roff_commands},
    {"command-names", command_names},
    {"bash-files", bash_files},
    {"bash-values", bash_values},
    {"bash-options", bash_options},
    {"bash-commands", bash_commands},
    {"zsh-options", zsh_options},
    {"zsh-commands", zsh_commands},
    {"zsh-arguments", zsh_arguments},
    {NULL, NULL},
};
