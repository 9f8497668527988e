/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open sockets that listen or take datagrams, with their names and addresses. All functions of
 * the list run on the main thread.
 */
#ifndef MAYFLY_DAEMON_NET_SOCKET_LIST_H
#define MAYFLY_DAEMON_NET_SOCKET_LIST_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "daemon/net/origin.h"

/* "udp6:[" address "]:" port, or "unix:" and 107 bytes of path, and NUL. */
#define SOCKET_NAME_MAX 128

/* A socket that listens, or takes datagrams. */
struct socket_open {
    int fd;
    struct conn_origin origin; /* properties that its connections inherit */
    char name[SOCKET_NAME_MAX];
    char *path; /* owned; file of a unix socket that this process made, else NULL */
    dev_t dev;  /* of that file */
    ino_t ino;
};

/* The opened sockets. Zeroed storage is an empty list. */
struct socket_list {
    struct socket_open *items; /* owned */
    uint32_t count;
};

union socket_address {
    struct sockaddr_storage any;
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_un un;
};

/*
 * Append a socket; takes the descriptor, also on failure. Returns 0, or the exit status after a
 * message was written. Context: main, before start.
 */
int socket_list_add(struct socket_list *l, int fd, const struct conn_origin *origin);

/*
 * Does the list have a socket of this internet address? is_any_port: whatever its port. One
 * address may be named twice in -l. Context: main, before start.
 */
bool socket_list_has(const struct socket_list *l, const union socket_address *addr,
                     bool is_any_port);

/* Release the list itself. Context: main. */
void socket_list_fini(struct socket_list *l);

/* The same, and close its sockets first. No other thread may use it. Context: main. */
void socket_list_close(struct socket_list *l);

/*
 * Close a socket, and remove its file if it is still the same one. Does not change the name and
 * the number of the descriptor, because other threads may be reading them. Call it once per
 * socket. Context: main.
 */
void socket_close(struct socket_open *s);

/*
 * Write the name of a socket's own address: "tcp:1.2.3.4:5", "tcp6:[::1]:5", "udp:1.2.3.4:5",
 * "unix:/path". Context: any thread.
 */
void socket_name(int fd, char out[SOCKET_NAME_MAX]);

/* The port that a socket is bound to; 0: none. Context: any thread. */
uint16_t socket_port(int fd);

/* A number of SOL_SOCKET; -1: it has none. Context: any thread. */
int socket_option(int fd, int option);

/*
 * Is a connection one that this listening socket would accept, by the address that its client
 * has connected to? Context: any thread.
 */
bool socket_accepts_for(int listening, int fd);

/*
 * Shut down a connection and close it. Bytes that have arrived are read and dropped: if they
 * were unread, the close would send a reset, which destroys bytes in transit to the peer.
 * Context: any thread.
 */
void socket_end(int fd);

/* The port of an internet address, in host order. Context: any thread. */
uint16_t socket_address_port(const union socket_address *addr);
void socket_address_set_port(union socket_address *addr, uint16_t port);

#endif
