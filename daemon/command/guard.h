/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who may what, at the requests themselves. A client that may all has is_guarded off, and pays
 * a look at that for what was read at once. Of any other each request is looked at before the
 * first of them is executed; one that is not allowed becomes a CLASS_REFUSED, whose execution
 * is its answer. While the gate (daemon/access/gate.h) refuses changes or clients, or has reads
 * miss, all clients are looked at.
 *
 * Rights to read and to write, and keys, are a matter of these. Commands of operators are
 * looked at where they are executed (exec_outside()), whoever sends them.
 */
#ifndef MAYFLY_DAEMON_COMMAND_GUARD_H
#define MAYFLY_DAEMON_COMMAND_GUARD_H

#include "daemon/access/rules.h"
#include "daemon/command/client.h"
#include "daemon/command/turn.h"
#include "daemon/persist/append.h"
#include "daemon/worker/worker.h"
#include "proto/bin_compose.h"

struct client;
struct worker;

/*
 * What a new client may is not known yet. Context: worker.
 */
void guard_begin(struct client *c, const struct worker *w);

/*
 * It has logged in as this user: that is counted and audited. False: no memory for that, and it
 * must not be let in. Context: worker.
 */
bool guard_login(struct client *c, struct worker *w, struct span user);

/* It is nobody in particular any more. Context: worker. */
void guard_logout(struct client *c, const struct worker *w);

/*
 * The rules were read again: what it may is not known any more. False: what it has begun, such
 * as a dump, is no longer allowed, and it has to leave. Context: worker, outside a section.
 */
bool guard_doubt(struct client *c, const struct worker *w);

/* Are the requests of the turn's client to be looked at? Context: worker, in a turn. */
static inline bool guard_is_needed(const struct turn *t)
{
    return t->client->is_guarded || (t->w->gate & GATE_GUARDS) != 0;
}

/*
 * Before requests of a client that is guarded: find out what it may now. Context: worker, in a
 * turn.
 */
void guard_settle(struct turn *t);

/*
 * Why the client of the turn may not do this; REPLY_NONE: it may, as far as rights to read and
 * write and its keys go. has_key: look at keys. Context: worker, in a turn, after
 * guard_settle().
 */
enum reply guard_ask(const struct turn *t, const struct request *r, bool has_key);

/* The same for a request of a datagram, which is nobody's. Context: worker, in a turn. */
enum reply guard_ask_datagram(const struct turn *t, const struct request *r, bool has_key);

/*
 * If the client may not do this, make it a request that says so; if what is here must not be
 * shown, one that misses. Context: as guard_ask().
 */
void guard_request(const struct turn *t, struct request *r);

/*
 * Why the gate refuses changes now; REPLY_NONE: it does not. For what is executed later than it
 * was asked for, or outside of the section. Context: worker, in a turn.
 */
enum reply guard_ask_gate(const struct turn *t);

/*
 * Is the connection closed by a command that is refused for this reason? A replica that serves
 * no clients closes it without a word, as clients that know servers only as up or down look for
 * another server then; a datagram is answered. Context: any thread.
 */
bool guard_closes(enum reply why);

/* Make it one that misses: no key, or no more keys. Context: worker. */
void guard_hide(struct request *r);

/* Count a request that is refused for this reason. Returns the reply to a binary one. */
enum bin_reply guard_count(const struct turn *t, enum reply why);

/* Answer such a request. Context: worker, in a turn. */
enum turn_stop exec_refused(struct turn *t, const struct request *r);

/*
 * Why the client may not give a command that is executed outside of the section; REPLY_NONE: it
 * may. *is_operators: it is one for operators. Context: worker.
 */
enum reply guard_operator(const struct turn *t, const struct request *r, bool *is_operators);

#endif
