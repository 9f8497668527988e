/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Delay of failed logins: quick failures (auth_peers.h) are answered after -o auth_delay.
 * Meanwhile the connection waits as for any late answer: it is not read, nothing of it is
 * executed, and it may close. All wait equally long, so they are in a list of their worker in
 * the order in which they failed, and the timer of deadlines is set for the first.
 *
 * A successful login is never delayed: the password is checked first.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_DELAY_H
#define MAYFLY_DAEMON_CONN_CONN_DELAY_H

#include <stdbool.h>

#include "daemon/conn/conn_state.h"
#include "lib/base/span.h"

/*
 * Must the answer to a failed login be delayed? failure: the result of auth_peers_note(). If
 * so, set client.is_delayed. Context: worker.
 */
void conn_delay_note(struct conn *c, const struct auth_failure *failure);

/*
 * If the answer must be delayed: send it later. False: it need not be, there is no memory, or
 * the connection has a service; the caller answers at once. Context: worker; the connection
 * waits for no other answer.
 */
bool conn_delay(struct conn *c, struct span reply);

/*
 * Send the answers whose delay is over, at most as many as allowed in a turn of the loop, and
 * set the timer for the next. Context: worker.
 */
void conn_delay_check(struct worker *w, msec_t now);

/* The worker stops: send all delayed answers. Context: worker, outside a section. */
void conn_delay_end_all(struct worker *w);

#endif
