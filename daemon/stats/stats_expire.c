/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats expire` and `stats shards`: expiry, release and memory, for all shards together and
 * for each. Names of our own appear only here, so that tools that read the other sections find
 * no unknown ones.
 */
#include "daemon/stats/stats_general.h"

#include <stdio.h>
#include <string.h>

#include "daemon/stats/stats_sum.h"
#include "daemon/worker/crew.h"
#include "daemon/worker/cron.h"
#include "lib/base/context.h"
#include "lib/engine/prefix.h"

static const char *const horizons[4] = {"1s", "10s", "60s", "600s"};

/* The lines of the counters that are shown there (one of enum counter_shown). */
static void put_counters(struct stats_out *o, enum counter_shown where, const uint64_t *sum)
{
    unsigned id;

    for (id = 0; id < CTR_COUNT; id++) {
        if ((counter_rows[id].shown & where) != 0) {
            stats_put_u64(o, counter_rows[id].line, sum[id]);
        }
    }
}

/* A name for the last minute, which is what is of interest in general, has no word for it. */
static const char *const windows[LAG_WINDOWS] = {"", "10m_"};

static void put_lag(struct stats_out *o, const struct shard_info *info, enum lag_window window)
{
    static const struct {
        const char *name;
        double pct;
    } rows[] = {{"p50", 50}, {"p99", 99}, {"max", 100}};
    char name[64];

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(name, sizeof(name), "expire_lag_%s%s_ms", windows[window], rows[i].name);
        stats_put_u64(o, name, shard_info_lag_ms(info, window, rows[i].pct));
    }
}

/* The expiry of a shard, or of all; `info` and `sum` are of the same set. */
static void put_expiry(struct stats_out *o, const struct shard_info *info, const uint64_t *sum)
{
    char name[64];
    unsigned i;

    stats_put_u64(o, "expire_keys_volatile", info->volatile_keys);
    stats_put_u64(o, "expire_debt_keys", info->debt_keys);
    stats_put_u64(o, "expire_debt_bytes", info->debt_bytes);
    stats_put_i64(o, "expire_debt_oldest_ms", info->debt_oldest_ms);
    put_counters(o, CTR_IN_EXPIRY, sum);
    stats_putf(o, "expire_stale_estimate_pct", "%.2f", shard_info_stale_pct(info));
    stats_putf(o, "expire_avg_ttl_ms", "%.0f", shard_info_avg_ttl_ms(info));
    for (i = 0; i < LAG_WINDOWS; i++) {
        put_lag(o, info, i);
    }
    for (i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "expire_forecast_%s_keys", horizons[i]);
        stats_put_u64(o, name, info->forecast_keys[i]);
        snprintf(name, sizeof(name), "expire_forecast_%s_bytes", horizons[i]);
        stats_put_u64(o, name, info->forecast_bytes[i]);
    }
    put_counters(o, CTR_IN_RELEASE, sum);
}

static void put_policy(struct stats_out *o, const struct worker *w, uint32_t hz)
{
    stats_put_u64(o, "expire_effort", setting_get(w->settings, expire_effort));
    stats_put_u64(o, "hz_configured", setting_get(w->settings, hz));
    stats_put_u64(o, "hz_current", hz);
    stats_put_u64(o, "expire_slice_us", setting_get(w->settings, expire_slice_us));
}

void stats_expire(struct worker *w, struct stats_out *o)
{
    const struct crew *crew = w->crew;
    uint64_t sum[CTR_COUNT];
    struct shard_info info;
    uint32_t hz = 0;
    uint32_t i;

    must_be_worker(w);
    for (i = 0; i < roster_created(&crew->roster); i++) {
        uint32_t one = cron_hz(&crew->workers[i]);

        hz = one > hz ? one : hz;
    }
    stats_sum(crew, sum);
    stats_sum_shards(crew, worker_now(w), &info);
    put_policy(o, w, hz);
    stats_put_i64(o, "expire_hold_left_ms", engine_hold_left(&crew->engine, worker_now(w)));
    stats_put_u64(o, "flush_prefixes_active", engine_prefixes(&crew->engine));
    put_expiry(o, &info, sum);
    put_counters(o, CTR_IN_GRACE, sum);
}

static void put_memory(struct stats_out *o, const struct shard_info *info, const uint64_t *sum)
{
    put_counters(o, CTR_IN_MEMORY, sum);
    stats_put_u64(o, "hash_buckets", info->hash_buckets);
    stats_put_u64(o, "hash_bytes", info->hash_bytes);
    stats_put_u64(o, "hash_is_expanding", info->is_resizing ? 1 : 0);
    stats_put_u64(o, "segment_bytes", info->segment_bytes);
    stats_put_u64(o, "segments_used", info->segments_used);
    stats_put_u64(o, "segments_free", info->segments_free);
    stats_put_u64(o, "segments_quarantined", info->segments_quarantined);
    stats_put_u64(o, "segments_small", info->small_segments);
    stats_put_u64(o, "segments_main", info->main_segments);
    stats_put_u64(o, "segments_big", info->big_segments);
    stats_put_u64(o, "segments_large", info->large_segments);
    stats_put_u64(o, "dead_bytes", info->dead_bytes);
    stats_put_u64(o, "hole_bytes", info->hole_bytes);
    stats_put_u64(o, "resident_bytes", info->resident_bytes);
}

/*
 * The shard and the worker of a number; there may be more of one kind than of the other.
 * Counters here count from the start: `stats reset` keeps one baseline for all shards together.
 */
static void put_number(struct stats_out *o, const struct crew *crew, uint32_t n, msec_t now)
{
    uint64_t sum[CTR_COUNT] = {0};
    bool is_worker = n < roster_created(&crew->roster);

    if (is_worker) {
        counters_sum(sum, &crew->workers[n].counters);
    }
    if (n < crew->engine.shard_count) {
        const struct worker *home = &crew->workers[roster_home(&crew->roster, n)];
        struct shard *s = crew->engine.shards[n];
        struct shard_info info;

        counters_sum(sum, shard_counters(s));
        counters_derive(sum);
        shard_info(s, now, &info);
        put_policy(o, home, cron_hz(home));
        put_expiry(o, &info, sum);
        put_memory(o, &info, sum);
    }
    if (is_worker) {
        put_counters(o, CTR_IN_WORKER, sum);
        put_counters(o, CTR_IN_LOAD, sum);
    }
}

void stats_shards(struct worker *w, struct stats_out *o)
{
    const struct crew *crew = w->crew;
    uint32_t shards = crew->engine.shard_count;
    msec_t now = worker_now(w);

    must_be_worker(w);
    stats_put_u64(o, "shards", shards);
    for (uint32_t i = 0; i < roster_created(&crew->roster) || i < shards; i++) {
        char prefix[16];

        snprintf(prefix, sizeof(prefix), "%u:", (unsigned)i);
        o->prefix = prefix;
        put_number(o, crew, i, now);
        o->prefix = "";
    }
}
