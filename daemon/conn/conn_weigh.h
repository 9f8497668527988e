/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The work that each connection of a hot worker causes (balance.h). While the worker is not
 * hot, nothing is measured or stored. The connections that had work since the last order are in
 * a table of the worker, the first WEIGHTS_MAX of them.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_WEIGH_H
#define MAYFLY_DAEMON_CONN_CONN_WEIGH_H

#include <stdint.h>

#include "daemon/worker/balance.h"

struct worker;

#define WEIGHTS_MAX 512u

struct weights {
    uint64_t total; /* units of all connections, and of datagrams */
    unsigned count;
    unsigned next;                  /* while connections are moved: the next to examine */
    uint32_t to;                    /* the worker that gets them, or BALANCE_NOBODY */
    struct conn *conn[WEIGHTS_MAX]; /* [borrowed] NULL: it closed, or has left this worker */
    struct balance_weight of[WEIGHTS_MAX];
};

/*
 * Begin to measure, from zero, with the next turn of the loop. Without memory for the table
 * nothing is measured. Context: worker, as for all below.
 */
void conn_weigh_begin(struct worker *w);

/* Stop measuring, and release the table. */
void conn_weigh_end(struct worker *w);

/*
 * Count units of work for this connection, or for none. Called only while INSIGHT_WORK is on.
 */
void conn_weigh(struct conn *c, uint32_t units);
void conn_weigh_other(struct worker *w, uint32_t units);

/* Remove a connection from the table: it closes, or leaves its worker. */
void conn_weigh_forget(struct conn *c);

#endif
