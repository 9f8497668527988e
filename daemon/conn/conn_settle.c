/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conn_settle.h. On the worker.
 */
#include "daemon/conn/conn_settle.h"

#include "daemon/command/timing.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/conn_auth.h"
#include "daemon/conn/conn_drain.h"
#include "daemon/conn/conn_hold.h"
#include "daemon/conn/conn_pass.h"
#include "daemon/conn/conn_pin.h"
#include "daemon/conn/conn_wait.h"
#include "lib/base/context.h"

/* ---- lists ------------------------------------------------------------------------------- */

/* Does whoever is parked for that wait for its next turn? */
static bool is_ready_state(uint8_t state)
{
    return state == CONN_TURN || state == CONN_EVENT || state == CONN_SHAKES;
}

void conn_unpark(struct conn *c)
{
    must_be_worker(c->worker);
    if (list_has_link(&c->park)) {
        list_remove(&c->park);
        c->worker->ready_count -= is_ready_state(c->state);
    }
}

void conn_park(struct conn *c, enum conn_park where)
{
    must_be_worker(c->worker);
    debug_must(is_ready_state(c->state) == (where == PARK_LIGHT || where == PARK_READY));
    conn_unpark(c);
    list_append(&c->worker->conns->parked[where], &c->park);
    c->worker->ready_count += is_ready_state(c->state);
}

/* ---- events ------------------------------------------------------------------------------ */

void conn_arm(struct conn *c, int events)
{
    must_be_worker(c->worker);
    if (events == c->events) {
        return;
    }
    c->events = (uint8_t)events;
    if (events == 0) {
        uv_poll_stop(&c->poll);
    } else {
        uv_poll_start(&c->poll, events, conn_poll_fn(c->worker));
    }
}

/* ---- states ------------------------------------------------------------------------------ */

/* It has entered its state: poll for what that waits for, and park it. */
static void begin_waiting(struct conn *c, bool is_parked)
{
    switch ((enum conn_state)c->state) {
    case CONN_INPUT:
        conn_arm(c, io_read_events(&c->client.io));
        if (MF_UNLIKELY(c->client.kept != NULL)) {
            client_drop_kept(&c->client);
        }
        break;
    case CONN_EVENT:
    case CONN_TURN:
        /* It stays armed as it was: re-arming twice would cost more. */
        if (!is_parked) {
            conn_park(c, PARK_READY);
        }
        break;
    case CONN_TASK:
        conn_arm(c, 0);
        task_add(c->worker, &c->task);
        break;
    case CONN_ROOM:
        conn_arm(c, 0);
        if (!is_parked) {
            conn_park(c, PARK_ROOM);
        }
        conn_wait_settle(c);
        break;
    case CONN_ANSWER:
        conn_arm(c, 0);
        conn_auth_note(c);
        break;
    case CONN_LOGIN:
        conn_arm(c, UV_DISCONNECT);
        conn_auth_note(c);
        break;
    case CONN_OUTPUT:
        conn_arm(c, io_write_events(&c->client.io));
        break;
    case CONN_LOG:
        conn_arm(c, 0);
        if (!is_parked) {
            conn_park(c, PARK_LOG);
        }
        break;
    case CONN_BEGINS:
    case CONN_HEADER:
    case CONN_SHAKES:
    case CONN_ROUND:
    case CONN_ENDS:
    case CONN_ANNOUNCES:
    case CONN_LINGERS:
    case CONN_CLOSED:
        break; /* whoever has brought it here knows what it waits for */
    }
}

void conn_enter(struct conn *c, enum conn_state state)
{
    bool stays = state == c->state && conn_is_parked(c);

    must_be_worker(c->worker);
    debug_must(c->state < CONN_ANNOUNCES || state >= c->state); /* it ends but once */
    if (!stays) {
        conn_unpark(c);
    }
    task_remove(c->worker, &c->task);
    c->state = (uint8_t)state;
    begin_waiting(c, stays);
}

/* Replies of it wait. */
static void settle_output(struct conn *c)
{
    if (MF_UNLIKELY(c->worker->is_stopping) && conn_pass_on(c)) {
        return;
    }
    conn_enter(c, conn_hold(c) ? CONN_LOG : CONN_OUTPUT);
    if (c->client.kept->outq.is_pinned) {
        conn_pin_begin(c);
    }
}

/* The other cases: replies wait, or it waits for something else. */
static MF_NOINLINE void settle(struct conn *c)
{
    if (c->state >= CONN_ANNOUNCES) {
        return;
    }
    if (client_has_output(&c->client)) {
        settle_output(c);
    } else if (c->then == CONN_ENDS) {
        conn_end(c);
    } else if (c->then != CONN_INPUT && c->then != CONN_TURN) {
        conn_enter(c, (enum conn_state)c->then);
    } else if (MF_UNLIKELY(c->worker->is_stopping) && conn_drain_settle(c)) {
        return;
    } else if (c->then == CONN_INPUT && MF_UNLIKELY(io_has_more(&c->client.io))) {
        /* No event announces what TLS has read already. */
        conn_arm(c, io_read_events(&c->client.io));
        timing_defer(&c->client, c->worker);
        conn_enter(c, CONN_EVENT);
    } else {
        conn_enter(c, (enum conn_state)c->then);
    }
}

void conn_settle(struct conn *c)
{
    must_be_worker(c->worker);
    /* As mostly: it has waited for input, keeps nothing and waits for input again. */
    if (MF_LIKELY(c->state == CONN_INPUT && c->then == CONN_INPUT && c->client.kept == NULL &&
                  c->client.io.tls == NULL && !c->worker->is_stopping)) {
        debug_must(!conn_is_parked(c) && !task_is_waiting(&c->task));
        conn_arm(c, UV_READABLE);
        return;
    }
    settle(c);
}
