/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands typed one by one. Lines come from readline where the build has it (line_readline.c,
 * with completion and history), else as the terminal gives them (line_plain.c).
 */
#ifndef MAYFLY_CTL_PROMPT_H
#define MAYFLY_CTL_PROMPT_H

struct ctl;

/* Run commands until "quit" or the end of input. Returns an enum ctl_status. */
int prompt_run(struct ctl *c);

/* ---- within ------------------------------------------------------------------------------ */

/* Before the first line, and after the last. */
void line_begin(void);
void line_end(void);

/*
 * The next line without its end, owned by the callee until the next call; NULL at the end of
 * input. An interrupt gives an empty line.
 */
const char *line_next(const char *prompt);

#endif
