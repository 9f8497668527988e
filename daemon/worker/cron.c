/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Background work of one worker, on its thread. Three kinds:
 *
 * Expiry. The tick timer is armed for the moment when the shard's next item falls due, but no
 * sooner than 1/hz after the last slow cycle began. It begins a slow cycle. A cycle is a series
 * of slices; between two of them the loop serves its sockets and does not block. If a cycle
 * ended with debt left (its time was spent), the tick comes back after the gap of the fast
 * cycle; the hook before the loop blocks then begins one.
 *
 * Upkeep. When the shard says that it wants work (resizing, room, a delayed flush), a slice of
 * it runs after each turn. For work that waits for a grace period, a timer checks again; its
 * interval doubles from 1 ms while nothing moves.
 *
 * Tidying. When much is dead in the shard, a timer looks whether that is about to be reused
 * (shard_tidy()). If not, slices of cleaning run between turns, as those of expiry do, until
 * their common share of the CPU is spent.
 *
 * A writer on another worker may bring a deadline nearer, or leave work, while the home worker
 * sleeps. So each worker publishes what it knows about its shard (sleeps_until, knows_work,
 * knows_tidy). A worker that has written compares the other shards with that and pokes their
 * home workers. Both sides store, fence, then load, so one of them sees the other's store. A
 * worker without a home shard does none of this, except that it pokes others.
 *
 * Connections. Those whose stores wait for room are tried again after some milliseconds, if
 * nobody wakes them. Those that hold memory are checked for their pace while there are any.
 * All are checked once a second while an idle timeout is set, and whenever a connection asks
 * for it. A timer of its own is armed for the first of those that have to finish a handshake or
 * a login in time.
 */
#include "daemon/worker/cron.h"

#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/shard/expire.h"
#include "lib/shard/info.h"
#include "lib/shard/upkeep.h"

#define MAINTAIN_SLICE_US 200
#define RETRY_FIRST_MS    1u
#define RETRY_LAST_MS     64u
#define IDLE_MS           1000u
#define HZ_MAX            500u
#define OTHERS_PER_TURN   16u  /* shards of other workers checked in one turn */
#define CLIENTS_PER_TICK  200u /* dynamic_hz: above this, hz doubles; the figure is Redis's */

struct cron {
    /* [worker] */
    struct worker *worker; /* [borrowed] */
    uv_timer_t tick;       /* expiry */
    uv_timer_t retry;      /* upkeep that waits for a grace period */
    uv_timer_t tidy;       /* the next look at what is dead */
    uv_timer_t stores;     /* stores that wait for room */
    uv_timer_t deadlines;  /* handshakes and logins that take too long */
    uv_timer_t pace;       /* clients that may be too slow */
    uv_timer_t idle;       /* the check for idle connections */
    uint64_t tick_at;      /* loop milliseconds that tick is armed for; 0: not armed */
    msec_t due_seen;       /* what fell due next when it was armed */
    uint64_t slow_at;      /* loop milliseconds at which the last slow cycle began; 0: never */
    uint64_t expired_seen; /* the shard's expired_active when the running cycle began */
    enum cycle_kind kind;  /* of the running cycle */
    bool is_cycling;       /* a cycle runs and wants another slice */
    bool is_behind;        /* the last cycle expired something and left debt */
    bool is_tidying;       /* more should be cleaned at once */
    bool has_upkeep;       /* the shard wants more upkeep at once */
    unsigned retry_ms;     /* next interval of retry */
    uint64_t writes_seen;  /* of this worker, when it last began to check other shards */
    uint32_t others_left;  /* shards still to be checked, from others_next on */
    uint32_t others_next;
};

uint32_t cron_hz(const struct worker *w)
{
    uint32_t hz = setting_get(w->settings, hz);

    if (setting_get(w->settings, dynamic_hz)) {
        uint64_t clients = ctr_get(&w->counters, CTR_curr_connections);

        while (hz < HZ_MAX && clients / hz > CLIENTS_PER_TICK) {
            hz *= 2;
        }
    }
    return hz < HZ_MAX ? hz : HZ_MAX;
}

void cron_expire_config(const struct worker *w, struct cycle_config *cfg)
{
    cfg->effort = setting_get(w->settings, expire_effort);
    cfg->hz = cron_hz(w);
    cfg->slice_us = setting_get(w->settings, expire_slice_us);
    cfg->cpu_pct = setting_get(w->settings, expire_cpu_pct);
}

/* ---- expiry ------------------------------------------------------------------------------ */

static uint64_t expired_active(const struct cron *c)
{
    return ctr_get(shard_counters(c->worker->shard), CTR_expired_active);
}

