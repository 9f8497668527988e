/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The policy of active expiry: Redis' slow and fast cycle with its effort knob, cut
 * into slices. It knows neither threads nor shards: it is told what time it is and calls a
 * function for every sampling loop, so it runs in a unit test.
 *
 * With e = effort - 1 (Redis 6.0 and later, expire.c):
 *     keys a loop                    20 + 5 e
 *     fast cycle at most             1000 + 250 e us, starts at least twice that apart
 *     slow cycle                     (25 + 2 e) % of a period of 1/hz
 *     repeat while more than         (10 - e) % of a loop's sample was due, or nothing sampled
 *                                    while there is debt
 * The share is computed in whole numbers as there: expired * 100 / sampled. Beyond Redis, the
 * cycle also repeats while coarse buckets are refined too slowly (behind_keys).
 *
 * The time is looked at after every loop. A slice ends after slice_us, the cycle goes on with
 * the next slice; the cycle ends by the rules above or when its time limit is spent.
 *
 * Over both kinds stands the CPU cap: cpu_pct of every window of one second, which starts with
 * the first cycle after the last window. So a storm after quiet may use the whole share of a
 * second at once. A cycle that meets the cap is over and counts as cut by time; none
 * begins until the next window.
 */
#ifndef MAYFLY_LIB_EXPIRY_CYCLE_H
#define MAYFLY_LIB_EXPIRY_CYCLE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"

enum cycle_kind { CYCLE_SLOW, CYCLE_FAST };

struct cycle_config {
    uint32_t effort;   /* 1..10; beyond is taken as the nearest */
    uint32_t hz;       /* 1..500; as well */
    uint32_t slice_us; /* about 250 */
    uint32_t
        cpu_pct; /* of one CPU for slow and fast together; 0: the slow share of the effort */
};

/* The budgets that follow from a configuration. */
struct cycle_limits {
    uint32_t keys_per_loop;
    uint32_t fast_us;
    uint32_t slow_us;
    uint32_t slow_pct;
    uint32_t stop_pct;
};

/* What one sampling loop found. */
struct cycle_loop {
    unsigned sampled;
    unsigned expired;
    uint64_t ttl_sum_ms;  /* remaining time of those sampled that were alive */
    uint64_t debt_keys;   /* still due after it */
    uint64_t behind_keys; /* wheel_behind(): the cycle goes on while there are such */
    bool is_empty;        /* no volatile key is left: the average starts anew */
};

struct cycle_ops {
    usec_t (*now_us)(void *arg);
    void (*loop)(void *arg, unsigned max, struct cycle_loop *out);
    void *arg;
};

struct cycle_result {
    uint32_t loops;
    uint64_t sampled;
    uint64_t expired;
    uint64_t time_us;    /* of this slice */
    bool is_begun;       /* a cycle began with this slice */
    bool is_ended;       /* the cycle is over */
    bool hit_time_limit; /* it ended because its time was spent */
};

struct cycle {
    /* [home] */
    bool is_running;
    enum cycle_kind kind;
    usec_t spent_us;        /* by the cycle that runs */
    usec_t fast_started_us; /* INT64_MIN: never */
    bool timed_out;         /* the last cycle hit its limit */
    double stale_pct;       /* estimate, weight 5 % a cycle */
    double avg_ttl_ms;      /* estimate, weight 2 % a loop that saw a live key */
    uint64_t cycle_sampled;
    uint64_t cycle_expired;
    usec_t window_start_us; /* of the CPU cap; INT64_MIN: none yet */
    usec_t window_spent_us;
};

/* Nothing known, nothing running. Context: before start. */
void cycle_init(struct cycle *c);

/* The formulas above. Context: any thread. */
void cycle_limits(const struct cycle_config *cfg, struct cycle_limits *out);

/*
 * May a cycle of this kind begin now? Slow: the caller's tick decides, true. Fast: none is
 * running, there is debt and the last fast one started long enough ago. Both: the CPU cap
 * is not spent. Context: home worker.
 */
bool cycle_may_begin(const struct cycle *c, enum cycle_kind kind,
                     const struct cycle_config *cfg, uint64_t debt_keys, usec_t now_us);

/*
 * Run one slice: goes on with the running cycle, or begins one of this kind. When the CPU cap
 * forbids that it does nothing: no loops, nothing begun, and is_ended. Context: home worker.
 */
void cycle_slice(struct cycle *c, enum cycle_kind kind, const struct cycle_config *cfg,
                 const struct cycle_ops *ops, struct cycle_result *res);

#endif
