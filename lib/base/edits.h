/* SPDX-License-Identifier: BSD-3-Clause */
/* Edit distance of two names, for "did you mean". */
#ifndef MAYFLY_LIB_BASE_EDITS_H
#define MAYFLY_LIB_BASE_EDITS_H

#include <stddef.h>

/* Longest name that is compared. */
#define EDITS_NAME_MAX 40

/* Most edits after which a name is still a guess at another. */
#define EDITS_MAX 3u

/*
 * The number of edits (insert, remove or replace a character) that turn a into b; - and _ are
 * the same. EDITS_MAX + 1 when b is longer than EDITS_NAME_MAX. Context: any thread.
 */
unsigned edits_between(const char *a, size_t a_len, const char *b);

/* Largest distance at which a name of this length is still taken for a misspelt one. */
static inline unsigned edits_allowed(size_t len)
{
    return len / 3 < EDITS_MAX ? (unsigned)(len / 3) : EDITS_MAX;
}

#endif
