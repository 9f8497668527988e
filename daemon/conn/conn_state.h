/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The internals of a connection: for conn*.c only. A connection is a poll handle and the state
 * kept between turns. An idle connection has only this struct.
 *
 * Each file calls only files that are listed below it:
 *
 *     conn_pace        regular checks for slow or late clients
 *     conn_heirs       connections inherited from the previous program
 *     conn_arrivals    accepted sockets that are not connections yet
 *     conn_balance     moving connections from a hot worker to another
 *     conn_move        moving connections to another worker
 *     conn_proxied     connections from balancers, until their header has come
 *     conn             creating, starting, polling
 *     conn_ready       serving connections that are parked or have an event
 *     conn_tls         handshakes
 *     conn_shed        closing connections that keep too much between turns
 *     conn_input       reading: one read a turn, the tail that is kept
 *     conn_upload_read large values straight into their segments
 *     conn_round       several connections served in one turn
 *     conn_idle        disconnecting idle clients
 *     conn_drain       closing all connections when the server stops
 *     conn_stream      a connection that watches
 *     conn_output      sending queued replies
 *     conn_pin         slow readers of large values
 *     conn_execute     input to turns: parse, execute, flush, keep
 *     conn_keep        input that is kept
 *     conn_batch       requests parsed ahead
 *     conn_pass        passing connections on to the program that takes over
 *     conn_auth        before a client has authenticated
 *     conn_settle      what a connection waits for next, or its end
 *     conn_wait        connections whose stores wait for room
 *     conn_upload      large values being received, as part of turns
 *     conn_hold        connections whose replies wait for the log
 *     conn_login       logins that need a hash of the password
 *     conn_delay       delayed answers to failed logins
 *     conn_weigh       measuring the work of each connection, while balancing
 *     conn_accounts    recomputing a worker's counts by a walk, for debug builds
 *     conn_info        descriptions of connections for watchers and `stats conns`
 *     conn_deadline    time limits of handshakes and logins
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_STATE_H
#define MAYFLY_DAEMON_CONN_CONN_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/base/list.h"
#include "daemon/base/pace.h"
#include "daemon/command/client.h"
#include "daemon/command/turn.h"
#include "daemon/conn/conn_weigh.h"
#include "daemon/net/origin.h"
#include "daemon/worker/crew.h"
#include "daemon/worker/insight.h"
#include "daemon/worker/worker.h"
#include "lib/base/budgets.h"
#include "lib/base/buf.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/context.h"
#include "proto/request.h"

#define CONN_MAGIC 0x636f6e6eu

/* Time that a store waits for room before it fails, milliseconds. */
#define CONN_ROOM_WAIT_MS 1000

/*
 * A connection that expects a large value reads only this much at once: a line and little of
 * the value, as that is copied once more.
 */
#define CONN_READ_LITTLE_BYTES 512u

/* Why a connection closes, as it is reported to watchers. */
enum close_reason {
    CLOSE_ERROR,
    CLOSE_REFUSED, /* its last input is not a request; reported as an error */
    CLOSE_NORMAL,
    CLOSE_IDLE,
    CLOSE_SHUTDOWN,
};

/*
 * The state of a connection: the one event that it waits for. Only conn_enter() sets it, except
 * in a round (conn_round.c). Until the end of a connection, any state may follow any other.
 */
enum conn_state {
    CONN_BEGINS, /* nothing: it was just accepted, or is moving between workers */
    CONN_HEADER, /* the header of a balancer; conn.in has its first bytes */
    CONN_SHAKES, /* its TLS handshake; parked: a step of the handshake is due */
    CONN_INPUT,  /* input */
    CONN_ROUND,  /* the worker's round, which has its input */
    CONN_EVENT,  /* parked: its turn; an event came, and its input was not read yet */
    CONN_TURN,   /* parked: its turn, to execute kept input */
    CONN_TASK,   /* a slice as a task, to execute kept input */
    CONN_ROOM,   /* parked: room for its store */
    CONN_ANSWER, /* a late answer; meanwhile it is neither read nor executed */
    CONN_LOGIN,  /* the same for a login, which is dropped if the client disconnects */
    CONN_OUTPUT, /* room in its socket */
    CONN_LOG,    /* parked: the log, which must have the changes before it is answered */
    CONN_ENDS,   /* only as `then`: it closes when its replies are sent */
    /* The server stops. */
    CONN_ANNOUNCES, /* room in the socket for the shutdown of the sending side */
    CONN_LINGERS,   /* the peer's close; input is dropped */
    CONN_CLOSED, /* nothing: conn_close() was called, and its memory is about to be released */
};

