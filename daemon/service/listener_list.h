/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks and values derived from the listening sockets once they are open. Context: main,
 * before start.
 */
#ifndef MAYFLY_DAEMON_SERVICE_LISTENER_LIST_H
#define MAYFLY_DAEMON_SERVICE_LISTENER_LIST_H

#include "daemon/net/socket_list.h"

struct crew;
struct settings;

/*
 * Note the ports where a link to this server may go: what balancers connect to begins with
 * another header.
 */
void listener_list_note_ports(const struct socket_list *list, struct crew *crew);

/*
 * Give each socket where a replica may come in a second origin, of places beyond -c. Returns
 * them, owned by the caller, which are to last as long as connections; NULL: no memory, which
 * was logged.
 */
struct conn_origin *listener_list_make_beyond(struct socket_list *list,
                                              const struct settings *settings);

/* Log options that have no effect because there is no listener for them. */
void listener_list_warn(const struct socket_list *list, const struct settings *settings);

#endif
