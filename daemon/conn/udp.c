/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams: read, executed, answered; see conn.h. On the worker that owns the socket.
 *
 * A datagram is a separate turn without a connection, so nothing is kept for later: no half
 * line, no incomplete value, no replies that the socket does not accept. A reply is composed
 * completely before any of it is sent, because each of its datagrams carries their number. The
 * work of a datagram is bounded too, because none of it can be continued in a later turn.
 */
#include "daemon/conn/conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/command/exec.h"
#include "daemon/command/timing.h"
#include "daemon/conn/conn_execute.h"
#include "daemon/conn/conn_state.h"
#include "daemon/net/sockets.h"
#include "daemon/options/settings.h"
#include "daemon/worker/insight.h"
#include "daemon/worker/worker.h"
#include "lib/base/budgets.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"
#include "lib/base/mem.h"
#include "proto/bin_compose.h"
#include "proto/bin_parse.h"
#include "proto/text_parse.h"
#include "proto/udp.h"

#define UDP_MAGIC 0x75647073u

/* Maximum size of a datagram. Those of one call are adjacent in the worker's buffer. */
#define SLOT_BYTES (64u * 1024)
#define SLOTS      (WORKER_RBUF_BYTES / SLOT_BYTES)

/* Maximum number of datagrams of a reply: what the output buffer of a worker can hold. */
#define PARTS_MAX (WORKER_OBUF_BYTES / UDP_PAYLOAD_MAX + 1)

/*
 * Clients do not use such ports. They belong to services, which would take our reply for a
 * request and answer it, which would be a request to us.
 */
#define SERVICE_PORT_MAX 1023u

struct udp {
    struct message message; /* must be first; used while moving to another worker */
    /* [const] */
    uint32_t magic;
    uint32_t number; /* its worker is this number modulo the number of workers */
    int fd;
    uint16_t port;         /* of its own address */
    struct worker *worker; /* [borrowed] changes when it moves */
    char name[SOCKET_NAME_MAX];
    /* [worker] */
    struct udp *next; /* worker's list */
    uv_poll_t poll;
};

/* One datagram that is being served. */
struct datagram {
    struct udp *socket; /* [borrowed] */
    union socket_address *from;
    socklen_t from_len;
    struct udp_frame frame;
    size_t left;   /* bytes of replies that it may still cause; 0: the rest is not executed */
    uint32_t sent; /* datagrams of replies sent */
};

static struct udp *udp_from_poll(uv_poll_t *poll)
{
    struct udp *u = poll->data;

    must(u->magic == UDP_MAGIC);
    return u;
}

/* ---- addresses --------------------------------------------------------------------------- */

/* Is it an address of this machine? A reply to it reaches no other machine. */
static bool is_loopback(const union socket_address *a)
{
    if (a->sa.sa_family == AF_INET6) {
        return IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
    }
    return (ntohl(a->in.sin_addr.s_addr) >> IN_CLASSA_NSHIFT) == IN_LOOPBACKNET;
}

static bool is_client(const struct datagram *d)
{
    uint16_t port = socket_address_port(d->from);

    return port > SERVICE_PORT_MAX && port != d->socket->port;
}

/*
 * Maximum bytes of all replies to a datagram. A datagram can contain hundreds of requests, so a
 * limit for each reply would not protect the victim of a forged address.
 */
static size_t replies_max(const struct datagram *d)
{
    return is_loopback(d->from) ? SIZE_MAX
                                : setting_get(d->socket->worker->settings, udp_reply_max);
}

/* Account for a reply of n bytes. */
static void spend(struct datagram *d, size_t n)
{
    size_t cost = n + UDP_FRAME_BYTES;

    d->left -= cost < d->left ? cost : d->left;
}

/* ---- replies ----------------------------------------------------------------------------- */

