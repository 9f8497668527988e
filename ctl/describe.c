/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/describe.h"

#include <string.h>

#include "ctl/commands.h"
#include "ctl/ctl.h"
#include "ctl/json.h"

/* The first sentence of the help of a command, without its full stop. */
static int brief_len(const char *help)
{
    const char *end = strstr(help, ". ");

    return end != NULL ? (int)(end - help) : (int)strlen(help) - 1;
}

/* ---- help -------------------------------------------------------------------------------- */

static void put_option(FILE *out, const struct option_row *row)
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
          "Asks a running mayflyd, and tells it what to do. Without a command there is a "
          "prompt.\n"
          "\n"
          "Commands:\n",
          out);
    for (unsigned id = 0; id < COMMAND_COUNT; id++) {
        const struct command_row *row = &ctl_commands[id];

        fprintf(out, "  %-10s %.*s\n", row->name, brief_len(row->help), row->help);
    }
    fputs("\n\"mayflyctl help COMMAND\" tells more. Options:\n", out);
    for (unsigned id = 0; id < OPT_COUNT; id++) {
        if (ctl_options[id].who == OPTION_ANY) {
            put_option(out, &ctl_options[id]);
        }
    }
    fputs("\nExit status: 0 done; 1 the answer is no, or there is something to do; 2 misused;\n"
          "3 no connection, or silence; 4 refused; 5 not an answer; 6 this machine failed.\n",
          out);
}

