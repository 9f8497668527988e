/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ideal caches with a given limit that waste nothing: LRU, S3-FIFO (J. Yang et al., SOSP 2023)
 * with a threshold of one and of two hits, and MIN, which knows what is to come: it drops what
 * is used last (L. A. Belady, 1966), and does not take what would be. Where sizes differ MIN is
 * no bound, but close to one.
 */
#ifndef MAYFLY_TESTS_BENCH_IDEAL_H
#define MAYFLY_TESTS_BENCH_IDEAL_H

#include <stdint.h>

struct ideal {
    const uint32_t *request; /* keys in order */
    uint64_t requests;
    uint64_t warmup;      /* requests that do not count */
    uint64_t room;        /* the sum of the sizes of what is held */
    const uint32_t *size; /* of each key; NULL: 1 */
};

struct ideal_ratios {
    double min, lru, s3fifo_1, s3fifo_2; /* hits of those that count */
};

struct ideal_ratios ideal_play(const struct ideal *in);

#endif
