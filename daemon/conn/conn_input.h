/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading of connections.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_INPUT_H
#define MAYFLY_DAEMON_CONN_CONN_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/conn/conn_execute.h"

struct conn;

/*
 * Read once. What came is served with the worker's round, conn_round_run(), if not at once.
 * Context: worker.
 */
void conn_read(struct conn *c);

/* Read and drop; closes at the end of the input. Context: worker. */
void conn_discard(struct conn *c);

/*
 * Keep what a turn did not consume. False when there is no memory for it, or the connection
 * keeps too much; counted. Context: worker.
 */
bool conn_keep_input(struct conn *c, enum input_kind kind, const char *p, size_t len,
                     size_t used);

#endif
