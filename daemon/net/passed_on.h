/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process passes on to the program that it becomes (daemon/service/upgrade.h): sockets
 * that listen, by their addresses, so that nobody who connects meanwhile is refused, and the
 * file in memory that the items are in. Descriptors stay open, and variables of the environment
 * name them. Context of all: main.
 */
#ifndef MAYFLY_DAEMON_NET_PASSED_ON_H
#define MAYFLY_DAEMON_NET_PASSED_ON_H

#include <stdbool.h>
#include <sys/socket.h>

#include "daemon/net/socket_list.h"

/* Is this process one that was passed something? Also after all was taken. */
bool passed_on_is(void);

/*
 * The socket that listens at an address, at any port if that has none, or -1. It is the
 * caller's from then on.
 */
int passed_on_take(const struct sockaddr *addr, socklen_t len);

/* The file in memory, or -1; the caller's from then on. */
int passed_on_take_memory(void);

/* Close what nobody has taken. */
void passed_on_close_rest(void);

/*
 * Before it ends: note what shall be passed on. sockets: those of a list, and whatever a
 * service manager has passed; their files stay. They may be closed then.
 */
void passed_on_note_sockets(struct socket_list *l);
void passed_on_note_memory(int fd);

/* Become this program. Returns an errno if that fails. */
int passed_on_become(const char *path, char *const argv[]);

#endif
