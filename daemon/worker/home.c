/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The background work of one shard: see worker.h.
 */
#include "daemon/worker/worker.h"

#include "daemon/worker/crew.h"
#include "lib/base/budgets.h"
#include "lib/shard/expire.h"
#include "lib/shard/info.h"
#include "lib/shard/upkeep.h"

#define RETRY_FIRST_MS 1u
#define RETRY_LAST_MS  64u

/* ---- expiry ------------------------------------------------------------------------------ */

/* Number of keys checked, to see whether a cycle does anything. */
static uint64_t keys_checked(const struct home *h)
{
    return ctr_get(shard_counters(h->shard), CTR_expire_checked);
}

/* Is there an item that is due? Does not read the clock if no item has a deadline. */
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
        h->is_stuck = keys_checked(h) == h->checked_seen && has_debt(h);
    }
}

static void begin_expiry(struct home *h, enum cycle_kind kind)
{
    h->kind = kind;
    h->checked_seen = keys_checked(h);
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

static void maintain(struct home *h)
{
    struct worker *w = h->worker;
    struct cycle_config cfg;

    cron_expire_config(w, &cfg);
    h->has_upkeep = shard_maintain_beside(h->shard, &cfg, worker_now(w), BUDGET_task_us);
}

static void on_tick(uv_timer_t *timer)
{
    struct home *h = timer->data;
    struct worker *w = h->worker;

    h->tick_at = 0;
    /* A delayed flush whose time has come is due work too. */
    maintain(h);
    if (setting_get(w->settings, engine.active_expire) && !h->is_cycling && has_debt(h) &&
        uv_now(&w->loop) >= slow_not_before(h)) {
        begin_expiry(h, CYCLE_SLOW);
    }
}

/* Loop milliseconds before which no cycle may begin: neither a slow nor a fast one. */
static uint64_t cycle_not_before(const struct home *h, uint64_t loop_now)
{
    uint64_t slow_at = slow_not_before(h);
    struct cycle_config cfg;

    if (h->is_stuck || slow_at <= loop_now) {
        return slow_at;
    }
    cron_expire_config(h->worker, &cfg);
    uint64_t fast_at = loop_now + shard_fast_in_ms(h->shard, &cfg);
    return fast_at < slow_at ? fast_at : slow_at;
}

static void disarm_tick(struct home *h)
{
    if (h->tick_at != 0) {
        uv_timer_stop(&h->tick);
        h->tick_at = 0;
    }
}

/* A timer armed for an earlier moment stays. */
void home_arm(struct home *h)
{
    struct worker *w = h->worker;
    msec_t due = shard_sleep_until(h->shard);

    if (due == h->due_seen && h->tick_at != 0) {
        return;
    }
    h->due_seen = due;
    if (due == MSEC_NEVER) {
        disarm_tick(h);
        return;
    }
    msec_t now = clock_now(&w->engine->clock);
    /* The loop's time is when the turn began; a timer counted from it would be early. */
    uv_update_time(&w->loop);
    uint64_t loop_now = uv_now(&w->loop);
    uint64_t at = loop_now + (due > now ? (uint64_t)(due - now) : 0);
    uint64_t floor = cycle_not_before(h, loop_now);
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

/* Should upkeep run now? Work that waits for a grace period has a timer. */
static bool wants_upkeep(const struct home *h)
{
    return shard_wants_work(h->shard) && !uv_is_active((const uv_handle_t *)&h->retry);
}

/* False: no upkeep is wanted. */
static bool upkeep(struct home *h)
{
    const usec_t rests_us = h->shard->prefix_rests_us;

    if (!shard_wants_work(h->shard)) {
        h->has_upkeep = false;
        h->retry_ms = RETRY_FIRST_MS;
        return false;
    }
    maintain(h);
    if (h->has_upkeep || h->shard->prefix_rests_us != rests_us) {
        h->retry_ms = RETRY_FIRST_MS;
    }
    if (!h->has_upkeep && wants_upkeep(h)) {
        uv_timer_start(&h->retry, on_retry, h->retry_ms, 0);
        h->retry_ms = h->retry_ms < RETRY_LAST_MS ? h->retry_ms * 2 : RETRY_LAST_MS;
    }
    return true;
}

/*
 * The retry timer does the upkeep itself. After a poll that timed out, libuv runs check
 * handles before timers. So the check of this turn may have found upkeep left, and set no
 * timer because this one was still armed.
 */
static void on_retry(uv_timer_t *timer)
{
    (void)upkeep(timer->data);
}

/* ---- tidying ----------------------------------------------------------------------------- */

static void on_tidy(uv_timer_t *timer);

/* Check, or run a slice. The timer repeats the check until there is nothing to clean. */
static void tidy(struct home *h)
{
    struct worker *w = h->worker;
    struct cycle_config cfg;

    cron_expire_config(w, &cfg);
    uint32_t again_ms = shard_tidy(h->shard, &cfg, worker_now(w));
    h->is_tidying = again_ms == 0;
    if (again_ms != SHARD_TIDY && again_ms != 0) {
        uv_timer_start(&h->tidy, on_tidy, again_ms, 0);
    }
}

static void on_tidy(uv_timer_t *timer)
{
    tidy(timer->data);
}

/* Dead bytes have appeared since the last check found none. */
static void begin_to_tidy(struct home *h)
{
    if (shard_wants_tidy(h->shard) && !h->is_tidying &&
        !uv_is_active((const uv_handle_t *)&h->tidy)) {
        tidy(h);
    }
}

/* ---- for the worker ---------------------------------------------------------------------- */

bool home_after_events(struct home *h)
{
    must_be_home(h->shard);
    bool has_worked = upkeep(h);
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
    h->has_upkeep = wants_upkeep(h);
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
    /* A timer of this turn may have written. */
    return h->is_cycling || h->has_upkeep || h->is_tidying || wants_upkeep(h);
}

void home_poked(struct home *h)
{
    must_be_home(h->shard);
    h->retry_ms = RETRY_FIRST_MS;
    disarm_tick(h);
}

void home_init(struct home *h, struct worker *w, struct shard *s)
{
    h->number = s->id;
    h->worker = w;
    h->shard = s;
    h->retry_ms = RETRY_FIRST_MS;
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

static void on_left(uv_handle_t *handle)
{
    struct home *h = handle->data;

    if (--h->closing == 0) {
        mailbox_post(&h->worker->mailbox, &h->message);
    }
}

void home_leave(struct home *h, struct worker *to,
                void (*fn)(struct message *m, void *receiver))
{
    must_be_home(h->shard);
    h->tick_at = 0;
    h->closing = 3;
    h->message.fn = fn;
    uv_close((uv_handle_t *)&h->tick, on_left);
    uv_close((uv_handle_t *)&h->retry, on_left);
    uv_close((uv_handle_t *)&h->tidy, on_left);
    h->worker = to; /* all its timers are closed */
}
