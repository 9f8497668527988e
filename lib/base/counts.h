/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts by a number: a hash table that is at most half full. Context of all functions: one
 * thread at a time.
 */
#ifndef MAYFLY_LIB_BASE_COUNTS_H
#define MAYFLY_LIB_BASE_COUNTS_H

#include <stdint.h>

struct count {
    uint64_t id;
    uint64_t n; /* 0: the place is not in use */
};

struct counts {
    struct count *places; /* owned; NULL: empty */
    uint32_t cap;         /* a power of two */
    uint32_t used;
    uint64_t seed;
};

/* All counts are 0. Nobody can choose numbers that meet in the table. */
void counts_init(struct counts *c);

/* Release the table: again all counts are 0. */
void counts_fini(struct counts *c);

/*
 * The count of id, until the next call. The caller must add to it if it is 0. NULL: no memory,
 * nothing changed.
 */
struct count *counts_of(struct counts *c, uint64_t id);

/* Take 1 from the count of id, which is not 0. At 0 it leaves the table, which shrinks. */
void counts_drop(struct counts *c, uint64_t id);

#endif
