/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections whose replies wait for the log: see conn_hold.h. They are in a list in the order
 * of their tickets. Their place in it is that of the handshakes' list, which is long over; its
 * `since` is the ticket.
 */
#include "daemon/conn/conn_hold.h"

#include "daemon/base/log.h"
#include "daemon/conn/conn.h"
#include "daemon/worker/cron.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

#define PLACE deadlines[DEADLINE_HANDSHAKE]

static bool is_done(const struct conn *c, uint64_t ticket)
{
    return snapshots_is_logged(&c->worker->crew->snapshots, ticket);
}

static void let_go(struct conn *c)
{
    c->client.is_held = false;
    list_remove(&c->PLACE.link);
}

bool conn_hold(struct conn *c)
{
    struct worker *w = c->worker;

    must_be_worker(w);
    if (!c->client.is_held || list_has_link(&c->PLACE.link)) {
        return c->client.is_held;
    }
    /* First: whatever is done from here on brings a message. */
    atomic_store(&w->awaits_log, true);
    if (is_done(c, w->hold_ticket)) {
        c->client.is_held = false;
        return false;
    }
    if (list_is_empty(&w->held)) {
        w->held_ms = conn_wait_now();
        cron_check_deadlines_in(w, CONN_HOLD_MS);
    }
    c->PLACE.since = (msec_t)w->hold_ticket; /* its own, or that of one after it */
    list_append(&w->held, &c->PLACE.link);
    return true;
}

static struct conn *first_held(const struct worker *w)
{
    struct list_link *link = list_first(&w->held);

    return link != NULL ? LIST_MEMBER(link, struct conn, PLACE.link) : NULL;
}

void conn_hold_release(struct worker *w)
{
    struct conn *c = first_held(w);

    must_be_worker(w);
    must_not_be_reading();
    atomic_store(&w->awaits_log, c != NULL);
    for (; c != NULL && is_done(c, (uint64_t)c->PLACE.since); c = first_held(w)) {
        w->held_ms = conn_wait_now();
        let_go(c);
        conn_write(c); /* it may execute more, and be the last that waits */
    }
}

void conn_hold_check(struct worker *w)
{
    must_be_worker(w);
    if (list_is_empty(&w->held)) {
        return;
    }
    msec_t left = w->held_ms + CONN_HOLD_MS - conn_wait_now();

    if (left > 0) {
        cron_check_deadlines_in(w, (uint64_t)left);
        return;
    }
    log_warn("append, connections are closed: the disk does not take the log");
    for (struct conn *c = first_held(w); c != NULL; c = first_held(w)) {
        ctr_add(&w->counters, CTR_log_timeouts, 1);
        c->close_reason = CLOSE_ERROR;
        let_go(c);
        conn_close(c);
    }
}
