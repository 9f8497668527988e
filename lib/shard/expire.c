/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active expiry of a shard: see expire.h.
 */
#include "lib/shard/expire.h"

#include "lib/base/context.h"
#include "lib/memory/blocks.h"
#include "lib/shard/keyspace.h"
#include "lib/shard/shard.h"

/* The most keys that one sampling loop checks: 20 + 5 * 9 at effort 10. */
#define LOOP_MAX 65

struct loop_arg {
    struct shard *shard;
    msec_t now;
    msec_t since; /* active expiry could not do anything before */
};

static usec_t mono_us(void *arg)
{
    (void)arg;
    return clock_mono_us();
}

static void expire_one(const struct loop_arg *a, handle_t h)
{
    struct shard *s = a->shard;
    msec_t due = item_deadline(shard_item(s, h));
    uint64_t hash;
    _Atomic handle_t *slot = keyspace_slot_of(s, h, &hash);

    due = due > a->since ? due : a->since;
    /* Another thread may have shown the wheel a clock a moment ahead of ours. */
    lag_add(&s->lag, a->now, a->now > due ? (uint64_t)(a->now - due) : 0);
    keyspace_expire(s, hash, slot, SHARD_EXPIRED_ACTIVE, a->now);
}

/* One sampling loop: the lock is held for this long and no longer. */
static void sampling_loop(void *arg, unsigned max, struct cycle_loop *out)
{
    struct loop_arg *a = arg;
    struct shard *s = a->shard;
    handle_t due[LOOP_MAX];

    *out = (struct cycle_loop){0};
    max = max < LOOP_MAX ? max : LOOP_MAX;
    shard_enter(s);
    msec_t until = shard_due_now(s, a->now);
    if (until == DUE_NOTHING || shard_is_ahead(s)) {
        keyspace_note_due(s); /* after the limit, so that the home worker sleeps */
        shard_leave(s);
        return;
    }
    unsigned n = wheel_sample(s->wheel, until, due, max, &out->sampled);
    for (unsigned i = 0; i < n; i++) {
        const struct item *it = shard_item(s, due[i]);

        table_prefetch_bucket(&s->table, shard_hash(s, it));
    }
    for (unsigned i = 0; i < n; i++) {
        expire_one(a, due[i]);
    }
    ctr_add(&s->counters, CTR_expire_checked, out->sampled);
    out->expired = n;
    out->debt_keys = wheel_debt(s->wheel, until);
    out->behind_keys = wheel_behind(s->wheel, until);
    keyspace_note_due(s);
    blocks_ripen(&s->memory, max);
    shard_leave(s);
}

/* The sampler rests: turned off by an option, or held by a test. A hold delays its work. */
static bool is_held(const struct shard *s)
{
    return !engine_option(s->group->options, active_expire) ||
           atomic_load_explicit(&s->is_held, memory_order_relaxed);
}

/* Note when the sampler rests, and when it goes on. */
static void note_rest(struct shard *s)
{
    bool rests = is_held(s);

    if (MF_UNLIKELY(rests != s->is_resting)) {
        s->is_resting = rests;
        s->rest_end_ms = clock_now(s->group->clock);
    }
}

static msec_t later(msec_t a, msec_t b)
{
    return a > b ? a : b;
}

bool shard_expire_slice(struct shard *s, enum cycle_kind kind, const struct cycle_config *cfg)
{
    struct loop_arg arg = {.shard = s, .now = clock_now(s->group->clock)};
    struct cycle_ops ops = {mono_us, sampling_loop, &arg};
    struct cycle_result res;

    must_be_home(s);
    if (is_held(s) || shard_due_now(s, arg.now) == DUE_NOTHING) {
        return false;
    }
    note_rest(s);
    arg.since = later(atomic_load_explicit(&s->group->hold_until, memory_order_relaxed),
                      atomic_load_explicit(&s->group->due_since, memory_order_relaxed));
    arg.since = later(arg.since, s->rest_end_ms);
    usec_t cpu_us = clock_thread_us();
    cycle_slice(&s->cycle, kind, cfg, &ops, &res);
    cpu_us = clock_thread_us() - cpu_us;

    if (res.loops == 0) {
        return false; /* the CPU cap forbids it */
    }

    /* Only the home worker writes these, inside the shard like all its counters. */
    shard_enter(s);
    ctr_add(&s->counters, CTR_expire_slices, 1);
    ctr_add(&s->counters, CTR_expire_cycle_us, res.time_us);
    /* Of CPU: what the system gave to others meanwhile says nothing of the slice. */
    ctr_max(&s->counters, CTR_expire_slice_longest_us, (uint64_t)(cpu_us > 0 ? cpu_us : 0));
    if (res.is_begun) {
        ctr_add(&s->counters,
                s->cycle.kind == CYCLE_SLOW ? CTR_expire_cycles_slow : CTR_expire_cycles_fast,
                1);
    }
    if (res.hit_time_limit) {
        ctr_add(&s->counters, CTR_expire_time_cap_reached, 1);
    }
    shard_leave(s);
    return !res.is_ended;
}

bool shard_wants_fast(struct shard *s, const struct cycle_config *cfg, msec_t now)
{
    must_be_home(s);
    if (shard_due_now(s, now) < atomic_load_explicit(&s->next_due, memory_order_relaxed) ||
        is_held(s)) {
        return false;
    }
    return cycle_may_begin(&s->cycle, CYCLE_FAST, cfg, 1, clock_mono_us());
}

unsigned shard_fast_in_ms(const struct shard *s, const struct cycle_config *cfg)
{
    usec_t now_us = clock_mono_us();

    must_be_home(s);
    return (unsigned)((cycle_fast_from(&s->cycle, cfg, now_us) - now_us + 999) / 1000);
}

msec_t shard_due_gone(struct shard *s, msec_t now)
{
    msec_t until = shard_due_limit(s, now);

    shard_must_be_entered(s);
    if (until > s->due_gone) {
        msec_t next = wheel_next(s->wheel);

        /* What is due by a later time, which the wheel was shown, may be due by this one. */
        if (next > until && next > wheel_time(s->wheel)) {
            s->due_gone = until;
        }
    }
    return s->due_gone;
}

void shard_hold_sampler(struct shard *s, bool held)
{
    atomic_store_explicit(&s->is_held, held, memory_order_relaxed);
}

msec_t shard_sleep_until(struct shard *s)
{
    must_be_home(s);
    note_rest(s);
    return shard_next_due(s);
}

msec_t shard_next_due(const struct shard *s)
{
    msec_t next = atomic_load_explicit(&s->next_due, memory_order_relaxed);
    msec_t flush = atomic_load_explicit(&s->flush_at, memory_order_relaxed);
    msec_t hold = atomic_load_explicit(&s->group->hold_until, memory_order_relaxed);

    if (is_held(s) || next > atomic_load_explicit(&s->group->due_limit, memory_order_relaxed)) {
        return flush;
    }
    next = later(next, hold); /* the sampler goes on when the hold ends */
    return next < flush ? next : flush;
}
