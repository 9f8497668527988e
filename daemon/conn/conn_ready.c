/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Serves connections that are parked or have an event; see conn_steps.h. On their worker.
 */
#include "daemon/conn/conn_steps.h"

#include <poll.h>

#include "daemon/command/timing.h"
#include "daemon/conn/conn_execute.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

void conn_ready_defer(struct conn *c)
{
    struct worker *w = c->worker;

    must_be_worker(c->worker);
    if (c->state == CONN_SHAKES) {
        conn_park(c, PARK_READY); /* serving its event would do the same */
    } else {
        conn_enter(c, CONN_EVENT);
        if (c->is_light) {
            conn_park(c, PARK_LIGHT);
        }
        timing_defer(&c->client, w);
    }
    ctr_add(&w->counters, CTR_conn_deferrals, 1);
}

/*
 * The peer shut its side down while the connection waited. It may still want the answer, or
 * have disconnected.
 */
static void on_peer_end(struct conn *c)
{
    struct pollfd p = {.fd = c->client.io.fd};

    if (poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP)) != 0) {
        conn_close(c);
    } else if (c->then == CONN_LOGIN) {
        c->then = CONN_ANSWER;
        conn_settle(c);
    } else {
        conn_arm(c, 0);
        c->client.service->peer_ended(c->client.service);
    }
}

void conn_take_event(struct conn *c)
{
    must_be_worker(c->worker);
    if (client_has_output(&c->client)) {
        conn_round_run(c->worker); /* it came first, and conn_write() may execute much */
        conn_write(c);
        if (c->client.watcher != NULL) {
            conn_stream(c);
        }
    } else if (MF_UNLIKELY(c->state == CONN_SHAKES)) {
        conn_park(c, PARK_READY);
    } else if (MF_LIKELY(c->then == CONN_INPUT)) {
        if (MF_UNLIKELY(c->client.io.tls != NULL)) {
            conn_input_alone(c);
        } else {
            conn_input(c);
        }
    } else if (c->then == CONN_LOGIN ||
               (c->then == CONN_ANSWER && client_is_looked_after(&c->client))) {
        on_peer_end(c);
    }
}

/* Serve a connection whose event was deferred. Its handle stayed armed. */
static void serve_deferred(struct conn *c)
{
    if (c->worker->is_stopping && !io_has_more(&c->client.io)) {
        conn_settle(c); /* the next read is counted with its event */
    } else {
        conn_take_event(c);
    }
}

static void serve(struct conn *c, usec_t *slice_end)
{
    conn_unpark(c);
    if (c->state == CONN_EVENT) {
        serve_deferred(c);
        return;
    }
    conn_round_run(c->worker); /* its input is in the buffer that this one may need */
    if (MF_UNLIKELY(c->state == CONN_SHAKES)) {
        conn_tls_shake(c, slice_end);
    } else {
        conn_execute_kept(c);
    }
}

/* Serve at most n of a list, until `end` units of work are done in this turn of the loop. */
static void serve_some(struct worker *w, enum conn_park where, uint32_t n, uint32_t end)
{
    usec_t slice_end = 0;

    for (; n > 0 && w->loop_units < end; n--) {
        conn_shed_if_crowded(w);
        struct conn *c = LIST_FIRST(&w->conns->parked[where], struct conn, park);
        if (c == NULL) {
            break;
        }
        serve(c, &slice_end);
    }
    conn_round_run(w);
}

void conn_ready_serve(struct worker *w)
{
    must_be_worker(w);
    must_not_be_reading();
    serve_some(w, PARK_LIGHT, w->ready_count, w->loop_units + BUDGET_loop_units);
    w->loop_units = 0;
    /* Those that yield again are appended to the list, and wait for the loop's next turn. */
    serve_some(w, PARK_READY, w->ready_count, BUDGET_loop_units);
}

/* ---- those that wait for room, or for the log -------------------------------------------- */

static void retry(struct conn *c)
{
    if (conn_upload_wants_read(c)) {
        conn_upload_read(c);
    } else {
        conn_execute_kept(c);
    }
}

void conn_ready_retry(struct worker *w, bool all)
{
    struct list *waiting = &w->conns->parked[PARK_ROOM];
    struct list round;
    struct conn *c;

    must_be_worker(w);
    must_not_be_reading();
    if (list_is_empty(waiting)) {
        return;
    }
    /* Most wait for a period, and the reclaimer may not have the CPU. */
    (void)engine_try_grace(w->engine);
    /* Each waits again before it is retried, so those that still wait stay in order. */
    list_init(&round);
    list_take_all(&round, waiting);
    while ((c = LIST_FIRST(&round, struct conn, park)) != NULL) {
        list_append(waiting, &c->park);
        if (all || !conn_wait_is_in_vain(c)) {
            retry(c);
            conn_shed_if_crowded(w);
        }
    }
}

void conn_ready_release(struct worker *w)
{
    struct conn *c = conn_hold_first(w);

    must_be_worker(w);
    must_not_be_reading();
    atomic_store(&w->awaits_log, c != NULL);
    for (; c != NULL && conn_hold_is_done(c); c = conn_hold_first(w)) {
        w->conns->held_ms = conn_wait_now();
        conn_unpark(c);
        c->client.log_state = LOG_CLEAN;
        conn_write(c); /* it may execute more, and be the last that waits */
    }
}
