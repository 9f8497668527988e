/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conn_steps.h. On the worker.
 */
#include "daemon/conn/conn_steps.h"

#include "daemon/command/timing.h"
#include "daemon/worker/worker.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"

/* Maximum number of reads at a time that discard input, of the size of the output buffer. */
#define DISCARD_READS 8

/* ---- lists ------------------------------------------------------------------------------- */

/* Does a connection in this state wait for its next turn? */
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
        uv_poll_start(&c->poll, events, c->worker->conns->on_event);
    }
}

/* ---- the end ----------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct conn *c = handle->data;

    c->magic = 0;
    mem_free(c);
}

void conn_release(struct conn *c)
{
    struct worker *w = c->worker;

    must_be_worker(w);
    conn_upload_drop(c);
    if (c->has_place) {
        addresses_leave(&w->crew->access.addresses, conn_peer_id(&c->client));
    }
    client_fini(&c->client, w);
    buf_fini(&c->in);
}

void conn_close(struct conn *c)
{
    struct worker *w = c->worker;

    must_be_worker(c->worker);
    if (conn_is_closed(c)) {
        return;
    }
    must(c->state != CONN_ROUND); /* every way to here has run the round */
    conn_log(c, WATCH_CONN_CLOSE);
    conn_wait_end(c);
    conn_enter(c, CONN_CLOSED);
    conn_deadline_clear(c);
    conn_leave_idle(c);
    conn_list_remove(c);
    /* It leaves the poll set before its number can be given to another socket. */
    uv_close((uv_handle_t *)&c->poll, on_closed);
    conn_release(c);
    ctr_add(&w->counters, CTR_curr_connections, (uint64_t)-1);
    crew_conn_closed(w, c->client.origin);
}

bool conn_discard(struct conn *c)
{
    must_be_worker(c->worker);
    /* Not into the buffer for reading: other connections may have input there. */
    return io_discard(&c->client.io, c->worker->obuf, WORKER_OBUF_BYTES, DISCARD_READS);
}

/* Close a connection whose replies are all in the kernel. */
static void end(struct conn *c)
{
    (void)io_send_end(&c->client.io);
    (void)conn_discard(c);
    if (c->close_reason != CLOSE_REFUSED) {
        c->close_reason = CLOSE_NORMAL;
    }
    conn_close(c);
}

/* ---- states ------------------------------------------------------------------------------ */

void conn_note_login(struct conn *c)
{
    struct client *client = &c->client;

    must_be_worker(c->worker);
    if (client->login_state == LOGIN_NEEDED || c->then == CONN_LOGIN) {
        conn_deadline_set(c, DEADLINE_LOGIN);
    } else {
        conn_deadline_clear(c);
    }
    if (client->login_failures >= CONN_AUTH_FAILURES_MAX && !client_is_waiting(client)) {
        c->then = CONN_ENDS;
    }
}

void conn_leave_state(struct conn *c)
{
    must_be_worker(c->worker);
    conn_unpark(c);
    task_remove(c->worker, &c->task);
    conn_arm(c, 0);
    c->state = CONN_BEGINS;
}

/* The connection has entered its state: poll for the event of that state, or park it. */
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
        /* Keep the poll handle armed: re-arming it twice would cost more. */
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
        conn_arm(c, client_is_looked_after(&c->client) ? UV_DISCONNECT : 0);
        break;
    case CONN_LOGIN:
        conn_arm(c, UV_DISCONNECT);
        conn_note_login(c);
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
        break; /* the caller arms and parks it, if it has to wait */
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
    if (state != CONN_TASK) {
        task_remove(c->worker, &c->task);
    }
    c->state = (uint8_t)state;
    begin_waiting(c, stays);
}

/* Watch the pace of a connection whose queue begins with a pinned value: see conn_pin.c. */
static void watch_pin(struct conn *c)
{
    struct worker *w = c->worker;
    struct pin_pace *pin = &c->client.kept->pin;

    if (!pace_is_listed(&pin->pace)) {
        pin->sent = 0;
        pace_note(&w->conns->pins_new, &pin->pace, w->now, 0);
        cron_in(w, CRON_PACE, CONN_PACE_PINS_MS);
    }
}

/* Replies of it wait. */
static void settle_output(struct conn *c)
{
    conn_wait_put_off(c);
    conn_enter(c, conn_hold(c) ? CONN_LOG : CONN_OUTPUT);
    if (c->client.kept->outq.is_pinned) {
        watch_pin(c);
    }
}

/* While the server stops it may have been closed instead. */
static bool is_drained(struct conn *c)
{
    bool (*drains)(struct conn * c) = c->worker->conns->drains;

    return drains != NULL && drains(c);
}

/* The other cases of conn_settle(): replies wait, or the next state is not the usual one. */
static MF_NOINLINE void settle(struct conn *c)
{
    if (c->state >= CONN_ANNOUNCES || is_drained(c)) {
        return;
    }
    if (client_has_output(&c->client)) {
        settle_output(c);
    } else if (c->then == CONN_ENDS) {
        end(c);
    } else if (c->then == CONN_INPUT && io_has_more(&c->client.io)) {
        /* No event announces bytes that TLS has read from the socket already. */
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
    /* The common case: it has waited for input, keeps nothing and waits for input again. */
    if (MF_LIKELY(c->state == CONN_INPUT && c->then == CONN_INPUT && c->client.kept == NULL &&
                  c->client.io.tls == NULL && !c->worker->is_stopping)) {
        debug_must(!conn_is_parked(c) && !task_is_waiting(&c->task));
        conn_arm(c, UV_READABLE);
        return;
    }
    settle(c);
}

void conn_dismiss(struct conn *c)
{
    const struct client *client = &c->client;

    must_be_worker(c->worker);
    if (client_is_control(client) || client->service != NULL || client->watcher != NULL ||
        client_is_waiting(client) || c->state >= CONN_ANNOUNCES) {
        return;
    }
    c->close_reason = CLOSE_SHUTDOWN;
    if (client_has_output(client)) {
        c->then = CONN_ENDS;
        conn_settle(c);
    } else {
        conn_close(c);
    }
}
