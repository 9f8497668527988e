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

static void memory_info(struct shard *s, struct shard_info *info)
{
    const struct arena *a = &s->memory.arena;
    uint64_t seg = segment_bytes(a);

    info->segment_bytes = seg;
    info->segments_used = a->held - a->free_count - a->quarantine.segments - a->lazy.segments -
                          a->pinned.segments - a->trimming - a->stocking;
    info->segments_free = a->free_count;
    info->segments_quarantined = a->quarantine.segments + a->lazy.segments + a->pinned.segments;
    info->dead_bytes = s->memory.blocks.dead_bytes;
    info->hole_bytes = s->memory.blocks.hole_bytes;
    info->small_segments = s->memory.blocks.chain[CHAIN_SMALL].count;
    info->main_segments = s->memory.blocks.chain[CHAIN_MAIN].count;
    info->big_segments = s->memory.blocks.chain[CHAIN_BIG].count;
    info->large_segments = a->whole;
    info->hash_bytes = table_bytes(&s->table);
    info->resident_bytes = a->held * seg + info->hash_bytes +
                           evict_past_bytes(&s->memory.evict) +
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

static void expire_info(struct shard *s, msec_t now, struct shard_info *info)
{
    struct wheel_info e;

    wheel_info(s->wheel, shard_due_limit(s, now), &e);
    if (shard_is_ahead(s)) { /* what seems due has to stay */
        e.debt_keys = 0;
        e.debt_bytes = 0;
        e.debt_oldest_ms = 0;
    }
    info->resident_bytes += e.bytes;
    info->volatile_keys = e.keys;
    info->debt_keys = e.debt_keys;
    info->debt_bytes = e.debt_bytes;
    info->debt_oldest_ms = e.debt_oldest_ms;
    memcpy(info->forecast_keys, e.forecast_keys, sizeof(info->forecast_keys));
    memcpy(info->forecast_bytes, e.forecast_bytes, sizeof(info->forecast_bytes));
    info->alive_keys = e.alive_keys;
    info->ttl_sum_ms = e.ttl_sum_ms;
    for (unsigned i = 0; i < LAG_WINDOWS; i++) {
        lag_collect(&s->lag, i, now, &info->lag[i]);
    }
}

void shard_info(struct shard *s, msec_t now, struct shard_info *info)
{
    memset(info, 0, sizeof(*info));
    shard_enter(s);
    memory_info(s, info);
    expire_info(s, now, info);
    info->items = s->table.count;
    info->item_bytes = ctr_get(&s->counters, CTR_item_bytes);
    info->hash_buckets = atomic_load_explicit(&s->table.view, memory_order_relaxed)->mask + 1;
    info->is_resizing = s->table.phase != TABLE_STEADY;
    info->oldest_access_s = oldest_access(s);
    shard_leave(s);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void shard_info_add(struct shard_info *sum, const struct shard_info *one)
{
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
    for (unsigned i = 0; i < 4; i++) {
        sum->forecast_keys[i] += one->forecast_keys[i];
        sum->forecast_bytes[i] += one->forecast_bytes[i];
    }
    sum->alive_keys += one->alive_keys;
    sum->ttl_sum_ms += one->ttl_sum_ms;
    for (unsigned i = 0; i < LAG_WINDOWS; i++) {
        lag_merge(&sum->lag[i], &one->lag[i]);
    }
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
