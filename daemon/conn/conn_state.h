/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection from the inside: for conn*.c only. A connection is a poll handle and what is
 * kept between turns; while it is idle that is nothing but this struct.
 *
 *     conn.c         adopt, close, events, what to wait for next
 *     conn_auth.c    before a client has said who it is
 *     conn_batch.[ch] requests parsed ahead
 *     conn_io.[ch]   system calls, or TLS
 *     conn_tls.c     handshakes, and what TLS has read ahead
 *     conn_turn.c    one turn: parse, execute, flush
 *     conn_input.c   reading: one read a turn, the tail that is kept
 *     conn_body.c    large values straight into their segments
 *     conn_round.[ch] several connections served in one turn
 *     conn_sasl.c    SASL, which the pool asks the library about
 *     conn_stream.c  a connection that watches; connections as watchers see them
 *     conn_stats.c   the stats command, answers that take longer than a turn
 *     conn_watch.c   the look at all connections: idle, waiting, stalled, draining
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_STATE_H
#define MAYFLY_DAEMON_CONN_CONN_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/command/dump.h"
#include "daemon/command/exec.h"
#include "daemon/command/observe.h"
#include "daemon/conn/conn.h"
#include "daemon/net/conn_io.h"
#include "daemon/net/outq.h"
#include "daemon/worker/worker.h"
#include "lib/base/buf.h"
#include "proto/request.h"
#include "proto/text.h"

#define CONN_MAGIC 0x636f6e6eu

/* A store waits so long for room before it fails, milliseconds. */
#define CONN_ROOM_WAIT_MS 1000

/*
 * A connection that expects a large value reads no more at once: a line and little of the
 * value, which is copied once more.
 */
#define CONN_READ_LITTLE_BYTES 512u

/* What a connection reads at once before it has authenticated. */
#define CONN_AUTH_READ_BYTES (8u * 1024)

/* A large value on its way in. */
struct upload {
    struct request req; /* its key points to `key`, its args to `args` */
    struct body *body;  /* owned */
    size_t len;         /* announced bytes, counted in body_pending_bytes */
    msec_t moved;       /* when its last bytes came */
    bool may_place;     /* to be tried with its first bytes: read it into its place */
    bool is_shed;       /* it has to give way to others */
    char key[ITEM_KEY_MAX];
    char args[]; /* of ms: the flags */
};

/* An answer that comes later; outlives its connection when that closes. */
struct conn_ask {
    struct conn *conn; /* [borrowed] NULL when it closed */
};

/* An answer of stats that other workers contribute to. */
struct stats_ask {
    struct conn_ask ask;
    struct buf reply;
    struct request req; /* its spans are gone when the answer comes */
    bool is_dump;       /* binary: all lines make one statistic */
};

/* The rest of a get line that was interrupted; its keys stand at the front of conn.in. */
struct get_rest {
    size_t keys_bytes;
    size_t line_bytes; /* keys and line end */
    int64_t exptime;
    uint8_t command;
    bool wants_cas;
    bool is_active;
};

/* Why a connection closes, as watchers are told. */
enum close_reason { CLOSE_ERROR, CLOSE_NORMAL, CLOSE_IDLE, CLOSE_SHUTDOWN };

/* Who is at the other end, as it was when it came. */
struct conn_peer {
    uint8_t address[16]; /* as in sockaddr_in, sockaddr_in6 */
    uint16_t port;       /* 0: a unix socket */
    uint16_t family;
};

struct conn {
    /* [const] */
    uint32_t magic;
    struct worker *worker; /* [borrowed] */
    struct io io;
    const struct conn_origin *origin; /* [borrowed] */
    struct conn_peer peer;
    uint64_t serial; /* from 1; the worker's list has the highest first */