/* Send n bytes in as many datagrams as needed. */
static void send_reply(struct datagram *d, const char *bytes, size_t n)
{
    struct counters *c = &d->socket->worker->counters;
    struct udp_frame frame = {.id = d->frame.id, .total = (uint16_t)udp_datagrams(n)};
    struct mmsghdr message[PARTS_MAX];
    struct iovec iov[PARTS_MAX][2];
    char head[PARTS_MAX][UDP_FRAME_BYTES];
    unsigned count = frame.total;
    unsigned sent = 0;

    must(count <= PARTS_MAX);
    spend(d, n);
    d->sent += count;
    for (unsigned i = 0; i < count; i++) {
        size_t at = (size_t)i * UDP_PAYLOAD_MAX;
        size_t part = n - at < UDP_PAYLOAD_MAX ? n - at : UDP_PAYLOAD_MAX;

        frame.seq = (uint16_t)i;
        udp_frame_write(head[i], &frame);
        iov[i][0] = (struct iovec){head[i], UDP_FRAME_BYTES};
        iov[i][1] = (struct iovec){(char *)(uintptr_t)bytes + at, part};
        message[i].msg_hdr = (struct msghdr){.msg_name = d->from,
                                             .msg_namelen = d->from_len,
                                             .msg_iov = iov[i],
                                             .msg_iovlen = 2};
    }
    while (sent < count) {
        ssize_t done = TEMP_FAILURE_RETRY(
            sendmmsg(d->socket->fd, message + sent, count - sent, MSG_NOSIGNAL));

        if (done <= 0) {
            break; /* as if lost in the network: the client retries */
        }
        sent += (unsigned)done;
    }
    ctr_add(c, CTR_bytes_written, n + (uint64_t)count * UDP_FRAME_BYTES);
    if (sent < count) {
        ctr_add(c, CTR_udp_dropped, 1);
    }
}

static void send_error(struct datagram *d, enum reply why)
{
    struct span text = reply_text(why);

    ctr_add(&d->socket->worker->counters, CTR_udp_errors, 1);
    send_reply(d, text.ptr, text.len);
}

/*
 * Copy the value that the output refers to, if there is one, into the output, because a
 * datagram is sent from contiguous memory. False: no room.
 */
static bool join_value(struct out *o)
{
    size_t after = o->len - o->mark;
    struct span part;

    if (o->value_left == 0) {
        return true;
    }
    if (o->value_left > o->cap - o->len) {
        return false;
    }
    char *to = o->base + o->mark;
    memmove(to + o->value_left, to, after);
    while (value_walk_next(&o->walk, &part)) {
        memcpy(to, part.ptr, part.len);
        to += part.len;
    }
    o->len += o->value_left;
    o->value_left = 0;
    return true;
}

static void send_bin_error(struct datagram *d, const struct request *r, enum bin_reply why)
{
    char frame[BIN_REPLY_MAX];

    ctr_add(&d->socket->worker->counters, CTR_udp_errors, 1);
    send_reply(d, frame, bin_compose_reply(frame, r, why, 0));
}

/* Send an error in the protocol of the request. */
static void send_refusal(struct datagram *d, const struct request *r, enum reply why,
                         enum bin_reply bin_why)
{
    if (request_is_binary(r)) {
        send_bin_error(d, r, bin_why);
    } else {
        send_error(d, why);
    }
}

/*
 * The reply of one request is composed: send it, or an error if it is too long.
 */
static void answer_request(struct datagram *d, struct turn *t, const struct request *r)
{
    if (t->is_halted || !join_value(&t->out) || t->out.len > d->left) {
        send_refusal(d, r, REPLY_UDP_TOO_LONG, BIN_REPLY_TOO_LARGE);
    } else if (t->out.len > 0) {
        send_reply(d, t->out.base, t->out.len);
    }
    out_init(&t->out, t->out.base, t->out.cap);
    t->is_halted = false;
}

/* ---- requests ---------------------------------------------------------------------------- */

/*
 * Commands of operators are not: they have long replies, or change more than one client's
 * items.
 */
static bool is_served(const struct request *r)
{
    return (r->cls != CLASS_ADMIN && r->cls != CLASS_BINARY_ADMIN) || r->command == CMD_VERSION;
}

