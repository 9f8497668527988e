/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of connections that other conn*.c call; for these only. Each source has a
 * section.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_STEPS_H
#define MAYFLY_DAEMON_CONN_CONN_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/command/client.h"
#include "daemon/command/turn.h"
#include "daemon/conn/conn_execute.h"
#include "daemon/conn/conn_state.h"
#include "daemon/net/passed_conns.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/watch.h"
#include "daemon/worker/worker.h"
#include "lib/base/budgets.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/span.h"
#include "proto/text_parse.h"

/* ---- conn.c ------------------------------------------------------------------------------ */

/*
 * The first part of conn_adopt(): create and count a connection. NULL: no memory, and the
 * descriptor is closed. Context: worker.
 */
struct conn *conn_create(struct worker *w, int fd, const struct conn_origin *origin);

/*
 * The address of the peer is known: begin TLS, or serve the connection; or close it, if its
 * address has too many connections. Context: worker.
 */
void conn_begin(struct conn *c);

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

/* ---- conn_auth.c ------------------------------------------------------------------------- */

/*
 * Connections whose clients have to authenticate before any other command (-Y, -S).
 */

/* Number of failed logins after which a connection is closed. */
#define CONN_AUTH_FAILURES_MAX 5u

/* Most bytes that a connection reads at once before it has authenticated. */
#define CONN_AUTH_READ_BYTES (8u * 1024)

/* Does a new connection have to authenticate? Context: worker. */
void conn_auth_begin(struct conn *c);

/*
 * A connection inherited from the previous program: if its client was logged in there, the
 * login is rechecked before its next request, as after a reload. If logins are no longer
 * required, it has no user. Returns false without memory. Context: worker.
 */
bool conn_auth_resume(struct conn *c, const struct passed_conn *p);

/*
 * While client_needs_login(): execute one authentication command from the input at p; *used is
 * the number of bytes consumed. Context: worker, in a turn.
 */
enum turn_stop conn_auth_take(struct turn *t, const char *p, size_t len, size_t *used);

/* A login failed; a client_login_failed_fn. Context: worker. */
bool conn_auth_failed(struct client *client, struct span user);

/*
 * The users were reloaded: connections whose user was removed are closed, at the next request
 * or, if they watch, at once. Context: worker, outside a section.
 */
void conn_auth_doubt_all(struct worker *w);

/* The same for one; it may be closed by that. Context: as above. */
void conn_auth_doubt(struct conn *c);

/* ---- conn_balance.c ---------------------------------------------------------------------- */

/*
 * Moves connections from a hot worker to another one (balance.h). They are moved by
 * conn_move.c, so none is closed. A connection with an operation in progress stays.
 */

/* worker_duties. Context: worker, outside a section. */
void conn_balance_obey(struct worker *w, const struct balance_order *order);
bool conn_balance_some(struct worker *w);

/* ---- conn_deadline.c --------------------------------------------------------------------- */

/*
 * Deadlines of connections: for the header of a balancer, the TLS handshake, and the login. A
 * connection that misses its deadline is closed. The time limit is the same for all
 * connections, so deadlines are in the order of the start. Each kind is a list in that order,
 * with one timer for the front. The cost of a connection does not depend on the number of
 * others, and is zero once it has passed all steps.
 */

/*
 * Start the time limit for this step of a connection. Does nothing if it runs already, or if
 * the time is not limited (-o auth_timeout=0). Context: worker.
 */
void conn_deadline_set(struct conn *c, enum conn_deadline which);

/* End the time limit for this step, if it runs. Context: worker. */
void conn_deadline_clear(struct conn *c);

/* The time limit for this step, in milliseconds; 0: none. Context: worker. */
msec_t conn_deadline_limit(const struct worker *w, enum conn_deadline which);

/* ---- conn_delay.c ------------------------------------------------------------------------ */

/*
 * Delay of failed logins: quick failures (access.h) are answered after -o auth_delay.
 * Meanwhile the connection waits as for any late answer: it is not read, nothing of it is
 * executed, and it may close. All wait equally long, so they are in a list of their worker in
 * the order in which they failed, and the timer of deadlines is set for the first.
 *
 * A successful login is never delayed: the password is checked first.
 */

/*
 * Must the answer to a failed login be delayed? failure: the result of auth_peers_note(). If
 * so, set client.is_delayed. Context: worker.
 */
