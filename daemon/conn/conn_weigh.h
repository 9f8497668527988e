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

struct conn;
struct worker;

#define WEIGHTS_MAX 512u

struct weights {
    uint64_t total; /* units of all connections, and of datagrams */
    unsigned count;
    unsigned next;                  /* while some are given away: the next to examine */
    uint32_t to;                    /* BALANCE_NOBODY, or the worker that gets them */
    struct conn *conn[WEIGHTS_MAX]; /* [borrowed] NULL: it closed, or has left this worker */
    struct balance_weight of[WEIGHTS_MAX];
};

/*
 * Begin to add up, from nothing; without memory for the table nothing is. From the next turn of
 * the loop on. Context: worker, as for all below.
 */
void conn_weigh_begin(struct worker *w);

/* Add up no longer, and release the table. */
void conn_weigh_end(struct worker *w);

/* So many units were for this connection, or for none. While INSIGHT_WORK is on. */
void conn_weigh(struct conn *c, uint32_t units);
void conn_weigh_other(struct worker *w, uint32_t units);

/* It closes, or leaves its worker; it is in the table. */
void conn_weigh_forget(struct conn *c);

#endif
