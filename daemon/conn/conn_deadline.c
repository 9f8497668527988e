/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handshakes and logins that take too long; see conn_deadline.h. On the worker.
 */
#include "daemon/conn/conn_deadline.h"

#include "daemon/base/log.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/conn_tls.h"
#include "daemon/options/settings.h"
#include "daemon/worker/cron.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

/* Milliseconds; 0: no limit. */
static msec_t limit_of(const struct worker *w, enum conn_deadline which)
{
    return which == DEADLINE_HANDSHAKE ? TLS_HANDSHAKE_MS
                                       : (msec_t)w->settings->auth_timeout_s * 1000;
}

void conn_deadline_set(struct conn *c, enum conn_deadline which)
{
    struct worker *w = c->worker;
    struct conn_queue *queue = &w->deadlines[which];
    struct conn_place *place = &c->deadlines[which];
    msec_t limit = limit_of(w, which);

    must_be_worker(w);
    if (limit == 0 || place->since != 0) {
        return;
    }
    place->since = conn_wait_now();
    place->next = NULL;
    place->prev = queue->last;
    if (queue->last != NULL) {
        queue->last->deadlines[which].next = c;
    } else {
        queue->first = c;
        cron_check_deadlines_in(w, (uint64_t)limit);
    }
    queue->last = c;
}

void conn_deadline_clear(struct conn *c, enum conn_deadline which)
{
    struct conn_queue *queue = &c->worker->deadlines[which];
    struct conn_place *place = &c->deadlines[which];

    must_be_worker(c->worker);
    if (place->since == 0) {
        return;
    }
    place->since = 0;
    if (place->prev != NULL) {
        place->prev->deadlines[which].next = place->next;
    } else {
        queue->first = place->next;
    }
    if (place->next != NULL) {
        place->next->deadlines[which].prev = place->prev;
    } else {
        queue->last = place->prev;
    }
}

void conn_deadline_clear_all(struct conn *c)
{
    for (unsigned which = 0; which < DEADLINES; which++) {
        conn_deadline_clear(c, (enum conn_deadline)which);
    }
}

static void close_late(struct conn *c, enum conn_deadline which)
{
    if (c->is_shaking) {
        tls_handshake_failed(c->client.io.tls, "too slow");
    }
    if (which == DEADLINE_LOGIN) {
        ctr_add(&c->worker->counters, CTR_auth_timeouts, 1);
        log_info("auth, connection closed (did not authenticate in time)");
    }
    c->close_reason = CLOSE_IDLE;
    conn_close(c);
}

void conn_deadline_check(struct worker *w)
{
    msec_t now = conn_wait_now();

    must_be_worker(w);
    for (unsigned i = 0; i < DEADLINES; i++) {
        enum conn_deadline which = (enum conn_deadline)i;
        struct conn_queue *queue = &w->deadlines[i];
        msec_t limit = limit_of(w, which);

        while (queue->first != NULL && now - queue->first->deadlines[i].since >= limit) {
            close_late(queue->first, which);
        }
        if (queue->first != NULL) {
            msec_t left = queue->first->deadlines[i].since + limit - now;

            cron_check_deadlines_in(w, (uint64_t)left);
        }
    }
}