void conn_delay_note(struct conn *c, const struct auth_failure *failure);

/*
 * If the answer must be delayed: send it later. False: it need not be, there is no memory, or
 * the connection has a service; the caller answers at once. Context: worker; the connection
 * waits for no other answer.
 */
bool conn_delay(struct conn *c, struct span reply);

/*
 * Send the answers whose delay has passed, within the limit of a turn of the loop, and set the
 * timer for the next. Context: worker.
 */
void conn_delay_check(struct worker *w, msec_t now);

/* The worker stops: send all delayed answers. Context: worker, outside a section. */
void conn_delay_end_all(struct worker *w);

/* ---- conn_drain.c ------------------------------------------------------------------------ */

/*
 * Closing all connections when the server stops. Requests received completely before the stop
 * are answered completely. Then the server shuts its side down, and the connection lingers: it
 * reads and discards further input until the peer closes too. Closing with unread input would
 * send a reset, and a reset destroys answers in transit.
 */

/*
 * The worker stops: let a connection finish its operations. If the time for that has passed,
 * close it in its present state. Context: worker, outside a section.
 */
void conn_drain(struct conn *c);

/* The same for all connections. Context: worker, outside a section. */
void conn_drain_all(struct worker *w);

/*
 * Called regularly while the worker stops. Closes lingering connections whose peer has
 * acknowledged everything and has been quiet for a while. In the finishing phase, drops input
 * that follows the reply in progress. Context: worker, outside a section.
 */
void conn_drain_check(struct worker *w);

/* Count bytes read since the stop. Context: worker. */
void conn_drain_count(struct conn *c, uint64_t bytes);

/* An event of a connection that is being closed. Context: worker, outside a section. */
void conn_drain_event(struct conn *c);

/* ---- conn_hold.c ------------------------------------------------------------------------- */

/*
 * Connections whose replies wait for the log (`appendfsync=always`): changes are answered after
 * they were synced. Meanwhile the replies are in the connection's queue, and the connection is
 * not read. Other connections of the worker continue. A connection that waits for too long is
 * closed; its client then cannot know the result of its requests. On the connection's worker.
 */

/* Time after which it is closed, in milliseconds. */
#define CONN_HOLD_MS 10000

/* Must its queued replies wait? Then conn_ready_release() sends them later. Context: worker. */
bool conn_hold(struct conn *c);

/* The waiting connection that is released first; NULL: none waits. Context: worker. */
struct conn *conn_hold_first(const struct worker *w);

/* Has the log the changes for which this connection waits? Context: worker. */
bool conn_hold_is_done(const struct conn *c);

/* ---- conn_idle.c ------------------------------------------------------------------------- */

/*
 * Disconnects idle clients (settings.idle_timeout). A connection is in the slot of the second
 * in which its timeout would expire. It is checked only in that second, and moved to a later
 * slot if it has received input since. So a request costs nothing here, and a check examines
 * only connections that may be due, whatever the number of connections.
 */

/* Start to check a connection; does nothing without a timeout. Context: worker. */
void conn_idle_begin(struct conn *c);

/* The timeout may have changed: reassign the slots of all connections. Context: worker. */
void conn_idle_changed(struct worker *w);

/*
 * Call about once a second: closes connections that were idle for too long. If there are very
 * many, closes some of them, and arranges a call in the next turn of the loop. Context: worker,
 * outside a section.
 */
void conn_idle_check(struct worker *w, msec_t now);

/* ---- conn_info.c ------------------------------------------------------------------------- */

/*
 * Descriptions of connections for watchers and `stats conns`.
 */

/* Note the address of the other end. Context: worker, when it is adopted. */
void conn_name_peer(struct conn *c);

/*
 * Set the address of the other end: address as in sockaddr_in or sockaddr_in6, port in host
 * byte order. Context: worker.
 */
void conn_set_peer(struct conn *c, uint16_t family, const void *address, uint16_t port);

/* Size of the buffer for conn_put_peer(). */
#define CONN_PEER_MAX CLIENT_PEER_MAX

/* Write the address of the other end without its port, or "unix". Context: worker. */
void conn_put_peer(const struct conn *c, char out[CONN_PEER_MAX]);

/* The same of the connection that a client is part of; a client_peer_fn. Context: worker. */
void conn_show_peer(const struct client *client, char out[CLIENT_PEER_MAX]);

