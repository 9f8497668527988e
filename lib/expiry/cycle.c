/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The policy of active expiry; cycle.h has the rules and their formulas. Runs on the home
 * worker of a shard, outside the lock: cycle_ops.loop() enters the shard for one sampling loop.
 * Allocates nothing and cannot fail. The time is read after every loop, so a slice exceeds its
 * bounds by one loop at most.
 */
#include "lib/expiry/cycle.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/context.h"

#define US_PER_SEC 1000000

static uint32_t clamp(uint32_t v, uint32_t min, uint32_t max)
{
    return v < min ? min : v > max ? max : v;
}

void cycle_init(struct cycle *c)
{
    memset(c, 0, sizeof(*c));
    c->fast_started_us = INT64_MIN;
    c->window_start_us = INT64_MIN;
}

void cycle_limits(const struct cycle_config *cfg, struct cycle_limits *out)
{
    uint32_t e = clamp(cfg->effort, 1, 10) - 1;

    out->keys_per_loop = 20 + 5 * e;
    out->fast_us = 1000 + 250 * e;
    out->slow_pct = 25 + 2 * e;
    out->slow_us = out->slow_pct * (US_PER_SEC / 100) / clamp(cfg->hz, 1, 500);
    out->stop_pct = 10 - e;
}

/* ---- the CPU cap ------------------------------------------------------------------------- */

/* How many microseconds of a window may be spent. */
static usec_t window_limit(const struct cycle_config *cfg)
{
    struct cycle_limits limits;

    cycle_limits(cfg, &limits);
    return (usec_t)clamp(cfg->cpu_pct ? cfg->cpu_pct : limits.slow_pct, 1, 100) *
           (US_PER_SEC / 100) / (cfg->sharers ? cfg->sharers : 1);
}

/* Is a new window needed, because this one has ended or the clock was set back? */
static bool window_is_over(const struct cycle *c, usec_t now_us)
{
    return c->window_start_us == INT64_MIN || now_us < c->window_start_us ||
           now_us - c->window_start_us >= US_PER_SEC;
}

static bool cap_is_spent(const struct cycle *c, const struct cycle_config *cfg, usec_t now_us)
{
    return !window_is_over(c, now_us) && c->window_spent_us >= window_limit(cfg);
}

static void open_window(struct cycle *c, usec_t now_us)
{
    if (window_is_over(c, now_us)) {
        c->window_start_us = now_us;
        c->window_spent_us = 0;
    }
}

bool cycle_has_time(const struct cycle *c, const struct cycle_config *cfg, usec_t now_us)
{
    must_be_a_worker();
    return !cap_is_spent(c, cfg, now_us);
}

void cycle_spend(struct cycle *c, usec_t us, usec_t from_us)
{
    must_be_a_worker();
    open_window(c, from_us);
    if (us > 0) {
        c->window_spent_us += us;
    }
}

usec_t cycle_earned(const struct cycle_config *cfg, usec_t rest_us)
{
    const usec_t limit = window_limit(cfg);

    must_be_a_worker();
    if (limit >= US_PER_SEC) {
        return US_PER_SEC;
    }
    rest_us = rest_us < 0 ? 0 : rest_us < US_PER_SEC ? rest_us : US_PER_SEC;
    return rest_us * limit / (US_PER_SEC - limit);
}

/* ---- cycles ------------------------------------------------------------------------------ */

usec_t cycle_fast_from(const struct cycle *c, const struct cycle_config *cfg, usec_t now_us)
{
    usec_t from = now_us;

    must_be_a_worker();
    if (c->fast_started_us != INT64_MIN && now_us >= c->fast_started_us &&
        from < c->fast_started_us + 2 * c->fast_took_us) {
        from = c->fast_started_us + 2 * c->fast_took_us;
    }
    if (cap_is_spent(c, cfg, now_us) && from < c->window_start_us + US_PER_SEC) {
        from = c->window_start_us + US_PER_SEC;
    }
    return from;
}

bool cycle_may_begin(const struct cycle *c, enum cycle_kind kind,
                     const struct cycle_config *cfg, uint64_t debt_keys, usec_t now_us)
{
    must_be_a_worker();
    if (kind == CYCLE_SLOW) {
        return !cap_is_spent(c, cfg, now_us);
    }
    return !c->is_running && debt_keys != 0 && cycle_fast_from(c, cfg, now_us) <= now_us;
}

static void open_cycle(struct cycle *c, enum cycle_kind kind, usec_t now_us)
{
    c->is_running = true;
    c->kind = kind;
    c->spent_us = 0;
    if (kind == CYCLE_FAST) {
        c->fast_started_us = now_us;
    }
}

static void close_cycle(struct cycle *c)
{
    c->is_running = false;
    if (c->kind == CYCLE_FAST) {
        c->fast_took_us = c->spent_us;
    }
}

/* Should another loop follow this one, if there is time? */
static bool wants_more(const struct cycle_loop *loop, uint32_t stop_pct)
{
    if (loop->behind_keys != 0) {
        return true;
    }
    if (loop->sampled == 0) {
        return loop->debt_keys != 0;
    }
    return (uint64_t)loop->expired * 100 / loop->sampled > stop_pct;
}

/* Run one sampling loop and count what it did. */
static void run_loop(const struct cycle_ops *ops, unsigned keys, struct cycle_loop *loop,
                     struct cycle_result *res)
{
    memset(loop, 0, sizeof(*loop));
    ops->loop(ops->arg, keys, loop);
    must(loop->expired <= loop->sampled);
    res->loops++;
    res->sampled += loop->sampled;
    res->expired += loop->expired;
}

/* Count the time since the last reading, in the cycle and in the window. */
static void spend(struct cycle *c, usec_t us, struct cycle_result *res)
{
    if (us > 0) {
        c->spent_us += us;
        c->window_spent_us += us;
        res->time_us += (uint32_t)us;
    }
}

void cycle_slice(struct cycle *c, enum cycle_kind kind, const struct cycle_config *cfg,
                 const struct cycle_ops *ops, struct cycle_result *res)
{
    usec_t last = ops->now_us(ops->arg);
    struct cycle_limits limits;
    struct cycle_loop loop;

    must_be_a_worker();
    must_not_be_reading();
    memset(res, 0, sizeof(*res));
    open_window(c, last);
    if (!c->is_running) {
        if (cap_is_spent(c, cfg, last)) {
            res->is_ended = true;
            return;
        }
        open_cycle(c, kind, last);
        res->is_begun = true;
    }
    cycle_limits(cfg, &limits);
    usec_t limit = c->kind == CYCLE_SLOW ? limits.slow_us : limits.fast_us;
    do {
        run_loop(ops, limits.keys_per_loop, &loop, res);
        usec_t now = ops->now_us(ops->arg);
        spend(c, now - last, res);
        last = now;
        if (!wants_more(&loop, limits.stop_pct)) {
            res->is_ended = true;
        } else if (c->spent_us >= limit || c->window_spent_us >= window_limit(cfg)) {
            res->is_ended = true;
            res->hit_time_limit = true;
        }
    } while (!res->is_ended && res->time_us < cfg->slice_us);
    if (res->is_ended) {
        close_cycle(c);
    }
}
