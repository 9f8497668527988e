/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who can come in: sockets that other machines reach, and whose clients need neither a user nor
 * a certificate. Sockets of metrics are not looked at.
 */
#ifndef MAYFLY_DAEMON_NET_EXPOSURE_H
#define MAYFLY_DAEMON_NET_EXPOSURE_H

#include <stdbool.h>

#include "daemon/net/socket_list.h"

struct settings;

/*
 * Judge what was opened: streams in the first list, datagrams in the second. Writes one line if
 * anybody can come in, and returns 0; with --protected that is an error, and the exit status is
 * returned. Context: main, before start.
 */
int exposure_judge(const struct settings *settings, const struct socket_list *tcp,
                   const struct socket_list *udp);

/*
 * The same of what would be opened. Names are looked up; one that stands for nothing is passed
 * over, as opening it is an error anyway. Context: main, before start.
 */
int exposure_check(const struct settings *settings);

#endif
