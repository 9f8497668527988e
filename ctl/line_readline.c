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
        const struct ctl_option_row *row = &ctl_options[next++];
        char name[64];

        snprintf(name, sizeof(name), "--%s", row->name);
        if ((row == &ctl_options[OPT_json] || option_goes_with(row, command)) &&
            strncmp(name, text, strlen(text)) == 0) {
            return strdup(name);
        }
    }
    return NULL;
}

/* The names of the server's options, for config. */
static struct ctl *asked; /* [borrowed] */
static char **names;      /* owned, each; as of the first time that they were asked for */
static size_t name_count;

static void take_name(struct span name)
{
    char **more = realloc(names, (name_count + 1) * sizeof(*names));

    if (more != NULL) {
        names = more;
        names[name_count] = strndup(name.ptr, name.len);
        name_count += names[name_count] != NULL;
    }
}

static void forget_names(void)
{
    while (name_count > 0) {
        free(names[--name_count]);
    }
    free(names);
    names = NULL;
}

static char *next_name(const char *text, int state)
{
    static size_t next;

    next = state == 0 ? 0 : next;
    while (next < name_count) {
        const char *name = names[next++];

        if (strncmp(name, text, strlen(text)) == 0) {
            return strdup(name);
        }
    }
    return NULL;
}

/* Does the line up to the word that is completed say which options config is about? */
static bool wants_name(int begin, int start)
{
    static const char *const forms[] = {"config get ", "config set ", "config reset "};

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        const size_t len = strlen(forms[i]);

        if ((size_t)(start - begin) >= len &&
            strncmp(rl_line_buffer + begin, forms[i], len) == 0) {
            return true;
        }
    }
    return false;
}

static char **complete(const char *text, int start, int end)
{
    char name[32];
    int begin = 0;

    (void)end;
    rl_attempted_completion_over = 1; /* no names of files */
    while (rl_line_buffer[begin] == ' ') {
        begin++;
    }
    if (start <= begin) {
        return rl_completion_matches(text, next_command);
    }
    int len = (int)strcspn(rl_line_buffer + begin, " ");
    snprintf(name, sizeof(name), "%.*s", len, rl_line_buffer + begin);
    if (strcmp(name, "help") == 0) {
        return rl_completion_matches(text, next_command);
    }
    command = ctl_command_find(name);
    if (command == COMMAND_COUNT) {
        return NULL;
    }
    if (command == COMMAND_config && text[0] != '-' && wants_name(begin, start)) {
        if (name_count == 0) {
            prompt_each_name(asked, take_name);
        }
        return rl_completion_matches(text, next_name);
    }
    return rl_completion_matches(text, text[0] == '-' ? next_option : next_word);
}

/* Ctrl-C: discard the typed text, and show the prompt on the next line. */
static int drop_line(void)
{
    if (ctl_is_interrupted()) {
        ctl_forget_signals();
        rl_free_line_state();
        rl_replace_line("", 1);
        fputs("^C\n", rl_outstream);
        rl_on_new_line();
        rl_redisplay();
    }
    return 0;
}

void line_begin(struct ctl *c)
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
    asked = c;
    rl_readline_name = "mayflyctl";
    rl_attempted_completion_function = complete;
    /* At once where a signal ends the wait for a key; else ten times a second. */
    rl_signal_event_hook = drop_line;
    rl_event_hook = drop_line;
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
    forget_names();
}

const char *line_next(const char *prompt)
{
    free(line);
    ctl_catch_signals();
    line = readline(prompt);
    /* A line whose end came before the interrupt was noticed was not meant either. */
    if (ctl_is_interrupted()) {
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
