/* SPDX-License-Identifier: BSD-3-Clause */
/* The name that was probably meant by a misspelt one, for "did you mean". */
#ifndef MAYFLY_LIB_BASE_EDITS_H
#define MAYFLY_LIB_BASE_EDITS_H

#include "lib/base/span.h"

/* The most similar name so far. All zero: none. */
struct edits_guess {
    struct span name; /* [borrowed] */
    unsigned edits;   /* 0: the same name, but for - and _ */
};

/*
 * Make a name the guess at `given` if it is similar enough, and more similar than the guess so
 * far. Similarity is the number of edits (insert, remove or replace a character) that turn one
 * into the other: at most three, and one for three characters. Context: any thread.
 */
void edits_guess(struct edits_guess *best, struct span given, struct span name);

#endif
