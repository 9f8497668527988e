/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connection has to get done in time: the header of a balancer, its TLS handshake, and
 * its login. Whoever does not is closed. The time is the same for all, so those who began first
 * are due first: each kind is a list in that order, with one timer for the front. A connection
 * costs the same however many others there are, and nothing once it is through.
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
