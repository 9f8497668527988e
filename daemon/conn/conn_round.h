/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A round: several readable connections are read one after the other, and then served in one
 * turn, in that order. For conn*.c and the worker.
 *
 * This has two benefits. Requests are parsed before the first is executed, so the cache misses
 * of clients that do not pipeline overlap, like those of one that does. And the kernel's code
 * for reading and the server's code for executing are each used several times while they are in
 * the cache. Clock, section and routing table are read once a round.
 *
 * The input stays in the worker's buffer until the round is run. It is run when it is full,
 * when the buffer is needed for something else or another connection is served, and at the
 * latest before the worker asks for new events. A connection is in a round only once, and
 * nothing else happens to it meanwhile.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_ROUND_H
#define MAYFLY_DAEMON_CONN_CONN_ROUND_H

#include "daemon/conn/conn_batch.h"
#include "daemon/conn/conn_execute.h"

struct conn;
struct worker;

/* Connections in a round. */
#define ROUND_LOTS 32u

/*
 * The round is run when its input has this many bytes: the rest of the buffer is for one read.
 */
#define ROUND_FILL_BYTES (16u * 1024)

struct round {
    unsigned n;
    size_t filled; /* bytes of the worker's buffer that are in use */
    struct lot lot[ROUND_LOTS];
    struct steps steps;
};

/* NULL: no memory. Context: any thread. */
struct round *round_create(void);

/* Takes NULL. Context: any thread; the round is empty. */
void round_destroy(struct round *r);

/*
 * Add len bytes of input of c, at p, which is the start of the buffer's free part. Context:
 * worker; c is in no round, and the round is not full.
 */
void round_add(struct conn *c, char *p, size_t len);

/* Is the round full? */
static inline bool round_is_full(const struct round *r)
{
    return r->n == ROUND_LOTS || r->filled >= ROUND_FILL_BYTES;
}

/*
 * Serve the connections of the round: their input was read and waits in the worker's buffer,
 * which is free then. Context: worker, outside a section.
 */
void conn_round_run(struct worker *w);

#endif
