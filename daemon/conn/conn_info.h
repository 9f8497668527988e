/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptions of connections for watchers and `stats conns`.
 */
#ifndef MAYFLY_DAEMON_CONN_CONN_INFO_H
#define MAYFLY_DAEMON_CONN_CONN_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/command/client.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/watch_line.h"

struct conn;
struct worker;

/* Note the address of the other end. Context: worker, when it is adopted. */
void conn_name_peer(struct conn *c);

/*
 * Set the address of the other end: address as in sockaddr_in or sockaddr_in6, port in host
 * byte order. Context: worker.
 */
void conn_set_peer(struct conn *c, uint16_t family, const void *address, uint16_t port);

/* Size of the buffer for conn_put_peer(). */
#define CONN_PEER_MAX CLIENT_PEER_MAX

/* Write the address of the other end without its port, or "unix". Context: worker. */
void conn_put_peer(const struct conn *c, char out[CONN_PEER_MAX]);

/* The same with its port, cut to `size` bytes with the end. Context: worker. */
void conn_put_peer_port(const struct conn *c, char *out, size_t size);

/* The same of the connection that a client is part of; a client_peer_fn. Context: worker. */
void conn_show_peer(const struct client *client, char out[CLIENT_PEER_MAX]);

/* The id of its address: auth_peers_id(). Context: worker. */
uint64_t conn_peer_id(const struct client *client);

/*
 * Log an event for watchers of connections: WATCH_CONN_NEW, WATCH_CONN_CLOSE. Context: worker.
 */
void conn_log(const struct conn *c, enum watch_kind kind);

/* struct stats_sources: each_conn(). */
bool conn_each(struct worker *w, struct stats_conn_cursor *cursor, uint32_t max,
               stats_socket_fn fn, void *arg);

/* struct stats_sources: leave_conns(). */
void conn_each_end(struct stats_conn_cursor *cursor);

/* Add a connection to its worker's list, or remove it. Context: worker. */
void conn_list_add(struct conn *c);
void conn_list_remove(struct conn *c);

#endif
