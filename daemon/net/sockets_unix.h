/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The unix sockets of -s and --control.
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

/* The same for settings.control_path, which only the user of the process may open. */
int sockets_open_control(const struct settings *settings, struct socket_list *out);

/*
 * The origin of connections of the control socket, whichever way it was opened. Context: any
 * thread.
 */
struct conn_origin sockets_control_origin(void);

/*
 * Can those of the two paths that are set be names of sockets? Returns as above. Context: as
 * above.
 */
int sockets_check_unix(const struct settings *settings);

#endif
