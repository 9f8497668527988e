/* SPDX-License-Identifier: BSD-3-Clause */
/* Figures of a shard for statistics, and walks over its items. */
#ifndef MAYFLY_LIB_SHARD_INFO_H
#define MAYFLY_LIB_SHARD_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/counters.h"
#include "lib/memory/item.h"

struct shard;

struct shard_info {
    uint64_t items, item_bytes;
    uint64_t hash_buckets, hash_bytes;
    bool is_resizing;
    uint64_t segment_bytes, segments_used, segments_free, segments_quarantined;
    uint64_t dead_bytes, hole_bytes;
    uint64_t resident_bytes; /* everything here that is counted against the limit */
    uint64_t small_segments, main_segments, big_segments, large_segments;
    uint32_t oldest_access_s; /* of the oldest sealed segment's first live item; 0: none */
    uint64_t volatile_keys, debt_keys, debt_bytes;
    msec_t debt_oldest_ms;
    uint64_t forecast_keys[4], forecast_bytes[4];
    double stale_pct, avg_ttl_ms;
    uint64_t lag_p50_ms, lag_p99_ms, lag_max_ms; /* of active expiry */
};

/* The counters of the shard. Context: any thread. */
const struct counters *shard_counters(const struct shard *s);

/* The figures as of now. Context: any thread, outside a shard. */
void shard_info(struct shard *s, msec_t now, struct shard_info *info);

/*
 * Walk over live items for dumps and sizes: calls fn for the items of one position and returns
 * the next cursor, 0 at the end. Context: worker, inside a read-side section of its own.
 */
typedef void (*shard_walk_fn)(void *arg, const struct shard *s, const struct item *it);
uint64_t shard_walk(const struct shard *s, uint64_t cursor, msec_t now, shard_walk_fn fn,
                    void *arg);

#endif
