/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a connection on its worker: adopted, served on poll events, closed. It waits
 * for exactly one thing at a time: input; room in the socket while replies wait; or a timer
 * or message while it waits for memory or for an answer. Reads and writes are plain system
 * calls: libuv only says when.
 */
#include "daemon/conn/conn.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/command/guard.h"
#include "daemon/command/timing.h"
#include "daemon/conn/conn_auth.h"
#include "daemon/conn/conn_deadline.h"
#include "daemon/conn/conn_drain.h"
#include "daemon/conn/conn_execute.h"
#include "daemon/conn/conn_hold.h"
#include "daemon/conn/conn_idle.h"
#include "daemon/conn/conn_info.h"
#include "daemon/conn/conn_input.h"
#include "daemon/conn/conn_pace.h"
#include "daemon/conn/conn_pass.h"
#include "daemon/conn/conn_pin.h"
#include "daemon/conn/conn_proxied.h"
#include "daemon/conn/conn_ready.h"
#include "daemon/conn/conn_round.h"
#include "daemon/conn/conn_shed.h"
#include "daemon/conn/conn_state.h"
#include "daemon/conn/conn_stream.h"
#include "daemon/conn/conn_tls.h"
#include "daemon/conn/conn_upload.h"
#include "daemon/conn/conn_wait.h"
#include "daemon/conn/udp.h"
#include "daemon/options/settings.h"
#include "daemon/stats/stats.h"
#include "daemon/stats/stats_detail.h"
#include "daemon/worker/cron.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"
#include "proto/reply.h"

/*
 * When the server ends one connection it discards at most this much input, in reads of the size
 * of the worker's output buffer.
 */
#define DISCARD_READS 8

static struct conn *conn_from_poll(uv_poll_t *poll)
{
    struct conn *c = poll->data;

    must(c->magic == CONN_MAGIC);
    return c;
}

/* ---- lists ------------------------------------------------------------------------------- */

static void conns_add(struct conn *c)
{
    struct worker *w = c->worker;

    c->prev = NULL;
    c->next = w->conns;
    if (c->next != NULL) {
        c->next->prev = c;
    }
    w->conns = c;
    w->conn_count++;
}

static void conns_remove(struct conn *c)
{
    struct worker *w = c->worker;

    for (struct stats_conn_cursor *at = w->conn_cursors; at != NULL; at = at->next) {
        if (at->next_conn == c) {
            at->next_conn = c->next;
        }
    }
    if (c->prev != NULL) {
        c->prev->next = c->next;
    } else {
        must(w->conns == c);
        w->conns = c->next;
    }
    if (c->next != NULL) {
        c->next->prev = c->prev;
    }
    w->conn_count--;
}

/* ---- the end ----------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct conn *c = conn_from_poll((uv_poll_t *)handle);

    c->magic = 0;
    mem_free(c);
}

void conn_close(struct conn *c)
{
    struct worker *w = c->worker;

    must_be_worker(c->worker);
    if (c->is_closing) {
        return;
    }
    must(!c->is_queued); /* every way to here has run the round */
    c->is_closing = true;
    conn_log(c, WATCH_CONN_CLOSE);
    conn_ready_remove(c);
    conn_wait_end(c);
    conn_deadline_clear_all(c);
    conn_idle_end(c);
    task_remove(w, &c->task);
    conns_remove(c);
    /* It leaves the poll set before its number can be given to another socket. */
    uv_close((uv_handle_t *)&c->poll, on_closed);
    conn_upload_drop(c);
    conn_pin_end(c);
    if (c->has_place) {
        addresses_leave(&w->crew->access.addresses, conn_peer_id(&c->client));
    }
    client_fini(&c->client, w);
    buf_fini(&c->in);
    ctr_add(&w->counters, CTR_curr_connections, (uint64_t)-1);
    crew_conn_closed(w->crew, c->client.origin);
}

/*
 * End a connection whose replies are all with the kernel. Unread input would make the kernel
 * answer the close with a reset, and the peer might lose the replies before it: so the sending
 * side is shut first, and the input that is there is discarded.
 */
