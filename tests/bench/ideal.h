/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ideal caches, which hold so many items whatever their sizes: LRU, and S3-FIFO (J. Yang et
 * al., SOSP 2023) with a threshold of one and of two hits.
 */
#ifndef MAYFLY_TESTS_BENCH_IDEAL_H
#define MAYFLY_TESTS_BENCH_IDEAL_H

#include <stdint.h>

struct ideal {
    const uint32_t *request; /* keys in order */
    uint64_t requests;
    uint64_t warmup; /* requests that do not count */
    uint64_t items;
};

struct ideal_ratios {
    double lru, s3fifo_1, s3fifo_2; /* hits of those that count */
};

struct ideal_ratios ideal_play(const struct ideal *in);

#endif
