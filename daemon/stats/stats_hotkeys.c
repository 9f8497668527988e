/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats hotkeys`. The message visits all workers and adds up their sketches.
 */
#include "daemon/stats/stats_parts.h"

#include "daemon/worker/insight.h"
#include "lib/base/context.h"
#include "proto/encode.h"

/* Keys that are shown. */
#define SHOWN 20u

struct hot_gather {
    struct stats_gather gather; /* must be the first member */
    struct hotkeys_sum sum;
};

static struct hot_gather *hot_of(struct stats_gather *g)
{
    return (struct hot_gather *)(void *)g;
}

static bool visit(struct stats_gather *g, struct worker *w)
{
    struct hotkeys *h = w->insight.hotkeys;

    must_be_worker(w);
    if (h != NULL) {
        hotkeys_fade(h, worker_now(w));
        hotkeys_sum_add(&hot_of(g)->sum, h);
    }
    return true;
}

/* The root of x, by Newton: no library for one line of statistics. */
static double root(double x)
{
    double y = x > 1 ? x : 1;

    for (int i = 0; i < 64; i++) {
        y = (y + x / y) / 2;
    }
    return y;
}

static void put_key(struct stats_out *o, const struct hotkeys_sum *sum,
                    const struct hotkey *row, uint32_t sampling)
{
    char key[ENCODE_URI_BYTES(REQUEST_KEY_MAX) + 1];
    /*
     * Twice the standard deviation of this many accesses, one of `sampling` of which was
     * sampled.
     */
    double chance = 2 * root(row->count * sampling);

    key[encode_uri(key, span_of(row->key, row->key_len))] = '\0';
    stats_put_text(o, "key", key);
    stats_putf(o, "ops_per_s", "%.1f", row->count / (sum->covered_s > 1 ? sum->covered_s : 1));
    stats_putf(o, "share_pct", "%.2f", 100 * row->count / sum->total);
    stats_putf(o, "error_pct", "%.2f", 100 * (row->error + chance) / sum->total);
}

static enum gather_end finish(struct stats_gather *g)
{
    struct hotkeys_sum *sum = &hot_of(g)->sum;
    uint32_t sampling = setting_get(g->asker->settings, hotkeys);

    hotkeys_sum_sort(sum);
    stats_put_u64(&g->out, "sampling", sampling);
    stats_putf(&g->out, "seconds", "%.0f", sum->covered_s);
    for (uint32_t i = 0; i < sum->used && i < SHOWN && sum->total > 0; i++) {
        stats_prefix(&g->out, "%u:", (unsigned)i + 1);
        put_key(&g->out, sum, &sum->row[i], sampling > 0 ? sampling : 1);
    }
    return GATHER_DONE;
}

const struct gather_kind gather_hotkeys = {
    .size = sizeof(struct hot_gather), .visit = visit, .finish = finish};
