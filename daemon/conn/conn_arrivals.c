/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conn.h.
 */
#include "daemon/conn/conn.h"

#include "daemon/base/log.h"
#include "daemon/conn/conn_steps.h"
#include "lib/base/budgets.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"

bool conn_adopt(struct worker *w, int fd, const struct conn_origin *origin)
{
    struct conn *c = conn_create(w, fd, origin);

    must_be_worker(w);
    if (c == NULL) {
        return false;
    }
    if (MF_LIKELY(!conn_proxied_is_due(c))) {
        conn_begin(c);
    } else {
        conn_proxied_begin(c);
        if (w->is_stopping) {
            conn_drain(c);
        }
    }
    return true;
}

/* On the worker: the next descriptor becomes a connection, or is closed. */
static void adopt_next(struct conn_arrivals *b, struct worker *w)
{
    const struct conn_origin *origin = b->items[b->adopted].origin;

    if (!conn_adopt(w, b->items[b->adopted].fd, origin)) {
        log_warn("listener, connection dropped (no memory)");
        crew_conn_closed(w, origin);
    }
    b->adopted++;
    w->adopted_count++;
    w->loop_units += COST_EVENT_UNITS;
}

static void on_batch(struct message *m, void *receiver)
{
    struct conn_arrivals *b = (struct conn_arrivals *)(void *)m; /* its first member */
    struct worker *w = receiver;

    must_be_worker(w);
    worker_now(w);
    if (b->is_deferred) {
        b->is_deferred = false;
        w->deferred_batches--;
    }
    while (b->adopted < b->count && (w->adopted_count < CONN_ADOPTED_MAX || w->is_stopping)) {
        adopt_next(b, w);
    }
    if (b->adopted == b->count) {
        mem_free(b);
        return;
    }
    b->is_deferred = true;
    w->deferred_batches++;
    ctr_add(&w->counters, CTR_conn_deferrals, b->count - b->adopted);
    mailbox_post(&w->mailbox, &b->message); /* delivered in the loop's next turn */
}

struct conn_arrivals *conn_arrivals_create(void)
{
    struct conn_arrivals *b = mem_alloc(sizeof(*b));

    if (b != NULL) {
        b->message.fn = on_batch;
        b->count = 0;
        b->adopted = 0;
        b->is_deferred = false;
    }
    return b;
}

void conn_arrivals_put(struct conn_arrivals *b, int fd, const struct conn_origin *origin)
{
    must(b->count < CONN_ARRIVALS_MAX);
    b->items[b->count].fd = fd;
    b->items[b->count].origin = origin;
    b->count++;
}

void conn_arrivals_post(struct conn_arrivals **b, struct worker *w)
{
    struct message *m = &(*b)->message;

    *b = NULL;
    mailbox_post(&w->mailbox, m);
}
