/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets of one kind: those of TCP of -p and -l; UDP and unix sockets below. Private to
 * daemon/net and the listener.
 */
#ifndef MAYFLY_DAEMON_NET_SOCKETS_PARTS_H
#define MAYFLY_DAEMON_NET_SOCKETS_PARTS_H

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

/* ---- sockets_udp.c ----------------------------------------------------------------------- */

/*
 * The datagram sockets of -U: for each address of -l, or for both loopback addresses, one for
 * each worker.
 */

/*
 * Open what settings.udp_port asks for, nothing if it is 0, and append it to the list: the
 * sockets of an address are neighbours, one for each worker. Returns 0, or the exit status
 * after a message was written. Context: main, before start.
 */
int sockets_open_udp(const struct settings *settings, struct socket_list *out);

/* ---- sockets_unix.c ---------------------------------------------------------------------- */

/*
 * The unix sockets of -s and --control.
 */

/*
 * Listen on settings.unix_path and append the socket. Returns 0, or the exit status after a
 * message was written. Context: main, before start.
 */
int sockets_open_unix(const struct settings *settings, struct socket_list *out);

/* The same for settings.control_path, which only the user of the process may open. */
int sockets_open_control(const struct settings *settings, struct socket_list *out);

/* What connections of the control socket inherit, whoever opened it. Context: any thread. */
struct conn_origin sockets_control_origin(void);

/*
 * Can those of the two paths that are set be names of sockets? Returns as above. Context: as
 * above.
 */
int sockets_check_unix(const struct settings *settings);

#endif
