/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of all counters and of all shards, as of one moment, for `stats`.
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_SUM_H
#define MAYFLY_DAEMON_STATS_STATS_SUM_H

#include <stdint.h>

#include "lib/base/counters.h"
#include "lib/engine/engine.h"
#include "lib/shard/info.h"

struct crew;

/* Sums of all writers of each counter since start. Context: any thread. */
void stats_sum_raw(const struct crew *crew, uint64_t sum[CTR_COUNT]);

/*
 * The same since the last `stats reset`, for counters that it resets; for the longest slice the
 * largest instead of the sum. Context: any thread.
 */
void stats_sum(const struct crew *crew, uint64_t sum[CTR_COUNT]);

/* Count from now on: what `stats reset` does. Context: any thread. */
void stats_sum_reset(struct crew *crew);

/*
 * All shards as one: counts are added, ages and lags are those of the worst shard, estimates
 * are means weighted by volatile keys. Context: any thread, outside a shard.
 */
void stats_sum_shards(const struct crew *crew, msec_t now, struct shard_info *sum);

#endif
