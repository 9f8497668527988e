/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TCP sockets of -p and -l.
 */
#ifndef MAYFLY_DAEMON_NET_SOCKETS_TCP_H
#define MAYFLY_DAEMON_NET_SOCKETS_TCP_H

#include "daemon/net/origin.h"
#include "daemon/net/socket_list.h"

struct listen_address;
struct settings;

/*
 * Listen on every address of settings.listen, or on both loopback addresses, and append the
 * sockets. Returns 0, or the exit status after a message was written. Context: main, before
 * start.
 */
int sockets_open_tcp(const struct settings *settings, struct socket_list *out);

/* The same for settings.metrics, whose elements all have a port and no prefix. */
int sockets_open_metrics(const struct settings *settings, struct socket_list *out);

/*
 * Is each element of settings.listen, or of settings.metrics, an address, by its form? Return
 * as above, after a message for each that is not. Context: main, before start.
 */
int sockets_check_tcp(const struct settings *settings);
int sockets_check_metrics(const struct settings *settings);

/*
 * What connections of a TCP socket inherit from it; address: its element of -l, NULL: none.
 * Context: any thread.
 */
struct conn_origin sockets_tcp_origin(const struct settings *settings,
                                      const struct listen_address *address);

/*
 * Set the options that accepted connections inherit: no delay, and when a silent client is
 * given up. Context: main, before start.
 */
void sockets_set_tcp_options(const struct settings *settings, int fd);

#endif
