/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection from the inside: for conn*.c only. A connection is a poll handle and what is
 * kept between turns; while it is idle that is nothing but this struct.
 *
 *     conn          adopt, close, events, what to wait for next
 *     conn_arrivals those that were accepted and have not begun
 *     conn_input    reading: one read a turn, the tail that is kept
 *     conn_round    several connections served in one turn
 *     conn_ready    connections that wait for their next turn
 *     conn_batch    requests parsed ahead
 *     conn_execute  input to turns: parse, execute, flush, keep
 *     conn_upload   large values straight into their segments
 *     conn_auth     before a client has authenticated
 *     conn_login    logins that take a hash of the password
 *     conn_tls      handshakes, and what TLS has read ahead
 *     conn_proxied  connections of balancers, until they say for whom
 *     conn_stream   a connection that watches
 *     conn_info     connections as watchers and `stats conns` see them
 *     conn_wait     connections whose stores wait for room
 *     conn_hold     and those whose replies wait for the log
 *     conn_deadline handshakes and logins that take too long
 *     conn_drain    the end of all connections when the server stops
 *     conn_pass     those that go along with the program that takes over
 *     conn_shed     those that keep too much between turns
 *     conn_pace     the regular check for those that are too slow:
 *     conn_pin      readers of large values; uploads are in conn_upload
 *     conn_idle     those that say nothing
 *
 * These files call each other in circles: each event may lead to any next step of a connection,
 * and a step that is done asks conn.c what to wait for (conn_settle()).
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_STATE_H
#define MAYFLY_DAEMON_CONN_CONN_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/base/list.h"
#include "daemon/base/pace.h"
#include "daemon/command/client.h"
#include "daemon/command/turn.h"
#include "daemon/net/origin.h"
#include "daemon/worker/crew.h"
#include "daemon/worker/tasks.h"
#include "lib/base/buf.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"
#include "proto/request.h"

struct upload;

#define CONN_MAGIC 0x636f6e6eu

/* A store waits so long for room before it fails, milliseconds. */
#define CONN_ROOM_WAIT_MS 1000

/*
 * A connection that expects a large value reads only this much at once: a line and little of
 * the value, as that is copied once more.
 */
#define CONN_READ_LITTLE_BYTES 512u

/* The rest of a get line that was interrupted; its keys are at the front of conn.in. */
struct get_rest {
    size_t keys_bytes;
    size_t line_bytes; /* keys and line end */
    int64_t exptime;
    uint8_t command;
    bool wants_cas;
    bool is_active;
};

/* A connection's place in one of the lists of conn_deadline.h. */
struct conn_place {
    struct list_link link;
    msec_t since; /* by conn_wait_now() */
};

/* Why a connection closes, as it is reported to watchers. */
enum close_reason { CLOSE_ERROR, CLOSE_NORMAL, CLOSE_IDLE, CLOSE_SHUTDOWN };

/* How far the end of a connection has come while the server stops. */
enum conn_ending {
    ENDING_NOT,       /* what was received is answered */
    ENDING_ANNOUNCES, /* the end waits for room in the socket */
    ENDING_LINGERS,   /* it was announced; input is dropped until the peer closes */
};

/* In conn.events: nothing that may be armed for, so the next time counts. */
#define CONN_EVENTS_OLD 0xffu

/* The address of the other end, as it was when it connected. */
struct conn_peer {
    uint8_t address[16]; /* as in sockaddr_in, sockaddr_in6 */
    uint16_t port;       /* 0: a unix socket */
    uint16_t family;
};

struct conn {
    /* [const] */
    uint32_t magic;
    struct conn_peer peer;
    struct worker *worker; /* [borrowed] */

