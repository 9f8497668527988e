/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection: it is read, its requests are executed and answered, it gets its fair share,
 * it is closed. It lives on one worker, unless the number of workers changes (conn_move.h).
 *
 * daemon/conn/ is the folder of connections (conn*.[ch]; conn_state.h lists them) and of
 * datagrams (udp.[ch]): bytes of clients on their way to commands and back, and what happens
 * when they come too slowly, too fast or not at all. It includes itself, command, stats,
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
 * The first part of conn_adopt(): make it, and count it. NULL: no memory; the descriptor is
 * closed. Context: worker.
 */
struct conn *conn_create(struct worker *w, int fd, const struct conn_origin *origin);

/*
 * Its other end is known: begin TLS, or to serve it; or close it, if its address has too many.
 * Context: worker.
 */
void conn_begin(struct conn *c);

#endif
