/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of a balancer (--proxy-from) on a listener that is marked proxied: the header of
 * the PROXY protocol says who connects. Until it is there the connection is nothing else: no
 * byte of it reaches TLS or a parser of commands. It may take as long as a handshake of TLS,
 * and what is kept meanwhile is limited too.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_PROXIED_H
#define MAYFLY_DAEMON_CONN_CONN_PROXIED_H

#include <stdbool.h>

struct conn;

/*
 * Does it have to begin with a header, by where it came in and by the address it comes from?
 * Context: worker, its peer is named.
 */
bool conn_proxied_is_due(const struct conn *c);

/*
 * Wait for the header, and then conn_begin() with the peer that it tells; the connection is
 * closed if it is malformed, late or cut off. Context: worker.
 */
void conn_proxied_begin(struct conn *c);

/* Count it, and close the connection. Context: worker. */
void conn_proxied_failed(struct conn *c, const char *why);

#endif
