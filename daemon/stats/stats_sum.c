/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See stats.h. Words are read relaxed while they may be written, so a sum is exact only when
 * the server is idle, and a negative difference to the baseline is shown as 0.
 */
#include "daemon/stats/stats.h"

#include <string.h>

#include "daemon/base/log.h"
#include "daemon/worker/crew.h"

/* The longest of something: a sum over shards would mean nothing. */
static void take_maximum(uint64_t sum[CTR_COUNT], const struct crew *crew, enum counter id)
{
    sum[id] = 0;
    for (uint32_t i = 0; i < crew->engine.shard_count; i++) {
        uint64_t v = ctr_get(shard_counters(crew->engine.shards[i]), id);

        sum[id] = v > sum[id] ? v : sum[id];
    }
}

void stats_sum_raw(const struct crew *crew, uint64_t sum[CTR_COUNT])
{
    memset(sum, 0, CTR_COUNT * sizeof(sum[0]));
    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        counters_sum(sum, &crew->workers[i].counters);
    }
    /* Those on their way from worker to worker are connections, too. */
    sum[CTR_curr_connections] += roster_conns_moving(&crew->roster);
    for (uint32_t i = 0; i < crew->engine.shard_count; i++) {
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
    stats_sum_raw(crew, sum);
    for (unsigned id = 0; id < CTR_COUNT; id++) {
        uint64_t base = atomic_load_explicit(&crew->stats->base[id], memory_order_relaxed);

        sum[id] -= base < sum[id] ? base : sum[id];
    }
}

void stats_sum_reset(struct crew *crew)
{
    uint64_t sum[CTR_COUNT];

    stats_sum_raw(crew, sum);
    for (unsigned id = 0; id < CTR_COUNT; id++) {
        if (counter_rows[id].kind == CTR_KIND_COUNT) {
            atomic_store_explicit(&crew->stats->base[id], sum[id], memory_order_relaxed);
        }
    }
    for (uint32_t i = 0; i < crew->engine.shard_count; i++) {
        shard_reset_lag(crew->engine.shards[i]);
    }
}

void stats_sum_shards(const struct crew *crew, msec_t now, struct shard_info *sum)
{
    memset(sum, 0, sizeof(*sum));
    for (uint32_t i = 0; i < crew->engine.shard_count; i++) {
        shard_info_add(crew->engine.shards[i], now, sum);
    }
}
