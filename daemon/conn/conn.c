/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a connection on its worker: adopted, served on poll events, closed. It waits
 * for exactly one event at a time: input; a writable socket while replies wait; or a timer or
 * message while it waits for memory or for an answer. Reads and writes are plain system calls;
 * libuv only reports events.
 */
#include "daemon/conn/conn.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/command/exec.h"
#include "daemon/command/guard.h"
#include "daemon/conn/conn_execute.h"
#include "daemon/conn/conn_steps.h"
#include "daemon/options/settings.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"
#include "proto/reply.h"

static struct conn *conn_from_poll(uv_poll_t *poll)
{
    struct conn *c = poll->data;

    must(c->magic == CONN_MAGIC);
    return c;
}

/* ---- events ------------------------------------------------------------------------------ */

/*
 * The peer reset the connection, as a socket does that is closed with unread replies. What it
 * has sent before is executed if it is not in the middle of a reply; the read after it returns
 * the error. False: it is closed.
 */
static bool goes_on_after_reset(struct conn *c)
{
    const uint8_t armed = c->events;

    c->events = CONN_EVENTS_OLD; /* libuv has stopped the handle */
    if (!conn_is_parked(c) && c->state != CONN_INPUT &&
        (c->state != CONN_EVENT || c->then != CONN_INPUT)) {
        conn_close(c);
        return false;
    }
    conn_arm(c, armed);
    return true;
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
    if (status < 0 && !goes_on_after_reset(c)) {
        return;
    }
    if (conn_is_parked(c) || (status == 0 && (events & c->events) == 0)) {
        return; /* it has its turn elsewhere, or waits for something else now */
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

static void on_event(uv_poll_t *handle, int status, int events)
{
    struct conn *c = handle->data;

    if (MF_UNLIKELY(c->worker->is_stopping)) {
        on_poll_draining(handle, status, events);
    } else {
        on_poll(handle, status, events);
    }
}

/* ---- the beginning ----------------------------------------------------------------------- */

static const struct client_duties duties = {
    .answered = conn_answered,
    .login_failed = conn_auth_failed,
    .put_peer = conn_show_peer,
    .peer_id = conn_peer_id,
};

/* Send the reason, if the client would understand it, and close. */
static void refuse(struct conn *c)
{
    ctr_add(&c->worker->counters, CTR_address_refused, 1);
    /* Not in the middle of a reply, which a connection passed on by an upgrade may have. */
    if (c->client.io.tls == NULL && !client_has_output(&c->client)) {
        (void)send(c->client.io.fd, REPLY_BYTES(TOO_MANY_OF_ADDRESS),
                   REPLY_LEN(TOO_MANY_OF_ADDRESS), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    (void)conn_discard(c);
    c->close_reason = CLOSE_ERROR;
    conn_close(c);
}

/* Is there a place for another connection of its address? If not, it is closed. */
static bool take_place(struct conn *c)
{
    struct worker *w = c->worker;

    if (c->peer.family == AF_UNIX) {
        return true;
    }
    enum address_answer answer =
        addresses_enter(&w->crew->access.addresses, conn_peer_id(&c->client),
                        setting_get(w->settings, conns_per_address));
    c->has_place = answer == ADDRESS_IN;
    if (answer == ADDRESS_FULL) {
        char peer[CONN_PEER_MAX];

        conn_put_peer(c, peer);
        log_info_about(&(struct log_about){.peer = peer},
                       "listener, connection of %s refused (conns-per-address)", peer);
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
        conn_enter(c, CONN_SHAKES); /* also for a stop, which ends it */
    }
    conn_log(c, WATCH_CONN_NEW);
    if (!take_place(c)) {
        return;
    }
    if (w->is_stopping) {
        conn_drain(c);
        return;
    }
    if (client_is_candidate(&c->client) && !candidate_begin(&c->client, w)) {
        log_warn("listener, connection dropped (no memory)");
        conn_close(c);
        return;
    }
    if (c->client.io.tls != NULL) {
        conn_tls_begin(c);
    } else {
        conn_note_login(c);
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
    if (uv_poll_init(&w->loop, &c->poll, fd) != 0) {
        io_close(&c->client.io);
        mem_free(c);
        return NULL;
    }
    c->poll.data = c;
    conn_list_add(c);
    conn_idle_begin(c);
    conn_name_peer(c);
    ctr_add(&w->counters, CTR_total_connections, 1);
    ctr_add(&w->counters, CTR_curr_connections, 1);
    return c;
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
    list_init(&all->delayed);
    list_init(&all->cursors);
    for (unsigned i = 0; i < IDLE_SLOTS; i++) {
        list_init(&all->idle.slot[i]);
    }
    all->idle.pass = 1;
    all->on_event = on_event;
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
        mem_free((*all)->weights);
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

/* Requests that wait for the end of a failover are answered first. */
static void close_clients(struct worker *w)
{
    struct conn *next;

    must_be_worker(w);
    conn_ready_retry(w, true);
    for (struct conn *c = w->conns->first; c != NULL; c = next) {
        next = c->next;
        conn_dismiss(c);
    }
}

const struct worker_duties conn_duties = {
    .begin = begin_on_worker,
    .end = end_on_worker,
    .serve_round = serve_round,
    .serve_ready = conn_ready_serve,
    .serve_watchers = conn_serve_watchers,
    .retry_waiting = conn_ready_retry,
    .release_held = conn_ready_release,
    .doubt_logins = conn_auth_doubt_all,
    .close_clients = close_clients,
    .options_changed = conn_pace_options_changed,
    .check_deadlines = conn_pace_check_deadlines,
    .shed = conn_shed_quietly,
    .check_pace = conn_pace_check,
    .check_idle = conn_idle_check,
    .begin_deal = conn_move_begin,
    .give_conns = conn_move_some,
    .obey_balance = conn_balance_obey,
    .balance = conn_balance_some,
    .give_datagrams = udp_give,
    .has_datagrams = udp_has_any,
    .drain = conn_drain_all,
    .check_drain = conn_drain_check,
    .close_datagrams = udp_close_all,
};
