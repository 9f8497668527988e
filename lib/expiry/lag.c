/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The histogram of lag.h.
 */
#include "lib/expiry/lag.h"

#include "lib/base/check.h"

#define STEPS      8u
#define STEPS_LOG2 3u

/* Values below STEPS have a bin each; of greater ones, the top four bits choose the bin. */
static unsigned bin_of(uint64_t ms)
{
    if (ms < STEPS) {
        return (unsigned)ms;
    }

    unsigned octave = 63u - (unsigned)__builtin_clzll(ms);
    unsigned step = (unsigned)(ms >> (octave - STEPS_LOG2)) & (STEPS - 1);
    unsigned bin = (octave - STEPS_LOG2 + 1) * STEPS + step;

    return bin < LAG_BINS ? bin : LAG_BINS - 1;
}

/* The greatest value of a bin. */
static uint64_t bin_end(unsigned bin)
{
    if (bin < STEPS) {
        return bin;
    }

    unsigned shift = bin / STEPS - 1;

    return ((uint64_t)(STEPS + bin % STEPS + 1) << shift) - 1;
}

void lag_add(struct lag *l, uint64_t ms)
{
    l->count++;
    l->bin[bin_of(ms)]++;
    if (ms > l->max_ms) {
        l->max_ms = ms;
    }
}

uint64_t lag_percentile(const struct lag *l, double pct)
{
    uint64_t want = (uint64_t)((double)l->count * pct / 100.0);
    uint64_t seen = 0;

    debug_must(pct >= 0 && pct <= 100);
    if (l->count == 0) {
        return 0;
    }
    for (unsigned i = 0; i < LAG_BINS; i++) {
        seen += l->bin[i];
        if (seen > want) {
            return bin_end(i) < l->max_ms ? bin_end(i) : l->max_ms;
        }
    }
    return l->max_ms;
}
