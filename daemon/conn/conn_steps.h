/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations of sources that have only one or two functions for others: for conn*.c only.
 * Each source has a section.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_STEPS_H
#define MAYFLY_DAEMON_CONN_CONN_STEPS_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/command/turn.h"
#include "daemon/conn/conn_execute.h"
#include "daemon/conn/conn_state.h"
#include "daemon/worker/worker.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "proto/text_auth.h"

struct balance_order;

/* ---- conn_accounts.c --------------------------------------------------------------------- */

/*
 * Builds with --enable-debug recompute a worker's counts of its connections by a walk over all
 * of them. When the server has stopped, the connections' contributions to the common counts of
 * all workers must be zero: see crew_stop().
 */

/* Context: worker, between two turns, outside a section. */
#ifdef MAYFLY_DEBUG
void conn_accounts_check(const struct worker *w);
#else
static inline void conn_accounts_check(const struct worker *w)
{
    (void)w;
}
#endif

/* ---- conn_balance.c ---------------------------------------------------------------------- */

/*
 * Moves connections from a hot worker to another one (balance.h). They are moved by
 * conn_move.h, so none is closed. A connection that is in the middle of something stays.
 */

/* worker_duties. Context: worker, outside a section. */
void conn_balance_obey(struct worker *w, const struct balance_order *order);
bool conn_balance_some(struct worker *w);

/* ---- conn_input.c ------------------------------------------------------------------------ */

/* Reads the sockets of connections. */

/*
 * The socket may have input, for a line or for a large value: read once. Lines are executed at
 * once, or with the worker's round, conn_round_run(). Context: worker.
 */
void conn_input(struct conn *c);

/* ---- conn_keep.c ------------------------------------------------------------------------- */

/* Input that is kept between two turns, and the accounting of its bytes. */

/*
 * Keep the input that a turn did not consume, and count it. False when there is no memory for
 * it, or the connection keeps too much. Context: worker.
 */
bool conn_keep_input(struct conn *c, enum input_kind kind, const char *p, size_t len,
                     size_t used);

/*
 * The kept input has changed, or n bytes were added to it. False: it is too much. Context:
 * worker.
 */
bool conn_count_kept(struct conn *c, size_t n);

/* ---- conn_login.c ------------------------------------------------------------------------ */

/*
 * Logins of the text protocol whose password may be stored as a hash: a thread of the pool
 * computes the hash, and the client waits. conn_auth.c calls it.
 */

/*
 * Start the check of a login: TURN_LOGS_IN. If too many logins wait, the client gets an error
 * and may retry: TURN_CLOSES. Context: worker, in a turn.
 */
enum turn_stop conn_login_begin(struct turn *t, const struct text_auth *offer);

/* ---- conn_output.c ----------------------------------------------------------------------- */

/* Sending queued replies, and answers that took longer than a turn. */

/* Send queued replies; when all are sent, continue with the kept input. Context: worker. */
void conn_write(struct conn *c);

/* A client_answered_fn: an answer that took longer than a turn is complete. Context: worker. */
void conn_answered(struct client *client, struct span reply, bool is_composed);

/* ---- conn_shed.c ------------------------------------------------------------------------- */

/*
 * Closes connections that keep too much. This is done outside of turns: between two events, or
 * between two connections that are served.
 */

/*
 * Close the connections of this worker that have to be closed (holders.h), and make the other
 * workers do the same. Runs the round first. Context: worker, outside a section.
 */
void conn_shed(struct worker *w);

/* Only those of this worker. Context: as above. */
void conn_shed_quietly(struct worker *w);

/* The same, if the limit may be exceeded. May close any connection. Context: as above. */
static inline void conn_shed_if_crowded(struct worker *w)
{
    if (MF_UNLIKELY(w->holders.is_crowded)) {
        conn_shed(w);
    }
}

/* ---- conn_stream.c ----------------------------------------------------------------------- */

/* Connections of watchers: sends them the lines of events. */

/* Send lines to a connection that watches while its socket takes them. Context: worker. */
void conn_stream(struct conn *c);

/* The same for all connections of a worker that watch. Context: worker. */
void conn_serve_watchers(struct worker *w);

/* ---- conn_upload_read.c ------------------------------------------------------------------ */

/* Reads large values outside of turns, and aborts uploads that are too slow. */

/* Read into the upload (see conn_upload_wants_read()). Context: worker, outside a section. */
void conn_upload_read(struct conn *c);

/*
 * While uploads hold too much memory, shed those that come too slowly, with an error to their
 * clients. True: there are uploads, check again. Context: worker, outside a section.
 */
bool conn_upload_check(struct worker *w, msec_t now);

/* ---- conn_hold.c ------------------------------------------------------------------------- */

/*
 * Connections whose replies wait for the log (`appendfsync=always`): changes are answered when
 * they are on the disk. Meanwhile the replies are in the connection's queue, and the connection
 * is not read. Other connections of the worker go on. A connection that waits for too long is
 * closed: its client cannot know the result of its requests then. On the connection's worker.
 */

/* Time after which it is closed, in milliseconds. */
#define CONN_HOLD_MS 10000

/* Must its queued replies wait? Then conn_ready_release() sends them later. Context: worker. */
bool conn_hold(struct conn *c);

/* The waiting connection that is released first; NULL: none waits. Context: worker. */
struct conn *conn_hold_first(const struct worker *w);

/* Has the log the changes for which this connection waits? Context: worker. */
bool conn_hold_is_done(const struct conn *c);

/* ---- conn_pin.c -------------------------------------------------------------------------- */

/*
 * Clients that read large values slowly: what their sockets did not take at once stays pinned
 * until it is sent.
 */

/* `bytes` bytes of its queue were written, pinned or not. Context: worker. */
void conn_pin_wrote(struct kept *k, uint64_t bytes);

/* Are there such connections? Context: worker. */
bool conn_pin_has_any(const struct worker *w);

/*
 * Close readers that make no progress, if the dead memory pinned by all readers exceeds its
 * limit. Context: worker, outside a section.
 */
void conn_pin_check(struct worker *w, msec_t now);

/* ---- conn_tls.c -------------------------------------------------------------------------- */

/* The steps of a connection that differ with TLS. */

/* A handshake that takes longer is given up, milliseconds. */
#define TLS_HANDSHAKE_MS 10000

/* Begin the handshake of an accepted connection. Context: worker. */
void conn_tls_begin(struct conn *c);

/* The socket may have input, or TLS may have read some ahead. Context: worker. */
void conn_tls_input(struct conn *c);

/*
 * Do the next step of the handshake of a parked connection. *slice_end is 0 for the first
 * connection in a turn of the loop. Context: worker.
 */
void conn_tls_shake(struct conn *c, usec_t *slice_end);

/* ---- conn_wait.c ------------------------------------------------------------------------- */

/*
 * Connections whose next store or flush waits for room. They are in a separate list in the
 * order in which they began to wait, so retrying them does not touch other connections.
 */

/* Begin to wait, or continue to wait. Context: worker. */
void conn_wait_begin(struct conn *c);

/* End the wait, if it waits. Context: worker. */
void conn_wait_end(struct conn *c);

/*
 * Replies of it wait to be sent. If its store waits for room, it is not retried before they are
 * taken, and leaves the lines, where others would wait for it. Context: worker.
 */
void conn_wait_put_off(struct conn *c);

/* Is it in a line without having been woken? Then a retry would fail. Context: worker. */
bool conn_wait_is_in_vain(const struct conn *c);

/* Set the time at which a waiting connection is retried if it is not woken. Context: worker. */
void conn_wait_settle(struct conn *c);

#endif
