/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/prompt.h"

#include <stdio.h>
#include <string.h>

#include "ctl/answer.h"
#include "ctl/ask.h"
#include "ctl/commands.h"
#include "ctl/ctl.h"
#include "lib/base/mem.h"

static bool is_any(struct span word, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (span_is(word, *list)) {
            return true;
        }
    }
    return false;
}

/* Run a line. It has the options of the command line, and may override them for itself. */
static void run_line(struct ctl *c, const struct options *given, const struct ctl_words *line)
{
    struct ctl_words args;

    c->options = *given;
    c->why[0] = '\0';
    ctl_catch_signals();
    if (options_read(&c->options, line, false, &args, c->why, sizeof(c->why))) {
        if (args.count > 0) {
            (void)command_run(c, &args);
        } else {
            (void)ctl_fail(c, CTL_USAGE, "which command?");
        }
    }
    (void)fflush(c->out);
    clearerr(c->out);
    ctl_report(c);
}

void prompt_each_name(struct ctl *c, void (*fn)(struct span name))
{
    struct span line = {0}, name, value;
    enum ctl_status status = ask_line(c, "config get *");

    while ((status = ask_answer(c, status, &line)) == CTL_OK &&
           answer_pair(line, "CONFIG", &name, &value)) {
        fn(name);
    }
    c->why[0] = '\0';
}

int prompt_run(struct ctl *c)
{
    static const char *const ends[] = {"quit", "exit", NULL};
    struct options given = c->options;
    const char *text;

    c->is_prompt = true;
    ctl_catch_signals();
    line_begin(c);
    while ((text = line_next("mayfly> ")) != NULL) {
        struct ctl_words line;
        char *store = mem_alloc(strlen(text) + 1);
        char why[200];
        bool is_over = false;

        if (store == NULL) {
            break;
        }
        if (!words_split(&line, span_str(text), store, why, sizeof(why))) {
            (void)ctl_fail(c, CTL_USAGE, "%s", why);
            ctl_report(c);
        } else if (line.count > 0) {
            is_over = is_any(line.word[0], ends);
            if (!is_over) {
                run_line(c, &given, &line);
            }
        }
        mem_free(store);
        if (is_over) {
            break;
        }
    }
    line_end();
    return CTL_OK;
}