static void execute_request(struct datagram *d, struct turn *t, struct request *r)
{
    if (!is_served(r)) {
        send_refusal(d, r, REPLY_UDP_NOT_SERVED, BIN_REPLY_UNKNOWN);
        return;
    }
    enum reply why = guard_ask_datagram(t, r, true);
    if (why != REPLY_NONE) {
        send_refusal(d, r, why, guard_count(t, why));
        return;
    }
    if ((t->w->gate & GATE_MISSES) != 0) {
        guard_hide(r);
    }
    r->hash = engine_hash(t->e, r->key.ptr, r->key.len);
    enum turn_stop stop = exec_request(t, r);
    turn_tally(t); /* count before the client receives the reply */
    if (t->insight != 0) {
        timing_count(t, r);
    }
    if (stop == TURN_WAITS) {
        send_refusal(d, r, REPLY_NO_MEMORY_STORE, BIN_REPLY_NO_MEMORY_STORE);
    } else if (stop == TURN_YIELDS) {
        /* A get of too many keys: keys that were found are dropped with the reply. */
        out_init(&t->out, t->out.base, t->out.cap);
        t->is_halted = false;
        send_error(d, REPLY_UDP_TOO_MANY);
    } else {
        answer_request(d, t, r);
    }
    if (t->insight != 0) {
        timing_sent(t);
    }
}

/* Count a request. False: the limit of work of the datagram is used up. */
static bool is_within_share(const struct datagram *d, struct turn *t)
{
    uint64_t spent = t->units + (uint64_t)d->sent * COST_DATAGRAM_UNITS;

    t->units++;
    return spent < BUDGET_loop_units;
}

/* Answer a request that the parser refused. */
static void answer_refused(struct datagram *d, struct turn *t, const struct request *r,
                           enum reply reply)
{
    enum reply why = guard_ask_datagram(t, r, r->invalidate);

    if (why != REPLY_NONE) {
        (void)guard_count(t, why);
        reply = why;
    } else if (r->cls == CLASS_STORE || r->command == CMD_MS) {
        exec_store_failed(t, r, reply);
    }
    if (!r->noreply) {
        send_error(d, reply);
    }
}

/* Execute the requests of a payload in order. */
static void run_text(struct datagram *d, struct turn *t, struct span payload)
{
    char key[TEXT_KEY_ROOM]; /* for a decoded base64 key */

    while (payload.len > 0 && d->left > 0) {
        char *room = key;
        struct text_limits limits = {.value_max = t->e->item_bytes_max,
                                     .key_room = &room,
                                     .has_extensions = t->w->settings->extensions};
        struct request r;
        enum reply reply;
        size_t used;
        enum parse_status status =
            text_parse(payload.ptr, payload.len, &limits, &r, &used, &reply);

        if (!is_within_share(d, t)) {
            send_error(d, REPLY_UDP_TOO_MANY);
            return;
        }
        switch (status) {
        case PARSE_OK:
            execute_request(d, t, &r);
            break;
        case PARSE_REPLY:
            answer_refused(d, t, &r, reply);
            if (r.cls == CLASS_STORE || r.command == CMD_MS) {
                return; /* the rest may be the value, which must not be run as a command */
            }
            break;
        case PARSE_MORE:
        case PARSE_BODY:
            send_error(d, REPLY_UDP_INCOMPLETE);
            return;
        case PARSE_CLOSE:
            return;
        }
        if (used >= payload.len) {
            return;
        }
        payload = span_of(payload.ptr + used, payload.len - used);
    }
}

