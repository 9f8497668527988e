/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The unix socket of -s.
 */
#ifndef MAYFLY_DAEMON_NET_SOCKETS_UNIX_H
#define MAYFLY_DAEMON_NET_SOCKETS_UNIX_H

#include "daemon/net/socket_list.h"

struct settings;

/*
 * Listen on settings.unix_path and append the socket. Returns 0, or the exit status after a
 * message was written. Context: main, before start.
 */
int sockets_open_unix(const struct settings *settings, struct socket_list *out);

/* Can settings.unix_path be the name of a socket? Returns as above. Context: as above. */
int sockets_check_unix(const struct settings *settings);

#endif
