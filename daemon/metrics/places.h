/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The places of one metrics socket: which connections are open, whose they are, and since when
 * they send a request or take an answer. So that nobody keeps a scrape or a probe out by
 * connections that trickle:
 *
 *   - loopback has places of its own, and other addresses a few each of theirs
 *   - who comes when all are taken gets the place of the connection that is in the middle of
 *     a request, or between two, for the longest time; else of one that takes its answer for
 *     more than PLACES_PATIENCE_US
 *   - a request has PLACES_REQUEST_US to come whole, an answer PLACES_ANSWER_US to be taken
 *
 * A connection that is cut is only shut down here; the server of HTTP sees that and closes it.
 * Context of all: the thread of the socket's server.
 */
#ifndef MAYFLY_DAEMON_METRICS_PLACES_H
#define MAYFLY_DAEMON_METRICS_PLACES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "lib/base/clock.h"

/* Places of addresses other than loopback, of one of these, and of loopback. */
#define PLACES_REMOTE   16u
#define PLACES_ADDRESS  8u
#define PLACES_LOOPBACK 16u

/* All, with room for connections that were cut and are not closed yet. */
#define PLACES_MAX (PLACES_REMOTE + PLACES_LOOPBACK + 16u)

#define PLACES_REQUEST_US  (5 * INT64_C(1000000))
#define PLACES_ANSWER_US   (30 * INT64_C(1000000))
#define PLACES_PATIENCE_US INT64_C(1000000)

enum place_state {
    PLACE_FREE,
    PLACE_ASKS,  /* it sends a request, or may send one */
    PLACE_TAKES, /* an answer is on its way */
    PLACE_CUT,   /* it was shut down */
};

struct place {
    enum place_state state;
    int fd;            /* [borrowed] */
    bool is_loopback;  /* also: of a unix socket */
    uint8_t whose[16]; /* an address as one of IPv6; the half that a client cannot choose */
    usec_t since;      /* of the state; clock_mono_us() */
};

struct places {
    struct place place[PLACES_MAX];
};

/*
 * May a connection from this address come in? Others may be cut for it, and those that have
 * used up their time are.
 */
bool places_admit(struct places *p, const struct sockaddr *from, usec_t now);

/* It has come in. NULL: there is no room, which the server's own limit keeps from happening. */
struct place *places_enter(struct places *p, int fd, const struct sockaddr *from, usec_t now);

/* Its answer is on its way; it has taken that. NULL: nothing happens, as for the next. */
void place_takes(struct place *at, usec_t now);
void place_asks(struct place *at, usec_t now);

/* It is about to be closed. */
void place_leave(struct place *at);

#endif
