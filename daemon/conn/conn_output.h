/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending queued replies, and answers that took longer than a turn.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_OUTPUT_H
#define MAYFLY_DAEMON_CONN_CONN_OUTPUT_H

#include <stdbool.h>

#include "daemon/conn/conn_state.h"

/* Send queued replies; when all are sent, continue with the kept input. Context: worker. */
void conn_write(struct conn *c);

/* A client_answered_fn: an answer that took longer than a turn is complete. Context: worker. */
void conn_answered(struct client *client, struct span reply, bool is_composed);

#endif
