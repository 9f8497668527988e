/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/confirm.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "ctl/show.h"

bool confirm(struct ctl *c, const char *what)
{
    const struct options *o = &c->options;
    char answer[16];

    if (o->yes || !isatty(STDIN_FILENO)) {
        return true;
    }
    fprintf(stderr, "%s of ", what);
    (void)show_text(stderr, span_str(o->host != NULL ? o->host : o->control), c->is_utf8);
    if (o->host != NULL) {
        fprintf(stderr, " port %s", o->port);
    }
    fputs("? [y/N] ", stderr);
    if (fgets(answer, sizeof(answer), stdin) == NULL) {
        fputc('\n', stderr);
        clearerr(stdin);
        answer[0] = '\0';
    }
    answer[strcspn(answer, "\n")] = '\0';
    if (strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0) {
        return true;
    }
    (void)ctl_fail(c, CTL_NO, "nothing was done");
    return false;
}
