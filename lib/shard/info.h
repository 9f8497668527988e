/* SPDX-License-Identifier: BSD-3-Clause */
/* Figures of a shard, for statistics. */
#ifndef MAYFLY_LIB_SHARD_INFO_H
#define MAYFLY_LIB_SHARD_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/counters.h"
#include "lib/expiry/lag.h"
#include "lib/expiry/wheel.h"
#include "lib/memory/item.h"

struct shard;

struct shard_info {
    uint64_t items, item_bytes;
    uint64_t hash_buckets, hash_bytes;
    bool is_resizing;
    uint64_t segment_bytes, segments_used, segments_free, segments_quarantined;
    uint64_t dead_bytes, hole_bytes;
    uint64_t resident_bytes; /* all memory of the shard that counts against the limit */
    uint64_t small_segments, main_segments, big_segments, large_segments;
    uint32_t oldest_access_s; /* of the oldest sealed segment's first live item; 0: none */
    uint64_t volatile_keys, debt_keys, debt_bytes;
    msec_t debt_oldest_ms;
    uint64_t forecast_keys[WHEEL_FORECASTS], forecast_bytes[WHEEL_FORECASTS];
    uint64_t alive_keys;             /* volatile ones that are not due */
    unsigned __int128 ttl_sum_ms;    /* their remaining time to live */
    struct lag_sum lag[LAG_WINDOWS]; /* how late active expiry was */
};

/* Share of the volatile keys that are due, in per cent. */
static inline double shard_info_stale_pct(const struct shard_info *info)
{
    return info->volatile_keys != 0
               ? 100.0 * (double)info->debt_keys / (double)info->volatile_keys
               : 0;
}

/* Mean remaining time of those that are not due, in milliseconds; 0: none. */
static inline double shard_info_avg_ttl_ms(const struct shard_info *info)
{
    return info->alive_keys != 0 ? (double)info->ttl_sum_ms / (double)info->alive_keys : 0;
}

/* The counters of the shard. Context: any thread. */
const struct counters *shard_counters(const struct shard *s);

/*
 * The present figures, or the same added to those of other shards. Context: any thread,
 * outside a shard.
 */
void shard_info(struct shard *s, msec_t now, struct shard_info *info);
void shard_info_add(struct shard *s, msec_t now, struct shard_info *info);

/*
 * Percentile `pct` of the recent delay of active expiry, in milliseconds, exact to 1/8; 100:
 * the maximum. Context: any thread.
 */
uint64_t shard_info_lag_ms(const struct shard_info *info, enum lag_window window, double pct);

/* Clear the statistics of that delay. Context: any thread, outside a shard. */
void shard_reset_lag(struct shard *s);

#endif
