/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The check of all connections of a worker: idle clients are disconnected, so are those that
 * keep too much dead memory pinned, stalled bodies give way. On that worker.
 */
#include "daemon/conn/conn_scan.h"

#include "daemon/conn/conn.h"
#include "daemon/conn/conn_state.h"
#include "daemon/conn/conn_upload.h"
#include "daemon/options/settings.h"
#include "daemon/worker/cron.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

static bool is_idle_too_long(const struct conn *c, msec_t now)
{
    uint32_t timeout_s = c->worker->settings->idle_timeout_s;

    return timeout_s != 0 && !client_is_waiting(&c->client) && c->client.watcher == NULL &&
           now - c->last_active > (msec_t)timeout_s * 1000;
}

static void scan_one(struct conn *c, msec_t now)
{
    struct counters *ctr = &c->worker->counters;

    if (c->is_waiting) {
        return; /* conn_wait_retry() looks after it */
    }
    if (is_idle_too_long(c, now)) {
        ctr_add(ctr, CTR_idle_kicks, 1);
        c->close_reason = CLOSE_IDLE;
        conn_close(c);
    } else if (c->client.outq.is_pinned && value_pin_is_overdue(&c->client.outq.pin)) {
        ctr_add(ctr, CTR_slow_drops, 1);
        conn_close(c);
    } else if (conn_upload_is_stalled(c, now)) {
        conn_upload_shed(c);
    }
}

void conn_scan(struct worker *w, msec_t now)
{
    struct conn *next;
    bool looks_again = false;

    must_be_worker(w);
    for (struct conn *c = w->conns; c != NULL; c = next) {
        next = c->next;
        scan_one(c, now);
        if (!c->is_closing) {
            looks_again |= c->client.outq.is_pinned || c->upload != NULL;
        }
    }
    if (looks_again) {
        cron_wake_ms(w, CONN_WATCH_MS);
    }
}
