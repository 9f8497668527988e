/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets of one kind: those of TCP of -p and -l, of UDP, and unix sockets below. Private
 * to daemon/net and the listener.
 */
#ifndef MAYFLY_DAEMON_NET_SOCKETS_PARTS_H
#define MAYFLY_DAEMON_NET_SOCKETS_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/net/origin.h"
#include "daemon/net/socket_list.h"
#include "daemon/options/settings.h"
#include "lib/base/span.h"

struct listen_address;

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
 * The origin of connections of a TCP socket; address: its element of -l, NULL: none. Context:
 * any thread.
 */
struct conn_origin sockets_tcp_origin(const struct settings *settings,
                                      const struct listen_address *address);

/*
 * Set the options that accepted connections inherit: TCP_NODELAY, keepalive and user timeout.
 * Context: main, before start.
 */
void sockets_set_tcp_options(const struct settings *settings, int fd);

/*
 * The datagram sockets of -U: for each address of -l, or for both loopback addresses, one for
 * each worker.
 */

/*
 * Open the sockets of settings.udp_port, none if it is 0, and append them to the list. The
 * sockets of an address are adjacent, one for each worker. Returns 0, or the exit status after
 * a message. Context: main, before start.
 */
int sockets_open_udp(const struct settings *settings, struct socket_list *out);

/* ---- sockets_unix.c ---------------------------------------------------------------------- */

/*
 * The unix sockets of -s and --control.
 */

/*
 * The address of a path, or of an abstract name, which is written with a leading @. False: too
 * long. Context: any thread.
 */
bool sockets_unix_address(const char *path, struct sockaddr_un *addr, socklen_t *len);

/*
 * Listen on settings.unix_path and append the socket. Returns 0, or the exit status after a
 * message was written. Context: main, before start.
 */
int sockets_open_unix(const struct settings *settings, struct socket_list *out);

/* The same for settings.control_path, which only the user of the process may open. */
int sockets_open_control(const struct settings *settings, struct socket_list *out);

/* The origin of connections of the control socket. Context: any thread. */
struct conn_origin sockets_control_origin(void);

/*
 * Can those of the two paths that are set be names of sockets? Returns as above. Context: as
 * above.
 */
int sockets_check_unix(const struct settings *settings);

/* ---- listen_fault.c ---------------------------------------------------------------------- */

/*
 * Messages about sockets that cannot be opened, in the format of options_apply.h. If a port is
 * in use, the message names the process that has it, if /proc shows it.
 */

/* An address, or an element of a list of them. */
struct listen_fault {
    enum option_id id;  /* of the option that names it */
    struct span where;  /* the named address */
    const char *call;   /* the failed call; NULL: none */
    const char *reason; /* NULL: errno is */
    uint16_t port;      /* to look for if it is in use; 0: none */
    int type;           /* SOCK_STREAM, SOCK_DGRAM */
};

/* Print the message. Returns the exit status. Context: main. */
int listen_fault(const struct settings *settings, const struct listen_fault *f);

/* ---- listen_address.c -------------------------------------------------------------------- */

/*
 * Parser of -l: the list of addresses to listen on, each with memcached's prefixes.
 */

/* One element of -l. An empty host means every address. */
struct listen_address {
    char host[256];
    bool is_plain;          /* notls: no TLS, even with -Z */
    uint8_t verify;         /* btls:, mtls: TLS, with an enum tls_verify of its own */
    bool is_proxied;        /* proxied: balancers connect here for clients */
    bool has_protocol;      /* proto[x] was given */
    uint8_t protocol;       /* x, an enum binding_protocol */
    char tag[CONN_TAG_MAX]; /* tag[x] */
    bool has_port;
    unsigned port;
};

/*
 * Parse host, host:port, [v6], [v6]:port, a bare v6 address, or *, each after any of
 * memcached's prefixes notls:, btls:, mtls:, proto[x]: and tag[x]:, and our own proxied:, in
 * any order; of the first three only one.
 * Returns NULL, or what is wrong. Context: any thread.
 */
const char *listen_address_parse(struct span text, struct listen_address *out);

/*
 * The next element of a list like that of -l, from *at on; false: no more. Context: any thread.
 */
bool listen_address_next(const char **at, struct span *text);

#endif
