/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks whether the client may send a request. A client with all rights has is_guarded off,
 * and pays one branch for each batch of requests. For any other client, every request of a
 * batch is checked before the first is executed. A request that is not allowed becomes a
 * CLASS_REFUSED, whose handler answers with the error. While the gate (daemon/access/gate.h)
 * refuses changes or clients, or makes reads miss, all clients are checked.
 *
 * These checks cover rights to read and write, and keys. Commands of operators are checked
 * where they are executed (exec_outside()), for all clients.
 */
#ifndef MAYFLY_DAEMON_COMMAND_GUARD_H
#define MAYFLY_DAEMON_COMMAND_GUARD_H

#include <stdbool.h>

#include "daemon/access/gate.h"
#include "daemon/access/rules.h"
#include "daemon/command/client.h"
#include "daemon/command/turn.h"
#include "daemon/worker/worker.h"
#include "proto/bin_compose.h"

/*
 * Begin a new client, whose rights are not known yet. Context: worker.
 */
void guard_begin(struct client *c, const struct worker *w);

/*
 * The client has logged in as this user: count and audit the login. False: no memory for the
 * name; the login must be rejected. Context: worker.
 */
bool guard_login(struct client *c, struct worker *w, struct span user);

/* The client is no longer logged in. Context: worker. */
void guard_logout(struct client *c, const struct worker *w);

/*
 * The rights that its operations in progress need, such as a dump, which continue without
 * further requests. 0: none. Context: worker.
 */
uint8_t guard_needs(const struct client *c, const struct worker *w);

/*
 * The rules were reloaded: the rights of the client must be determined again. False: an
 * operation in progress, such as a dump, is no longer allowed, and the connection must be
 * closed. Context: worker, outside a section.
 */
bool guard_doubt(struct client *c, const struct worker *w);

/* Must the requests of the turn's client be checked? Context: worker, in a turn. */
static inline bool guard_is_needed(const struct turn *t)
{
    return t->client->is_guarded || (t->w->gate & GATE_GUARDS) != 0;
}

/*
 * Determine the present rights of a guarded client, before its requests are checked. Context:
 * worker, in a turn.
 */
void guard_settle(struct turn *t);

/*
 * The reply with which the request of the turn's client is refused; REPLY_NONE: rights to read
 * and write, and its keys, allow it. has_key: check the keys too. Context: worker, in a turn,
 * after guard_settle().
 */
enum reply guard_ask(const struct turn *t, const struct request *r, bool has_key);

/* The same for a request in a datagram, which has no client. Context: worker, in a turn. */
enum reply guard_ask_datagram(const struct turn *t, const struct request *r, bool has_key);

/*
 * Check a request. If it is not allowed, turn it into a refusal; if items must not be shown
 * now, into one that misses. Context: as guard_ask().
 */
void guard_request(const struct turn *t, struct request *r);

/*
 * The reply with which the gate refuses changes now; REPLY_NONE: it does not. For requests that
 * are executed later than they were checked, or outside the section. Context: worker, in a
 * turn.
 */
enum reply guard_ask_gate(const struct turn *t);

/*
 * Does a refusal for this reason close the connection? A replica that serves no clients closes
 * it without a reply: clients that know servers only as up or down then try another one. A
 * datagram is answered. Context: any thread.
 */
bool guard_closes(enum reply why);

/* Change a request so that it misses: remove its key or keys. Context: worker. */
void guard_hide(struct request *r);

/* Count a request that is refused for this reason. Returns the reply to a binary one. */
enum bin_reply guard_count(const struct turn *t, enum reply why);

/* The handler of CLASS_REFUSED. Context: worker, in a turn. */
enum turn_stop exec_refused(struct turn *t, const struct request *r);

/*
 * The reply with which a command that is executed outside the section is refused; REPLY_NONE:
 * it is allowed. *is_operators: it is a command of operators. Context: worker.
 */
enum reply guard_operator(const struct turn *t, const struct request *r, bool *is_operators);

/* ---- audit.c ----------------------------------------------------------------------------- */

/*
 * The audit log (-o audit_log): log lines about logins and commands of operators. At most
 * AUDIT_BURST of each kind are written in LOG_LIMIT_S seconds, so that no client fills a disk;
 * the next line has the number of omitted ones. No line contains a password or a value.
 */

#define AUDIT_BURST 100u

/* Bytes of a name that are shown. */
#define AUDIT_NAME_MAX 64u

/* Write a name for the log: cut to AUDIT_NAME_MAX, with unusual characters replaced. */
void audit_put_name(struct span name, char out[AUDIT_NAME_MAX + 1]);

/*
 * A login has succeeded or failed. user: the name that the client sent; empty if unknown.
 * Context: worker.
 */
void audit_login(const struct client *c, const struct worker *w, struct span user,
                 bool is_good);

/* A command of operators was executed, or refused. Context: worker. */
void audit_command(const struct turn *t, const struct request *r, bool is_allowed);

#endif
