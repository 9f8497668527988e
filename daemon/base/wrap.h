/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints words in lines of a bounded width. Context: the thread that owns the struct.
 */
#ifndef MAYFLY_DAEMON_BASE_WRAP_H
#define MAYFLY_DAEMON_BASE_WRAP_H

#include <stddef.h>
#include <stdio.h>

struct wrap {
    FILE *out; /* [borrowed] */
    size_t width;
    size_t column;      /* of the next character; 0: the line is empty */
    size_t indent;      /* blanks at the beginning of each line */
    const char *prefix; /* [borrowed] instead of blanks; NULL: none */
};

/* Print a word after a blank, or on a new line if it does not fit on this one. */
void wrap_word(struct wrap *w, const char *word, size_t len);

/* Print all words of a text; no line end follows the last. */
void wrap_text(struct wrap *w, const char *text);

#endif