void conn_end(struct conn *c)
{
    must_be_worker(c->worker);
    if (c->worker->is_stopping) {
        conn_ready_remove(c);
        conn_drain_end(c);
        return;
    }
    (void)io_send_end(&c->client.io);
    /* Not into the buffer for reading: other connections may have input there. */
    (void)io_discard(&c->client.io, c->worker->obuf, WORKER_OBUF_BYTES, DISCARD_READS);
    c->close_reason = c->is_refused ? CLOSE_ERROR : CLOSE_NORMAL;
    conn_close(c);
}

/* ---- events ------------------------------------------------------------------------------ */

static void on_poll(uv_poll_t *handle, int status, int events);
static void on_poll_draining(uv_poll_t *handle, int status, int events);

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
        uv_poll_start(&c->poll, events, c->worker->is_stopping ? on_poll_draining : on_poll);
    }
}

/*
 * Nothing is read of one that waits for an answer. A login may take long, though: if its client
 * is gone meanwhile, nobody else has to wait for it.
 */
static int waiting_events(const struct conn *c)
{
    return c->client.is_logging_in && !c->is_half_closed ? UV_DISCONNECT : 0;
}

/* The peer sent its end while it waited. It may want the answer all the same, or be gone. */
static void on_peer_end(struct conn *c)
{
    struct pollfd p = {.fd = c->client.io.fd};

    if (poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP)) != 0) {
        conn_close(c);
    } else {
        c->is_half_closed = true;
        conn_arm(c, 0);
    }
}

void conn_settle(struct conn *c)
{
    must_be_worker(c->worker);
    if (c->is_closing) {
        return;
    }
    if (!outq_is_empty(&c->client.outq)) {
        if (MF_UNLIKELY(c->worker->is_stopping) && conn_pass_on(c)) {
            return;
        }
        conn_arm(c, conn_hold(c) ? 0 : io_write_events(&c->client.io));
        if (c->client.outq.is_pinned) {
            conn_pin_begin(c);
        }
    } else if (c->is_finishing) {
        conn_end(c);
    } else if (client_is_waiting(&c->client)) {
        conn_arm(c, waiting_events(c));
        conn_auth_note(c);
    } else if (conn_is_waiting(c)) {
        conn_arm(c, 0);
        conn_wait_settle(c);
    } else if (task_is_waiting(&c->task)) {
        conn_arm(c, 0);
    } else if (!c->worker->is_stopping || !conn_drain_settle(c)) {
        /* One that is in the ready list stays armed: re-arming twice would cost more. */
        conn_arm(c, io_read_events(&c->client.io));
        if (io_has_more(&c->client.io)) {
            timing_defer(&c->client, c->worker);
            conn_ready_add(c);
        }
    }
}

void conn_write(struct conn *c)
{
    uint64_t written = 0;
    enum send_status status;

    must_be_worker(c->worker);
    if (MF_UNLIKELY(c->client.is_held) && conn_hold(c)) {
        conn_settle(c);
        return;
    }
    status = outq_send(&c->client.outq, &c->client.io, &written);
    ctr_add(&c->worker->counters, CTR_bytes_written, written);
    conn_ready_count(c, written);
    c->is_light = false;
    holder_wrote(c->worker, &c->client.holder, written);
    c->pin_sent += written;
    if (!c->client.outq.is_pinned) {
        conn_pin_end(c);
    }
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
    if (status == SEND_ALL && c->is_kept && !conn_is_waiting(c) &&
        !client_is_waiting(&c->client)) {
        if (MF_LIKELY(!c->worker->is_stopping) || !conn_pass_on(c)) {
            conn_execute_kept(c);
        }
        return;
    }
    if (status == SEND_ALL) {
        client_has_taken(&c->client);
    }
    conn_settle(c);
}

/* An answer that took longer than a turn is there. */
static void on_answer(struct client *client, struct span reply, bool is_composed)
{
    struct conn *c = conn_of_client(client);
    struct worker *w = c->worker;
    bool is_kept = is_composed && outq_append(&c->client.outq, reply.ptr, reply.len);

    c->last_active = worker_now(w);
    conn_auth_note(c);
    if (!is_kept || !client_count_output(&c->client, w)) {
        ctr_add(&w->counters, is_kept ? CTR_slow_drops : CTR_response_obj_oom, 1);
        conn_close(c);
        return;
    }
    conn_write(c);
}