/* The same for requests of the binary protocol. */
static void run_binary(struct datagram *d, struct turn *t, struct span payload)
{
    struct bin_limits limits = {.value_max = t->e->item_bytes_max};

    while (payload.len > 0 && d->left > 0) {
        struct request r;
        enum bin_reply reply;
        size_t used;
        enum parse_status status =
            bin_parse(payload.ptr, payload.len, &limits, &r, &used, &reply);

        if ((status == PARSE_OK || status == PARSE_REPLY) && !is_within_share(d, t)) {
            send_bin_error(d, &r, BIN_REPLY_TOO_LARGE);
            return;
        }
        switch (status) {
        case PARSE_OK:
            execute_request(d, t, &r);
            break;
        case PARSE_REPLY:
            send_bin_error(d, &r, reply);
            used += r.value_len;
            break;
        case PARSE_BODY:
            send_bin_error(d, &r, BIN_REPLY_INVALID);
            return;
        case PARSE_CLOSE:
            if (reply != BIN_REPLY_OK) {
                send_bin_error(d, &r, reply);
            }
            return;
        case PARSE_MORE:
            /* The header or the key is truncated: it cannot be answered. */
            ctr_add(&t->w->counters, CTR_udp_errors, 1);
            return;
        }
        if (used >= payload.len) {
            return;
        }
        payload = span_of(payload.ptr + used, payload.len - used);
    }
}

/* The first byte of each datagram selects its protocol. */
static void run_payload(struct datagram *d, struct turn *t, struct span payload)
{
    uint32_t protocol = t->w->settings->protocol;
    bool is_binary = payload.len > 0 && (unsigned char)payload.ptr[0] == BIN_REQUEST;

    if (is_binary ? protocol == PROTOCOL_ASCII : protocol == PROTOCOL_BINARY) {
        ctr_add(&t->w->counters, CTR_udp_errors, 1);
    } else if (is_binary) {
        run_binary(d, t, payload);
    } else {
        run_text(d, t, payload);
    }
}

/* Serve one datagram. Returns the units of work used. */
static uint64_t serve_datagram(struct udp *u, char *p, size_t n, struct msghdr *head)
{
    struct counters *c = &u->worker->counters;
    struct datagram d = {.socket = u, .from = head->msg_name, .from_len = head->msg_namelen};
    struct span payload;
    struct turn t;

    ctr_add(c, CTR_bytes_read, n);
    ctr_add(c, CTR_udp_datagrams, 1);
    if ((head->msg_flags & MSG_TRUNC) != 0 || !is_client(&d) ||
        !udp_frame_read(span_of(p, n), &d.frame, &payload)) {
        ctr_add(c, CTR_udp_errors, 1);
        return 1;
    }
    d.left = replies_max(&d);
    if (d.frame.total > 1) {
        send_error(&d, REPLY_UDP_MULTI_PACKET);
        return COST_DATAGRAM_UNITS;
    }
    turn_begin(&t, u->worker);
    turn_take(&t, NULL);
    if (t.insight != 0) {
        if ((t.insight & INSIGHT_WORK) != 0) {
            conn_weigh_other(u->worker, COST_EVENT_UNITS + COST_DATAGRAM_UNITS);
            t.insight &= ~(uint32_t)INSIGHT_WORK;
        }
        timing_begin(&t);
    }
    /* Enough for any unfragmented datagram; one of 64 KiB could name 30 000 keys. */
    t.unit_limit = BUDGET_loop_units;
    run_payload(&d, &t, payload);
    turn_pass(&t, false);
    turn_end(&t);
    return t.units + (uint64_t)d.sent * COST_DATAGRAM_UNITS;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct udp *u = udp_from_poll(poll);
    union socket_address from[SLOTS];
    struct iovec iov[SLOTS];
    struct mmsghdr message[SLOTS];
    uint64_t units = 0;
    int got = SLOTS;

    (void)events;
    if (status < 0) {
        log_warn("udp, %s failed (%s)", u->name, uv_strerror(status));
        return;
    }
    insight_note_event(u->worker);
    conn_round_run(u->worker); /* its input is in the same buffer */
    worker_now(u->worker);
    /*
     * The same share as a connection. Remaining datagrams stay readable, so the loop returns.
     */
    while (got == SLOTS && units < turn_share_units(u->worker) && units < BUDGET_loop_units) {
        for (unsigned i = 0; i < SLOTS; i++) {
            iov[i] = (struct iovec){u->worker->rbuf + (size_t)i * SLOT_BYTES, SLOT_BYTES};
            message[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
                                                 .msg_namelen = sizeof(from[i]),
                                                 .msg_iov = &iov[i],
                                                 .msg_iovlen = 1};
        }
        got = recvmmsg(u->fd, message, SLOTS, MSG_DONTWAIT, NULL);
        for (int i = 0; i < got; i++) {
            /* A datagram without a request counts too: it had to be received. */
            units +=
                1 + serve_datagram(u, iov[i].iov_base, message[i].msg_len, &message[i].msg_hdr);
        }
    }
}

