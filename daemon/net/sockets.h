/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making listening sockets: addresses, names, options, bind. No loop, no accepting; see
 * listener.h. All functions run on the main thread before anything else does.
 */
#ifndef MAYFLY_DAEMON_NET_SOCKETS_H
#define MAYFLY_DAEMON_NET_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "daemon/net/origin.h"

struct settings;

/* "udp6:[" address "]:" port, or "unix:" and 107 bytes of path, and NUL. */
#define SOCKET_NAME_MAX 128

/* A socket that listens, or takes datagrams. */
struct socket_open {
    int fd;
    struct conn_origin origin; /* what its connections get from it */
    char name[SOCKET_NAME_MAX];
    char *path; /* owned; file of a unix socket that this process made, else NULL */
    dev_t dev;  /* of that file */
    ino_t ino;
};

/* Those made so far. Zeroed storage is an empty list. */
struct socket_list {
    struct socket_open *items; /* owned */
    uint32_t count;
};

/*
 * Open what the settings ask for and append it to the lists: stream sockets to the first, those
 * for datagrams to the second. Returns 0, or the exit status after
 * a message was written; what was opened stays in the list then. Context: main, before start.
 */
int sockets_open(const struct settings *settings, struct socket_list *out,
                 struct socket_list *udp);

/*
 * Take over the stream sockets of the LISTEN_FDS protocol (sd_listen_fds(3)). Anything else
 * there is left alone with a warning. *found: whether there was at least one. Returns as above.
 * Context: main, before start.
 */
int sockets_inherit(const struct settings *settings, struct socket_list *out, bool *found);

/*
 * Close one, and remove its file if that is still the one that was made. Leaves name and number
 * of the descriptor as they were, for others may be reading them. Once for each. Context: main.
 */
void socket_close(struct socket_open *s);

/* Release the list itself. Context: main. */
void sockets_fini(struct socket_list *l);

/*
 * Write the name of a socket's own address: "tcp:1.2.3.4:5", "tcp6:[::1]:5", "udp:1.2.3.4:5",
 * "unix:/path". Context: any thread.
 */
void socket_name(int fd, char out[SOCKET_NAME_MAX]);

#endif
