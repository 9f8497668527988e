/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The datagram sockets of -U: for each address of -l, or for both loopback addresses, one for
 * each worker.
 */
#ifndef MAYFLY_DAEMON_NET_SOCKETS_UDP_H
#define MAYFLY_DAEMON_NET_SOCKETS_UDP_H

#include "daemon/net/socket_list.h"

struct settings;

/*
 * Open what settings.udp_port asks for, nothing if it is 0, and append it to the list: the
 * sockets of an address are neighbours, one for each worker. Returns 0, or the exit status
 * after a message was written. Context: main, before start.
 */
int sockets_open_udp(const struct settings *settings, struct socket_list *out);

#endif
