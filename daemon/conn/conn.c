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
#include "daemon/conn/conn_settle.h"
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
    c->next = w->conns->first;
    if (c->next != NULL) {
        c->next->prev = c;
    }
    w->conns->first = c;
    w->conn_count++;
}

static void conns_remove(struct conn *c)
{
    struct worker *w = c->worker;

    for (struct stats_conn_cursor *at = w->conns->cursors; at != NULL; at = at->next) {
        if (at->next_conn == c) {
            at->next_conn = c->next;
        }
    }
    if (c->prev != NULL) {
        c->prev->next = c->next;
    } else {
        must(w->conns->first == c);
        w->conns->first = c->next;
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
    if (conn_is_closed(c)) {
        return;
    }
    must(c->state != CONN_ROUND); /* every way to here has run the round */
    conn_log(c, WATCH_CONN_CLOSE);
    conn_wait_end(c);
    conn_enter(c, CONN_CLOSED);
    conn_deadline_clear(c);
    conn_idle_end(c);
    conns_remove(c);
    /* It leaves the poll set before its number can be given to another socket. */
    uv_close((uv_handle_t *)&c->poll, on_closed);
    conn_upload_drop(c);
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
        conn_drain_end(c);
        return;
    }
    (void)io_send_end(&c->client.io);
    /* Not into the buffer for reading: other connections may have input there. */
    (void)io_discard(&c->client.io, c->worker->obuf, WORKER_OBUF_BYTES, DISCARD_READS);
    if (c->close_reason != CLOSE_REFUSED) {
        c->close_reason = CLOSE_NORMAL;
    }
    conn_close(c);
}

/* ---- events ------------------------------------------------------------------------------ */

static void on_poll(uv_poll_t *handle, int status, int events);
static void on_poll_draining(uv_poll_t *handle, int status, int events);

uv_poll_cb conn_poll_fn(const struct worker *w)
{
    must_be_worker(w);
    return w->is_stopping ? on_poll_draining : on_poll;
}

/* The peer sent its end while it waited. It may want the answer all the same, or be gone. */
static void on_peer_end(struct conn *c)
{
    struct pollfd p = {.fd = c->client.io.fd};

    if (poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP)) != 0) {
        conn_close(c);
    } else {
        c->then = CONN_ANSWER;
        conn_settle(c);
    }
}

void conn_write(struct conn *c)
{
    uint64_t written = 0;
    enum send_status status;
    struct kept *k;

    must_be_worker(c->worker);
    if (conn_hold(c)) {
        conn_settle(c);
        return;
    }
    k = c->client.kept;
    status = outq_send(&k->outq, &c->client.io, &written);
    ctr_add(&c->worker->counters, CTR_bytes_written, written);
    conn_ready_count(c, written);
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
    }
    conn_settle(c);
}

/* An answer that took longer than a turn is there. */
static void on_answer(struct client *client, struct span reply, bool is_composed)
{
    struct conn *c = conn_of_client(client);
    struct worker *w = c->worker;
    bool is_kept = is_composed && client_append(client, reply.ptr, reply.len);

    c->last_active = worker_now(w);
    if (!client_is_waiting(client)) {
        c->then = CONN_TURN; /* what came behind its request */
    }
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

void conn_take_event(struct conn *c)
{
    must_be_worker(c->worker);
    if (client_has_output(&c->client)) {
        conn_round_run(c->worker); /* it came first, and conn_write() may execute much */
        conn_write(c);
        if (c->client.watcher != NULL) {
            conn_stream(c);
        }
    } else if (MF_UNLIKELY(c->state == CONN_SHAKES)) {
        conn_park(c, PARK_READY);
    } else if (MF_LIKELY(c->then == CONN_INPUT)) {
        if (MF_UNLIKELY(c->client.io.tls != NULL)) {
            conn_tls_input(c);
        } else {
            conn_input(c);
        }
    } else if (c->then == CONN_LOGIN) {
        on_peer_end(c);
    }
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct conn *c = conn_from_poll(handle);

    conn_shed_if_crowded(c->worker);
    if (MF_UNLIKELY(c->state == CONN_ROUND)) {
        /* Another event came after its input, in the same turn of the loop. */
        conn_round_run(c->worker);
    }
    if (MF_UNLIKELY(conn_is_closed(c))) {
        return;
    }
    if (status < 0) {
        /* The peer reset the connection. libuv has stopped the handle. */
        conn_close(c);
        return;
    }
    if (conn_is_parked(c) || (events & c->events) == 0) {
        return; /* it has its turn elsewhere, or waits for something else by now */
    }
    if (conn_ready_must_wait(c) && !c->worker->is_stopping) {
        conn_ready_defer(c);
        return;
    }
    conn_take_event(c);
}

/* The same while the server stops; then there are no rounds of several connections. */
static void on_poll_draining(uv_poll_t *handle, int status, int events)
{
    struct conn *c = conn_from_poll(handle);
    struct counters *ctr = &c->worker->counters;
    uint64_t before = ctr_get(ctr, CTR_bytes_read);

    if (status >= 0 && (c->state == CONN_ANNOUNCES || c->state == CONN_LINGERS)) {
        conn_drain_event(c);
        return;
    }
    on_poll(handle, status, events);
    conn_round_run(c->worker);
    if (!conn_is_closed(c)) {
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
    if (c->client.io.tls == NULL && !client_has_output(&c->client)) {
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
    }
    conn_log(c, WATCH_CONN_NEW);
    if (!take_place(c)) {
        return;
    }
    if (w->is_stopping) {
        conn_drain(c);
        return;
    }
    if (c->client.io.tls != NULL) {
        conn_tls_begin(c);
    } else {
        conn_auth_note(c);
        conn_settle(c);
    }
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
    c->then = CONN_INPUT;
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

static struct conns *conns_create(void)
{
    struct conns *all = mem_zalloc(sizeof(*all));

    if (all == NULL) {
        return NULL;
    }
    all->round = round_create();
    if (all->round == NULL) {
        mem_free(all);
        return NULL;
    }
    for (unsigned i = 0; i < PARKS; i++) {
        list_init(&all->parked[i]);
    }
    for (unsigned i = 0; i < DEADLINES; i++) {
        list_init(&all->deadlines[i]);
    }
    for (unsigned i = 0; i < IDLE_SLOTS; i++) {
        list_init(&all->idle.slot[i]);
    }
    all->idle.pass = 1;
    list_init(&all->pins_new);
    list_init(&all->pins);
    list_init(&all->uploads);
    return all;
}

static void conns_destroy(struct conns **all)
{
    if (*all != NULL) {
        must((*all)->first == NULL && list_is_empty(&(*all)->parked[PARK_ROOM]));
        round_destroy((*all)->round);
        mem_free(*all);
        *all = NULL;
    }
}

/* ---- on a worker ------------------------------------------------------------------------- */

static bool begin_on_worker(struct worker *w)
{
    must_be_worker(w);
    w->conns = conns_create();
    if (w->conns == NULL) {
        return false;
    }
    conn_idle_changed(w);
    return true;
}

static void on_options_changed(struct worker *w)
{
    must_be_worker(w);
    conn_idle_changed(w);
    if (w->conns->idle.count > 0) {
        cron_check_idle_ms(w, 0); /* the clock may have been set */
    }
    conn_deadline_check(w);
}

static void end_on_worker(struct worker *w)
{
    must_be_worker(w);
    conns_destroy(&w->conns);
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
