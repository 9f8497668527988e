/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The background work of one shard: see home.h.
 */
#include "daemon/worker/home.h"

#include "daemon/worker/crew.h"
#include "daemon/worker/cron.h"
#include "lib/base/context.h"
#include "lib/shard/expire.h"
#include "lib/shard/info.h"
#include "lib/shard/upkeep.h"

#define MAINTAIN_SLICE_US 200
#define RETRY_FIRST_MS    1u
#define RETRY_LAST_MS     64u

/* ---- expiry ------------------------------------------------------------------------------ */

static uint64_t expired_active(const struct home *h)
{
    return ctr_get(shard_counters(h->shard), CTR_expired_active);
}

/* Is an item due that is still there? Reads no clock when nothing has a deadline. */
static bool has_debt(const struct home *h)
{
    msec_t due = shard_next_due(h->shard);

    return due != MSEC_NEVER && due <= clock_now(&h->worker->engine->clock);
}

static void run_slice(struct home *h)
{
    struct cycle_config cfg;

    cron_expire_config(h->worker, &cfg);
    h->is_cycling = shard_expire_slice(h->shard, h->kind, &cfg);
    if (!h->is_cycling) {
        h->is_behind = expired_active(h) != h->expired_seen && has_debt(h);
    }
}

static void begin_expiry(struct home *h, enum cycle_kind kind)
{
    h->kind = kind;
    h->expired_seen = expired_active(h);
    if (kind == CYCLE_SLOW) {
        h->slow_at = uv_now(&h->worker->loop);
    }
    run_slice(h);
}

/* Loop milliseconds before which no slow cycle begins. */
static uint64_t slow_not_before(const struct home *h)
{
    uint32_t hz = cron_hz(h->worker);

    return h->slow_at == 0 ? 0 : h->slow_at + (1000 + hz - 1) / hz;
}

static void on_tick(uv_timer_t *timer)
{
    struct home *h = timer->data;
    struct worker *w = h->worker;

    h->tick_at = 0;
    /* A delayed flush whose time has come is due work too. */
    h->has_upkeep = shard_maintain(h->shard, worker_now(w), MAINTAIN_SLICE_US);
    if (setting_get(w->settings, engine.active_expire) && !h->is_cycling && has_debt(h) &&
        uv_now(&w->loop) >= slow_not_before(h)) {
        begin_expiry(h, CYCLE_SLOW);
    }
}

/*
 * Milliseconds from the end of one fast cycle to the next, rounded up: it may run half the
 * time.
 */
static uint64_t fast_gap_ms(const struct home *h)
{
    struct cycle_config cfg;
    struct cycle_limits budget;

    cron_expire_config(h->worker, &cfg);
    cycle_limits(&cfg, &budget);
    return (2 * (uint64_t)budget.fast_us + 999) / 1000;
}

static void disarm_tick(struct home *h)
{
    if (h->tick_at != 0) {
        uv_timer_stop(&h->tick);
        h->tick_at = 0;
    }
}

/*
 * When the next item falls due, published as what this worker knows. Read again after it was
 * published: a writer that came in between has seen the old value.
 */
