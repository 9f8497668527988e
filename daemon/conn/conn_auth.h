/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections whose clients have to authenticate before any other command (-Y, -S).
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_AUTH_H
#define MAYFLY_DAEMON_CONN_CONN_AUTH_H

#include "daemon/command/turn.h"

struct conn;
struct passed_conn;
struct worker;

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
 * The users were reloaded: connections whose user is gone are closed, at the next request or,
 * if they watch, at once. Context: worker, outside a section.
 */
void conn_auth_doubt_all(struct worker *w);

/* The same for one; it may be closed by that. Context: as above. */
void conn_auth_doubt(struct conn *c);

#endif