    /* [worker] */
    uint8_t events;     /* what the poll handle is armed for */
    bool is_shaking;    /* its TLS handshake is not over */
    uint8_t protocol;   /* enum binding_protocol; PROTOCOL_AUTO until its first byte came */
    bool is_closing;    /* conn_close() was called: refuses work */
    bool is_finishing;  /* closes when its output is sent; executes nothing more */
    bool is_kept;       /* `in` has requests that can be executed without reading */
    bool is_queued;     /* stands in the worker's round: input of it waits there */
    bool is_ready;      /* stands in the worker's ready list */
    bool is_waiting;    /* for memory to come: conn_scan() tries again */
    bool reads_little;  /* large values are expected */
    bool is_saturated;  /* the last read got all that was asked for */
    uint8_t place_rest; /* large values until one is read into its place again */
    bool needs_auth;    /* has to authenticate before anything else */
    struct conn *next;  /* worker's list */
    struct conn *prev;
    struct conn *ready_next; /* ring of those that yielded, while is_ready */
    struct conn *ready_prev;
    struct buf in;     /* input not consumed; no memory when there is none */
    size_t need;       /* bytes that `in` must reach before parsing again can help; 0: any */
    uint64_t swallow;  /* bytes of input to be dropped unread */
    struct outq outq;  /* output that the socket did not take */
    size_t held_bytes; /* of outq, as counted in out_pending_bytes */
    struct get_rest rest;
    struct dump dump;
    struct upload *upload;     /* owned, or NULL */
    struct conn_ask *ask;      /* [borrowed] owned by itself until answered, or NULL */
    struct exchange *exchange; /* owned, or NULL: SASL waits for its next step */
    struct watcher *watcher;   /* owned until it closes; NULL: it does not watch */
    uint8_t close_reason;      /* enum close_reason, when it closes now */
    msec_t wait_since;         /* when is_waiting began, by conn_wait_now() */
    msec_t last_active;        /* when the last bytes came or went */
    uv_poll_t poll;
};

_Static_assert(sizeof(struct conn) <= 768, "an idle connection stays well below 1 KiB");

/* A waiting store tries again after so long; pins and bodies are looked at, milliseconds. */
#define CONN_RETRY_MS 1u
#define CONN_WATCH_MS 500u

struct conn *conn_from_poll(uv_poll_t *poll);

/* The clock of waits for room: real time, also where a test holds the engine's clock. */
static inline msec_t conn_wait_now(void)
{
    return clock_mono_us() / 1000;
}

/* Is something to be done before its next request can be parsed? Context: worker. */
static inline bool conn_has_pending(const struct conn *c)
{
    return c->rest.is_active || c->dump.is_active || c->upload != NULL || c->swallow > 0 ||
           c->needs_auth;
}

/* ---- conn.c ------------------------------------------------------------------------------ */

/* Poll for these events, UV_READABLE or UV_WRITABLE; 0: none. Context: worker. */
void conn_arm(struct conn *c, int events);

/* Its input may have come, for a line or for a large value: read it. Context: worker. */
void conn_input(struct conn *c);

/*
 * End a connection whose replies are all with the kernel, in such a way that they arrive.
 * Context: worker.
 */
void conn_end(struct conn *c);

/* After anything happened: wait for the right thing next, or close. Context: worker. */
void conn_settle(struct conn *c);

/* It yielded: its next turn comes after those of all others that did. Context: worker. */
void conn_ready_add(struct conn *c);

/* Send what waits; when all is sent go on with what is kept. Context: worker. */
void conn_write(struct conn *c);

/* ---- conn_tls.c -------------------------------------------------------------------------- */

/* A handshake that takes longer is given up, milliseconds. */
#define TLS_HANDSHAKE_MS 10000

/* What it waits for may have come; it is in no list. Context: worker. */
void conn_tls_event(struct conn *c);

/*
 * It left the ready list. *slice_end is 0 before the first connection of a turn of the loop.
 * Context: worker.
 */
void conn_tls_serve(struct conn *c, usec_t *slice_end);

/* Has it been at its handshake for too long? Context: worker. */
bool conn_tls_is_overdue(const struct conn *c, msec_t now);

/* ---- conn_watch.c ------------------------------------------------------------------------ */

/* Have the worker look at its connections in so many milliseconds. Context: worker. */
void conn_watch(struct conn *c, unsigned ms);

