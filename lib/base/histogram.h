/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log-linear histograms. Every octave of the numbers is divided into 2^steps_log2 bins of equal
 * width, so the upper bound of a bin exceeds a number in it by at most that fraction, in
 * constant space. The caller owns the words and decides which threads write them. These
 * functions map numbers to bins, and evaluate bins.
 */
#ifndef MAYFLY_LIB_BASE_HISTOGRAM_H
#define MAYFLY_LIB_BASE_HISTOGRAM_H

#include <stdint.h>

#include "lib/base/check.h"

/* Number of bins for numbers below 2^octaves. A constant. */
#define HISTOGRAM_BINS(octaves, steps_log2) (((octaves) - (steps_log2) + 1u) << (steps_log2))

/* The bin of a number; larger numbers are all in the last bin. Context: any thread. */
static MF_INLINE unsigned histogram_bin(uint64_t v, unsigned bins, unsigned steps_log2)
{
    unsigned steps = 1u << steps_log2;
    unsigned bin;

    if (v < steps) {
        return (unsigned)v; /* a bin each */
    }
    unsigned octave = 63u - (unsigned)__builtin_clzll(v);
    bin = ((octave - steps_log2 + 1) << steps_log2) +
          ((unsigned)(v >> (octave - steps_log2)) & (steps - 1));
    return bin < bins ? bin : bins - 1;
}

/* The greatest number of a bin. Context: any thread. */
uint64_t histogram_bin_end(unsigned bin, unsigned steps_log2);

/*
 * The percentile `pct` of the numbers in the bins, `count` in all: the upper end of its bin, at
 * most `max`. 0 when the bins are empty. Context: any thread.
 */
uint64_t histogram_percentile(const uint64_t *bin, unsigned bins, unsigned steps_log2,
                              uint64_t count, uint64_t max, double pct);

#endif