/* The id of its address: auth_peers_id(). Context: worker. */
uint64_t conn_peer_id(const struct client *client);

/*
 * Log an event for watchers of connections: WATCH_CONN_NEW, WATCH_CONN_CLOSE. Context: worker.
 */
void conn_log(const struct conn *c, enum watch_kind kind);

/* Add a connection to its worker's list, or remove it. Context: worker. */
void conn_list_add(struct conn *c);
void conn_list_remove(struct conn *c);

/* ---- conn_input.c ------------------------------------------------------------------------ */

/* Reads the sockets of connections. */

/*
 * The socket may have input, for a line or for a large value: read once. Lines are executed at
 * once, or with the worker's round, conn_round_run(). Context: worker.
 */
void conn_input(struct conn *c);

/*
 * The same in a round of its own, and set what it waits for: if no event may come for the rest
 * of its input. Context: worker.
 */
void conn_input_alone(struct conn *c);

/* ---- conn_keep.c ------------------------------------------------------------------------- */

/* Input that is kept between two turns, and the accounting of its bytes. */

/*
 * Keep the input that a turn did not consume, and count it. False when there is no memory for
 * it, or the connection keeps too much. Context: worker.
 */
bool conn_keep_input(struct conn *c, enum input_kind kind, const char *p, size_t len,
                     size_t used);

/*
 * The kept input has changed, or n bytes were added to it. False: it exceeds the limit.
 * Context: worker.
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

/* ---- conn_move.c ------------------------------------------------------------------------- */

/*
 * Moving connections to another worker, because the number of active workers has changed
 * (daemon/worker/roster.h). A leaving worker moves all its connections. Another worker moves
 * its surplus over the worker with the fewest. No connection is closed, and no byte is lost:
 * unexecuted input, unsent replies (including pinned values and dumps), the login and the TLS
 * session move too.
 *
 * A connection moves between two turns. It does not move during an operation that ends soon: an
 * upload, a wait for room, for the log or for replicas, a late answer, a handshake, a login
 * with a time limit. A leaving worker checks these connections again after each turn. Endless
 * or long operations move with the connection: watching, an export, a replica's connection.
 * Other threads send messages for them to a relay (daemon/base/mailbox.h), not to the worker.
 *
 * The connection leaves all lists and accounts of its worker, and its poll handle is closed.
 * When the loop has released the handle, the connection is posted to the other worker, which
 * adopts it. That worker then applies the notices that all connections got meanwhile.
 */

/*
 * Move a connection to this worker. False: it cannot move now, and is unchanged. Context:
 * worker, outside a section, before the loop blocks.
 */
bool conn_move_to(struct conn *c, struct worker *to);

/* worker_duties. Context: worker, outside a section. */
void conn_move_begin(struct worker *w);
bool conn_move_some(struct worker *w);

/* ---- conn_output.c ----------------------------------------------------------------------- */

/* Sending queued replies, and answers that took longer than a turn. */

/* Send queued replies; when all are sent, continue with the kept input. Context: worker. */
void conn_write(struct conn *c);

/* A client_answered_fn: an answer that took longer than a turn is complete. Context: worker. */
void conn_answered(struct client *client, struct span reply, bool is_composed);

/* ---- conn_pace.c ------------------------------------------------------------------------- */

/*
 * Regular checks for clients that hold memory and are too slow, or wait for too long.
 */

/* Interval of checks while there are readers of pinned values, or uploads; milliseconds. */
#define CONN_PACE_PINS_MS    500
#define CONN_PACE_UPLOADS_MS 100

/*
 * Check them, and schedule the next check if any are left. Examines only clients that hold such
 * memory, and a bounded number of them. Context: worker, outside a section.
 */
void conn_pace_check(struct worker *w);

/*
 * Close connections whose handshake, login or header is late and, if the disk does not take the
 * log, those whose replies wait for it. Context: worker, outside a section.
 */
void conn_pace_check_deadlines(struct worker *w);

/* Options may have changed: update state that depends on the old values. Context: as above. */
void conn_pace_options_changed(struct worker *w);

/* ---- conn_pass.c ------------------------------------------------------------------------- */

