/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Background work of one worker, on its thread.
 *
 * Shards. The worker does the background work of its home shards: see worker.h. If there are
 * several, one of them gets its slices after a turn, and the next one after the next turn.
 *
 * Connections. Stores that wait for room are retried after some milliseconds, unless they are
 * woken earlier. Clients that hold memory are checked for their pace while there are any. All
 * connections are checked once a second while an idle timeout is set, and whenever a connection
 * asks for it. A separate timer is armed for the first handshake or login that has a time
 * limit.
 */
#include "daemon/worker/worker.h"

#include "daemon/worker/crew.h"
#include "lib/base/mem.h"

#define HZ_MAX           500u
#define CLIENTS_PER_TICK 200u /* dynamic_hz: above this, hz doubles; the figure is Redis's */

struct cron {
    /* [worker] */
    uv_timer_t timer[CRON_TIMERS]; /* their data is the worker */
    uint32_t home_next;            /* whose turn it is */
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
    cfg->sharers = w->home_count;
}

/* ---- waiting connections ----------------------------------------------------------------- */

static void on_stores(uv_timer_t *timer)
{
    struct worker *w = timer->data;

    w->crew->duties->retry_waiting(w, true);
}

static void on_deadline(uv_timer_t *timer)
{
    struct worker *w = timer->data;

    w->crew->duties->check_deadlines(w);
}

static void on_pace(uv_timer_t *timer)
{
    struct worker *w = timer->data;

    w->crew->duties->check_pace(w);
}

static void on_idle(uv_timer_t *timer)
{
    struct worker *w = timer->data;

    w->crew->duties->check_idle(w, worker_now(w));
}

void cron_in(struct worker *w, enum cron_timer which, uint64_t ms)
{
    static const uv_timer_cb due[] = {[CRON_STORES] = on_stores,
                                      [CRON_DEADLINES] = on_deadline,
                                      [CRON_PACE] = on_pace,
                                      [CRON_IDLE] = on_idle};
    uv_timer_t *timer = &w->cron->timer[which];

    must_be_worker(w);
    if (!uv_is_active((uv_handle_t *)timer) || uv_timer_get_due_in(timer) > ms) {
        uv_timer_start(timer, due[which], ms, 0);
    }
}

/* ---- hooks ------------------------------------------------------------------------------- */

void cron_poked(struct worker *w)
{
    must_be_worker(w);
    for (uint32_t i = 0; i < w->home_count; i++) {
        home_poked(w->homes[i]);
    }
    w->crew->duties->options_changed(w);
}

void cron_after_events(struct worker *w)
{
    struct cron *c = w->cron;
    uint32_t first = c->home_next;
    bool has_worked = false;

    must_be_worker(w);
    for (uint32_t i = 0; i < w->home_count; i++) {
        uint32_t n = (first + i) % w->home_count;

        if (has_worked) {
            home_put_off(w->homes[n]);
        } else if (home_after_events(w->homes[n])) {
            has_worked = true;
            c->home_next = (n + 1) % w->home_count;
        }
    }
}

bool cron_before_block(struct worker *w)
{
    bool has_more = false;

    must_be_worker(w);
    for (uint32_t i = 0; i < w->home_count; i++) {
        has_more |= home_before_block(w->homes[i]);
    }
    if (has_more) {
        return true;
    }
    for (uint32_t i = 0; i < w->home_count; i++) {
        home_arm(w->homes[i]);
    }
    return false;
}

/*
 * Store the new home first. The check of the shard follows, at the end of this turn of the
 * loop: see roster_home() for the order.
 */
void cron_on_home(struct message *m, void *receiver)
{
    struct home *h = (struct home *)(void *)m; /* the message is the first member */
    struct worker *w = receiver;
    struct roster *r = &w->crew->roster;

    must_be_worker(w);
    must(w->home_count < WORKERS_MAX);
    w->homes[w->home_count++] = h;
    roster_move_in(r, h->number, w->id);
    home_start(h);
    roster_has_come(r, w->id);
    w->deals |= roster_wanted(r, h->number) != w->id;
}

void cron_rest(struct worker *w)
{
    must_be_worker(w);
    debug_must(w->home_count == 0 && w->conn_count == 0);
    for (unsigned i = 0; i < CRON_TIMERS; i++) {
        uv_timer_stop(&w->cron->timer[i]);
    }
}

void cron_give_homes(struct worker *w)
{
    struct roster *r = &w->crew->roster;
    uint32_t i = 0;

    must_be_worker(w);
    while (i < w->home_count) {
        struct home *h = w->homes[i];
        const uint32_t to = roster_wanted(r, h->number);

        if (to == w->id || !roster_may_go(r, to)) {
            i++;
            continue;
        }
        home_leave(h, &w->crew->workers[to], cron_on_home); /* it is at home here until then */
        w->homes[i] = w->homes[--w->home_count];
    }
}

int cron_start(struct worker *w)
{
    struct cron *c = mem_zalloc(sizeof(*c));

    must_be_worker(w);
    if (c == NULL) {
        return UV_ENOMEM;
    }
    for (unsigned i = 0; i < CRON_TIMERS; i++) {
        uv_timer_init(&w->loop, &c->timer[i]); /* cannot fail */
        c->timer[i].data = w;
    }
    for (uint32_t i = 0; i < w->home_count; i++) {
        home_start(w->homes[i]);
    }
    w->cron = c;
    return 0;
}

void cron_stop(struct worker *w)
{
    must_be_worker(w);
    for (uint32_t i = 0; i < w->home_count; i++) {
        home_stop(w->homes[i]);
    }
    for (unsigned i = 0; i < CRON_TIMERS; i++) {
        uv_close((uv_handle_t *)&w->cron->timer[i], NULL);
    }
}

void cron_destroy(struct worker *w)
{
    must_be_worker(w);
    mem_free(w->cron);
    w->cron = NULL;
}
