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
static char history[4096]; /* path of the file; empty: none */

/* The word that is being completed, and its candidates, which next_candidate() hands out. */
static struct {
    const char *word; /* [borrowed] */
    char **names;     /* owned; each is readline's once it was handed out */
    size_t count, next;
} completion;

static struct ctl *asked; /* [borrowed] */

static void add_candidate(struct span name)
{
    const size_t len = strlen(completion.word);
    char **more;

    if (name.len < len || memcmp(name.ptr, completion.word, len) != 0) {
        return;
    }
    more = realloc(completion.names, (completion.count + 1) * sizeof(*more));
    if (more != NULL) {
        completion.names = more;
        more[completion.count] = strndup(name.ptr, name.len);
        completion.count += more[completion.count] != NULL;
    }
}

static char *next_candidate(const char *text, int state)
{
    (void)text;
    (void)state;
    return completion.next < completion.count ? completion.names[completion.next++] : NULL;
}

static void add_commands(void)
{
    for (unsigned id = 0; id < COMMAND_COUNT; id++) {
        add_candidate(span_str(ctl_commands[id].name));
    }
}

static void add_words(enum command_id command)
{
    struct span rest = span_str(ctl_commands[command].words);
    struct span word;

    while ((word = span_word(&rest)).len > 0) {
        add_candidate(word);
    }
}

static void add_options(enum command_id command)
{
    for (unsigned id = 0; id < OPT_COUNT; id++) {
        char name[64];

        if (id == OPT_json || option_goes_with(&ctl_options[id], command)) {
            snprintf(name, sizeof(name), "--%s", ctl_options[id].name);
            add_candidate(span_str(name));
        }
    }
}

/* Does the line before the word that is completed say which options config is about? */
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

/* Collect the candidates for the word that begins at `start`. */
static void add_candidates(int start)
{
    char name[32];
    int begin = 0;

    while (rl_line_buffer[begin] == ' ') {
        begin++;
    }
    int len = (int)strcspn(rl_line_buffer + begin, " ");
    snprintf(name, sizeof(name), "%.*s", len, rl_line_buffer + begin);
    const enum command_id command = ctl_command_find(name);
    if (start <= begin || command == COMMAND_help) {
        add_commands();
    } else if (command == COMMAND_COUNT) {
        return;
    } else if (completion.word[0] == '-') {
        add_options(command);
    } else if (command == COMMAND_config && wants_name(begin, start)) {
        prompt_each_name(asked, add_candidate);
    } else {
        add_words(command);
    }
}

static char **complete(const char *text, int start, int end)
{
    (void)end;
    rl_attempted_completion_over = 1; /* no names of files */
    completion.word = text;
    completion.count = 0;
    completion.next = 0;
    add_candidates(start);
    return rl_completion_matches(text, next_candidate);
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
    /* Called at once if a signal ends the wait for a key, else ten times a second. */
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
    free(completion.names);
    completion.names = NULL;
}

const char *line_next(const char *prompt)
{
    free(line);
    ctl_catch_signals();
    line = readline(prompt);
    /* A line that ended just before the interrupt was noticed is discarded too. */
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
