/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See histogram.h.
 */
#include "lib/base/histogram.h"

uint64_t histogram_bin_end(unsigned bin, unsigned steps_log2)
{
    unsigned steps = 1u << steps_log2;

    return bin < steps ? bin : ((uint64_t)(steps + bin % steps + 1) << (bin / steps - 1)) - 1;
}

uint64_t histogram_percentile(const uint64_t *bin, unsigned bins, unsigned steps_log2,
                              uint64_t count, uint64_t max, double pct)
{
    uint64_t want = (uint64_t)((double)count * pct / 100.0);
    uint64_t seen = 0;

    debug_must(pct >= 0 && pct <= 100);
    if (count == 0) {
        return 0;
    }
    for (unsigned i = 0; i + 1 < bins; i++) {
        seen += bin[i];
        if (seen > want) {
            uint64_t end = histogram_bin_end(i, steps_log2);

            return end < max ? end : max;
        }
    }
    return max; /* the last bin has no end */
}