void conn_input(struct conn *c)
{
    must_be_worker(c->worker);
    if (MF_UNLIKELY(c->client.watcher != NULL)) {
        conn_round_run(c->worker); /* its input is in the buffer */
        conn_discard(c);
    } else if (conn_upload_wants_read(c)) {
        conn_round_run(c->worker);
        conn_upload_read(c);
    } else {
        conn_read(c);
    }
}

static inline void take_event(struct conn *c)
{
    if (!outq_is_empty(&c->client.outq)) {
        conn_round_run(c->worker); /* it came first, and conn_write() may execute much */
        conn_write(c);
        if (c->client.watcher != NULL) {
            conn_stream(c);
        }
    } else if (conn_is_waiting(c) || client_is_waiting(&c->client)) {
        /* It has its turn elsewhere. */
        if (c->events == UV_DISCONNECT) {
            on_peer_end(c);
        }
    } else if (MF_UNLIKELY(c->client.io.tls != NULL)) {
        conn_tls_event(c);
    } else {
        conn_input(c);
    }
}

void conn_take_event(struct conn *c)
{
    must_be_worker(c->worker);
    take_event(c);
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct conn *c = conn_from_poll(handle);

    conn_shed_if_crowded(c->worker);
    if (MF_UNLIKELY(c->is_queued)) {
        /* Another event came after its input, in the same turn of the loop. */
        conn_round_run(c->worker);
    }
    if (MF_UNLIKELY(c->is_closing)) {
        return;
    }
    if (status < 0) {
        /* The peer reset the connection. libuv has stopped the handle. */
        conn_close(c);
        return;
    }
    if (conn_is_ready(c) || (events & c->events) == 0) {
        return; /* it has its turn elsewhere, or waits for something else by now */
    }
    if (conn_ready_must_wait(c) && !c->worker->is_stopping) {
        conn_ready_defer(c);
        return;
    }
    take_event(c);
}

/* The same while the server stops; then there are no rounds of several connections. */
static void on_poll_draining(uv_poll_t *handle, int status, int events)
{
    struct conn *c = conn_from_poll(handle);
    struct counters *ctr = &c->worker->counters;
    uint64_t before = ctr_get(ctr, CTR_bytes_read);

    if (status >= 0 && c->ending != ENDING_NOT) {
        conn_drain_event(c);
        return;
    }
    on_poll(handle, status, events);
    conn_round_run(c->worker);
    if (!c->is_closing) {
        conn_drain_count(c, ctr_get(ctr, CTR_bytes_read) - before);
        conn_settle(c);
    }
}

/* ---- the beginning ----------------------------------------------------------------------- */

static const struct client_duties duties = {
    .answered = on_answer,
    .login_failed = conn_auth_failed,
    .put_peer = conn_show_peer,
    .peer_id = conn_peer_id,
};

