/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection: reading it, executing and answering its requests within its fair share of a
 * turn, closing it. It belongs to one worker, unless it is moved (conn_move.h).
 *
 * daemon/conn/ is the folder of connections (conn*.[ch]; conn_state.h lists them) and of
 * datagrams (udp.[ch]): it passes bytes from clients to commands and replies back, and handles
 * clients that send too slowly, too fast or not at all. It includes itself, command, stats,
 * worker, access, net, options, base, proto and lib. The worker calls it through conn_duties.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_H
#define MAYFLY_DAEMON_CONN_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/net/origin.h"
#include "daemon/worker/crew.h"

struct conn;
struct worker;

/* What connections and datagrams do on a worker's thread. */
extern const struct worker_duties conn_duties;

/* ---- for conn*.c ------------------------------------------------------------------------- */

/*
 * The first part of conn_adopt(): create and count a connection. NULL: no memory, and the
 * descriptor is closed. Context: worker.
 */
struct conn *conn_create(struct worker *w, int fd, const struct conn_origin *origin);

/*
 * The address of the peer is known: begin TLS, or serve the connection; or close it, if its
 * address has too many connections. Context: worker.
 */
void conn_begin(struct conn *c);

#endif
