/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deadlines of connections: for the header of a balancer, the TLS handshake, and the login. A
 * connection that misses its deadline is closed. The time limit is the same for all
 * connections, so those that began first are due first. Each kind is a list in that order, with
 * one timer for the front. The cost of a connection does not depend on the number of others,
 * and is zero when it has passed all steps.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_DEADLINE_H
#define MAYFLY_DAEMON_CONN_CONN_DEADLINE_H

#include "daemon/conn/conn_state.h"

struct worker;

/*
 * Start the time limit for this step of a connection. Does nothing if it runs already, or if
 * the time is not limited (-o auth_timeout=0). Context: worker.
 */
void conn_deadline_set(struct conn *c, enum conn_deadline which);

/* End the time limit for this step, if it runs. Context: worker. */
void conn_deadline_clear(struct conn *c);

/* The time limit for this step, in milliseconds; 0: none. Context: worker. */
msec_t conn_deadline_limit(const struct worker *w, enum conn_deadline which);

#endif