/* ---- life -------------------------------------------------------------------------------- */

/* The poll handle is ready: add the socket to the worker's list. */
static void begin(struct udp *u, struct worker *w)
{
    u->worker = w;
    u->poll.data = u;
    u->next = w->conns->udp;
    w->conns->udp = u;
    uv_poll_start(&u->poll, UV_READABLE, on_readable);
}

bool udp_adopt(struct worker *w, int fd, uint32_t number)
{
    struct udp *u = mem_zalloc(sizeof(*u));
    union socket_address own;
    socklen_t len = sizeof(own);

    must_be_worker(w);
    memset(&own, 0, sizeof(own));
    if (u == NULL || getsockname(fd, &own.sa, &len) != 0 ||
        uv_poll_init(&w->loop, &u->poll, fd) != 0) {
        mem_free(u);
        close(fd);
        return false;
    }
    u->magic = UDP_MAGIC;
    u->fd = fd;
    u->port = socket_address_port(&own);
    u->number = number;
    socket_name(fd, u->name);
    begin(u, w);
    return true;
}

static void on_closed(uv_handle_t *handle)
{
    struct udp *u = udp_from_poll((uv_poll_t *)handle);

    u->magic = 0;
    mem_free(u);
}

bool udp_has_any(const struct worker *w)
{
    must_be_worker(w);
    return w->conns->udp != NULL;
}

static void on_arrival(struct message *m, void *receiver)
{
    struct udp *u = (struct udp *)(void *)m; /* its first member */
    struct worker *w = receiver;

    must_be_worker(w);
    if (uv_poll_init(&w->loop, &u->poll, u->fd) != 0) {
        log_warn("udp, a worker no longer reads %s (no memory)", u->name);
        close(u->fd);
        u->magic = 0;
        mem_free(u);
    } else {
        begin(u, w);
        w->deals |= !w->is_stopping; /* the number of workers may have changed meanwhile */
        if (w->is_stopping) {
            udp_close_all(w);
        }
    }
    roster_has_come(&w->crew->roster, w->id);
}

static void on_left(uv_handle_t *handle)
{
    struct udp *u = udp_from_poll((uv_poll_t *)handle);

    mailbox_post(&u->worker->mailbox, &u->message);
}

void udp_give(struct worker *w)
{
    struct udp **at = &w->conns->udp;

    must_be_worker(w);
    while (*at != NULL) {
        struct udp *u = *at;
        const uint32_t to = roster_wanted(&w->crew->roster, u->number);

        if (to == w->id || !roster_may_go(&w->crew->roster, to)) {
            at = &u->next;
            continue;
        }
        *at = u->next;
        u->worker = &w->crew->workers[to]; /* no more of its events arrive here */
        u->message.fn = on_arrival;
        uv_close((uv_handle_t *)&u->poll, on_left);
    }
}

void udp_close_all(struct worker *w)
{
    must_be_worker(w);
    while (w->conns->udp != NULL) {
        struct udp *u = w->conns->udp;

        on_readable(&u->poll, 0, UV_READABLE); /* answer datagrams received before the stop */
        w->conns->udp = u->next;
        uv_close((uv_handle_t *)&u->poll, on_closed);
        close(u->fd);
    }
}

void udp_each(struct worker *w, stats_socket_fn fn, void *arg)
{
    must_be_worker(w);
    for (const struct udp *u = w->conns->udp; u != NULL; u = u->next) {
        struct stats_socket shown = {
            .fd = u->fd,
            .takes_datagrams = true,
            .addr = u->name,
            .listen_addr = "",
            .tag = "",
            .state = "conn_read",
            .last_cmd = w->engine->started,
        };

        fn(arg, &shown);
    }
}