static msec_t publish_due(struct home *h)
{
    for (;;) {
        msec_t due = shard_next_due(h->shard);

        if (due == atomic_load_explicit(&h->sleeps_until, memory_order_relaxed)) {
            return due;
        }
        atomic_store_explicit(&h->sleeps_until, due, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
    }
}

/* A timer armed for an earlier moment stays. */
void home_arm(struct home *h)
{
    struct worker *w = h->worker;
    msec_t due = publish_due(h);
    msec_t now;
    uint64_t loop_now;
    uint64_t at;
    uint64_t floor;

    if (due == h->due_seen && h->tick_at != 0) {
        return;
    }
    h->due_seen = due;
    if (due == MSEC_NEVER) {
        disarm_tick(h);
        return;
    }
    now = clock_now(&w->engine->clock);
    /* The loop's time is when the turn began; a timer counted from it would be early. */
    uv_update_time(&w->loop);
    loop_now = uv_now(&w->loop);
    at = loop_now + (due > now ? (uint64_t)(due - now) : 0);
    floor = h->is_behind ? loop_now + fast_gap_ms(h) : slow_not_before(h);
    if (at < floor) {
        at = floor;
    }
    if (h->tick_at == 0 || at < h->tick_at) {
        h->tick_at = at != 0 ? at : 1;
        uv_timer_start(&h->tick, on_tick, at > loop_now ? at - loop_now : 0, 0);
    }
}

/* ---- upkeep ------------------------------------------------------------------------------ */

static void on_retry(uv_timer_t *timer);

/* Does the shard want work? Publishes the answer as what this worker knows. */
static bool publish_work(struct home *h)
{
    bool wants = shard_wants_work(h->shard);

    if (wants != atomic_load_explicit(&h->knows_work, memory_order_relaxed)) {
        atomic_store_explicit(&h->knows_work, wants, memory_order_relaxed);
        if (!wants) {
            atomic_thread_fence(memory_order_seq_cst);
            wants = shard_wants_work(h->shard);
        }
    }
    return wants;
}

/* False: it wants none. */
static bool upkeep(struct home *h)
{
    if (!publish_work(h)) {
        h->has_upkeep = false;
        h->retry_ms = RETRY_FIRST_MS;
        return false;
    }
    h->has_upkeep = shard_maintain(h->shard, worker_now(h->worker), MAINTAIN_SLICE_US);
    if (h->has_upkeep) {
        h->retry_ms = RETRY_FIRST_MS;
    } else if (publish_work(h) && !uv_is_active((uv_handle_t *)&h->retry)) {
        /* Published again: one that sleeps as if it knew would not be poked. */
        uv_timer_start(&h->retry, on_retry, h->retry_ms, 0);
        h->retry_ms = h->retry_ms < RETRY_LAST_MS ? h->retry_ms * 2 : RETRY_LAST_MS;
    }
    return true;
}

/*
 * After a poll that timed out the loop runs its checks first and its timers then: what the
 * check found left, with this timer still armed, would be left for good.
 */
static void on_retry(uv_timer_t *timer)
{
    (void)upkeep(timer->data);
}

/* ---- tidying ----------------------------------------------------------------------------- */

static void on_tidy(uv_timer_t *timer);

/* Look, or run a slice. The timer looks again, until there is nothing to look for. */
static void tidy(struct home *h)
{
    struct worker *w = h->worker;
    struct cycle_config cfg;
    uint32_t again_ms;

    cron_expire_config(w, &cfg);
    again_ms = shard_tidy(h->shard, &cfg, worker_now(w));
    h->is_tidying = again_ms == 0;
    if (again_ms == SHARD_TIDY) {
        atomic_store_explicit(&h->knows_tidy, false, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
    } else if (again_ms != 0) {
        uv_timer_start(&h->tidy, on_tidy, again_ms, 0);
    }
}

static void on_tidy(uv_timer_t *timer)
{
    tidy(timer->data);
}

/* Something became dead since there was nothing to look for. */
static void begin_to_tidy(struct home *h)
{
    /* Again, if it came to be wanted while this worker still seemed to know. */
    while (shard_wants_tidy(h->shard) &&
           !atomic_load_explicit(&h->knows_tidy, memory_order_relaxed)) {
        atomic_store_explicit(&h->knows_tidy, true, memory_order_relaxed);
        tidy(h);
    }
}

/* ---- for the worker ---------------------------------------------------------------------- */

bool home_needs_poke(const struct home *h)
{
    if (shard_wants_work(h->shard) &&
        !atomic_load_explicit(&h->knows_work, memory_order_relaxed)) {
        return true;
    }
    if (shard_wants_tidy(h->shard) &&
        !atomic_load_explicit(&h->knows_tidy, memory_order_relaxed)) {
        return true;
    }
    return shard_next_due(h->shard) <
           atomic_load_explicit(&h->sleeps_until, memory_order_relaxed);
}

bool home_after_events(struct home *h)
{
    bool has_worked;

    must_be_home(h->shard);
    has_worked = upkeep(h);
    if (h->is_cycling) {
        run_slice(h);
        has_worked = true;
    }
    if (h->is_tidying) {
        tidy(h);
        has_worked = true;
    }
    return has_worked;
}

void home_put_off(struct home *h)
{
    must_be_home(h->shard);
    /* What waits for a grace period has its timer. */
    h->has_upkeep = publish_work(h) && !uv_is_active((uv_handle_t *)&h->retry);
}

bool home_before_block(struct home *h)
{
    const struct worker *w = h->worker;

    must_be_home(h->shard);
    if (!h->is_cycling && setting_get(w->settings, engine.active_expire) && has_debt(h)) {
        struct cycle_config cfg;

        cron_expire_config(w, &cfg);
        if (shard_wants_fast(h->shard, &cfg, worker_now(h->worker))) {
            begin_expiry(h, CYCLE_FAST);
        }
    }
    begin_to_tidy(h);
    return h->is_cycling || h->has_upkeep || h->is_tidying;
}

void home_poked(struct home *h)
{
    must_be_home(h->shard);
    h->retry_ms = RETRY_FIRST_MS;
    disarm_tick(h);
}

void home_init(struct home *h, struct worker *w, struct shard *s)
{
    h->worker = w;
    h->shard = s;
    h->retry_ms = RETRY_FIRST_MS;
    atomic_init(&h->sleeps_until, MSEC_NEVER);
}

void home_start(struct home *h)
{
    uv_loop_t *loop = &h->worker->loop;

    must_be_home(h->shard);
    /* uv_timer_init() cannot fail. */
    uv_timer_init(loop, &h->tick);
    uv_timer_init(loop, &h->retry);
    uv_timer_init(loop, &h->tidy);
    h->tick.data = h;
    h->retry.data = h;
    h->tidy.data = h;
}

void home_stop(struct home *h)
{
    must_be_home(h->shard);
    uv_close((uv_handle_t *)&h->tick, NULL);
    uv_close((uv_handle_t *)&h->retry, NULL);
    uv_close((uv_handle_t *)&h->tidy, NULL);
}
