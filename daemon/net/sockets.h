/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creating listening sockets: addresses, names, options, bind. The listener (daemon/service)
 * accepts on them.
 *
 * sockets.c has all of them, sockets_*.c one kind each; listen_address.c reads -l,
 * socket_list.h keeps what is open.
 */
#ifndef MAYFLY_DAEMON_NET_SOCKETS_H
#define MAYFLY_DAEMON_NET_SOCKETS_H

#include <stdbool.h>

#include "daemon/net/socket_list.h"

struct passed_on;
struct settings;

/* Connections of the control socket at the same time; they have places beyond -c. */
#define CONTROL_CONNS_MAX 8u

/*
 * Open the sockets that the settings request, and append stream sockets to the first list,
 * those for datagrams to the second. Returns 0, or the exit status after a message was written;
 * sockets that were opened stay in the lists then. Context: main, before start.
 */
int sockets_open(const struct settings *settings, struct socket_list *out,
                 struct socket_list *udp);

/* The purpose of an inherited socket, by its name from the service manager. */
enum inherit_for {
    INHERIT_CLIENTS, /* "client": plain TCP; "tls": TLS; any other, or none: TLS if -Z is on */
    INHERIT_METRICS, /* "metrics" */
    INHERIT_CONTROL, /* "control": a unix socket */
    INHERIT_MEMORY,  /* SOCKETS_MEMORY_NAME: no socket, see sockets_inherited_memory() */
};

/* Name of the memory file that the service manager keeps: see server.h. */
#define SOCKETS_MEMORY_NAME "mayfly.memory"

/*
 * Check the addresses and names in the settings, without opening a socket. Returns as above.
 * Context: main, before start.
 */
int sockets_check(const struct settings *settings);

/*
 * Take over the stream sockets of the LISTEN_FDS protocol (sd_listen_fds_with_names(3)) with
 * this purpose. Other descriptors are not changed, with a warning if they have no purpose.
 * *found: whether there was at least one. Returns as above. Context: main, before start.
 */
int sockets_inherit(const struct settings *settings, enum inherit_for what,
                    struct socket_list *out, bool *found);

/*
 * The passed descriptor with this number among those named SOCKETS_MEMORY_NAME; the caller
 * becomes its owner. -1: there are fewer. Context: main, before start.
 */
int sockets_inherited_memory(const struct passed_on *passed, uint32_t number);

/* Number of passed descriptors, from SOCKETS_INHERIT_FIRST on. Context: main. */
#define SOCKETS_INHERIT_FIRST 3 /* SD_LISTEN_FDS_START */
uint32_t sockets_inherited_count(const struct passed_on *passed);

/* ---- exposure.c -------------------------------------------------------------------------- */

/*
 * Finds exposed sockets: those that other machines reach, and whose clients need neither a user
 * nor a certificate. Sockets of metrics are not checked.
 */

/*
 * Check the opened sockets: streams in the first list, datagrams in the second. Logs one line
 * if any is exposed, and returns 0; with --protected that is an error, and the exit status is
 * returned. Context: main, before start.
 */
int exposure_judge(const struct settings *settings, const struct socket_list *tcp,
                   const struct socket_list *udp);

/*
 * The same for the sockets that would be opened. Names are resolved. A name without an address
 * is skipped, because opening it fails anyway. Context: main, before start.
 */
int exposure_check(const struct settings *settings);

#endif
