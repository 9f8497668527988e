/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection that has to say who it is (-Y), on its worker. It stands before everything else
 * that looks at input, so until it has authenticated no byte of it reaches a parser of
 * commands, of whatever protocol.
 *
 * What such a connection can make the server keep is bounded: it reads little at once
 * (CONN_AUTH_READ_BYTES), keeps less than that, and goes on only when its replies are taken.
 */
#include "daemon/conn_state.h"

#include "daemon/auth.h"
#include "daemon/server.h"
#include "lib/counters.h"
#include "proto/text_auth.h"

/* So many replies of refusals are sent before more are composed, bytes. */
#define REPLIES_MAX_BYTES (4u * 1024)

/* Entries that are compared in the time of one unit of work. */
#define ENTRIES_PER_UNIT 1024

_Static_assert(AUTH_LINE_MAX == TEXT_AUTH_VALUE_MAX, "every line of a file can be sent");
_Static_assert(CONN_AUTH_READ_BYTES > TEXT_AUTH_LINE_MAX + TEXT_AUTH_VALUE_MAX + 4,
               "the longest command that is looked at can be read at once");

void conn_auth_begin(struct conn *c)
{
    c->needs_auth = auth_is_on(&c->worker->server->auth);
}

/* An offer of user and password. */
static enum reply judge(struct turn *t, const struct text_auth *offer)
{
    const struct auth *auth = &t->w->server->auth;

    ctr_add(&t->w->counters, CTR_auth_cmds, 1);
    t->units += auth_count(auth) / ENTRIES_PER_UNIT;
    if (!auth_check(auth, offer->user, offer->password)) {
        ctr_add(&t->w->counters, CTR_auth_errors, 1);
        return REPLY_AUTH_FAILURE;
    }
    t->conn->needs_auth = false;
    return REPLY_STORED;
}

enum turn_stop conn_auth_take(struct turn *t, const char *p, size_t len, size_t *used)
{
    struct conn *c = t->conn;
    struct text_auth offer;
    enum reply reply;
    enum parse_status status = text_auth_parse(p, len, &offer, used, &reply);

    if (status == PARSE_MORE) {
        c->need = offer.need;
        return TURN_DRY;
    }
    if (status == PARSE_CLOSE) {
        *used = len;
        return TURN_CLOSES;
    }
    if (status == PARSE_OK) {
        reply = judge(t, &offer);
    }
    c->swallow = offer.swallow;
    turn_reply(t, reply);
    t->requests++;
    t->units++;
    if (t->out.len >= REPLIES_MAX_BYTES) {
        turn_flush(t);
    }
    if (t->units >= t->unit_limit && *used < len && !t->is_halted && turn_others_are_ready(t)) {
        return TURN_YIELDS;
    }
    return TURN_GOES_ON;
}
