/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats latency`: latency of requests by kind of command, for all workers together or for
 * each. In microseconds, with one decimal, because a pipelined request takes only a few.
 */
#include "daemon/stats/stats_parts.h"

#include "daemon/worker/crew.h"
#include "daemon/worker/insight.h"
#include "lib/base/context.h"

#define NS_PER_US 1e3

static void put_us(struct stats_out *o, const char *name, double ns)
{
    stats_putf(o, name, "%.1f", ns / NS_PER_US);
}

static void put_sum(struct stats_out *o, const struct latency_sum *sum)
{
    static const struct {
        const char *name;
        double pct;
    } shown[] = {{"p50_us", 50}, {"p90_us", 90}, {"p99_us", 99}, {"p999_us", 99.9}};

    stats_put_u64(o, "count", sum->count);
    put_us(o, "mean_us", sum->count > 0 ? (double)sum->sum_ns / (double)sum->count : 0);
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        put_us(o, shown[i].name, (double)latency_percentile_ns(sum, shown[i].pct));
    }
    put_us(o, "max_us", (double)sum->max_ns);
}

void stats_latency(struct worker *w, struct stats_out *o)
{
    must_be_worker(w);
    for (unsigned k = 0; k < LATENCY_KINDS; k++) {
        struct latency_sum sum = {0};

        latency_collect_all(w->crew, (enum command_kind)k, &sum);
        stats_prefix(o, "%s:", command_kind_name((enum command_kind)k));
        put_sum(o, &sum);
    }
}

void stats_latency_workers(struct worker *w, struct stats_out *o)
{
    const struct crew *crew = w->crew;

    must_be_worker(w);
    for (uint32_t i = 0; i < roster_created(&crew->roster); i++) {
        for (unsigned k = 0; k < LATENCY_KINDS; k++) {
            struct latency_sum sum = {0};

            latency_collect(&crew->workers[i], (enum command_kind)k, &sum);
            stats_prefix(o, "%u:%s:", (unsigned)i, command_kind_name((enum command_kind)k));
            put_sum(o, &sum);
        }
    }
}
