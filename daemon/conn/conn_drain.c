/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draining; see conn_steps.h. On the worker of the connections. The worker limits the time:
 * when it is used up, all connections are closed in their present state.
 */
#include "daemon/conn/conn_steps.h"

#include "daemon/worker/watch.h"
#include "lib/base/context.h"

/*
 * Number of checks after which a peer is no longer waited for that has acknowledged everything
 * and sent nothing. Clients in a pool notice the end only when they are used again.
 */
#define QUIET_CHECKS 4

/* A connection without traffic for this long was not about to send, milliseconds. */
#define IDLE_MS 1000

/* Has nothing happened for a while, and is nothing to be finished? */
static bool is_idle(const struct conn *c)
{
    return c->worker->now - c->last_active >= IDLE_MS && c->drain_bytes == 0 &&
           !client_has_output(&c->client) && !conn_is_kept(c) && c->client.watcher == NULL &&
           io_unsent(&c->client.io) == 0;
}

static void close_overdue(struct conn *c)
{
    /* The kernel still sends queued output, unless there is unread input. */
    (void)conn_discard(c);
    conn_close(c);
}

void conn_drain(struct conn *c)
{
    must_be_worker(c->worker);
    must_not_be_reading();
    c->close_reason = CLOSE_SHUTDOWN;
    if (c->worker->phase >= WORKER_OVERDUE) {
        close_overdue(c);
        return;
    }
    if (conn_pass_on(c)) {
        return;
    }
    if (c->state == CONN_SHAKES || c->state == CONN_HEADER) {
        conn_close(c);
        return;
    }
    if (c->state >= CONN_ANNOUNCES) {
        return;
    }
    c->drain_bytes = io_unread(&c->client.io);
    c->was_idle = is_idle(c);
    if (c->client.watcher != NULL) {
        conn_stream(c);
    }
    conn_settle(c);
}

/*
 * The kernel has all replies: shut down the sending side and linger. Called again until the
 * shutdown has succeeded.
 */
static void begin_end(struct conn *c)
{
    must_not_be_reading();
    if (c->state == CONN_LINGERS) {
        return;
    }
    if (!io_send_end(&c->client.io)) {
        conn_enter(c, CONN_ANNOUNCES);
        conn_arm(c, UV_WRITABLE);
        return;
    }
    conn_enter(c, CONN_LINGERS);
    c->then = CONN_ENDS;
    conn_deadline_clear(c);
    watch_remove(&c->client.watcher);
    conn_upload_drop(c);
    buf_fini(&c->in);
    if (c->was_idle) {
        conn_close(c);
    } else {
        conn_arm(c, UV_READABLE);
    }
}

/* conns.drains: it is about to wait for something. */
static bool settle(struct conn *c)
{
    if (client_has_output(&c->client)) {
        return conn_pass_on(c);
    }
    if (c->then == CONN_ENDS) {
        begin_end(c);
        return true;
    }
    if (c->then != CONN_INPUT && c->then != CONN_TURN) {
        return false;
    }
    if (conn_pass_on(c)) {
        return true;
    }
    if (conn_is_kept(c) || conn_pass_has_input(c) || conn_passes_later(c)) {
        return false;
    }
    begin_end(c);
    return true;
}

void conn_drain_all(struct worker *w)
{
    struct conn *next;

    must_be_worker(w);
    worker_now(w);
    w->conns->drains = settle;
    for (struct conn *c = w->conns->first; c != NULL; c = next) {
        next = c->next;
        conn_drain(c);
    }
    conn_delay_end_all(w);
}

/* Is a reply in progress that is composed in more than one turn? */
static bool is_in_reply(const struct conn *c)
{
    return client_has_rest(&c->client) || client_dumps(&c->client);
}

/*
 * The time to execute requests has passed: drop the requests after the present reply. A store
 * that waits for room is in the middle of its request and continues.
 */
static void finish_reply(struct conn *c)
{
    size_t kept = client_has_rest(&c->client) ? c->client.kept->rest.line_bytes : 0;

    if (conn_is_waiting(c) || conn_pass_on(c) || conn_passes_later(c)) {
        return;
    }
    if (c->client.watcher != NULL) {
        conn_close(c); /* it had time to take the lines */
        return;
    }
    c->drain_bytes = 0;
    if ((c->then == CONN_TURN || c->then == CONN_TASK) && !is_in_reply(c)) {
        c->then = CONN_INPUT;
    }
    if (buf_len(&c->in) > kept) {
        c->in.end = c->in.begin + kept;
    }
    conn_settle(c);
}

/* Does its client not take replies, other than a value that was too large to be copied? */
static bool is_unread(const struct conn *c)
{
    return client_has_output(&c->client) &&
           !(conn_passes_later(c) && c->client.kept->outq.is_pinned);
}

/*
 * End a connection that is stuck while others wait for it. If its client does not read a value,
 * conn_pass_on() copies the value. If its client does not send the rest of a value, the
 * connection is closed: the server has waited for it before the stop (upgrade.c). It is also
 * closed if its client does not take a reply, and it cannot be passed on in the middle of it.
 */
static void end_stuck(struct conn *c)
{
    if (!conn_is_waiting(c) && !conn_pass_on(c) && (c->upload != NULL || is_unread(c))) {
        close_overdue(c);
    }
}

/* Close a lingering connection if its peer has taken everything and is quiet. */
static void check_lingering(struct conn *c)
{
    if (io_unsent(&c->client.io) > 0) {
        c->quiet_checks = 0;
    } else if (++c->quiet_checks >= QUIET_CHECKS) {
        conn_close(c);
    }
}

void conn_drain_check(struct worker *w)
{
    struct conn *next;

    must_be_worker(w);
    for (struct conn *c = w->conns->first; c != NULL; c = next) {
        next = c->next;
        if (c->state == CONN_LINGERS) {
            check_lingering(c);
        } else if (c->state < CONN_ANNOUNCES && w->phase == WORKER_FINISHING) {
            finish_reply(c);
        } else if (c->state < CONN_ANNOUNCES && conn_holds_others_up(c)) {
            end_stuck(c);
        }
    }
}

void conn_drain_count(struct conn *c, uint64_t bytes)
{
    must_be_worker(c->worker);
    c->drain_bytes -= bytes < c->drain_bytes ? (size_t)bytes : c->drain_bytes;
}

void conn_drain_event(struct conn *c)
{
    must_be_worker(c->worker);
    if (c->state == CONN_ANNOUNCES) {
        begin_end(c);
    } else if (conn_discard(c)) {
        c->quiet_checks = 0;
    } else {
        conn_close(c);
    }
}
