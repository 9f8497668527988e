/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The delay of recent expiries after their deadline: log-linear histograms of milliseconds,
 * with eight steps per octave, over the last minute and the last ten minutes. A window is a
 * ring of slots, each a tenth of it, plus the current slot, so a window covers up to a tenth
 * more. Constant space.
 */
#ifndef MAYFLY_LIB_EXPIRY_LAG_H
#define MAYFLY_LIB_EXPIRY_LAG_H

#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/histogram.h"

#define LAG_STEPS_LOG2 3u
#define LAG_BINS       HISTOGRAM_BINS(24u, LAG_STEPS_LOG2) /* up to 4.6 hours */
#define LAG_SLOTS      11u

enum lag_window { LAG_1M, LAG_10M, LAG_WINDOWS };

struct lag_slot {
    int64_t number; /* of the slot's period, counted from the start of the clock */
    uint64_t max_ms;
    uint32_t bin[LAG_BINS];
};

/* Zeroed: nothing was expired. */
struct lag {
    /* [lock] of the shard that it is in */
    struct lag_slot slot[LAG_WINDOWS][LAG_SLOTS];
};

/* Sums of a window, of one shard or of several. */
struct lag_sum {
    uint64_t count;
    uint64_t max_ms;
    uint64_t bin[LAG_BINS];
};

/* Count an item that was expired at `now`, `ms` milliseconds late. Context: in shard. */
void lag_add(struct lag *l, msec_t now, uint64_t ms);

/* Forget everything. Context: in shard. */
void lag_reset(struct lag *l);

/*
 * Move the counts of another lag into this one. The total of both windows does not change.
 * Context: in both shards.
 */
void lag_absorb(struct lag *l, struct lag *other);

/* Add the counts of a window, as of now, to sum. Context: in shard. */
void lag_collect(const struct lag *l, enum lag_window window, msec_t now, struct lag_sum *sum);

/*
 * The percentile `pct` of the lag, in milliseconds: the upper end of its bin, at most the
 * maximum; 0 when nothing was expired. Context: any thread.
 */
uint64_t lag_percentile(const struct lag_sum *sum, double pct);

#endif
