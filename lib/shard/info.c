/* SPDX-License-Identifier: BSD-3-Clause */
/* Figures of a shard for statistics, and walks over its items. */
#include "lib/shard/info.h"

#include <string.h>

#include "lib/shard/expire.h"
#include "lib/shard/shard.h"

const struct counters *shard_counters(const struct shard *s)
{
    return &s->counters;
}

static void add_memory(const struct shard *s, struct shard_info *info)
{
    const struct arena *a = &s->memory.arena;
    uint64_t seg = segment_bytes(a);
    uint64_t quarantined = a->quarantine.segments + a->lazy.segments + a->pinned.segments;
    uint64_t hash_bytes = table_bytes(&s->table);

    info->segment_bytes = seg;
    info->segments_used += a->held - a->free_count - quarantined - a->trimming - a->stocking;
    info->segments_free += a->free_count;
    info->segments_quarantined += quarantined;
    info->dead_bytes += s->memory.blocks.dead_bytes;
    info->hole_bytes += s->memory.blocks.hole_bytes;
    info->small_segments += s->memory.blocks.chain[CHAIN_SMALL].count;
    info->main_segments += s->memory.blocks.chain[CHAIN_MAIN].count;
    info->big_segments += s->memory.blocks.chain[CHAIN_BIG].count;
    info->large_segments += a->whole;
    info->hash_bytes += hash_bytes;
    info->resident_bytes += a->held * seg + hash_bytes + evict_past_bytes(&s->memory.evict) +
                            (uint64_t)(s->memory.blocks.ring_mask + 1) * sizeof(struct death) +
                            CHAINS * sizeof(struct holes);
}

/* Second of the last access of the first live item in the oldest segment. */
static uint32_t oldest_access(const struct shard *s)
{
    uint32_t now_s = (uint32_t)(clock_now(s->memory.clock) / 1000);
    uint32_t oldest = 0;

    for (int id = 0; id < CHAINS; id++) {
        segment_t n = s->memory.blocks.chain[id].head;

        for (uint32_t at = 0; n != 0 && at < s->memory.arena.segments[n].fill;) {
            const struct item *it =
                shard_item(s, segment_handle(&s->memory.arena, n) + at / ITEM_UNIT);
            uint32_t sec = item_access_s(it, now_s);

            if (item_is_live(it) && it->key_len != 0) {
                oldest = oldest == 0 || sec < oldest ? sec : oldest;
                break;
            }
            at += item_bytes(it);
        }
    }
    return oldest;
}

static void add_expiry(struct shard *s, msec_t now, struct shard_info *info)
{
    struct wheel_info e;

    wheel_info(s->wheel, shard_due_limit(s, now), &e);
    info->resident_bytes += e.bytes;
    info->volatile_keys += e.keys;
    if (!shard_is_ahead(s)) { /* else what seems due has to stay */
        info->debt_keys += e.debt_keys;
        info->debt_bytes += e.debt_bytes;
        if (e.debt_oldest_ms > info->debt_oldest_ms) {
            info->debt_oldest_ms = e.debt_oldest_ms;
        }
    }
    for (unsigned i = 0; i < WHEEL_FORECASTS; i++) {
        info->forecast_keys[i] += e.forecast_keys[i];
        info->forecast_bytes[i] += e.forecast_bytes[i];
    }
    info->alive_keys += e.alive_keys;
    info->ttl_sum_ms += e.ttl_sum_ms;
    for (unsigned i = 0; i < LAG_WINDOWS; i++) {
        lag_collect(&s->lag, i, now, &info->lag[i]);
    }
}

void shard_info_add(struct shard *s, msec_t now, struct shard_info *info)
{
    shard_enter(s);
    add_memory(s, info);
    add_expiry(s, now, info);
    info->items += s->table.count;
    info->item_bytes += ctr_get(&s->counters, CTR_item_bytes);
    info->hash_buckets += atomic_load_explicit(&s->table.view, memory_order_relaxed)->mask + 1;
    info->is_resizing |= s->table.phase != TABLE_STEADY;
    uint32_t oldest_s = oldest_access(s);
    if (oldest_s != 0 && (info->oldest_access_s == 0 || oldest_s < info->oldest_access_s)) {
        info->oldest_access_s = oldest_s;
    }
    shard_leave(s);
}

void shard_info(struct shard *s, msec_t now, struct shard_info *info)
{
    memset(info, 0, sizeof(*info));
    shard_info_add(s, now, info);
}

uint64_t shard_info_lag_ms(const struct shard_info *info, enum lag_window window, double pct)
{
    return lag_percentile(&info->lag[window], pct);
}

void shard_reset_lag(struct shard *s)
{
    shard_enter(s);
    lag_reset(&s->lag);
    shard_leave(s);
}
