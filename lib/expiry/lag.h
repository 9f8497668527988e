/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How late items were expired: a log-linear histogram of milliseconds, with eight steps per
 * octave, in constant space.
 */
#ifndef MAYFLY_LIB_EXPIRY_LAG_H
#define MAYFLY_LIB_EXPIRY_LAG_H

#include <stdint.h>

#define LAG_BINS       256u
#define LAG_STEPS_LOG2 3u

struct lag {
    /* [lock] of the shard that it is in */
    uint64_t count;
    uint64_t max_ms;
    uint64_t bin[LAG_BINS];
};

/* Count an item that was expired so late. Context: in shard. */
void lag_add(struct lag *l, uint64_t ms);

/*
 * The value that pct per cent are below: the upper end of its bin, at most the maximum.
 * Context: in shard.
 */
uint64_t lag_percentile(const struct lag *l, double pct);

#endif
