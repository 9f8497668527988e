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

void conn_wait_begin(struct conn *c)
{
    struct worker *w = c->worker;

    must_be_worker(w);
    if (!conn_is_waiting(c)) {
        c->wait_since = conn_wait_now();
        list_append(&w->waiting, &c->wait_link);
        w->waiting_count++;
        ctr_add(&w->counters, CTR_room_waits, 1);
    }
}

void conn_wait_end(struct conn *c)
{
    must_be_worker(c->worker);
    if (conn_is_waiting(c)) {
        list_remove(&c->wait_link);
        c->worker->waiting_count--;
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
    if (list_is_empty(&w->waiting)) {
        return;
    }
    /* Most wait for a period, and the reclaimer may not have the CPU. */
    (void)engine_try_grace(w->engine);
    /* Each goes to the end before it is tried: so those that still wait stay in order. */
    for (uint32_t n = w->waiting_count; n > 0 && !list_is_empty(&w->waiting); n--) {
        struct list_link *link = list_first(&w->waiting);

        list_append(&w->waiting, link);
        retry(LIST_MEMBER(link, struct conn, wait_link));
        conn_shed_if_crowded(w);
    }
}
