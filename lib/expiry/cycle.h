/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The policy of active expiry: the slow and fast cycles of Redis, with its effort setting,
 * divided into slices. It does not depend on shards: the caller passes functions for the time
 * and the sampling loop, so it can be unit tested.
 *
 * With e = effort - 1 (Redis 6.0 and later, expire.c):
 *     keys per loop                  20 + 5 e
 *     fast cycle at most             1000 + 250 e us
 *     next fast cycle                starts after twice the time that the last one took
 *     slow cycle at most             (25 + 2 e) % of a period of 1/hz
 *     repeat while more than         (10 - e) % of a loop's sample was due, or nothing was
 *                                    sampled although there is debt
 * As in Redis, the share is computed in integers: expired * 100 / sampled. Unlike in Redis, a
 * cycle also repeats while coarse buckets are refined too slowly (behind_keys). Redis starts
 * fast cycles at intervals of twice their limit. Here a cycle that finds little work may be
 * followed sooner, and fast cycles still take at most half of the time.
 *
 * The time is read after every loop. A slice ends after slice_us, and the cycle continues with
 * the next slice; it ends by the rules above or when its time limit is spent.
 *
 * A CPU cap limits both kinds together, with other background work (cycle_spend()): cpu_pct of
 * every window of one second. A window starts with the first cycle after the last window has
 * ended, so a burst after a quiet period may use the share of a whole second at once. A cycle
 * that reaches the cap ends and counts as ended by its time limit; no other starts until the
 * next window.
 */
#ifndef MAYFLY_LIB_EXPIRY_CYCLE_H
#define MAYFLY_LIB_EXPIRY_CYCLE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"

enum cycle_kind { CYCLE_SLOW, CYCLE_FAST };

struct cycle_config {
    uint32_t effort;   /* 1..10; other values count as the nearest of these */
    uint32_t hz;       /* 1..500; likewise */
    uint32_t slice_us; /* about 250 */
    uint32_t cpu_pct;  /* of one CPU, both kinds together; 0: the share of the slow cycle */
    uint32_t sharers;  /* number of cycles that divide cpu_pct; 0: only this one */
};

/* The limits that follow from a configuration. */
struct cycle_limits {
    uint32_t keys_per_loop;
    uint32_t fast_us;
    uint32_t slow_us;
    uint32_t slow_pct;
    uint32_t stop_pct;
};

/* Result of one sampling loop. */
struct cycle_loop {
    unsigned sampled;
    unsigned expired;
    uint64_t debt_keys;   /* still due after the loop */
    uint64_t behind_keys; /* wheel_behind(); the cycle continues while there are any */
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
    bool is_ended;       /* no cycle is running any more */
    bool hit_time_limit; /* it ended because its time was spent */
};

struct cycle {
    /* [home] */
    bool is_running;
    enum cycle_kind kind;
    usec_t spent_us;        /* by the cycle that is running */
    usec_t fast_started_us; /* INT64_MIN: never */
    usec_t fast_took_us;    /* the last fast cycle that ended */
    usec_t window_start_us; /* of the CPU cap; INT64_MIN: none yet */
    usec_t window_spent_us;
};

/* Start with nothing known and nothing running. Context: before start. */
void cycle_init(struct cycle *c);

/* Compute the limits by the formulas above. Context: any thread. */
void cycle_limits(const struct cycle_config *cfg, struct cycle_limits *out);

/*
 * May a cycle of this kind begin now? Slow: yes, the caller's timer decides. Fast: if none is
 * running, there is debt, and the last fast one started long enough ago. Both only while the
 * CPU cap is not spent. Context: home worker.
 */
bool cycle_may_begin(const struct cycle *c, enum cycle_kind kind,
                     const struct cycle_config *cfg, uint64_t debt_keys, usec_t now_us);

/*
 * The time from which cycle_may_begin() allows a fast cycle, if there is debt and no cycle is
 * running. Context: home worker.
 */
usec_t cycle_fast_from(const struct cycle *c, const struct cycle_config *cfg, usec_t now_us);

/*
 * Other background work under the same cap: cycle_has_time() returns whether it may run now,
 * cycle_spend() adds the time that it took. Context: home worker.
 */
bool cycle_has_time(const struct cycle *c, const struct cycle_config *cfg, usec_t now_us);
void cycle_spend(struct cycle *c, usec_t us, usec_t from_us);

/*
 * For background work that is not under the cap but takes the same share, evenly: how long it
 * may run after a rest of rest_us, in microseconds. A share of 100 % sets no bound. Context:
 * home worker.
 */
usec_t cycle_earned(const struct cycle_config *cfg, usec_t rest_us);

/*
 * Run one slice: continue the running cycle, or start one of this kind. If the CPU cap forbids
 * that, only set is_ended. Context: home worker, outside a section.
 */
void cycle_slice(struct cycle *c, enum cycle_kind kind, const struct cycle_config *cfg,
                 const struct cycle_ops *ops, struct cycle_result *res);

#endif
