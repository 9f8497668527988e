/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See stats_sum.h. Words are read relaxed while their writers go on; so a sum is exact only
 * when the server is idle, and a difference to the baseline that would be negative is 0.
 */
#include "daemon/stats/stats_sum.h"

#include <string.h>

#include "daemon/base/log.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/crew.h"

/* The longest of something: a sum over shards would mean nothing. */
static void take_maximum(uint64_t sum[CTR_COUNT], const struct crew *crew, enum counter id)
{
    uint32_t i;

    sum[id] = 0;
    for (i = 0; i < crew->engine.shard_count; i++) {
        uint64_t v = ctr_get(shard_counters(crew->engine.shards[i]), id);

        sum[id] = v > sum[id] ? v : sum[id];
    }
}

void stats_sum_raw(const struct crew *crew, uint64_t sum[CTR_COUNT])
{
    uint32_t i;

    memset(sum, 0, CTR_COUNT * sizeof(sum[0]));
    for (i = 0; i < crew->worker_count; i++) {
        counters_sum(sum, &crew->workers[i].counters);
    }
    for (i = 0; i < crew->engine.shard_count; i++) {
        counters_sum(sum, shard_counters(crew->engine.shards[i]));
    }
    counters_sum(sum, reclaim_counters(crew->engine.reclaimer));
    counters_sum(sum, &crew->counters);
    counters_sum(sum, log_counters());
    counters_derive(sum);
    take_maximum(sum, crew, CTR_expire_slice_longest_us);
}

void stats_sum(const struct crew *crew, uint64_t sum[CTR_COUNT])
{
    unsigned id;

    stats_sum_raw(crew, sum);
    for (id = 0; id < CTR_COUNT; id++) {
        uint64_t base = atomic_load_explicit(&crew->stats->base[id], memory_order_relaxed);

        sum[id] -= base < sum[id] ? base : sum[id];
    }
}

void stats_sum_reset(struct crew *crew)
{
    uint64_t sum[CTR_COUNT];
    unsigned id;

    stats_sum_raw(crew, sum);
    for (id = 0; id < CTR_COUNT; id++) {
        if (counter_rows[id].kind == CTR_KIND_COUNT) {
            atomic_store_explicit(&crew->stats->base[id], sum[id], memory_order_relaxed);
        }
    }
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void add_shard(struct shard_info *sum, const struct shard_info *one)
{
    double keys = (double)(sum->volatile_keys + one->volatile_keys);
    double share = keys > 0 ? (double)one->volatile_keys / keys : 0;
    unsigned i;

    sum->stale_pct += (one->stale_pct - sum->stale_pct) * share;
    sum->avg_ttl_ms += (one->avg_ttl_ms - sum->avg_ttl_ms) * share;
    sum->items += one->items;
    sum->item_bytes += one->item_bytes;
    sum->hash_buckets += one->hash_buckets;
    sum->hash_bytes += one->hash_bytes;
    sum->is_resizing = sum->is_resizing || one->is_resizing;
    sum->segment_bytes = one->segment_bytes;
    sum->segments_used += one->segments_used;
    sum->segments_free += one->segments_free;
    sum->segments_quarantined += one->segments_quarantined;
    sum->dead_bytes += one->dead_bytes;
    sum->hole_bytes += one->hole_bytes;
    sum->resident_bytes += one->resident_bytes;
    sum->small_segments += one->small_segments;
    sum->main_segments += one->main_segments;
    sum->big_segments += one->big_segments;
    sum->large_segments += one->large_segments;
    if (one->oldest_access_s != 0 &&
        (sum->oldest_access_s == 0 || one->oldest_access_s < sum->oldest_access_s)) {
        sum->oldest_access_s = one->oldest_access_s;
    }
    sum->volatile_keys += one->volatile_keys;
    sum->debt_keys += one->debt_keys;
    sum->debt_bytes += one->debt_bytes;
    sum->debt_oldest_ms =
        (msec_t)larger((uint64_t)sum->debt_oldest_ms, (uint64_t)one->debt_oldest_ms);
    for (i = 0; i < 4; i++) {
        sum->forecast_keys[i] += one->forecast_keys[i];
        sum->forecast_bytes[i] += one->forecast_bytes[i];
    }
    sum->lag_p50_ms = larger(sum->lag_p50_ms, one->lag_p50_ms);
    sum->lag_p99_ms = larger(sum->lag_p99_ms, one->lag_p99_ms);
    sum->lag_max_ms = larger(sum->lag_max_ms, one->lag_max_ms);
}

void stats_sum_shards(const struct crew *crew, msec_t now, struct shard_info *sum)
{
    uint32_t i;

    memset(sum, 0, sizeof(*sum));
    for (i = 0; i < crew->engine.shard_count; i++) {
        struct shard_info one;

        shard_info(crew->engine.shards[i], now, &one);
        add_shard(sum, &one);
    }
}
