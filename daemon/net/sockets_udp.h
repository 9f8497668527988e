/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The datagram sockets of -U: for each address of -l, or for both of loopback, as many as there
 * are workers. Runs on the main thread before anything else does.
 */
#ifndef MAYFLY_DAEMON_NET_SOCKETS_UDP_H
#define MAYFLY_DAEMON_NET_SOCKETS_UDP_H

#include "daemon/net/sockets.h"

/*
 * Open what settings.udp_port asks for, nothing if it is 0, and append it to the list: the
 * sockets of an address side by side, one for each worker. Returns as sockets_open(). Context:
 * main, before start.
 */
int udp_sockets_open(const struct settings *settings, struct socket_list *out);

#endif
