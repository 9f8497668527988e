/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conn_steps.h. On the worker.
 */
#include "daemon/conn/conn_steps.h"

#include "daemon/command/timing.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

void conn_write(struct conn *c)
{
    uint64_t written = 0;

    must_be_worker(c->worker);
    if (conn_hold(c)) {
        conn_settle(c);
        return;
    }
    struct kept *k = c->client.kept;
    enum send_status status = outq_send(&k->outq, &c->client.io, &written);
    ctr_add(&c->worker->counters, CTR_bytes_written, written);
    conn_count_work(c, written);
    c->is_light = false;
    holder_wrote(c->worker, &k->holder, written);
    conn_pin_wrote(k, written);
    (void)client_count_output(&c->client, c->worker);
    if (status == SEND_BROKEN) {
        conn_close(c);
        return;
    }
    if (written > 0) {
        c->last_active = worker_now(c->worker);
    }
    if (c->client.timed != NULL) {
        timing_client_sent(&c->client, c->worker, written);
    }
    if (status == SEND_ALL && (c->then == CONN_TURN || c->then == CONN_TASK)) {
        if (MF_LIKELY(!c->worker->is_stopping) || !conn_pass_on(c)) {
            conn_execute_kept(c);
        }
        return;
    }
    if (status == SEND_ALL) {
        client_has_taken(&c->client);
        c->wait_since = conn_wait_now(); /* if its store waits: it was not retried meanwhile */
    }
    conn_settle(c);
}

void conn_answered(struct client *client, struct span reply, bool is_composed)
{
    struct conn *c = conn_of_client(client);
    struct worker *w = c->worker;

    must_be_worker(w);
    if (conn_delay(c, reply)) {
        return; /* it continues to wait */
    }
    if (reply.len > 0 && MF_UNLIKELY((gate_read(&w->crew->gate) & GATE_LOG) != 0)) {
        (void)client_hold(client, w); /* commands before its request may have had no reply */
    }
    bool is_kept = is_composed && client_append(client, reply.ptr, reply.len);
    c->last_active = worker_now(w);
    if (!client_is_waiting(client)) {
        c->then = CONN_TURN; /* the input that follows its request */
    }
    conn_note_login(c);
    if (!is_kept || !client_count_output(&c->client, w)) {
        ctr_add(&w->counters, is_kept ? CTR_slow_drops : CTR_response_obj_oom, 1);
        conn_close(c);
        return;
    }
    conn_write(c);
}