/* Where connections are parked, each list in the order in which they came. */
enum conn_park {
    PARK_LIGHT, /* ready: those whose last turn was little work; served first */
    PARK_READY, /* ready: the others */
    PARK_ROOM,
    PARK_LOG,
    PARKS,
};

/* Steps with a time limit, see conn_steps.h. */
enum conn_deadline { DEADLINE_HANDSHAKE, DEADLINE_LOGIN, DEADLINES };

/* Seconds ahead that idle connections are sorted by, see conn_steps.h. */
#define IDLE_SLOTS 64

/* Connections by the second in which they will have been idle for too long. */
struct idle {
    struct list slot[IDLE_SLOTS];
    msec_t timeout_ms; /* timeout by which the slots are filled; 0: none, and they are empty */
    msec_t second;     /* the first second that was not checked yet */
    uint32_t count;    /* connections in all slots */
    uint32_t pass;     /* number of the present check, or of the next one */
};

/* The connections of a worker, and its datagram sockets. [worker] */
struct conns {
    struct conn *first;      /* doubly linked list of all that are open */
    struct conn *move_next;  /* the next one to check for a move to another worker */
    struct list cursors;     /* of struct stats_conn_cursor: positions in that list */
    struct udp *udp;         /* list of datagram sockets */
    struct weights *weights; /* owned; NULL: their work is not measured */
    struct round *round;     /* owned; connections read and not yet served */
    uv_poll_cb on_event;     /* [const] of all poll handles */
    /*
     * Set while the server stops, else NULL. Called before a connection waits for an event.
     * True: the connection has left this worker.
     */
    bool (*drains)(struct conn *c);
    struct list parked[PARKS];
    struct list deadlines[DEADLINES]; /* connections with a time limit, the oldest first */
    struct list delayed;              /* answers to failed logins: see conn_steps.h */
    struct idle idle;
    struct list pins_new; /* connections that pinned a value since the last check */
    struct list pins;     /* connections that pinned one earlier */
    struct list uploads;
    msec_t pins_checked; /* time of the last check of pins */
    msec_t uploads_checked;
    msec_t held_ms; /* conn_wait_now() when the last wait for the log ended */
};

/* In conn.events: unknown, so the next conn_arm() always arms the handle. */
#define CONN_EVENTS_OLD 0xffu

/* The address of the peer at the time of connecting. */
struct conn_peer {
    uint8_t address[16]; /* as in sockaddr_in, sockaddr_in6 */
    uint16_t port;       /* 0: a unix socket */
    uint16_t family;
};

struct conn {
    /* [const] */
    uint32_t magic;
    struct conn_peer peer;
    struct worker *worker; /* [borrowed] changes when the connection moves */

