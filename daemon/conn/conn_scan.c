/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The check of all connections of a worker: idle clients are disconnected. On that worker.
 */
#include "daemon/conn/conn_scan.h"

#include "daemon/conn/conn.h"
#include "daemon/conn/conn_state.h"
#include "daemon/options/settings.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

static bool is_idle_too_long(const struct conn *c, msec_t now)
{
    uint32_t timeout_s = c->worker->settings->idle_timeout_s;

    return timeout_s != 0 && c->client.watcher == NULL &&
           (!client_is_waiting(&c->client) || !outq_is_empty(&c->client.outq)) &&
           now - c->last_active > (msec_t)timeout_s * 1000;
}

void conn_scan(struct worker *w, msec_t now)
{
    struct conn *next;

    must_be_worker(w);
    for (struct conn *c = w->conns; c != NULL; c = next) {
        next = c->next;
        /* One that waits for room is looked after by conn_wait_retry(). */
        if (!c->is_waiting && is_idle_too_long(c, now)) {
            ctr_add(&w->counters, CTR_idle_kicks, 1);
            c->close_reason = CLOSE_IDLE;
            conn_close(c);
        }
    }
}
