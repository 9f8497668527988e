/* SPDX-License-Identifier: BSD-3-Clause */
/* See edits.h: the distance of Levenshtein, with one row of its table. */
#include "lib/base/edits.h"

/* Longest name that is compared. */
#define NAME_MAX_LEN 40

#define EDITS_MAX 3u

static char bare(char c)
{
    return c == '_' ? '-' : c;
}

static unsigned edits_between(struct span a, struct span b)
{
    unsigned row[NAME_MAX_LEN + 1];

    for (unsigned j = 0; j <= b.len; j++) {
        row[j] = j;
    }
    for (unsigned i = 1; i <= a.len; i++) {
        unsigned corner = row[0];

        row[0] = i;
        for (unsigned j = 1; j <= b.len; j++) {
            const bool is_same = bare(b.ptr[j - 1]) == bare(a.ptr[i - 1]);
            unsigned best = corner + !is_same;

            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            corner = row[j];
            row[j] = best;
        }
    }
    return row[b.len];
}

void edits_guess(struct edits_guess *best, struct span given, struct span name)
{
    const unsigned allowed = given.len / 3 < EDITS_MAX ? (unsigned)(given.len / 3) : EDITS_MAX;

    if (name.len == 0 || name.len > NAME_MAX_LEN) {
        return;
    }
    const unsigned edits = edits_between(given, name);
    if (edits <= allowed && (best->name.len == 0 || edits < best->edits)) {
        *best = (struct edits_guess){name, edits};
    }
}
