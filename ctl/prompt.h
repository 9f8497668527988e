/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interactive prompt. Lines come from readline where the build has it (line_readline.c,
 * with completion and history), else directly from the terminal (line_plain.c).
 */
#ifndef MAYFLY_CTL_PROMPT_H
#define MAYFLY_CTL_PROMPT_H

#include "lib/base/span.h"

struct ctl;

/* Run commands until "quit" or the end of input. Returns an enum ctl_status. */
int prompt_run(struct ctl *c);

/* Call fn with the name of each option of the server. For completion: reports nothing. */
void prompt_each_name(struct ctl *c, void (*fn)(struct span name));

/* ---- within ------------------------------------------------------------------------------ */

/* Set up the terminal before the first line, and restore it after the last; borrows c. */
void line_begin(struct ctl *c);
void line_end(void);

/*
 * The next line without its end, owned by the callee until the next call; NULL at the end of
 * input. An interrupt gives an empty line.
 */
const char *line_next(const char *prompt);

#endif
