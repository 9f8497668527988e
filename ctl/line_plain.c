/* SPDX-License-Identifier: BSD-3-Clause */
/* See prompt.h: of a build without readline. The terminal itself lets a line be corrected. */
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/prompt.h"

static char line[64 * 1024];

void line_begin(struct ctl *c)
{
    (void)c;
}

void line_end(void)
{
}

const char *line_next(const char *prompt)
{
    fputs(prompt, stdout);
    (void)fflush(stdout);
    if (fgets(line, sizeof(line), stdin) == NULL) {
        if (!ctl_is_interrupted()) {
            return NULL;
        }
        clearerr(stdin);
        ctl_catch_signals();
        fputc('\n', stdout);
        return "";
    }
    line[strcspn(line, "\n")] = '\0';
    return line;
}
