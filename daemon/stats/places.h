/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The places of one metrics socket: its open connections, their addresses, and since when each
 * sends a request or takes an answer. These rules ensure that slow connections cannot keep a
 * scrape or a probe out:
 *
 *   - loopback has reserved places, and each other address has a few
 *   - when all are taken, a new connection replaces the one that has been in a request, or
 *     between two, for the longest time; else one that has been taking its answer for more
 *     than PLACES_PATIENCE_US
 *   - a request has PLACES_REQUEST_US to come whole, an answer PLACES_ANSWER_US to be taken
 *
 * A connection that loses its place is only shut down here; the HTTP server notices and closes
 * it. Context of all: the thread of the socket's server.
 */
#ifndef MAYFLY_DAEMON_STATS_PLACES_H
#define MAYFLY_DAEMON_STATS_PLACES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "lib/base/clock.h"

/* Places of addresses other than loopback, of one of these, and of loopback. */
#define PLACES_REMOTE   16u
#define PLACES_ADDRESS  8u
#define PLACES_LOOPBACK 16u

/* All places, with room for connections that were shut down but not closed yet. */
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
    uint8_t whose[16]; /* address in IPv6 form; only the half that a client cannot choose */
    usec_t since;      /* of the state; clock_mono_us() */
};

struct places {
    struct place place[PLACES_MAX];
};

/*
 * May a connection from this address be accepted? Shuts down connections whose time is over,
 * and may shut down another one to make room.
 */
bool places_admit(struct places *p, const struct sockaddr *from, usec_t now);

/* Add an accepted connection. NULL: no room, which the HTTP server's own limit prevents. */
struct place *places_enter(struct places *p, int fd, const struct sockaddr *from, usec_t now);

/*
 * Its answer is being sent (place_takes()); was taken (place_asks()). Accept NULL, as the next.
 */
void place_takes(struct place *at, usec_t now);
void place_asks(struct place *at, usec_t now);

/* It is about to be closed. */
void place_leave(struct place *at);

#endif
