/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accepting, on the main thread. When a socket is readable, connections are accepted until the
 * queue is empty or CONN_ARRIVALS_MAX were accepted. They are passed to the workers in batches,
 * one message per worker and turn.
 *
 * Replicas do not count towards -c, up to replica_conns. When -c is reached, a TCP connection
 * gets one of their places for a short time, in which it must become a replica (candidate.c).
 *
 * Some connections over the unix socket do not count either (-o admin_conns), if TCP is served
 * too. So the administrator can connect when clients have used up -c, and TCP clients always
 * have all of -c.
 *
 * The control socket (--control) is for the operator, and clients cannot make it unusable: its
 * connections do not count towards -c, and a spare descriptor is reserved for each of them.
 * There are at most CONTROL_CONNS_MAX such connections, and only root and the user of the
 * process may connect.
 *
 * Accepting pauses for two reasons: the limit on connections is reached and maxconns_fast is
 * off, or descriptors have run out. It resumes when a connection closes; in the second case
 * also after RETRY_MS, because other processes use the system's descriptors too. While paused
 * no socket is polled, except those of the administrator in the first case, and that of the
 * operator, unless there was no descriptor even for it.
 */
#include "daemon/service/server.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/conn/conn.h"
#include "daemon/net/sockets.h"
#include "daemon/net/sockets_parts.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "proto/reply.h"

#define RETRY_MS 100u

/* Connections accepted from one socket before it is closed: the kernel's default backlog. */
#define ACCEPT_LAST_MAX 4096u

/* A datagram socket on its way to a worker. */
struct udp_handover {
    struct message message;
    int fd;
    uint32_t number; /* of the worker that it is for */
};

struct acceptor {
    struct socket_open *socket; /* [borrowed] of the list */
    struct listeners *all;      /* [borrowed] */
    uv_poll_t poll;
};

struct listeners {
    /* [const] after listeners_open() */
    struct server *server;
    struct socket_list list;
    struct conn_origin *beyond; /* owned: the twins of those of the list, for replicas */
    struct socket_list udp;     /* the workers own the descriptors once they were dealt */
    uint32_t udp_group;         /* number of sockets that share an address */
    /* [main] */
    struct acceptor *acceptors;     /* one for each socket of the list; NULL until accepting */
    struct conn_arrivals **batches; /* of this turn, one for each worker */
    uv_timer_t retry;
    uint32_t next_worker;
    uint32_t admin_conns;          /* connections over unix sockets that do not count */
    int spares[CONTROL_CONNS_MAX]; /* owned descriptors reserved for the operator */
    uint32_t spare_count;
    bool has_control;
    bool is_paused;
    bool is_closed;
    bool is_passed_on; /* to the next program, with connections that wait to be accepted */
    bool udp_is_dealt;
    bool is_starved; /* descriptors ran out, and nothing was accepted since */
    usec_t paused_at_us;
};

/* ---- handing over ------------------------------------------------------------------------ */

static void on_udp(struct message *m, void *receiver)
{
    struct udp_handover *h = (struct udp_handover *)(void *)m; /* its first member */

    if (!udp_adopt(receiver, h->fd, h->number)) {
        log_warn("listener, a worker cannot serve UDP (no memory)");
    }
    mem_free(h);
}

/* Assign a socket of every address to each worker. */
static int deal_udp(struct listeners *l)
{
    struct server *s = l->server;

    l->udp_is_dealt = true;
    for (uint32_t i = 0; i < l->udp.count; i++) {
        struct udp_handover *h = mem_alloc(sizeof(*h));

        if (h == NULL) {
            for (; i < l->udp.count; i++) {
                close(l->udp.items[i].fd);
            }
            return UV_ENOMEM;
        }
        h->message.fn = on_udp;
        h->fd = l->udp.items[i].fd;
        h->number = i % l->udp_group;
        mailbox_post(&s->crew.workers[h->number].mailbox, &h->message);
    }
    return 0;
}

