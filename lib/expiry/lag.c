/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The histogram of lag.h.
 */
#include "lib/expiry/lag.h"

#include "lib/base/histogram.h"

void lag_add(struct lag *l, uint64_t ms)
{
    l->count++;
    l->bin[histogram_bin(ms, LAG_BINS, LAG_STEPS_LOG2)]++;
    if (ms > l->max_ms) {
        l->max_ms = ms;
    }
}

uint64_t lag_percentile(const struct lag *l, double pct)
{
    return histogram_percentile(l->bin, LAG_BINS, LAG_STEPS_LOG2, l->count, l->max_ms, pct);
}
