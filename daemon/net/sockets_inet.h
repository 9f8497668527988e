/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The internet part of sockets.c: the addresses of -l and -p. Private to the two files.
 */
#ifndef MAYFLY_DAEMON_NET_SOCKETS_INET_H
#define MAYFLY_DAEMON_NET_SOCKETS_INET_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/net/sockets.h"
#include "lib/base/span.h"

/*
 * Append a socket; takes the descriptor, also on failure. Returns as sockets_open(). In
 * sockets.c.
 */
int socket_list_add(struct socket_list *l, int fd, const struct conn_origin *origin);

/*
 * Listen on every address of settings.listen, or on both loopback addresses. Returns as
 * sockets_open().
 */
int inet_open(const struct settings *settings, struct socket_list *out);

struct listen_address;

/*
 * What connections of an internet socket get from it; address: as it stands in -l, NULL: it
 * does not.
 */
struct conn_origin inet_origin(const struct settings *settings,
                               const struct listen_address *address);

/* What accepted connections inherit from their listening socket: no delay, keepalive. */
void inet_set_options(int fd);

/*
 * Write the ports of the lists to the file that MEMCACHED_PORT_FILENAME names, if it does, in
 * memcached's form ("TCP INET: 1234"), under a temporary name that is then renamed. Returns as
 * sockets_open().
 */
int inet_write_ports(const struct socket_list *tcp, const struct socket_list *udp);

/* One element of -l. Empty host: every address. */
struct listen_address {
    char host[256];
    bool is_plain;          /* notls: no TLS, also with -Z */
    bool has_protocol;      /* proto[x] was given */
    uint8_t protocol;       /* x, an enum binding_protocol */
    char tag[CONN_TAG_MAX]; /* tag[x] */
    bool has_port;
    unsigned port;
};

/*
 * Parse host, host:port, [v6], [v6]:port, a bare v6 address, or *; each may follow memcached's
 * prefixes notls:, proto[x]: and tag[x]:, in any order. Returns NULL, or what is wrong with it.
 */
const char *listen_address_parse(struct span text, struct listen_address *out);

/* The next element of a list like that of -l, from *at on; false at its end. */
bool listen_next(const char **at, struct span *text);

#endif