    /* [worker] */
    struct client client; /* socket, output, and what commands have begun */
    uint8_t events;       /* what the poll handle is armed for */
    bool is_shaking;      /* its TLS handshake is not over */
    uint8_t protocol;     /* enum binding_protocol; PROTOCOL_AUTO until its first byte came */
    bool is_closing;      /* conn_close() was called: refuses work */
    bool is_finishing;    /* closes when its output is sent; executes nothing more */
    bool is_refused;      /* what it sent last is no request: it closes for that */
    bool is_kept;         /* `in` has requests that can be executed without reading */
    bool is_queued;       /* is in the worker's round: its input waits there */
    bool is_deferred;     /* is ready with an event to be taken: nothing was read for it yet */
    bool is_light;        /* its last turn was little work */
    bool reads_little;    /* large values are expected */
    bool is_saturated;    /* the last read got all that was asked for */
    bool is_half_closed;  /* it sent its end while it waited for its login */
    uint8_t place_rest;   /* so many large values until one is read into its place again */
    uint8_t close_reason; /* enum close_reason, when it closes now */
    uint8_t ending;       /* enum conn_ending */
    uint8_t quiet_checks; /* while it lingers: since the peer last sent something */
    bool was_idle;        /* when the server was told to stop */
    /* Seldom asked, so they share a byte. */
    bool has_place : 1;     /* it counts as one of its address */
    bool is_proxied : 1;    /* its peer is who a balancer said */
    bool awaits_header : 1; /* a balancer has to say who it is; `in` has what came of that */
    uint32_t idle_pass;     /* the last check that looked at it */
    size_t drain_bytes;     /* received before the stop and not read yet */
    struct conn *next;      /* worker's list */
    struct conn *prev;
    struct list_link ready_link; /* in the worker's list of those that are ready */
    struct list_link wait_link;  /* and of those that wait for room: conn_wait_retry() */
    struct list_link idle_link;  /* in a slot of the worker's struct idle */
    struct conn_place deadlines[DEADLINES];
    struct buf in;    /* input not consumed; no memory when there is none */
    size_t need;      /* bytes that `in` must reach before parsing again can help; 0: any */
    uint64_t swallow; /* bytes of input to be dropped unread */
    struct get_rest rest;
    struct task task;      /* to go on with `in` and the dump: more work than a request's */
    struct upload *upload; /* owned, or NULL */
    struct pace pin;       /* how fast its pinned value is read, while there is one */
    uint64_t pin_sent;     /* bytes written since that began */
    msec_t pin_seen;       /* when it was first looked at how many of them the peer had taken */
    int64_t pin_seen_at;   /* and how many those were */
    msec_t wait_since;     /* when it began to wait for room, by conn_wait_now() */
    msec_t last_active;    /* when the last bytes came or went */
    uv_poll_t poll;
};

_Static_assert(sizeof(struct conn) <= 896, "an idle connection stays well below 1 KiB");

/* The connection that a client is part of. Context: any thread. */
static inline struct conn *conn_of_client(struct client *client)
{
    struct conn *c = (struct conn *)(void *)((char *)client - offsetof(struct conn, client));

    debug_must(c->magic == CONN_MAGIC);
    return c;
}

/* The connection that waits for a slice by a task. Context: any thread. */
static inline struct conn *conn_of_task(struct task *task)
{
    struct conn *c = (struct conn *)(void *)((char *)task - offsetof(struct conn, task));

    debug_must(c->magic == CONN_MAGIC);
    return c;
}

/* The connection whose turn it is. Context: worker, in its turn. */
static inline struct conn *turn_conn(const struct turn *t)
{
    must_be_worker(t->w);
    return conn_of_client(t->client);
}

/* The clock of waits for room: real time, also where a test holds the engine's clock. */
static inline msec_t conn_wait_now(void)
{
    return clock_mono_ms();
}

/* Does it wait for its next turn? Context: worker. */
static inline bool conn_is_ready(const struct conn *c)
{
    must_be_worker(c->worker);
    return list_has_link(&c->ready_link);
}

/* Does it wait for room? Context: worker. */
static inline bool conn_is_waiting(const struct conn *c)
{
    must_be_worker(c->worker);
    return list_has_link(&c->wait_link);
}

/* May stores of it still ask for time to wait for room? Context: worker. */
static inline bool conn_may_wait(const struct conn *c)
{
    must_be_worker(c->worker);
    return !conn_is_waiting(c) || conn_wait_now() - c->wait_since < CONN_ROOM_WAIT_MS;
}

/* Is something to be done before its next request can be parsed? Context: worker. */
static inline bool conn_has_pending(const struct conn *c)
{
    must_be_worker(c->worker);
    return c->rest.is_active || c->client.dump.is_active || c->upload != NULL ||
           c->swallow > 0 || c->client.needs_auth;
}

#endif
