/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections whose replies wait for the log: see conn_hold.h. They are parked in the order of
 * their tickets.
 */
#include "daemon/conn/conn_hold.h"

#include "daemon/base/log.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/conn_settle.h"
#include "daemon/worker/cron.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

static bool is_done(const struct conn *c, uint64_t ticket)
{
    return snapshots_is_logged(&c->worker->crew->snapshots, ticket);
}

static bool is_held(struct conn *c)
{
    struct worker *w = c->worker;

    if (c->state == CONN_LOG && conn_is_parked(c)) {
        return true;
    }
    /* First: whatever is done from here on brings a message. */
    atomic_store(&w->awaits_log, true);
    if (is_done(c, w->hold_ticket)) {
        c->client.log_state = LOG_CLEAN;
        return false;
    }
    if (list_is_empty(&w->conns->parked[PARK_LOG])) {
        w->conns->held_ms = conn_wait_now();
        cron_check_deadlines_in(w, CONN_HOLD_MS);
    }
    c->client.kept->hold_ticket = w->hold_ticket; /* its own, or that of one after it */
    return true;
}

bool conn_hold(struct conn *c)
{
    must_be_worker(c->worker);
    return MF_UNLIKELY(c->client.log_state == LOG_HELD) && is_held(c);
}

static struct conn *first_held(const struct worker *w)
{
    struct list_link *link = list_first(&w->conns->parked[PARK_LOG]);

    return link != NULL ? LIST_MEMBER(link, struct conn, park) : NULL;
}

void conn_hold_release(struct worker *w)
{
    struct conn *c = first_held(w);

    must_be_worker(w);
    must_not_be_reading();
    atomic_store(&w->awaits_log, c != NULL);
    for (; c != NULL && is_done(c, c->client.kept->hold_ticket); c = first_held(w)) {
        w->conns->held_ms = conn_wait_now();
        conn_unpark(c);
        c->client.log_state = LOG_CLEAN;
        conn_write(c); /* it may execute more, and be the last that waits */
    }
}

void conn_hold_check(struct worker *w)
{
    must_be_worker(w);
    if (list_is_empty(&w->conns->parked[PARK_LOG])) {
        return;
    }
    msec_t left = w->conns->held_ms + CONN_HOLD_MS - conn_wait_now();

    if (left > 0) {
        cron_check_deadlines_in(w, (uint64_t)left);
        return;
    }
    log_warn("append, connections are closed: the disk does not take the log");
    for (struct conn *c = first_held(w); c != NULL; c = first_held(w)) {
        ctr_add(&w->counters, CTR_log_timeouts, 1);
        c->close_reason = CLOSE_ERROR;
        conn_close(c);
    }
}