/* Is an item due that is still there? Reads no clock when nothing has a deadline. */
static bool has_debt(const struct cron *c)
{
    const struct worker *w = c->worker;
    msec_t due = w->shard != NULL ? shard_next_due(w->shard) : MSEC_NEVER;

    return due != MSEC_NEVER && due <= clock_now(&w->engine->clock);
}

static void run_slice(struct cron *c)
{
    struct cycle_config cfg;

    cron_expire_config(c->worker, &cfg);
    c->is_cycling = shard_expire_slice(c->worker->shard, c->kind, &cfg);
    if (!c->is_cycling) {
        c->is_behind = expired_active(c) != c->expired_seen && has_debt(c);
    }
}

static void begin_expiry(struct cron *c, enum cycle_kind kind)
{
    c->kind = kind;
    c->expired_seen = expired_active(c);
    if (kind == CYCLE_SLOW) {
        c->slow_at = uv_now(&c->worker->loop);
    }
    run_slice(c);
}

/* Loop milliseconds before which no slow cycle begins. */
static uint64_t slow_not_before(const struct cron *c)
{
    uint32_t hz = cron_hz(c->worker);

    return c->slow_at == 0 ? 0 : c->slow_at + (1000 + hz - 1) / hz;
}

static void on_tick(uv_timer_t *timer)
{
    struct cron *c = timer->data;
    struct worker *w = c->worker;

    c->tick_at = 0;
    /* A delayed flush whose time has come is due work too. */
    c->has_upkeep = shard_maintain(w->shard, worker_now(w), MAINTAIN_SLICE_US);
    if (setting_get(w->settings, engine.active_expire) && !c->is_cycling && has_debt(c) &&
        uv_now(&w->loop) >= slow_not_before(c)) {
        begin_expiry(c, CYCLE_SLOW);
    }
}

/*
 * Milliseconds from the end of one fast cycle to the next, rounded up: it may run half the
 * time.
 */
static uint64_t fast_gap_ms(const struct cron *c)
{
    struct cycle_config cfg;
    struct cycle_limits budget;

    cron_expire_config(c->worker, &cfg);
    cycle_limits(&cfg, &budget);
    return (2 * (uint64_t)budget.fast_us + 999) / 1000;
}

static void disarm_tick(struct cron *c)
{
    if (c->tick_at != 0) {
        uv_timer_stop(&c->tick);
        c->tick_at = 0;
    }
}

/*
 * When the next item falls due, published as what this worker knows. Read again after it was
 * published: a writer that came in between has seen the old value.
 */
