/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors and state that a process passes on to the program that replaces it by exec
 * (daemon/service/server.h): listening sockets, by their addresses, so that no client is
 * refused meanwhile; the memory file with the items; and connections. Descriptors stay open.
 * Environment variables list them, but those of connections are listed in a file, since there
 * are many. Context of all: main.
 */
#ifndef MAYFLY_DAEMON_NET_PASSED_ON_H
#define MAYFLY_DAEMON_NET_PASSED_ON_H

#include <stdbool.h>
#include <sys/socket.h>

#include "daemon/net/passed_conns.h"
#include "daemon/net/socket_list.h"
#include "lib/base/buf.h"

#define PASSED_ON_SOCKETS_MAX 256u

/*
 * The descriptors. Settings have a pointer to this struct. If it is NULL nothing was passed,
 * and functions that query or take a descriptor find none.
 */
struct passed_on {
    bool is_passed, is_shown;
    int passed[PASSED_ON_SOCKETS_MAX]; /* -1: taken */
    unsigned passed_count;
    int passed_memory; /* -1: none, or taken, as are the next */
    int passed_file;   /* of connections */
    /* Sockets to be passed on. */
    struct socket_open noted[PASSED_ON_SOCKETS_MAX]; /* with their files */
    unsigned noted_count;
    int noted_memory;
    int noted_file;
    /* Descriptors that a service manager has passed keep their numbers. */
    int inherited[PASSED_ON_SOCKETS_MAX];
    unsigned inherited_count;
};

/* Read the variables of the environment, and remove them. Must be called first of all. */
void passed_on_init(struct passed_on *p);

/* Was this process passed anything? True also after everything was taken. */
bool passed_on_is(const struct passed_on *p);

/*
 * Is this a check for a running server (server.h), which has shown its descriptors? Then its
 * sockets can be found as if they had been passed, but must not be changed.
 */
bool passed_on_is_shown(const struct passed_on *p);

/*
 * The exit status after an address could not be opened: `status`, or 0 if descriptors were
 * passed, because clients are served at the other addresses. The check before the upgrade has
 * tried all addresses.
 */
int passed_on_excuse(const struct passed_on *p, int status);

/*
 * An internet address is in use. Does an unused passed socket have its port, in the same
 * family? Then that socket is closed, or will be closed when this program takes over. type:
 * SOCK_STREAM or SOCK_DGRAM.
 */
bool passed_on_makes_way(struct passed_on *p, const struct sockaddr *addr, int type);

/*
 * Take the socket that listens at an address, or, if the address has no port, at any port; -1:
 * there is none. The caller owns it from then on.
 */
int passed_on_take(struct passed_on *p, const struct sockaddr *addr, socklen_t len);

/* Take the file in memory; -1: there is none. The caller owns it from then on. */
int passed_on_take_memory(struct passed_on *p);

/*
 * The serialized connections (passed_conns.h); out is empty at the call. Returns false if none
 * were passed. The caller becomes the owner of their descriptors.
 */
bool passed_on_take_conns(struct passed_on *p, struct buf *out);

/* Close unused descriptors, except those of connections. */
void passed_on_close_rest(struct passed_on *p);

/*
 * Before the process ends: note the sockets to be passed on, those of a list and those that a
 * service manager has passed. Their files stay, and the list no longer owns them. The sockets
 * may be closed afterwards.
 */
void passed_on_note_sockets(struct passed_on *p, struct socket_list *l);
/* Descriptors shown to programs started from now on, each number with a comma; NULL: none. */
void passed_on_show(const char *numbers);
/* Note the file in memory. False: the descriptor cannot be duplicated, with errno. */
bool passed_on_note_memory(struct passed_on *p, int fd);

/*
 * No program takes over: close all recorded descriptors, and remove the files of sockets.
 */
void passed_on_give_up(struct passed_on *p);

/*
 * Note connections. Their descriptors stay open for the exec; passed_on_end_conns() closes them
 * if there is none. False: they could not be serialized, which was logged.
 */
bool passed_on_note_conns(struct passed_on *p, const struct passed_conns *conns,
                          const struct passed_keys *keys);
void passed_on_end_conns(const struct passed_conns *conns);

/* Become this program. Returns an errno if that fails. */
int passed_on_become(const struct passed_on *p, const char *path, char *const argv[]);

#endif
