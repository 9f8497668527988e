/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process passes on to the program that it becomes (daemon/service/upgrade.h): listening
 * sockets, by their addresses, so that no client is refused meanwhile; the memory file with the
 * items; and connections. Descriptors stay open. Environment variables list them, but those of
 * connections are listed in a file, since there are many. Context of all: main.
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
 * The descriptors. Settings have a pointer to it: where that is NULL nothing was passed, and
 * functions that ask or take find nothing.
 */
struct passed_on {
    bool is_passed, is_shown;
    int passed[PASSED_ON_SOCKETS_MAX]; /* -1: taken */
    unsigned passed_count;
    int passed_memory; /* -1: none, or taken, as are the next */
    int passed_file;   /* of connections */
    /* What is to be passed. */
    struct socket_open noted[PASSED_ON_SOCKETS_MAX]; /* with their files */
    unsigned noted_count;
    int noted_memory;
    int noted_file;
    /* Those that a service manager has passed keep their numbers. */
    int inherited[PASSED_ON_SOCKETS_MAX];
    unsigned inherited_count;
};

/* Read the environment, and remove from it what is of that. First of all. */
void passed_on_init(struct passed_on *p);

/* Is this process one that was passed something? Also after all was taken. */
bool passed_on_is(const struct passed_on *p);

/*
 * Is it asked beside the one that runs (upgrade.h), and was shown what that one has open? Then
 * its sockets can be found as if they had been passed, but are not to be changed.
 */
bool passed_on_is_shown(const struct passed_on *p);

/*
 * The status of an address at which one cannot listen, after a message: none where something
 * was passed, for those who are served at others. It was looked at before.
 */
int passed_on_excuse(const struct passed_on *p, int status);

/*
 * An internet address is in use: has one of the passed sockets that are not taken yet its port,
 * in the same family? Such a socket is closed, or will not exist any more when this program
 * takes over. type: SOCK_STREAM or SOCK_DGRAM.
 */
bool passed_on_makes_way(struct passed_on *p, const struct sockaddr *addr, int type);

/*
 * The socket that listens at an address, at any port if that has none, or -1. It is the
 * caller's from then on.
 */
int passed_on_take(struct passed_on *p, const struct sockaddr *addr, socklen_t len);

/* The file in memory, or -1; the caller's from then on. */
int passed_on_take_memory(struct passed_on *p);

/*
 * The serialized connections (passed_conns.h); out is empty at the call. Returns false if none
 * were passed. The caller becomes the owner of their descriptors.
 */
bool passed_on_take_conns(struct passed_on *p, struct buf *out);

/* Close what nobody has taken, except connections. */
void passed_on_close_rest(struct passed_on *p);

/*
 * Before it ends: note what shall be passed on. sockets: those of a list, and whatever a
 * service manager has passed; their files stay, and are no longer of the list. They may be
 * closed then.
 */
void passed_on_note_sockets(struct passed_on *p, struct socket_list *l);
/* Programs started from now on are shown these: numbers, each with a comma; NULL: none. */
void passed_on_show(const char *numbers);
/* The same; false: there is no descriptor for it, with errno. */
bool passed_on_note_memory(struct passed_on *p, int fd);

/*
 * There is no other program to come: close all of that, and remove the files of sockets as
 * their owner would have.
 */
void passed_on_give_up(struct passed_on *p);

/*
 * Connections: their descriptors are open until an exec, and closed by passed_on_end_conns() if
 * there is none. False: they cannot be written down, and a line says why.
 */
bool passed_on_note_conns(struct passed_on *p, const struct passed_conns *conns,
                          const struct passed_keys *keys);
void passed_on_end_conns(const struct passed_conns *conns);

/* Become this program. Returns an errno if that fails. */
int passed_on_become(const struct passed_on *p, const char *path, char *const argv[]);

#endif
