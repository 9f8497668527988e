/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress of a long operation: a line on standard error, if that is a terminal. It is
 * overwritten with each update and removed at the end.
 */
#ifndef MAYFLY_CTL_PROGRESS_H
#define MAYFLY_CTL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* [borrowed] "saved" */
    bool is_shown;
    double began_s, told_s;
    uint64_t bytes, items;
};

void progress_begin(struct progress *p, const char *what);

/* So many more; items 0: they are not known. */
void progress_add(struct progress *p, uint64_t bytes, uint64_t items);

/* The same with any text. */
void progress_tell(struct progress *p, const char *text);

void progress_end(struct progress *p);

#endif
