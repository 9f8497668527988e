/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds exposed sockets: those that other machines reach, and whose clients need neither a user
 * nor a certificate. Sockets of metrics are not checked.
 */
#ifndef MAYFLY_DAEMON_NET_EXPOSURE_H
#define MAYFLY_DAEMON_NET_EXPOSURE_H

#include <stdbool.h>

#include "daemon/net/socket_list.h"

struct settings;

/*
 * Check the opened sockets: streams in the first list, datagrams in the second. Logs one line
 * if any is exposed, and returns 0; with --protected that is an error, and the exit status is
 * returned. Context: main, before start.
 */
int exposure_judge(const struct settings *settings, const struct socket_list *tcp,
                   const struct socket_list *udp);

/*
 * The same for the sockets that would be opened. Names are resolved. A name without an address
 * is skipped, because opening it fails anyway. Context: main, before start.
 */
int exposure_check(const struct settings *settings);

#endif
