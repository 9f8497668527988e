/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections from a balancer (--proxy-from) on a listener that is marked proxied: the header
 * of the PROXY protocol has the client's address. Until the header is complete, no byte of the
 * connection reaches TLS or a parser of commands. It has the same time limit as a TLS
 * handshake, and the bytes kept meanwhile are limited too.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_PROXIED_H
#define MAYFLY_DAEMON_CONN_CONN_PROXIED_H

#include <stdbool.h>

struct conn;

/*
 * Must a connection begin with a header? That depends on its listener and on its peer's
 * address. Context: worker, after conn_name_peer().
 */
bool conn_proxied_is_due(const struct conn *c);

/*
 * Wait for the header, then call conn_begin() with the peer that it names. The connection is
 * closed if the header is malformed, late or truncated. Context: worker.
 */
void conn_proxied_begin(struct conn *c);

/* Count a failed header, and close the connection. Context: worker. */
void conn_proxied_failed(struct conn *c, const char *why);

#endif
