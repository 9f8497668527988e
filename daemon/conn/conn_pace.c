/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of clients that are too slow, or wait for too long; see conn_steps.h. On their worker.
 */
#include "daemon/conn/conn_steps.h"

#include "daemon/base/log.h"
#include "daemon/worker/worker.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

void conn_pace_check(struct worker *w)
{
    msec_t now = worker_now(w);

    must_be_worker(w);
    must_not_be_reading();
    if (now - w->conns->pins_checked >= CONN_PACE_PINS_MS) {
        w->conns->pins_checked = now;
        conn_pin_check(w, now);
    }
    if (conn_upload_check(w, now)) {
        cron_in(w, CRON_PACE, CONN_PACE_UPLOADS_MS);
    } else if (conn_pin_has_any(w)) {
        cron_in(w, CRON_PACE, CONN_PACE_PINS_MS);
    }
}

/* ---- deadlines --------------------------------------------------------------------------- */

static void close_late(struct conn *c, enum conn_deadline which)
{
    bool is_shaking = c->state == CONN_SHAKES;

    if (is_shaking) {
        tls_handshake_failed(c->client.io.tls, "too slow");
    }
    if (which == DEADLINE_LOGIN || (is_shaking && client_needs_login(&c->client))) {
        ctr_add(&c->worker->counters, CTR_auth_timeouts, 1);
        log_info("auth, connection closed (did not authenticate in time)");
    }
    if (c->state == CONN_HEADER) {
        conn_proxied_failed(c, "its header is late");
        return;
    }
    c->close_reason = CLOSE_IDLE;
    conn_close(c);
}

/* The one that began first; NULL: there is none. */
static struct conn *find_first(const struct worker *w, enum conn_deadline which)
{
    return LIST_FIRST(&w->conns->deadlines[which], struct conn, deadline_link);
}

/* Close those that wait for the log while it makes no progress. */
static void check_held(struct worker *w)
{
    if (list_is_empty(&w->conns->parked[PARK_LOG])) {
        return;
    }
    msec_t left = w->conns->held_ms + CONN_HOLD_MS - conn_wait_now();

    if (left > 0) {
        cron_in(w, CRON_DEADLINES, (uint64_t)left);
        return;
    }
    log_warn("append, connections are closed because the log cannot be synced in time");
    for (struct conn *c = conn_hold_first(w); c != NULL; c = conn_hold_first(w)) {
        ctr_add(&w->counters, CTR_log_timeouts, 1);
        c->close_reason = CLOSE_ERROR;
        conn_close(c);
    }
}

void conn_pace_check_deadlines(struct worker *w)
{
    msec_t now = conn_wait_now();

    must_be_worker(w);
    check_held(w);
    conn_delay_check(w, now);
    for (unsigned i = 0; i < DEADLINES; i++) {
        enum conn_deadline which = (enum conn_deadline)i;
        msec_t limit = conn_deadline_limit(w, which);
        struct conn *c = find_first(w, which);

        while (c != NULL && limit > 0 && now - c->deadline_since >= limit) {
            close_late(c, which);
            c = find_first(w, which);
        }
        if (c != NULL && limit > 0) {
            cron_in(w, CRON_DEADLINES, (uint64_t)(c->deadline_since + limit - now));
        }
    }
}

void conn_pace_options_changed(struct worker *w)
{
    must_be_worker(w);
    conn_idle_changed(w);
    if (w->conns->idle.count > 0) {
        cron_in(w, CRON_IDLE, 0); /* the clock may have been set */
    }
    conn_pace_check_deadlines(w);
}
