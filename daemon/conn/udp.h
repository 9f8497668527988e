/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests that come by UDP. Every worker has a socket of its own for each address; the kernel
 * deals datagrams to them by the client's address. A datagram holds whole requests, or none; a
 * reply goes out in as many datagrams as it takes, within a bound.
 *
 * The address that a datagram claims to come from may be that of a victim. So the answer to a
 * datagram of another machine is at most udp_reply_max bytes long, however many requests it
 * has; replies are not answered, and requests that only an operator sends are refused.
 */
#ifndef MAYFLY_DAEMON_CONN_UDP_H
#define MAYFLY_DAEMON_CONN_UDP_H

#include <stdbool.h>

#include "daemon/net/sockets.h"
#include "daemon/stats/stats.h"

struct worker;

/*
 * Have a worker serve a bound, non-blocking datagram socket until it drains; owns the
 * descriptor from here on, also on failure (false: no memory). number: of the worker that it is
 * for, which is counted round where there are fewer. Context: worker.
 */
bool udp_adopt(struct worker *w, int fd, uint32_t number);

/* worker_duties: give away those that are for others by now. Context: worker. */
void udp_give(struct worker *w);
bool udp_has_any(const struct worker *w);

/* Close all of them: the worker stops. Context: worker. */
void udp_close_all(struct worker *w);

/* struct stats_sources: each_datagram(). */
void udp_each(struct worker *w, stats_socket_fn fn, void *arg);

#endif
