/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that wait for room; see conn_steps.h. On their worker.
 */
#include "daemon/conn/conn_steps.h"

#include "daemon/worker/worker.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

/*
 * Retry intervals. A connection in a line is woken when there is room. It is also retried after
 * PLACE_MS, because room may appear without a wake-up. Other waits (for blocks, a larger index,
 * a claim or a flush) are retried after OTHERS_MS.
 */
#define PLACE_MS  10u
#define OTHERS_MS 1u

void conn_wait_begin(struct conn *c)
{
    struct worker *w = c->worker;

    must_be_worker(w);
    if (w->copy_waiter.memory != NULL && w->copy_owner == NULL) {
        w->copy_owner = &c->client; /* it has joined the line just now */
    }
    if (!conn_is_waiting(c)) {
        c->wait_since = conn_wait_now();
        c->then = CONN_ROOM;
        ctr_add(&w->counters, CTR_room_waits, 1);
    }
}

static void leave_line_of_copies(struct conn *c)
{
    struct worker *w = c->worker;

    if (w->copy_owner == &c->client) {
        line_leave(&w->copy_waiter);
        w->copy_owner = NULL;
    }
}

void conn_wait_end(struct conn *c)
{
    must_be_worker(c->worker);
    if (conn_is_waiting(c)) {
        c->then = CONN_INPUT;
        leave_line_of_copies(c);
    }
}

void conn_wait_put_off(struct conn *c)
{
    must_be_worker(c->worker);
    if (conn_is_waiting(c)) {
        leave_line_of_copies(c);
        conn_upload_leave_lines(c);
    }
}

/* Its place in the line of a shard; NULL: it has none. */
static const struct waiter *place_of(const struct conn *c)
{
    const struct waiter *place = conn_upload_waiter(c);

    if (place != NULL && place->memory != NULL) {
        return place;
    }
    place = &c->worker->copy_waiter;
    return c->worker->copy_owner == &c->client && place->memory != NULL ? place : NULL;
}

void conn_wait_settle(struct conn *c)
{
    bool is_woken = place_of(c) != NULL || conn_upload_has_place(c);

    must_be_worker(c->worker);
    cron_in(c->worker, CRON_STORES, is_woken ? PLACE_MS : OTHERS_MS);
}

bool conn_wait_is_in_vain(const struct conn *c)
{
    const struct waiter *place = place_of(c);

    must_be_worker(c->worker);
    return place != NULL && !atomic_load_explicit(&place->is_called, memory_order_relaxed);
}