/* Give a connection to the worker with the fewest; workers with equally few take turns. */
static void deal(struct listeners *l, int fd, const struct conn_origin *origin)
{
    struct server *s = l->server;
    struct worker *w = &s->crew.workers[roster_least(&s->crew.roster, l->next_worker)];
    const uint32_t id = w->id;
    struct conn_arrivals *b = l->batches[id];

    must_be_main();
    l->next_worker = id + 1;
    if (b == NULL) {
        b = conn_arrivals_create();
        if (b == NULL) {
            log_warn("listener, connection dropped (no memory)");
            close(fd);
            if (origin->is_beyond) {
                atomic_fetch_sub(&s->crew.conns_beyond, 1);
            }
            return;
        }
        l->batches[id] = b;
    }
    crew_conn_opened(w, origin);
    conn_arrivals_put(b, fd, origin);
}

static void post_batches(struct listeners *l)
{
    must_be_main();
    for (uint32_t i = 0; i < roster_created(&l->server->crew.roster); i++) {
        if (l->batches[i] != NULL) {
            conn_arrivals_post(&l->batches[i], &l->server->crew.workers[i]);
        }
    }
}

/* ---- pausing ----------------------------------------------------------------------------- */

/* Is one of the places free that administrators have beyond -c? */
static bool has_admin_place(const struct server *s)
{
    return atomic_load(&s->crew.conns_local) < s->listeners->admin_conns;
}

/* Clients have taken all of -c. */
static bool is_full(const struct server *s)
{
    uint32_t open = crew_clients(&s->crew); /* first: it is never the smaller one */
    uint32_t replicas = atomic_load(&s->crew.conns_beyond);
    uint32_t local = atomic_load(&s->crew.conns_local);
    uint32_t beyond = local < s->listeners->admin_conns ? local : s->listeners->admin_conns;

    return open - beyond - replicas >= setting_get(s->crew.settings, conn_limit);
}

/* Are all places taken that a connection of this kind could have? */
static bool is_full_for(const struct server *s, const struct conn_origin *origin)
{
    if (origin->is_control) {
        return atomic_load(&s->crew.conns_control) >= CONTROL_CONNS_MAX;
    }
    return !(origin->transport == CONN_UNIX && has_admin_place(s)) && is_full(s);
}

static void on_readable(uv_poll_t *poll, int status, int events);

static void poll_all(struct listeners *l)
{
    for (uint32_t i = 0; i < l->list.count; i++) {
        /* It fails only when the descriptor cannot be polled, which was tried at the start. */
        int err = uv_poll_start(&l->acceptors[i].poll, UV_READABLE, on_readable);
        must(err == 0);
    }
}

/* While the others are paused: the administrator's sockets, if there is a place again. */
static void poll_admin(struct listeners *l)
{
    for (uint32_t i = 0; i < l->list.count && has_admin_place(l->server); i++) {
        if (l->list.items[i].origin.transport == CONN_UNIX) {
            uv_poll_start(&l->acceptors[i].poll, UV_READABLE, on_readable);
        }
    }
}

static void on_retry(uv_timer_t *timer)
{
    struct listeners *l = timer->data;

    must_be_main();
    listeners_resume(l->server);
}

enum pause {
    PAUSE_CLIENTS, /* sockets of the administrator stay open while there is a place */
    PAUSE_ALL_BUT_CONTROL,
    PAUSE_ALL,
};

static bool is_paused_by(const struct listeners *l, const struct conn_origin *origin,
                         enum pause which)
{
    if (origin->is_control) {
        return which == PAUSE_ALL;
    }
    return which != PAUSE_CLIENTS || origin->transport != CONN_UNIX ||
           !has_admin_place(l->server);
}

static void pause_accepting(struct listeners *l, enum pause which)
{
    struct server *s = l->server;

    must_be_main();
    for (uint32_t i = 0; i < l->list.count; i++) {
        if (is_paused_by(l, &l->list.items[i].origin, which)) {
            uv_poll_stop(&l->acceptors[i].poll);
        }
    }
    if (l->is_paused) {
        return;
    }
    l->is_paused = true;
    l->paused_at_us = clock_mono_us();
    atomic_store(&s->crew.is_accepting, false);
    /* Set before the limit is checked again: a connection that closes after that wakes main. */
    atomic_store(&s->crew.wants_room, true);
}

