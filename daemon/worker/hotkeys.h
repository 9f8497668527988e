/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The most frequently accessed keys. Each worker samples one of N accesses, at random
 * distances, and counts its key in a sketch of bounded size: "space saving" (A. Metwally, D.
 * Agrawal, A. El Abbadi, "Efficient computation of frequent and top-k elements in data
 * streams", ICDT 2005). A key without a row replaces the key with the least count and inherits
 * that count, which is also its error: at most a 256th of all accesses. Counts halve every 30
 * seconds.
 */
#ifndef MAYFLY_DAEMON_WORKER_HOTKEYS_H
#define MAYFLY_DAEMON_WORKER_HOTKEYS_H

#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/span.h"
#include "proto/request.h"

#define HOTKEYS_ROWS 256u

/* Of a worker: 72 KiB. */
struct hotkeys {
    /* [worker] all numbers fade with time */
    msec_t faded_at;  /* up to when */
    double covered_s; /* the seconds that are in the counts */
    double total;     /* accesses: N for each sampled one */
    uint32_t used;    /* rows */
    uint64_t hash[HOTKEYS_ROWS];
    double count[HOTKEYS_ROWS];
    double error[HOTKEYS_ROWS]; /* the part of the count that may belong to other keys */
    uint8_t key_len[HOTKEYS_ROWS];
    char key[HOTKEYS_ROWS][REQUEST_KEY_MAX];
};

/* Begin at a time. Context: worker, or before the worker starts. */
void hotkeys_init(struct hotkeys *h, msec_t now);

/*
 * Count `n` accesses to a key. What is empty or longer than REQUEST_KEY_MAX is no key, and is
 * not counted. Context: worker.
 */
void hotkeys_add(struct hotkeys *h, msec_t now, uint64_t hash, struct span key, uint32_t n);

/* Let the counts fade up to now. Context: worker. */
void hotkeys_fade(struct hotkeys *h, msec_t now);

/* What a key that has no row may have at most. Context: worker. */
double hotkeys_least(const struct hotkeys *h);

/* ---- of several workers ------------------------------------------------------------------ */

/* Rows of a sum; of keys beyond it those with the least counts are dropped. */
#define HOTKEYS_SUM_ROWS 512u

struct hotkey {
    uint64_t hash;
    double count; /* accesses, faded */
    double error; /* upper bound of the accesses wrongly counted, and of those missing */
    uint8_t key_len;
    char key[REQUEST_KEY_MAX];
};

struct hotkeys_sum {
    double total;
    double covered_s; /* of the worker that has most */
    double least;     /* of all workers that were added */
    uint32_t used;
    struct hotkey row[HOTKEYS_SUM_ROWS];
};

/* Add what a worker has. Context: worker. */
void hotkeys_sum_add(struct hotkeys_sum *sum, const struct hotkeys *h);

/* Put the rows in order: those with the most accesses that are certain first. */
void hotkeys_sum_sort(struct hotkeys_sum *sum);

#endif
