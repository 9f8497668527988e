/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that wait for room; see conn_wait.h. On their worker.
 */
#include "daemon/conn/conn_wait.h"

#include "daemon/conn/conn_execute.h"
#include "daemon/conn/conn_shed.h"
#include "daemon/conn/conn_upload.h"
#include "daemon/worker/cron.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

/*
 * Who waits in a line is woken, and is tried again after so many milliseconds in case that room
 * was made where nobody could tell. Others are tried again sooner: blocks, and what waits for a
 * larger index, for a claim or for a flush.
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

void conn_wait_end(struct conn *c)
{
    struct worker *w = c->worker;

    must_be_worker(w);
    if (conn_is_waiting(c)) {
        c->then = CONN_INPUT;
        if (w->copy_owner == &c->client) {
            line_leave(&w->copy_waiter);
            w->copy_owner = NULL;
        }
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
    cron_retry_in(c->worker, is_woken ? PLACE_MS : OTHERS_MS);
}

static void retry(struct conn *c)
{
    if (conn_upload_wants_read(c)) {
        conn_upload_read(c);
    } else {
        conn_execute_kept(c);
    }
}

/* In a line, and not called: it would find nothing. */
static bool is_in_vain(const struct conn *c)
{
    const struct waiter *place = place_of(c);

    return place != NULL && !atomic_load_explicit(&place->is_called, memory_order_relaxed);
}

void conn_wait_retry(struct worker *w, bool all)
{
    struct list *waiting = &w->conns->parked[PARK_ROOM];
    struct list round;
    struct list_link *link;

    must_be_worker(w);
    must_not_be_reading();
    if (list_is_empty(waiting)) {
        return;
    }
    /* Most wait for a period, and the reclaimer may not have the CPU. */
    (void)engine_try_grace(w->engine);
    /* Each waits again before it is looked at: so those that still wait stay in order. */
    list_init(&round);
    list_take_all(&round, waiting);
    while ((link = list_first(&round)) != NULL) {
        struct conn *c = LIST_MEMBER(link, struct conn, park);

        list_append(waiting, link);
        if (all || !is_in_vain(c)) {
            retry(c);
            conn_shed_if_crowded(w);
        }
    }
}
