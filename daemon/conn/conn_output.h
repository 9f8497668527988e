/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies that wait are sent, and answers that took longer than a turn.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_OUTPUT_H
#define MAYFLY_DAEMON_CONN_CONN_OUTPUT_H

#include <stdbool.h>

#include "daemon/conn/conn_state.h"

/* Send what waits; when all is sent go on with what is kept. Context: worker. */
void conn_write(struct conn *c);

/* An answer that took longer than a turn is there; a client_answered_fn. Context: worker. */
void conn_answered(struct client *client, struct span reply, bool is_composed);

#endif
