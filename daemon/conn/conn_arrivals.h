/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accepted sockets on their way to the worker that serves them: one message for many sockets. A
 * worker makes at most CONN_ADOPTED_MAX of them connections in a turn of its loop, however many
 * came while it was busy. The others wait for the next turn, in order.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_ARRIVALS_H
#define MAYFLY_DAEMON_CONN_CONN_ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/mailbox.h"

struct conn_origin;
struct worker;

#define CONN_ARRIVALS_MAX 64u
#define CONN_ADOPTED_MAX  64u

struct conn_arrivals {
    struct message message;
    uint32_t count;
    uint32_t adopted;
    bool is_deferred; /* it waits for the worker's next turn */
    struct {
        int fd;
        const struct conn_origin *origin; /* [borrowed] of the listening socket */
    } items[CONN_ARRIVALS_MAX];
};

/*
 * Take over an accepted, non-blocking socket; owns the descriptor from here on, also on failure
 * (false: no memory; it is closed). Borrows the origin for the connection's life. Context:
 * worker.
 */
bool conn_adopt(struct worker *w, int fd, const struct conn_origin *origin);

/* Make an empty batch; NULL: no memory. Context: any thread. */
struct conn_arrivals *conn_arrivals_create(void);

/* Add a socket. There must be room. Context: the thread that has the batch. */
void conn_arrivals_put(struct conn_arrivals *b, int fd, const struct conn_origin *origin);

/* Give it to a worker; takes the address and nulls it. Context: any thread. */
void conn_arrivals_post(struct conn_arrivals **b, struct worker *w);

#endif