static msec_t publish_due(struct worker *w)
{
    while (w->shard != NULL) {
        msec_t due = shard_next_due(w->shard);

        if (due == atomic_load_explicit(&w->sleeps_until, memory_order_relaxed)) {
            return due;
        }
        atomic_store_explicit(&w->sleeps_until, due, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
    }
    return MSEC_NEVER;
}

/* Arm the tick for what falls due next; a timer armed for an earlier moment stays. */
static void arm_tick(struct cron *c)
{
    struct worker *w = c->worker;
    msec_t due = publish_due(w);
    msec_t now;
    uint64_t loop_now;
    uint64_t at;
    uint64_t floor;

    if (due == c->due_seen && c->tick_at != 0) {
        return;
    }
    c->due_seen = due;
    if (due == MSEC_NEVER) {
        disarm_tick(c);
        return;
    }
    now = clock_now(&w->engine->clock);
    /* The loop's time is when the turn began; a timer counted from it would be early. */
    uv_update_time(&w->loop);
    loop_now = uv_now(&w->loop);
    at = loop_now + (due > now ? (uint64_t)(due - now) : 0);
    floor = c->is_behind ? loop_now + fast_gap_ms(c) : slow_not_before(c);
    if (at < floor) {
        at = floor;
    }
    if (c->tick_at == 0 || at < c->tick_at) {
        c->tick_at = at != 0 ? at : 1;
        uv_timer_start(&c->tick, on_tick, at > loop_now ? at - loop_now : 0, 0);
    }
}

/* ---- other shards ------------------------------------------------------------------------ */

/* A number that changes with every command that may leave work in a shard. */
static uint64_t writes_so_far(const struct worker *w)
{
    return ctr_get(&w->counters, CTR_cmd_set) + ctr_get(&w->counters, CTR_cmd_touch) +
           ctr_get(&w->counters, CTR_cmd_flush) + ctr_get(&w->counters, CTR_incr_hits) +
           ctr_get(&w->counters, CTR_decr_hits) + ctr_get(&w->counters, CTR_delete_hits) +
           setting_get(w->settings, memory_limit_bytes);
}

/* Does a shard hold work that its home worker does not know about yet? */
static bool needs_poke(const struct worker *home)
{
    if (home->shard == NULL) {
        return false;
    }
    if (shard_wants_work(home->shard) &&
        !atomic_load_explicit(&home->knows_work, memory_order_relaxed)) {
        return true;
    }
    if (shard_wants_tidy(home->shard) &&
        !atomic_load_explicit(&home->knows_tidy, memory_order_relaxed)) {
        return true;
    }
    return shard_next_due(home->shard) <
           atomic_load_explicit(&home->sleeps_until, memory_order_relaxed);
}

/* After writes: check the shards of other workers, a bounded number a turn. */
static void check_others(struct cron *c)
{
    struct worker *w = c->worker;
    struct crew *crew = w->crew;
    uint64_t writes = writes_so_far(w);
    unsigned n;

    if (writes != c->writes_seen) {
        c->writes_seen = writes;
        c->others_left = crew->worker_count;
    }
    if (c->others_left == 0) {
        return;
    }
    atomic_thread_fence(memory_order_seq_cst);
    for (n = 0; n < OTHERS_PER_TURN && c->others_left > 0; n++) {
        uint32_t id = c->others_next;

        c->others_next = id + 1 < crew->worker_count ? id + 1 : 0;
        c->others_left--;
        if (id != w->id && needs_poke(&crew->workers[id])) {
            worker_poke(&crew->workers[id]);
        }
    }
}

/* ---- upkeep ------------------------------------------------------------------------------ */

static void on_retry(uv_timer_t *timer);

/* Does the shard want work? Publishes the answer as what this worker knows. */
static bool publish_work(struct worker *w)
{
    bool wants = w->shard != NULL && shard_wants_work(w->shard);

    if (wants != atomic_load_explicit(&w->knows_work, memory_order_relaxed)) {
        atomic_store_explicit(&w->knows_work, wants, memory_order_relaxed);
        if (!wants) {
            atomic_thread_fence(memory_order_seq_cst);
            wants = shard_wants_work(w->shard);
        }
    }
    return wants;
}

static void upkeep(struct cron *c)
{
    struct worker *w = c->worker;

    if (!publish_work(w)) {
        c->has_upkeep = false;
        c->retry_ms = RETRY_FIRST_MS;
        return;
    }
    c->has_upkeep = shard_maintain(w->shard, worker_now(w), MAINTAIN_SLICE_US);
    if (c->has_upkeep) {
        c->retry_ms = RETRY_FIRST_MS;
    } else if (publish_work(w) && !uv_is_active((uv_handle_t *)&c->retry)) {
        /* Published again: one that sleeps as if it knew would not be poked. */
        uv_timer_start(&c->retry, on_retry, c->retry_ms, 0);
        c->retry_ms = c->retry_ms < RETRY_LAST_MS ? c->retry_ms * 2 : RETRY_LAST_MS;
    }
}

/*
 * After a poll that timed out the loop runs its checks first and its timers then: what the
 * check found left, with this timer still armed, would be left for good.
 */
static void on_retry(uv_timer_t *timer)
{
    upkeep(timer->data);
}

/* ---- tidying ----------------------------------------------------------------------------- */

static void on_tidy(uv_timer_t *timer);

/* Look, or run a slice. The timer looks again, until there is nothing to look for. */
static void tidy(struct cron *c)
{
    struct worker *w = c->worker;
    struct cycle_config cfg;
    uint32_t again_ms;

    cron_expire_config(w, &cfg);
    again_ms = shard_tidy(w->shard, &cfg, worker_now(w));
    c->is_tidying = again_ms == 0;
    if (again_ms == SHARD_TIDY) {
        atomic_store_explicit(&w->knows_tidy, false, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
    } else if (again_ms != 0) {
        uv_timer_start(&c->tidy, on_tidy, again_ms, 0);
    }
}

static void on_tidy(uv_timer_t *timer)
{
    tidy(timer->data);
}

/* Something became dead since there was nothing to look for. */
static void begin_to_tidy(struct cron *c)
{
    struct worker *w = c->worker;

    /* Again, if it came to be wanted while this worker still seemed to know. */
    while (w->shard != NULL && shard_wants_tidy(w->shard) &&
           !atomic_load_explicit(&w->knows_tidy, memory_order_relaxed)) {
        atomic_store_explicit(&w->knows_tidy, true, memory_order_relaxed);
        tidy(c);
    }
}

/* ---- waiting connections ----------------------------------------------------------------- */

static void on_idle(uv_timer_t *timer)
{
    struct cron *c = timer->data;

    c->worker->crew->duties->check_idle(c->worker, worker_now(c->worker));
}

void cron_check_idle_ms(struct worker *w, unsigned ms)
{
    struct cron *c = w->cron;

    must_be_worker(w);
    if (!uv_is_active((uv_handle_t *)&c->idle) || uv_timer_get_due_in(&c->idle) > ms) {
        uv_timer_start(&c->idle, on_idle, ms, 0);
    }
}

static void on_stores(uv_timer_t *timer)
{
    struct cron *c = timer->data;

    c->worker->crew->duties->retry_waiting(c->worker, true);
}

void cron_retry_in(struct worker *w, unsigned ms)
{
    uv_timer_t *timer = &w->cron->stores;

    must_be_worker(w);
    if (!uv_is_active((uv_handle_t *)timer) || uv_timer_get_due_in(timer) > ms) {
        uv_timer_start(timer, on_stores, ms, 0);
    }
}

static void on_deadline(uv_timer_t *timer)
{
    struct cron *c = timer->data;

    c->worker->crew->duties->check_deadlines(c->worker);
}

void cron_check_deadlines_in(struct worker *w, uint64_t ms)
{
    uv_timer_t *timer = &w->cron->deadlines;

    must_be_worker(w);
    if (!uv_is_active((uv_handle_t *)timer) || uv_timer_get_due_in(timer) > ms) {
        uv_timer_start(timer, on_deadline, ms, 0);
    }
}

static void on_pace(uv_timer_t *timer)
{
    struct cron *c = timer->data;

    c->worker->crew->duties->check_pace(c->worker);
}

void cron_pace_ms(struct worker *w, unsigned ms)
{
    struct cron *c = w->cron;

    must_be_worker(w);
    if (!uv_is_active((uv_handle_t *)&c->pace) || uv_timer_get_due_in(&c->pace) > ms) {
        uv_timer_start(&c->pace, on_pace, ms, 0);
    }
}

/* ---- hooks ------------------------------------------------------------------------------- */

void cron_poked(struct worker *w)
{
    struct cron *c = w->cron;

    must_be_worker(w);
    c->retry_ms = RETRY_FIRST_MS;
    disarm_tick(c);
    w->crew->duties->options_changed(w);
    if (w->idle.timeout_ms != 0 && w->conn_count > 0) {
        cron_check_idle_ms(w, 0);
    }
}

void cron_after_events(struct worker *w)
{
    struct cron *c = w->cron;

    must_be_worker(w);
    upkeep(c);
    check_others(c);
    if (c->is_cycling) {
        run_slice(c);
    }
    if (c->is_tidying) {
        tidy(c);
    }
}

bool cron_before_block(struct worker *w)
{
    struct cron *c = w->cron;

    must_be_worker(w);
    if (!c->is_cycling && setting_get(w->settings, engine.active_expire) && has_debt(c)) {
        struct cycle_config cfg;

        cron_expire_config(w, &cfg);
        if (shard_wants_fast(w->shard, &cfg, worker_now(w))) {
            begin_expiry(c, CYCLE_FAST);
        }
    }
    begin_to_tidy(c);
    if (c->is_cycling || c->has_upkeep || c->is_tidying || c->others_left > 0) {
        return true;
    }
    arm_tick(c);
    if (w->idle.timeout_ms != 0 && w->conn_count > 0) {
        cron_check_idle_ms(w, IDLE_MS);
    }
    return false;
}

int cron_start(struct worker *w)
{
    struct cron *c = mem_zalloc(sizeof(*c));

    must_be_worker(w);
    if (c == NULL) {
        return UV_ENOMEM;
    }
    c->worker = w;
    c->retry_ms = RETRY_FIRST_MS;
    /* uv_timer_init() cannot fail. */
    uv_timer_init(&w->loop, &c->tick);
    uv_timer_init(&w->loop, &c->retry);
    uv_timer_init(&w->loop, &c->tidy);
    uv_timer_init(&w->loop, &c->stores);
    uv_timer_init(&w->loop, &c->deadlines);
    uv_timer_init(&w->loop, &c->pace);
    uv_timer_init(&w->loop, &c->idle);
    c->tick.data = c;
    c->retry.data = c;
    c->tidy.data = c;
    c->stores.data = c;
    c->deadlines.data = c;
    c->pace.data = c;
    c->idle.data = c;
    w->cron = c;
    return 0;
}

void cron_stop(struct worker *w)
{
    struct cron *c = w->cron;

    must_be_worker(w);
    uv_close((uv_handle_t *)&c->tick, NULL);
    uv_close((uv_handle_t *)&c->retry, NULL);
    uv_close((uv_handle_t *)&c->tidy, NULL);
    uv_close((uv_handle_t *)&c->stores, NULL);
    uv_close((uv_handle_t *)&c->deadlines, NULL);
    uv_close((uv_handle_t *)&c->pace, NULL);
    uv_close((uv_handle_t *)&c->idle, NULL);
}

void cron_destroy(struct worker *w)
{
    must_be_worker(w);
    mem_free(w->cron);
    w->cron = NULL;
}
