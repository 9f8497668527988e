/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the sockets of connections.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_INPUT_H
#define MAYFLY_DAEMON_CONN_CONN_INPUT_H

struct conn;

/*
 * Its input may have come, for a line or for a large value: read once. Lines are served with
 * the worker's round, conn_round_run(), if not at once. Context: worker.
 */
void conn_input(struct conn *c);

#endif