/*
 * Passing connections on when the process becomes another program (net/passed_on.h). A
 * connection between two requests is passed on, with input that was not executed, and replies
 * that were not sent. A connection in the middle of something continues while the server stops,
 * and is passed on when that is done. Connections are not passed on if they use TLS, watch,
 * restore, are in the middle of a login, or belong to a replica or to what may become one.
 */

/*
 * If connections are being passed on, and this one can be now: pass it on, close it here and
 * return true. Context: worker, outside a section; it is in no round.
 */
bool conn_pass_on(struct conn *c);

/* Is there input from before the stop to read, or output to stream? Context: worker. */
bool conn_pass_has_input(const struct conn *c);

/* Will it be passed on once its operation in progress has ended? Context: worker. */
bool conn_passes_later(const struct conn *c);

/*
 * Do connections wait to be passed on for one whose client has neither sent nor taken anything
 * for WORKER_STALL_MS? Context: worker.
 */
bool conn_holds_others_up(const struct conn *c);

/* ---- conn_pin.c -------------------------------------------------------------------------- */

/*
 * Clients that read large values slowly: segments that their sockets did not accept at once
 * stay pinned until they are sent.
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

/* ---- conn_proxied.c ---------------------------------------------------------------------- */

/*
 * Connections from a balancer (--proxy-from) on a listener that is marked proxied: the header
 * of the PROXY protocol has the client's address. Until the header is complete, no byte of the
 * connection reaches TLS or a parser of commands. It has the same time limit as a TLS
 * handshake, and the bytes kept meanwhile are limited too.
 */

/*
 * Must a connection begin with a header? That depends on its listener and on its peer's
 * address. Context: worker, after conn_name_peer().
 */
bool conn_proxied_is_due(const struct conn *c);

/*
 * Wait for the header, then call conn_begin() with the peer that it names. The connection is
 * closed if the header is malformed, late or truncated. Context: worker.
 */
void conn_proxied_begin(struct conn *c);

/* Count a failed header, and close the connection. Context: worker. */
void conn_proxied_failed(struct conn *c, const char *why);

/* ---- conn_ready.c ------------------------------------------------------------------------ */

/*
 * Connections that are ready and wait for their next turn: they have used up their share of a
 * turn, or their event came when the budget of the loop's turn was used up. They are served in
 * order of arrival, but those whose last turn was little work are served first. This file also
 * serves connections that wait for room or for the log, and those with an event.
 */

/*
 * Must an event wait, because others have had enough in this turn of the loop? Context: worker.
 */
static inline bool conn_ready_must_wait(const struct conn *c)
{
    uint32_t units = c->worker->loop_units;

    must_be_worker(c->worker);
    return MF_UNLIKELY(units >= BUDGET_loop_units) &&
           (!c->is_light || units >= BUDGET_light_all_units);
}

/* Defer the event of a connection until others had their turns. Context: worker. */
void conn_ready_defer(struct conn *c);

/*
 * Serve waiting connections: up to BUDGET_loop_units of work for light ones, and as much for
 * the others. Context: worker, outside a section.
 */
void conn_ready_serve(struct worker *w);

/* Its socket has input, or takes queued replies: continue. Context: worker. */
void conn_take_event(struct conn *c);

/*
 * Retry connections that wait for room, in order: all, or those whose turn has come. Context:
 * worker, outside a section.
 */
void conn_ready_retry(struct worker *w, bool all);

/*
 * More of the log is on the disk: send replies that waited for it. Context: worker.
 */
void conn_ready_release(struct worker *w);

/* ---- conn_settle.c ----------------------------------------------------------------------- */

/*
 * Sets the state of a connection (enum conn_state), together with the events that its poll
 * handle is armed for and the list that it is parked in. They are set only here, so they are
 * always consistent.
 */

/*
 * Call after each event or turn: the connection waits until its replies are sent, and then for
 * conn.then, which its last turn has set; or it is closed. Context: worker.
 */
void conn_settle(struct conn *c);

/*
 * Set the state of a connection. If it is parked in this state already it keeps its place;
 * otherwise it leaves its list. Context: worker.
 */
void conn_enter(struct conn *c, enum conn_state state);

/* Take it out of the list that it is parked in, if any. Context: worker. */
void conn_unpark(struct conn *c);

/* Append it to this list of parked connections. Context: worker. */
void conn_park(struct conn *c, enum conn_park where);