/* The limit is reached, and clients have to wait. */
static void pause_full(struct listeners *l)
{
    if (!l->is_paused) {
        ctr_add(&l->server->crew.counters, CTR_listen_disabled_num, 1);
    }
    pause_accepting(l, PAUSE_CLIENTS);
    if (!is_full(l->server)) {
        listeners_resume(l->server);
    }
}

/* The process or the system has no descriptors left for a socket of this origin. */
static void pause_starved(struct listeners *l, const struct conn_origin *origin, int err)
{
    if (!l->is_starved) {
        l->is_starved = true;
        ctr_add(&l->server->crew.counters, CTR_listen_disabled_num, 1);
        log_warn("listener, paused accepting (%s)", strerror(err));
    }
    pause_accepting(l, origin->is_control ? PAUSE_ALL : PAUSE_ALL_BUT_CONTROL);
    uv_timer_start(&l->retry, on_retry, RETRY_MS, 0);
}

void listeners_resume(struct server *s)
{
    struct listeners *l = s->listeners;

    must_be_main();
    if (l == NULL || l->acceptors == NULL || !l->is_paused) {
        return;
    }
    if (!l->is_starved && !setting_get(s->crew.settings, maxconns_fast) && is_full(s)) {
        atomic_store(&s->crew.wants_room, true);
        if (is_full(s)) {
            poll_admin(l);
            return;
        }
    }
    uv_timer_stop(&l->retry);
    atomic_store(&s->crew.wants_room, false);
    l->is_paused = false;
    ctr_add(&s->crew.counters, CTR_listen_disabled_us,
            (uint64_t)(clock_mono_us() - l->paused_at_us));
    atomic_store(&s->crew.is_accepting, true);
    poll_all(l);
}

/* ---- accepting --------------------------------------------------------------------------- */