    /* [worker] */
    struct client client; /* socket, output, and operations of commands */
    uint8_t state;        /* enum conn_state: what it waits for */
    uint8_t then;         /* the state after its replies are sent: see conn_settle() */
    uint8_t events;       /* events that the poll handle is armed for */
    uint8_t protocol;     /* enum binding_protocol; PROTOCOL_AUTO until its first byte came */
    uint8_t place_rest;   /* number of large values until one is read into its place again */
    uint8_t close_reason; /* enum close_reason, when it closes now */
    uint8_t quiet_checks; /* while it lingers: checks since the peer last sent something */
    /* One bit each; the comment ends with the code that sets it. */
    bool is_light : 1;     /* its last turn was little work: lot_execute() */
    bool reads_little : 1; /* large values are expected: lot_execute() */
    bool is_saturated : 1; /* its last read filled the buffer: the functions that read */
    bool was_idle : 1;     /* when the server began to stop: conn_drain() */
    bool has_place : 1;    /* it is counted for its address: conn_begin() */
    bool is_proxied : 1;   /* its peer was named by a balancer: conn_proxied.c, conn_pass.c */
    uint32_t idle_pass;    /* the last check that visited it */
    uint16_t weight_slot;  /* its place in the worker's weights, from 1; 0: none */
    uint16_t given_s;      /* when balance moved it last (conn_balance.c); 0: never */
    size_t drain_bytes;    /* received before the stop and not read */
    struct conn *next;     /* worker's list */
    struct conn *prev;
    struct list_link park;          /* in the list of its state, if that has one */
    struct list_link idle_link;     /* in a slot of the worker's struct idle */
    struct list_link deadline_link; /* see conn_steps.h */
    msec_t deadline_since;          /* by conn_wait_now() */
    struct buf in;                  /* input not consumed; no memory when there is none */
    size_t need;      /* bytes that `in` must reach before parsing again can help; 0: any */
    uint64_t swallow; /* bytes of input to be dropped unread */
    struct task task; /* continues with `in` and the dump */
    struct upload *upload; /* owned, or NULL */
    msec_t wait_since;     /* conn_wait_now() when it began to wait for room */
    msec_t last_active;    /* when bytes were last received or sent */
    uv_poll_t poll;
};

_Static_assert(sizeof(struct conn) <= 512, "a connection that waits takes one small block");

/* The connection that a client is part of. Context: any thread. */
static inline struct conn *conn_of_client(struct client *client)
{
    struct conn *c = MF_OUTER(client, struct conn, client);

    debug_must(c->magic == CONN_MAGIC);
    return c;
}

/* The connection that waits for a slice by a task. Context: any thread. */
static inline struct conn *conn_of_task(struct task *task)
{
    struct conn *c = MF_OUTER(task, struct conn, task);

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

/* Was it closed? Then it must not be used. Context: worker. */
static inline bool conn_is_closed(const struct conn *c)
{
    must_be_worker(c->worker);
    return c->state == CONN_CLOSED;
}

/* Does it wait for a turn, room or the log in a list, and not for an event? Context: worker. */
static inline bool conn_is_parked(const struct conn *c)
{
    must_be_worker(c->worker);
    return list_has_link(&c->park);
}

/* Does one of its stores wait for room, now or after its replies are sent? Context: worker. */
static inline bool conn_is_waiting(const struct conn *c)
{
    must_be_worker(c->worker);
    return c->then == CONN_ROOM;
}

/* Is there input that can be executed without reading, now or later? Context: worker. */
static inline bool conn_is_kept(const struct conn *c)
{
    must_be_worker(c->worker);
    return c->then >= CONN_TURN && c->then <= CONN_LOGIN;
}

/* May its stores still wait for room? Context: worker. */
static inline bool conn_may_wait(const struct conn *c)
{
    must_be_worker(c->worker);
    return !conn_is_waiting(c) || conn_wait_now() - c->wait_since < CONN_ROOM_WAIT_MS;
}

/* Must other work be done before its next request can be parsed? Context: worker. */
static inline bool conn_has_pending(const struct conn *c)
{
    must_be_worker(c->worker);
    return client_has_rest(&c->client) || client_dumps(&c->client) || c->upload != NULL ||
           c->swallow > 0 || client_needs_login(&c->client);
}

/*
 * Count bytes read or sent without a turn, and the event that caused it, as work of this turn
 * of the loop; turns are counted by lot_execute(). Context: worker.
 */
static inline void conn_count_work(struct conn *c, size_t bytes)
{
    const uint32_t units = (uint32_t)(bytes / COST_UNIT_BYTES) + COST_EVENT_UNITS;

    must_be_worker(c->worker);
    c->worker->loop_units += units;
    if (MF_UNLIKELY((c->worker->insight.on & INSIGHT_WORK) != 0)) {
        conn_weigh(c, units);
    }
}

/* Stop checking whether it is idle. Context: worker. */
static inline void conn_leave_idle(struct conn *c)
{
    must_be_worker(c->worker);
    if (list_has_link(&c->idle_link)) {
        list_remove(&c->idle_link);
        c->worker->conns->idle.count--;
    }
}

#endif