/* Say why, if the client would understand it, and close. */
static void refuse(struct conn *c)
{
    ctr_add(&c->worker->counters, CTR_address_refused, 1);
    /* Not into the middle of an answer, of one that has gone along (conn_pass.h). */
    if (c->client.io.tls == NULL && outq_is_empty(&c->client.outq)) {
        (void)send(c->client.io.fd, REPLY_BYTES(TOO_MANY_OF_ADDRESS),
                   REPLY_LEN(TOO_MANY_OF_ADDRESS), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    /* Unread bytes would turn the close into a reset, which may overtake the message. */
    (void)io_discard(&c->client.io, c->worker->obuf, WORKER_OBUF_BYTES, 1);
    c->close_reason = CLOSE_ERROR;
    conn_close(c);
}

/* Is there a place for another connection of its address? If not, it is closed. */
static bool take_place(struct conn *c)
{
    struct worker *w = c->worker;
    enum address_answer answer;

    if (c->peer.family == AF_UNIX) {
        return true;
    }
    answer = addresses_enter(&w->crew->access.addresses, conn_peer_id(&c->client),
                             setting_get(w->settings, conns_per_address));
    c->has_place = answer == ADDRESS_IN;
    if (answer == ADDRESS_FULL) {
        char peer[CONN_PEER_MAX];

        conn_put_peer(c, peer);
        log_info_about(&(struct log_about){.peer = peer},
                       "listener, connection of %s refused (it has as many as it may)", peer);
        refuse(c);
    } else if (answer == ADDRESS_NO_MEMORY) {
        log_warn("listener, connection dropped (no memory)");
        c->close_reason = CLOSE_ERROR;
        conn_close(c);
    }
    return c->has_place;
}

void conn_begin(struct conn *c)
{
    struct worker *w = c->worker;

    must_be_worker(w);
    if (c->client.origin->transport == CONN_TLS) {
        if (!io_begin_tls(&c->client.io, w->crew->tls, &w->tls,
                          (enum tls_verify)c->client.origin->verify)) {
            log_warn("listener, connection dropped (no memory)");
            conn_close(c);
            return;
        }
        c->is_shaking = true;
    }
    conn_log(c, WATCH_CONN_NEW);
    if (!take_place(c)) {
        return;
    }
    if (w->is_stopping) {
        conn_drain(c);
        return;
    }
    if (c->is_shaking) {
        conn_deadline_set(c, DEADLINE_HANDSHAKE);
    }
    if (c->client.needs_auth && !c->client.is_doubted) {
        conn_deadline_set(c, DEADLINE_LOGIN);
    }
    conn_settle(c);
}

struct conn *conn_create(struct worker *w, int fd, const struct conn_origin *origin)
{
    struct conn *c = mem_zalloc(sizeof(*c));

    must_be_worker(w);
    if (c == NULL) {
        close(fd);
        return NULL;
    }
    c->magic = CONN_MAGIC;
    client_init(&c->client, fd, &duties);
    c->client.has_extensions = w->settings->extensions || origin->is_control;
    c->worker = w;
    c->client.origin = origin;
    guard_begin(&c->client, w);
    c->protocol = origin->protocol;
    c->last_active = worker_now(w);
    c->task.run = conn_execute_task;
    conn_auth_begin(c);
    buf_init(&c->in);
    if (uv_poll_init(&w->loop, &c->poll, fd) != 0) {
        io_close(&c->client.io);
        mem_free(c);
        return NULL;
    }
    c->poll.data = c;
    conns_add(c);
    conn_idle_begin(c);
    conn_name_peer(c);
    ctr_add(&w->counters, CTR_total_connections, 1);
    ctr_add(&w->counters, CTR_curr_connections, 1);
    return c;
}

bool conn_adopt(struct worker *w, int fd, const struct conn_origin *origin)
{
    struct conn *c = conn_create(w, fd, origin);

    must_be_worker(w);
    if (c == NULL) {
        return false;
    }
    if (MF_LIKELY(!conn_proxied_is_due(c))) {
        conn_begin(c);
    } else if (w->is_stopping) {
        conn_close(c);
    } else {
        conn_proxied_begin(c);
    }
    return true;
}

/* ---- on a worker ------------------------------------------------------------------------- */

static bool begin_on_worker(struct worker *w)
{
    must_be_worker(w);
    w->round = round_create();
    conn_idle_changed(w);
    return w->round != NULL;
}

static void on_options_changed(struct worker *w)
{
    must_be_worker(w);
    conn_idle_changed(w);
    conn_deadline_check(w);
}

static void end_on_worker(struct worker *w)
{
    must_be_worker(w);
    round_destroy(w->round);
    w->round = NULL;
    detail_table_destroy(&w->detail);
}

static void serve_round(struct worker *w)
{
    must_be_worker(w);
    conn_round_run(w);
    conn_shed_if_crowded(w);
}

const struct worker_duties conn_duties = {
    .begin = begin_on_worker,
    .end = end_on_worker,
    .serve_round = serve_round,
    .serve_ready = conn_ready_serve,
    .serve_watchers = conn_serve_watchers,
    .retry_waiting = conn_wait_retry,
    .release_held = conn_hold_release,
    .doubt_logins = conn_auth_doubt_all,
    .options_changed = on_options_changed,
    .check_deadlines = conn_deadline_check,
    .shed = conn_shed_quietly,
    .check_pace = conn_pace_check,
    .check_idle = conn_idle_check,
    .drain = conn_drain_all,
    .check_drain = conn_drain_check,
    .close_datagrams = udp_close_all,
};
