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
 * It has to finish this in time from now on. Nothing happens if it has to already, or if the
 * time for it is not limited (-o auth_timeout=0). Context: worker.
 */
void conn_deadline_set(struct conn *c, enum conn_deadline which);

/* It is done, or need not be any more; nothing happens if that was so. Context: worker. */
void conn_deadline_clear(struct conn *c);

/* How long one has for it, milliseconds; 0: no limit. Context: worker. */
msec_t conn_deadline_limit(const struct worker *w, enum conn_deadline which);

#endif
