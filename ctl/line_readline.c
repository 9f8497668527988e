/* SPDX-License-Identifier: BSD-3-Clause */
/* See prompt.h: lines by GNU readline, completed from the tables, with a history in a file. */
#include <readline/history.h>
#include <readline/readline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ctl/ctl.h"
#include "ctl/options.h"
#include "ctl/prompt.h"

#define HISTORY_LINES 1000

static char *line;
static char history[4096]; /* the file; empty: none */

/* What is being completed. */
static enum command_id command;

/* The next candidate: of the commands, of the words of a command, or of its options. */
static char *next_command(const char *text, int state)
{
    static unsigned next;

    next = state == 0 ? 0 : next;
    while (next < COMMAND_COUNT) {
        const char *name = ctl_commands[next++].name;

        if (strncmp(name, text, strlen(text)) == 0) {
            return strdup(name);
        }
    }
    return NULL;
}

static char *next_word(const char *text, int state)
{
    static const char *rest;
    size_t len = strlen(text);

    rest = state == 0 ? ctl_commands[command].words : rest;
    while (*rest != '\0') {
        const char *word = rest;
        size_t n = strcspn(word, " ");

        rest += n + (word[n] == ' ' ? 1 : 0);
        if (n >= len && memcmp(word, text, len) == 0) {
            return strndup(word, n);
        }
    }
    return NULL;
}

static char *next_option(const char *text, int state)
{
    static unsigned next;

    next = state == 0 ? 0 : next;
    while (next < OPT_COUNT) {
        const struct option_row *row = &ctl_options[next++];
        char name[64];

        snprintf(name, sizeof(name), "--%s", row->name);
        if ((row == &ctl_options[OPT_json] || option_goes_with(row, command)) &&
            strncmp(name, text, strlen(text)) == 0) {
            return strdup(name);
        }
    }
    return NULL;
}

static char **complete(const char *text, int start, int end)
{
    char name[32];
    int begin = 0;
    int len;

    (void)end;
    rl_attempted_completion_over = 1; /* no names of files */
    while (rl_line_buffer[begin] == ' ') {
        begin++;
    }
    if (start <= begin) {
        return rl_completion_matches(text, next_command);
    }
    len = (int)strcspn(rl_line_buffer + begin, " ");
    snprintf(name, sizeof(name), "%.*s", len, rl_line_buffer + begin);
    if (strcmp(name, "help") == 0) {
        return rl_completion_matches(text, next_command);
    }
    command = ctl_command_find(name);
    if (command == COMMAND_COUNT) {
        return NULL;
    }
    return rl_completion_matches(text, text[0] == '-' ? next_option : next_word);
}

void line_begin(void)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int n = -1;

    if (state != NULL && state[0] == '/') {
        n = snprintf(history, sizeof(history), "%s/mayflyctl_history", state);
    } else if (home != NULL && home[0] == '/') {
        n = snprintf(history, sizeof(history), "%s/.mayflyctl_history", home);
    }
    if (n < 0 || (size_t)n >= sizeof(history)) {
        history[0] = '\0';
    }
    rl_readline_name = "mayflyctl";
    rl_attempted_completion_function = complete;
    rl_basic_word_break_characters = " \t";
    using_history();
    stifle_history(HISTORY_LINES);
    if (history[0] != '\0') {
        (void)read_history(history);
    }
}

void line_end(void)
{
    if (history[0] != '\0') {
        mode_t mask = umask(077); /* values may be secret */

        (void)write_history(history);
        (void)umask(mask);
    }
    free(line);
    line = NULL;
}

const char *line_next(const char *prompt)
{
    free(line);
    ctl_catch_signals();
    line = readline(prompt);
    if (line == NULL && ctl_is_interrupted()) {
        return "";
    }
    if (line != NULL && line[0] != '\0') {
        HIST_ENTRY *last =
            history_length > 0 ? history_get(history_base + history_length - 1) : NULL;

        if (last == NULL || strcmp(last->line, line) != 0) {
            add_history(line);
        }
    }
    return line;
}