/* The worker stops: finish what was begun, then close. Context: worker. */
void conn_drain(struct conn *c);

/* ---- conn_turn.c ------------------------------------------------------------------------- */

enum input_kind {
    INPUT_READ, /* bytes in the worker's read buffer; what is not consumed is kept */
    INPUT_KEPT, /* bytes at the front of c->in; what is consumed leaves it */
};

/*
 * Execute input, flush, keep what has to be kept, settle. Context: worker, outside a section.
 */
void conn_execute(struct conn *c, enum input_kind kind, char *p, size_t len);

/* Go on with what is kept. */
void conn_execute_kept(struct conn *c);

/* Bytes that may wait for slow clients on this worker. Context: worker. */
uint64_t conn_pending_max(const struct worker *w);

/* Count what the output queue holds; false when this worker's queues hold too much. */
bool conn_count_output(struct conn *c);

/* ---- conn_input.c ------------------------------------------------------------------------ */

/*
 * Read once. What came is served with the worker's round, conn_round_run(), if not at once.
 * Context: worker.
 */
void conn_read(struct conn *c);

/*
 * Keep what a turn did not consume. False when there is no memory for it or slow clients keep
 * too much; counted. Context: worker.
 */
bool conn_keep_input(struct conn *c, enum input_kind kind, const char *p, size_t len,
                     size_t used);

/* ---- conn_body.c ------------------------------------------------------------------------- */

/*
 * A value was stored that might have been placed: shall the next one be? Context: worker.
 */
bool conn_upload_expects_place(struct conn *c);

/*
 * Is the value that r announces likely to be there, and may it be read into its place?
 * Context: worker, in a turn.
 */
bool conn_upload_may_place(const struct turn *t, const struct request *r);

/*
 * Begin to receive the value that r announces; may_place: conn_upload_may_place() of it.
 * Context: worker, in a turn.
 */
enum turn_stop conn_upload_begin(struct turn *t, const struct request *r, bool may_place);

/*
 * Go on with it: takes bytes of its value from p, then its line end, then stores. *used is what
 * was consumed. TURN_GOES_ON when it is through. Context: worker, in a turn.
 */
enum turn_stop conn_upload_take(struct turn *t, const char *p, size_t len, size_t *used);

/* Is it still missing bytes that can be read straight into its room? */
bool conn_upload_wants_read(const struct conn *c);

/* Read them. Context: worker, outside a section. */
void conn_upload_read(struct conn *c);

/* Give up an upload with an error to its client. Context: worker, outside a section. */
void conn_upload_shed(struct conn *c);

/* Release it without a word. Context: worker. */
void conn_upload_drop(struct conn *c);

/* Do bodies on their way hold most of what they may? Context: worker. */
bool conn_uploads_press(const struct worker *w);

/* ---- conn_auth.c ------------------------------------------------------------------------- */

/* Does a new connection have to authenticate? Context: worker. */
void conn_auth_begin(struct conn *c);

/*
 * While needs_auth: take one authentication command from p and answer it; *used is what was
 * consumed. Context: worker, in a turn.
 */
enum turn_stop conn_auth_take(struct turn *t, const char *p, size_t len, size_t *used);

/* Read and drop; closes at the end of the input. Context: worker. */
void conn_discard(struct conn *c);

/* ---- conn_stream.c ----------------------------------------------------------------------- */

/* Send lines to a connection that watches while its socket takes them. Context: worker. */
void conn_stream(struct conn *c);

/* The same for all connections of a worker that watch. Context: worker. */
void conn_serve_watchers(struct worker *w);

/* Note who is at the other end. Context: worker, when it is adopted. */
void conn_name_peer(struct conn *c);

/* Tell those who watch connections: WATCH_CONN_NEW, WATCH_CONN_CLOSE. Context: worker. */
void conn_log(const struct conn *c, enum watch_kind kind);

/* ---- conn_stats.c ------------------------------------------------------------------------ */

enum turn_stop conn_stats(struct turn *t, const struct request *r);

#endif
