/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A round: connections that were found readable one after the other are read one after the
 * other, and then served in one turn, in that order. For conn*.c and the worker.
 *
 * Two things come of it. Their requests are parsed before the first is executed, so the cache
 * misses of clients that do not pipeline overlap as those of one that does; and the kernel's
 * code for reading and ours for serving are each used several times while they are in the
 * cache. Clock, section and routing table are had once a round.
 *
 * What was read lies in the worker's buffer, one input behind the other, until the round is
 * run: when it is full, when somebody else wants the buffer or is to be served, and at the
 * latest before the worker looks for new events. A connection stands in it once, and nothing
 * else happens to it meanwhile.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_ROUND_H
#define MAYFLY_DAEMON_CONN_CONN_ROUND_H

#include "daemon/conn/conn_batch.h"
#include "daemon/conn/conn_execute.h"

struct conn;
struct worker;

/* Connections in a round. */
#define ROUND_LOTS 32u

/* When inputs have so many bytes the round is run: the rest of the buffer is for one read. */
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
 * len bytes of input of c begin at p, which is where the buffer is free. Context: worker; c
 * stands in no round, and the round is not full.
 */
void round_add(struct conn *c, char *p, size_t len);

/* Does nothing more fit into it? */
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