void describe_command(FILE *out, enum command_id id)
{
    const struct command_row *row = &ctl_commands[id];
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

int cmd_help(struct ctl *c, const struct words *args)
{
    enum command_id id = COMMAND_COUNT;

    if (args->count > 1) {
        id = ctl_command_find(args->word[1].ptr);
        if (id == COMMAND_COUNT) {
            return ctl_fail(c, CTL_USAGE, "there is no command %.100s", args->word[1].ptr);
        }
    }
    if (c->options.json) {
        struct json j;

        json_init(&j, c->out);
        json_begin(&j, '{');
        for (unsigned i = 0; i < COMMAND_COUNT; i++) {
            if (id == COMMAND_COUNT || id == i) {
                json_name(&j, ctl_commands[i].name);
                json_text(&j, span_str(ctl_commands[i].help));
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

/* ---- manual ------------------------------------------------------------------------------ */

/* Text with what roff would take for its own escaped. */
static void put_roff(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\\') {
            fputs("\\e", out);
        } else if (*text == '-') {
            fputs("\\-", out);
        } else {
            fputc(*text, out);
        }
    }
}

/* Sentences, each on a line of its own, as mdoc wants them. */
static void put_sentences(FILE *out, const char *text)
{
    for (;;) {
        const char *end = strstr(text, ". ");

        if (end == NULL) {
            put_roff(out, text);
            fputc('\n', out);
            return;
        }
        for (; text <= end; text++) {
            char one[2] = {*text, '\0'};

            put_roff(out, one);
        }
        fputc('\n', out);
        text = end + 2;
    }
}

static void put_roff_option(FILE *out, const struct option_row *row)
{
    fputs(".It ", out);
    if (row->letter != '\0') {
        fprintf(out, "Fl %c , ", row->letter);
    }
    fprintf(out, "Fl \\-%s%s%s\n", row->name, row->arg != NULL ? " Ar " : "",
            row->arg != NULL ? row->arg : "");
    fputc(row->help[0] >= 'a' && row->help[0] <= 'z' ? row->help[0] - 'a' + 'A' : row->help[0],
          out);
    put_roff(out, row->help + 1);
    fputs(".\n", out);
    if (row->value != NULL) {
        fprintf(out, "The default is\n.Ql %s .\n", row->value);
    }
}

static void put_roff_options(FILE *out)
{
    for (unsigned id = 0; id < OPT_COUNT; id++) {
        if (ctl_options[id].who == OPTION_ANY) {
            put_roff_option(out, &ctl_options[id]);
        }
    }
}

static void put_roff_commands(FILE *out)
{
    for (unsigned id = 0; id < COMMAND_COUNT; id++) {
        const struct command_row *row = &ctl_commands[id];
        bool has_options = false;

        fprintf(out, ".It Ic %s", row->name);
        if (row->args[0] != '\0') {
            fputs(" Li \"", out);
            put_roff(out, row->args);
            fputc('"', out);
        }
        fputc('\n', out);
        put_sentences(out, row->help);
        for (unsigned i = 0; i < OPT_COUNT; i++) {
            if (option_goes_with(&ctl_options[i], (enum command_id)id)) {
                fputs(has_options ? "" : ".Bl -tag -width Ds\n", out);
                has_options = true;
                put_roff_option(out, &ctl_options[i]);
            }
        }
        fputs(has_options ? ".El\n" : "", out);
    }
}

/* ---- completion -------------------------------------------------------------------------- */

/* Is it one of every command (who is OPTION_ANY), or of one of these? */
static bool is_of(const struct option_row *row, uint64_t who)
{
    return who == OPTION_ANY ? row->who == who
                             : row->who != OPTION_ANY && (row->who & who) != 0;
}

static void put_option_names(FILE *out, uint64_t who)
{
    for (unsigned id = 0; id < OPT_COUNT; id++) {
        if (is_of(&ctl_options[id], who)) {
            fprintf(out, " --%s", ctl_options[id].name);
        }
    }
}

static bool wants_file(const struct option_row *row)
{
    return row->arg != NULL && (strcmp(row->arg, "FILE") == 0 || strcmp(row->arg, "PATH") == 0);
}

/* The options that a pattern of the shell has to know, as "--one|-o|--two". */
static void put_pattern(FILE *out, bool of_files)
{
    bool has_some = false;

    for (unsigned id = 0; id < OPT_COUNT; id++) {
        const struct option_row *row = &ctl_options[id];

        if (row->arg == NULL || wants_file(row) != of_files) {
            continue;
        }
        fprintf(out, "%s--%s", has_some ? "|" : "", row->name);
        has_some = true;
        if (row->letter != '\0') {
            fprintf(out, "|-%c", row->letter);
        }
    }
}

/* What may follow a command, or (COMMAND_COUNT) the commands, which also follow help. */
static void put_words(FILE *out, enum command_id id)
{
    if (id != COMMAND_COUNT && id != COMMAND_help) {
        fputs(ctl_commands[id].words, out);
        return;
    }
    for (unsigned i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "%s%s", i > 0 ? " " : "", ctl_commands[i].name);
    }
}

static void put_bash(FILE *out)
{
    fputs("# SPDX-License-Identifier: BSD-3-Clause\n"
          "# Completion of mayflyctl for bash. Made by `make docs` from ctl/commands.def and "
          "ctl/options.def.\n"
          "\n"
          "_mayflyctl() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local command='' options='' words='' i=1\n"
          "    COMPREPLY=()\n"
          "    case $prev in\n"
          "        ",
          out);
    put_pattern(out, true);
    fputs(") mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); return ;;\n        ", out);
    put_pattern(out, false);
    fputs(") return ;;\n"
          "    esac\n"
          "    while ((i < COMP_CWORD)); do\n"
          "        case ${COMP_WORDS[i]} in\n"
          "            ",
          out);
    put_pattern(out, true);
    fputc('|', out);
    put_pattern(out, false);
    fputs(") ((i++)) ;;\n"
          "            -*) ;;\n"
          "            *) command=${COMP_WORDS[i]}; break ;;\n"
          "        esac\n"
          "        ((i++))\n"
          "    done\n"
          "    case $command in\n"
          "        '') words='",
          out);
    put_words(out, COMMAND_COUNT);
    fputs("' ;;\n", out);
    for (unsigned id = 0; id < COMMAND_COUNT; id++) {
        fprintf(out, "        %s) words='", ctl_commands[id].name);
        put_words(out, (enum command_id)id);
        fputs("' options='", out);
        put_option_names(out, (uint64_t)1 << id);
        fputs("' ;;\n", out);
    }
    fputs(
        "    esac\n"
        "    # Names of options are those of the server, unless it would ask for a password.\n"
        "    if [[ $command == config && ${COMP_WORDS[i+1]} =~ ^(get|set|reset)$ ]] &&\n"
        "        ((COMP_CWORD > i + 1)) && [[ ${COMP_WORDS[*]:1:i-1} != *--user* ]]; then\n"
        "        words=$(\"${COMP_WORDS[0]}\" \"${COMP_WORDS[@]:1:i-1}\" --timeout 1 config "
        "get \\\n"
        "            2>/dev/null </dev/null | sed 's/ .*//')\n"
        "    fi\n"
        "    if [[ $cur == -* ]]; then\n"
        "        words=\"$options",
        out);
    put_option_names(out, OPTION_ANY);
    fputs("\"\n"
          "    fi\n"
          "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
          "}\n"
          "complete -F _mayflyctl mayflyctl\n",
          out);
}

/* Text within '...' of zsh, where [ ] and : mean something. */
static void put_zsh_text(FILE *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        switch (text[i]) {
        case '\'':
            fputs("'\\''", out);
            break;
        case '[':
        case ']':
        case ':':
        case '\\':
            fprintf(out, "\\%c", text[i]);
            break;
        default:
            fputc(text[i], out);
        }
    }
}

static void put_zsh_option(FILE *out, const struct option_row *row)
{
    const char *action = wants_file(row) ? ":_files" : ":";

    for (unsigned form = 0; form < 2; form++) {
        if (form == 1 && row->letter == '\0') {
            continue;
        }
        if (form == 0) {
            fprintf(out, "        '--%s%s[", row->name, row->arg != NULL ? "=" : "");
        } else {
            fprintf(out, "        '-%c%s[", row->letter, row->arg != NULL ? "+" : "");
        }
        put_zsh_text(out, row->help, strlen(row->help));
        fputc(']', out);
        if (row->arg != NULL) {
            fprintf(out, ":%s%s", row->arg, action);
        }
        fputs("' \\\n", out);
    }
}

static void put_zsh_options(FILE *out, uint64_t who)
{
    for (unsigned id = 0; id < OPT_COUNT; id++) {
        if (is_of(&ctl_options[id], who)) {
            put_zsh_option(out, &ctl_options[id]);
        }
    }
}

static void put_zsh(FILE *out)
{
    fputs("#compdef mayflyctl\n"
          "# SPDX-License-Identifier: BSD-3-Clause\n"
          "# Completion of mayflyctl for zsh. Made by `make docs` from ctl/commands.def and "
          "ctl/options.def.\n"
          "\n"
          "_mayflyctl() {\n"
          "    local context state line\n"
          "    typeset -A opt_args\n"
          "    local -a commands\n"
          "    commands=(\n",
          out);
    for (unsigned id = 0; id < COMMAND_COUNT; id++) {
        const struct command_row *row = &ctl_commands[id];

        fprintf(out, "        '%s:", row->name);
        put_zsh_text(out, row->help, (size_t)brief_len(row->help));
        fputs("'\n", out);
    }
    fputs("    )\n    _arguments -C \\\n", out);
    put_zsh_options(out, OPTION_ANY);
    fputs("        '1:command:->command' '*::argument:->argument'\n"
          "    case $state in\n"
          "    command) _describe command commands ;;\n"
          "    argument)\n"
          "        case $words[1] in\n",
          out);
    for (unsigned id = 0; id < COMMAND_COUNT; id++) {
        fprintf(out, "        %s) _arguments \\\n", ctl_commands[id].name);
        put_zsh_options(out, (uint64_t)1 << id);
        if (id == COMMAND_config) {
            fputs("        '1:word:(", out);
            put_words(out, (enum command_id)id);
            fputs(")' '*:name:{compadd -- ${(f)\"$(mayflyctl config get 2>/dev/null "
                  "</dev/null | sed \"s/ .*//\")\"}}' ;;\n",
                  out);
            continue;
        }
        fputs("        '*:word:(", out);
        put_words(out, (enum command_id)id);
        fputs(")' ;;\n", out);
    }
    fputs("        esac ;;\n"
          "    esac\n"
          "}\n"
          "_mayflyctl \"$@\"\n",
          out);
}

bool describe_part(FILE *out, const char *part)
{
    if (strcmp(part, "commands") == 0) {
        put_roff_commands(out);
    } else if (strcmp(part, "options") == 0) {
        put_roff_options(out);
    } else if (strcmp(part, "bash") == 0) {
        put_bash(out);
    } else if (strcmp(part, "zsh") == 0) {
        put_zsh(out);
    } else {
        return false;
    }
    return true;
}