/* Close a connection beyond the limit, with a message if the client would understand it. */
static void reject(struct listeners *l, int fd, enum conn_transport transport)
{
    char unread[2048];

    if (transport != CONN_TLS) {
        (void)send(fd, REPLY_BYTES(TOO_MANY_CONNS), REPLY_LEN(TOO_MANY_CONNS),
                   MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    /* Unread bytes would turn the close into a reset, which may overtake the message. */
    (void)recv(fd, unread, sizeof(unread), MSG_DONTWAIT);
    close(fd);
    ctr_add(&l->server->crew.counters, CTR_rejected_connections, 1);
}

/*
 * Reserve a spare descriptor for each connection that the operator may still open. A spare is
 * closed just before such a connection is accepted, so that there is a descriptor for it even
 * if clients have taken all others. False: no descriptors are left.
 */
static bool keep_spares(struct listeners *l)
{
    const uint32_t open = atomic_load(&l->server->crew.conns_control);
    const uint32_t wanted = open < CONTROL_CONNS_MAX ? CONTROL_CONNS_MAX - open : 0;

    while (l->has_control && l->spare_count < wanted) {
        int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

        if (fd < 0) {
            return false;
        }
        l->spares[l->spare_count++] = fd;
    }
    return true;
}

static void give_up_spare(struct listeners *l)
{
    if (l->spare_count > 0) {
        close(l->spares[--l->spare_count]);
    }
}

/*
 * Is the peer root, or the user of this process? The kernel recorded the peer's user when it
 * connected.
 */
static bool may_control(struct listeners *l, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0) {
        peer = (struct ucred){.pid = 0, .uid = (uid_t)-1, .gid = (gid_t)-1};
    }
    if (peer.uid == 0 || peer.uid == geteuid()) {
        return true;
    }
    ctr_add(&l->server->crew.counters, CTR_control_refused, 1);
    log_warn("listener, refused user %u on the control socket (process %d)", (unsigned)peer.uid,
             (int)peer.pid);
    return false;
}

/* Must connections of this origin wait for a place? */
static bool has_to_wait(const struct server *s, const struct conn_origin *origin)
{
    return !setting_get(s->crew.settings, maxconns_fast) && !origin->is_control &&
           is_full_for(s, origin);
}

/* A descriptor of a new connection, or -1 with errno. */
static int accept_from(struct listeners *l, const struct socket_open *socket)
{
    if (socket->origin.is_control) {
        give_up_spare(l);
    } else if (!keep_spares(l)) {
        return -1;
    }
    return accept4(socket->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

/* Serve or reject a new connection. */
static void listener_take(struct listeners *l, int fd, const struct conn_origin *origin)
{
    if (origin->is_control && !may_control(l, fd)) {
        close(fd);
    } else if (is_full_for(l->server, origin)) {
        if (origin->beyond != NULL && crew_take_beyond(&l->server->crew)) {
            deal(l, fd, origin->beyond);
        } else {
            reject(l, fd, origin->transport);
        }
    } else {
        deal(l, fd, origin);
    }
}

/*
 * Accept one. False ends this turn: no connection waits, or accepting was paused.
 */
static bool accept_one(struct acceptor *a)
{
    struct listeners *l = a->all;
    const struct conn_origin *origin = &a->socket->origin;

    if (has_to_wait(l->server, origin)) {
        pause_full(l);
        return false;
    }
    int fd = accept_from(l, a->socket);
    if (fd < 0) {
        switch (errno) {
        case EAGAIN:
            return false;
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
        case ENOMEM:
            pause_starved(l, origin, errno);
            return false;
        default:
            /* The client disconnected before it was accepted, or a network error. */
            return true;
        }
    }
    l->is_starved = l->is_starved && origin->is_control;
    listener_take(l, fd, origin);
    return true;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct acceptor *a = poll->data;

    (void)events;
    if (status < 0) {
        log_warn("listener, %s failed (%s)", a->socket->name, uv_strerror(status));
        pause_starved(a->all, &a->socket->origin, -status);
        return;
    }
    for (unsigned n = 0; n < CONN_ARRIVALS_MAX && accept_one(a); n++) {
    }
    post_batches(a->all);
}

/*
 * The sockets are about to be closed, which would reset the connections that wait in them.
 * Their clients may have sent requests already. So those that fit are accepted.
 */
static void accept_waiting(struct listeners *l)
{
    for (uint32_t i = 0; i < l->list.count && !l->is_paused; i++) {
        for (unsigned n = 0; n < ACCEPT_LAST_MAX && accept_one(&l->acceptors[i]); n++) {
            if (n % CONN_ARRIVALS_MAX == CONN_ARRIVALS_MAX - 1) {
                post_batches(l);
            }
        }
        post_batches(l);
    }
}

/* ---- life -------------------------------------------------------------------------------- */

/* Returns 0, or the exit status after a message was written. */
static int open_all(const struct settings *settings, struct socket_list *list,
                    struct socket_list *udp)
{
    bool is_inherited;
    int status = sockets_inherit(settings, INHERIT_CLIENTS, list, &is_inherited);

    if (status == 0 && !is_inherited) {
        status = sockets_open(settings, list, udp);
    }
    if (status == 0) {
        status = sockets_inherit(settings, INHERIT_CONTROL, list, &is_inherited);
    }
    if (status == 0 && !is_inherited && settings->control_path != NULL) {
        status = sockets_open_control(settings, list);
    }
    /* Without any socket it fails, and its parent may try again. */
    return status == 0 && passed_on_is(settings->passed) && list->count == 0 &&
                   (settings->port != 0 || settings->unix_path != NULL)
               ? EX_OSERR
               : status;
}

int listeners_check(const struct settings *settings)
{
    struct socket_list list = {.count = 0};
    struct socket_list udp = {.count = 0};
    struct socket_list metrics = {.count = 0};
    bool is_inherited;
    int status = open_all(settings, &list, &udp);

    must_be_main();
    if (status == 0) {
        status = sockets_inherit(settings, INHERIT_METRICS, &metrics, &is_inherited);
    }
    if (status == 0 && !is_inherited && settings->metrics != NULL) {
        status = sockets_open_metrics(settings, &metrics);
    }
    socket_list_close(&list);
    socket_list_close(&udp);
    socket_list_close(&metrics);
    return status;
}

int listeners_open(struct server *s)
{
    struct listeners *l = mem_zalloc(sizeof(*l));

    must_be_main();
    if (l == NULL) {
        log_error("listener, cannot start (out of memory)");
        return 1;
    }
    l->server = s;
    s->listeners = l;
    l->udp_group = setting_get(s->crew.settings, threads);
    int status = open_all(s->crew.settings, &l->list, &l->udp);
    if (status == 0) {
        listener_list_note_ports(&l->list, &s->crew);
        l->beyond = listener_list_make_beyond(&l->list, s->crew.settings);
        status = l->beyond != NULL ? 0 : 1;
    }
    for (uint32_t i = 0; status == 0 && i < l->list.count; i++) {
        l->has_control |= l->list.items[i].origin.is_control;
        log_info("listener, listens on %s", l->list.items[i].name);
    }
    for (uint32_t i = 0; status == 0 && i < l->udp.count; i += l->udp_group) {
        log_info("listener, receives datagrams on %s", l->udp.items[i].name);
    }
    if (status == 0) {
        listener_list_warn(&l->list, s->crew.settings);
    }
    return status == 0 ? exposure_judge(s->crew.settings, &l->list, &l->udp) : status;
}

/* ---- rules for listeners ----------------------------------------------------------------- */

static bool has_listener(const struct socket_list *list, struct span name)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (span_eq(origin_name(&list->items[i].origin), name)) {
            return true;
        }
    }
    return false;
}

static void warn_if_unknown(void *arg, struct span name, unsigned line)
{
    const struct listeners *l = arg;

    if (!has_listener(&l->list, name) && (l->udp.count == 0 || !span_is(name, "udp"))) {
        log_warn("access, there is no listener \"%.*s\" (line %u)", (int)name.len, name.ptr,
                 line);
    }
}

void listeners_check_rules(struct server *s)
{
    const struct rules *rules = rules_file_get(&s->crew.access.rules);

    must_be_main();
    if (rules != NULL && s->listeners->list.count > 0) { /* it does not stop */
        rules_each_listener(rules, warn_if_unknown, s->listeners);
    }
}

/* ---- the beginning ----------------------------------------------------------------------- */

/* Append the names of a list; returns the new length. */
static size_t put_names(const struct socket_list *l, char *out, size_t at, size_t size)
{
    const char *last = "";

    for (uint32_t i = 0; i < l->count; i++) {
        const size_t len = strlen(l->items[i].name);

        if (strcmp(l->items[i].name, last) != 0 && at + 1 + len < size) {
            out[at++] = ' ';
            memcpy(out + at, l->items[i].name, len + 1);
            at += len;
        }
        last = l->items[i].name;
    }
    return at;
}

void listeners_describe(const struct server *s, char *out, size_t size)
{
    must_be_main();
    (void)put_names(&s->listeners->udp, out, put_names(&s->listeners->list, out, 0, size),
                    size);
}

/* Places of the administrator: none unless clients have another way in. */
static uint32_t admin_conns_of(const struct listeners *l)
{
    bool has_tcp = false;

    for (uint32_t i = 0; i < l->list.count; i++) {
        has_tcp |= l->list.items[i].origin.transport != CONN_UNIX;
    }
    return has_tcp ? l->server->crew.settings->admin_conns : 0;
}

int listeners_accept(struct server *s)
{
    struct listeners *l = s->listeners;

    must_be_main();
    l->batches = mem_zalloc(WORKERS_MAX * sizeof(*l->batches));
    l->acceptors = mem_zalloc((l->list.count + 1) * sizeof(*l->acceptors));
    if (l->batches == NULL || l->acceptors == NULL) {
        mem_free(l->acceptors);
        l->acceptors = NULL;
        return UV_ENOMEM;
    }
    l->admin_conns = admin_conns_of(l);
    uv_timer_init(&s->loop, &l->retry);
    l->retry.data = l;
    for (uint32_t i = 0; i < l->list.count; i++) {
        struct acceptor *a = &l->acceptors[i];
        int err = uv_poll_init(&s->loop, &a->poll, l->list.items[i].fd);

        if (err != 0) {
            log_error("listener, cannot poll %s (%s)", l->list.items[i].name, uv_strerror(err));
            while (i-- > 0) {
                uv_close((uv_handle_t *)&l->acceptors[i].poll, NULL);
            }
            uv_close((uv_handle_t *)&l->retry, NULL);
            uv_run(&s->loop, UV_RUN_NOWAIT);
            mem_free(l->acceptors);
            l->acceptors = NULL;
            return err;
        }
        a->socket = &l->list.items[i];
        a->all = l;
        a->poll.data = a;
    }
    poll_all(l);
    atomic_store(&s->crew.is_accepting, true);
    return deal_udp(l);
}

const struct conn_origin *listeners_find(const struct server *s, int fd, uint8_t transport,
                                         bool is_control)
{
    const struct socket_list *list = &s->listeners->list;

    must_be_main();
    for (uint32_t i = 0; i < list->count; i++) {
        const struct conn_origin *origin = &list->items[i].origin;

        if (origin->transport == (enum conn_transport)transport &&
            origin->is_control == is_control && socket_accepts_for(list->items[i].fd, fd)) {
            return origin;
        }
    }
    return NULL;
}

bool listeners_have_place(const struct server *s, const struct conn_origin *origin)
{
    must_be_main();
    return !is_full_for(s, origin);
}

void listeners_each_socket(const struct server *s, void (*fn)(void *arg, int fd), void *arg)
{
    const struct listeners *l = s->listeners;

    must_be_main();
    for (uint32_t i = 0; i < l->list.count; i++) {
        fn(arg, l->list.items[i].fd);
    }
    /* One of each address. */
    for (uint32_t i = 0; i < l->udp.count; i += l->udp_group) {
        fn(arg, l->udp.items[i].fd);
    }
}

void listeners_pass_on(struct server *s)
{
    must_be_main();
    passed_on_note_sockets(&s->passed_on, &s->listeners->list);
    s->listeners->is_passed_on = true;
}

void listeners_close(struct server *s)
{
    struct listeners *l = s->listeners;

    must_be_main();
    if (l == NULL || l->is_closed) {
        return;
    }
    l->is_closed = true;
    if (l->acceptors != NULL && roster_created(&s->crew.roster) > 0 && !l->is_passed_on) {
        accept_waiting(l);
    }
    atomic_store(&s->crew.is_accepting, false);
    if (l->acceptors != NULL) {
        uv_close((uv_handle_t *)&l->retry, NULL);
        for (uint32_t i = 0; i < l->list.count; i++) {
            uv_close((uv_handle_t *)&l->acceptors[i].poll, NULL);
        }
    }
    for (uint32_t i = 0; i < l->list.count; i++) {
        socket_close(&l->list.items[i]);
    }
    for (uint32_t i = 0; !l->udp_is_dealt && i < l->udp.count; i++) {
        socket_close(&l->udp.items[i]);
    }
    while (l->spare_count > 0) {
        give_up_spare(l);
    }
    l->is_paused = false;
}

void listeners_destroy(struct server *s)
{
    struct listeners *l = s->listeners;

    must_be_main();
    if (l == NULL) {
        return;
    }
    mem_free(l->acceptors);
    mem_free(l->batches);
    mem_free(l->beyond);
    socket_list_fini(&l->list);
    socket_list_fini(&l->udp);
    mem_free(l);
    s->listeners = NULL;
}

void listeners_each(const struct crew *crew, stats_socket_fn fn, void *arg)
{
    const struct socket_list *list = &server_of_crew(crew)->listeners->list;

    for (uint32_t i = 0; i < list->count; i++) {
        struct stats_socket shown = {
            .fd = list->items[i].fd,
            .addr = list->items[i].name,
            .listen_addr = "",
            .tag = list->items[i].origin.tag,
            .state = "conn_listening",
            .last_cmd = crew->engine.started,
        };

        fn(arg, &shown);
    }
}

uint32_t listeners_count(const struct crew *crew)
{
    must(server_of_crew(crew)->listeners != NULL);
    return server_of_crew(crew)->listeners->list.count;
}
