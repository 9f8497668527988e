/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listening sockets. They are created before privileges are dropped. The main thread accepts
 * connections and assigns each to the worker with the fewest. Only this module knows the limit
 * on connections (-c) and what to do when descriptors run out.
 */
#ifndef MAYFLY_DAEMON_SERVICE_LISTENER_H
#define MAYFLY_DAEMON_SERVICE_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/net/socket_list.h"
#include "daemon/stats/stats.h"

struct conn_origin;
struct crew;
struct server;
struct settings;

/*
 * Check whether all that the settings ask for could be opened beside the running program, whose
 * sockets were shown (passed_on.h): new addresses are bound briefly, also those of metrics.
 * Returns 0, or the exit status after a message. Context: main, instead of a start.
 */
int listeners_check(const struct settings *settings);

/* Call fn with each socket, one for each address of UDP. Context: main, while it serves. */
void listeners_each_socket(const struct server *s, void (*fn)(void *arg, int fd), void *arg);

/*
 * Bind and listen on everything the settings ask for, or take over the sockets that a service
 * manager passed (LISTEN_FDS). On success s->listeners is set. Returns 0, or the exit status
 * after a message was written. Context: main, before start.
 */
int listeners_open(struct server *s);

/*
 * Warn of rules of --access for listeners that do not exist: their author meant to restrict
 * clients. Context: main, after listeners_open(), before listeners_close().
 */
void listeners_check_rules(struct server *s);

/*
 * Write the names of all sockets for clients, each after a space, as far as there is room;
 * those that share an address once. Context: main.
 */
void listeners_describe(const struct server *s, char *out, size_t size);

/* Begin to accept. Returns 0 or a libuv error. Context: main, the workers run. */
int listeners_accept(struct server *s);

/*
 * What a connection that was accepted by another program inherits here: the origin of the
 * listener at its address, of this kind; NULL: there is none. Context: main.
 */
const struct conn_origin *listeners_find(const struct server *s, int fd, uint8_t transport,
                                         bool is_control);

/*
 * May another connection of this origin be accepted? Context: main, after listeners_accept().
 */
bool listeners_have_place(const struct server *s, const struct conn_origin *origin);

/*
 * A connection closed, or descriptors may be free again: accept if that was paused. Context:
 * main.
 */
void listeners_resume(struct server *s);

/*
 * Pass the sockets, with the connections that wait to be accepted, on to another program
 * (passed_on.h). Context: main, before listeners_close().
 */
void listeners_pass_on(struct server *s);

/*
 * Stop accepting and close the sockets; the file of a unix socket is removed. What was accepted
 * is with the workers when this returns. Accepts NULL listeners. Context: main.
 */
void listeners_close(struct server *s);

/*
 * Release what listeners_close() left, once the loop has let go of the handles. Context: main.
 */
void listeners_destroy(struct server *s);

/*
 * struct stats_sources: each_listener(), count_listeners(). Context: any thread between accept
 * and close.
 */
void listeners_each(const struct crew *crew, stats_socket_fn fn, void *arg);
uint32_t listeners_count(const struct crew *crew);

/* ---- listener_list.c --------------------------------------------------------------------- */

/*
 * Checks and values derived from the listening sockets once they are open. Context: main,
 * before start.
 */

/*
 * Note the ports to which a replica can connect: listeners for balancers are not among them,
 * because connections there begin with a header.
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
