/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that are ready and wait; see conn_ready.h. On their worker.
 */
#include "daemon/conn/conn_ready.h"

#include "daemon/command/timing.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/conn_execute.h"
#include "daemon/conn/conn_round.h"
#include "daemon/conn/conn_settle.h"
#include "daemon/conn/conn_shed.h"
#include "daemon/conn/conn_tls.h"
#include "lib/base/budgets.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

void conn_ready_defer(struct conn *c)
{
    struct worker *w = c->worker;

    must_be_worker(c->worker);
    conn_enter(c, CONN_EVENT);
    if (c->is_light) {
        conn_park(c, PARK_LIGHT);
    }
    timing_defer(&c->client, w);
    ctr_add(&w->counters, CTR_conn_deferrals, 1);
}

/* Its event had to wait. The handle stayed armed, so the event comes again if it must. */
static void serve_deferred(struct conn *c)
{
    if (c->worker->is_stopping && !io_has_more(&c->client.io)) {
        conn_settle(c); /* what is read then is counted with its event */
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

/* Serve n of a list at most, until so many units of work are done in this turn of the loop. */
static void serve_some(struct worker *w, enum conn_park where, uint32_t n, uint32_t end)
{
    struct list *list = &w->conns->parked[where];
    usec_t slice_end = 0;

    for (; n > 0 && w->loop_units < end; n--) {
        conn_shed_if_crowded(w);
        if (list_is_empty(list)) {
            break;
        }
        serve(LIST_MEMBER(list_first(list), struct conn, park), &slice_end);
    }
    conn_round_run(w);
}

void conn_ready_serve(struct worker *w)
{
    must_be_worker(w);
    must_not_be_reading();
    serve_some(w, PARK_LIGHT, w->ready_count, w->loop_units + BUDGET_loop_units);
    w->loop_units = 0;
    /* Those that yield again queue up behind the others, and wait for the loop's next turn. */
    serve_some(w, PARK_READY, w->ready_count, BUDGET_loop_units);
}
