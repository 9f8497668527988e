/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests received by UDP. Every worker has its own socket for each address. The kernel
 * distributes datagrams to them by the client's address. A datagram holds complete requests, or
 * is rejected. A reply is sent in as many datagrams as necessary, up to a limit.
 *
 * The source address of a datagram may be forged, and be that of a victim. So the answer to a
 * datagram from another machine is at most udp_reply_max bytes long, however many requests it
 * has. Replies are not answered, and administrative requests are rejected.
 */
#ifndef MAYFLY_DAEMON_CONN_UDP_H
#define MAYFLY_DAEMON_CONN_UDP_H

#include <stdbool.h>

#include "daemon/net/sockets.h"
#include "daemon/stats/stats.h"

struct worker;

/*
 * Serve a bound, non-blocking datagram socket on this worker until it drains. Owns the
 * descriptor from here on, also on failure (false: no memory). number: of the worker for which
 * the socket was opened, modulo the number of workers. Context: worker.
 */
bool udp_adopt(struct worker *w, int fd, uint32_t number);

/* worker_duties: give away sockets that belong to other workers now. Context: worker. */
void udp_give(struct worker *w);
bool udp_has_any(const struct worker *w);

/* Close all of them: the worker stops. Context: worker. */
void udp_close_all(struct worker *w);

/* struct stats_sources: each_datagram(). */
void udp_each(struct worker *w, stats_socket_fn fn, void *arg);

#endif
