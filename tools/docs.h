/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/docs generates documents from the .def tables: lists of the manual, shell completion,
 * and etc/mayfly.conf. `make docs` runs it. It writes to standard output, and has one thread.
 */
#ifndef MAYFLY_TOOLS_DOCS_H
#define MAYFLY_TOOLS_DOCS_H

#include "lib/base/check.h"

/* What can be printed, and its name in a template and on the command line. */
struct docs_part {
    const char *name; /* NULL after the last */
    void (*print)(void);
};
extern const struct docs_part docs_daemon_parts[];
extern const struct docs_part docs_ctl_parts[];

/* Room for the longest sentences. */
#define DOCS_BYTES 4096

/* Fill text with a sentence: a capital at its beginning, and a full stop at its end. */
MF_PRINTF(2, 3)
const char *docs_sentence(char text[DOCS_BYTES], const char *fmt, ...);

/* Print sentences for mdoc, in lines that mandoc accepts, with special characters escaped. */
MF_PRINTF(1, 2) void docs_roff(const char *fmt, ...);

#endif
