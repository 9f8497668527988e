/* SPDX-License-Identifier: BSD-3-Clause */
/* See edits.h: the distance of Levenshtein, with one row of its table. */
#include "lib/base/edits.h"

#include <stdbool.h>
#include <string.h>

static char bare(char c)
{
    return c == '_' ? '-' : c;
}

unsigned edits_between(const char *a, size_t a_len, const char *b)
{
    const size_t b_len = strlen(b);
    unsigned row[EDITS_NAME_MAX + 1];

    if (b_len > EDITS_NAME_MAX) {
        return EDITS_MAX + 1;
    }
    for (unsigned j = 0; j <= b_len; j++) {
        row[j] = j;
    }
    for (unsigned i = 1; i <= a_len; i++) {
        unsigned corner = row[0];

        row[0] = i;
        for (unsigned j = 1; j <= b_len; j++) {
            const bool is_same = bare(b[j - 1]) == bare(a[i - 1]);
            unsigned best = corner + !is_same;

            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            corner = row[j];
            row[j] = best;
        }
    }
    return row[b_len];
}
