/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections whose replies wait for the log: see conn_steps.h. They are parked in the order of
 * their tickets.
 */
#include "daemon/conn/conn_steps.h"

#include "daemon/persist/append.h"
#include "daemon/worker/worker.h"
#include "lib/base/context.h"

static bool is_done(const struct conn *c, uint64_t ticket)
{
    return append_is_done(&c->worker->crew->snapshots.append, ticket);
}

static bool is_held(struct conn *c)
{
    struct worker *w = c->worker;

    if (c->state == CONN_LOG && conn_is_parked(c)) {
        return true;
    }
    /* Must come before is_done(): a ticket that is done after this causes a message. */
    atomic_store(&w->awaits_log, true);
    if (is_done(c, w->hold_ticket)) {
        c->client.log_state = LOG_CLEAN;
        return false;
    }
    if (list_is_empty(&w->conns->parked[PARK_LOG])) {
        w->conns->held_ms = conn_wait_now();
        cron_in(w, CRON_DEADLINES, CONN_HOLD_MS);
    }
    c->client.kept->hold_ticket = w->hold_ticket; /* its own, or a later one */
    return true;
}

bool conn_hold(struct conn *c)
{
    must_be_worker(c->worker);
    return MF_UNLIKELY(c->client.log_state == LOG_HELD) && is_held(c);
}

struct conn *conn_hold_first(const struct worker *w)
{
    must_be_worker(w);
    return LIST_FIRST(&w->conns->parked[PARK_LOG], struct conn, park);
}

bool conn_hold_is_done(const struct conn *c)
{
    must_be_worker(c->worker);
    return is_done(c, c->client.kept->hold_ticket);
}
