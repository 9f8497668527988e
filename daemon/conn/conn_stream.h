/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of watchers: sends them the lines of events.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_STREAM_H
#define MAYFLY_DAEMON_CONN_CONN_STREAM_H

struct conn;
struct worker;

/* Send lines to a connection that watches while its socket takes them. Context: worker. */
void conn_stream(struct conn *c);

/* The same for all connections of a worker that watch. Context: worker. */
void conn_serve_watchers(struct worker *w);

#endif