/*
 * Discard input that has arrived, a bounded part of it: unread it would turn the close into a
 * reset, which may overtake the last replies. False: the peer has closed. Context: worker.
 */
bool conn_discard(struct conn *c);

/* Begin to close; it is released in the close callback. Context: worker. */
void conn_close(struct conn *c);

/*
 * Release a connection and close its socket, after the loop has released its poll handle.
 * Context: worker.
 */
void conn_release(struct conn *c);

/*
 * Close it so that the client looks for another server. Connections of the operator, those with
 * a service, and those that wait for an answer stay open. Context: worker, outside a section.
 */
void conn_dismiss(struct conn *c);

/*
 * Leave every state and list, because the connection is about to leave its worker. On the new
 * worker, conn_settle() sets its state again. Context: worker.
 */
void conn_leave_state(struct conn *c);

/*
 * The state of its login has changed: set or clear its time limit, and close the connection
 * after too many failures. Context: worker.
 */
void conn_note_login(struct conn *c);

/* Poll for these events of libuv; 0: none. Context: worker. */
void conn_arm(struct conn *c, int events);

/* ---- conn_shed.c ------------------------------------------------------------------------- */

/*
 * Closes connections that keep too much memory. This is done outside of turns: between two
 * events, or between serving two connections.
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

/* Send lines to a watching connection until its socket is full. Context: worker. */
void conn_stream(struct conn *c);

/* The same for all connections of a worker that watch. Context: worker. */
void conn_serve_watchers(struct worker *w);

/* ---- conn_tls.c -------------------------------------------------------------------------- */

/* The steps of a connection that differ with TLS. */

/* Time limit of a handshake, in milliseconds. */
#define TLS_HANDSHAKE_MS 10000

/* Begin the handshake of an accepted connection. Context: worker. */
void conn_tls_begin(struct conn *c);

/*
 * Do the next step of the handshake of a parked connection. *slice_end is 0 for the first
 * connection in a turn of the loop. Context: worker.
 */
void conn_tls_shake(struct conn *c, usec_t *slice_end);

/* ---- conn_upload.c ----------------------------------------------------------------------- */

/*
 * Uploads: values that do not fit the connection's buffer, while they are being received over
 * several turns. conn_upload_read.h reads them from the socket straight into their segments.
 */

/*
 * A value was stored that could have been placed (body_place()): try to place the next one?
 * Context: worker.
 */
bool conn_upload_expects_place(struct conn *c);

/*
 * Has the value that r announces probably arrived, and may it be read directly into its
 * segments? Context: worker, in a turn.
 */
bool conn_upload_may_place(const struct turn *t, const struct request *r);

/*
 * Begin to receive the value that r announces; may_place: the result of
 * conn_upload_may_place(). Context: worker, in a turn.
 */
enum turn_stop conn_upload_begin(struct turn *t, const struct request *r, bool may_place);

/*
 * Continue: take bytes of the value from p, then its line end, then store it. *used is the
 * number of bytes consumed; the lot grows by bytes that are read after it. TURN_GOES_ON when
 * the upload has ended. Context: worker, in a turn.
 */
enum turn_stop conn_upload_take(struct turn *t, struct lot *lot, const char *p, size_t len,
                                size_t *used);

/* Its upload's waiter in the line of a shard; NULL: it has no upload. Context: worker. */
const struct waiter *conn_upload_waiter(const struct conn *c);

/* Is it in the line of uploads (upload_line.h), so that it will be woken? Context: worker. */
bool conn_upload_has_place(const struct conn *c);

/* Leave both lines, if it is in one. A retry joins again, at the end. Context: worker. */
void conn_upload_leave_lines(struct conn *c);

/* Are bytes missing that can be read directly into its room? Context: worker. */
bool conn_upload_wants_read(const struct conn *c);

/* Release it without a reply. Context: worker. */
void conn_upload_drop(struct conn *c);

/* ---- conn_upload_read.c ------------------------------------------------------------------ */

/* Reads large values outside of turns, and aborts uploads that are too slow. */

/* Read into the upload (see conn_upload_wants_read()). Context: worker, outside a section. */
void conn_upload_read(struct conn *c);

/*
 * While uploads hold too much memory, shed the slow ones, with an error to their clients. True:
 * there are uploads, check again. Context: worker, outside a section.
 */
bool conn_upload_check(struct worker *w, msec_t now);

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
