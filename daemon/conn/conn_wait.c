/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that wait for room; see conn_wait.h. On their worker.
 */
#include "daemon/conn/conn_wait.h"

#include "daemon/conn/conn_execute.h"
#include "daemon/conn/conn_shed.h"
#include "daemon/conn/conn_upload.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

static void list_append(struct conn *c)
{
    struct worker *w = c->worker;

    if (w->waiting == NULL) {
        c->wait_next = c;
        c->wait_prev = c;
        w->waiting = c;
    } else {
        c->wait_next = w->waiting;
        c->wait_prev = w->waiting->wait_prev;
        c->wait_prev->wait_next = c;
        w->waiting->wait_prev = c;
    }
    w->waiting_count++;
}

static void list_remove(struct conn *c)
{
    struct worker *w = c->worker;

    if (c->wait_next == c) {
        w->waiting = NULL;
    } else {
        c->wait_prev->wait_next = c->wait_next;
        c->wait_next->wait_prev = c->wait_prev;
        if (w->waiting == c) {
            w->waiting = c->wait_next;
        }
    }
    w->waiting_count--;
}

void conn_wait_begin(struct conn *c)
{
    must_be_worker(c->worker);
    if (!c->is_waiting) {
        c->is_waiting = true;
        c->wait_since = conn_wait_now();
        list_append(c);
        ctr_add(&c->worker->counters, CTR_room_waits, 1);
    }
}

void conn_wait_end(struct conn *c)
{
    must_be_worker(c->worker);
    if (c->is_waiting) {
        c->is_waiting = false;
        list_remove(c);
    }
}

static void retry(struct conn *c)
{
    if (!outq_is_empty(&c->client.outq)) {
        return; /* it goes on when its replies are sent */
    }
    if (conn_upload_wants_read(c)) {
        conn_upload_read(c);
    } else {
        conn_execute_kept(c);
    }
}

void conn_wait_retry(struct worker *w)
{
    must_be_worker(w);
    must_not_be_reading();
    /* Each goes to the end before it is tried: so those that still wait stay in order. */
    for (uint32_t n = w->waiting_count; n > 0 && w->waiting != NULL; n--) {
        struct conn *c = w->waiting;

        w->waiting = c->wait_next;
        retry(c);
        conn_shed_if_crowded(w);
    }
}
