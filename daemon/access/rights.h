/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a client may do, as bits. A listening socket grants them to what it accepts
 * (daemon/net/origin.h), and a connection begins with these (struct client).
 */
#ifndef MAYFLY_DAEMON_ACCESS_RIGHTS_H
#define MAYFLY_DAEMON_ACCESS_RIGHTS_H

enum {
    RIGHT_READ = 1u << 0,  /* commands that change nothing */
    RIGHT_WRITE = 1u << 1, /* commands that change items */
    RIGHT_ADMIN = 1u << 2, /* commands of the operator that memcached has for every client */
    RIGHT_CONFIG =
        1u << 3, /* those that only an operator gets: options are shown and changed */
    RIGHT_REPLICATE = 1u << 4, /* those by which a replica follows: it is sent all items */
};

/* What every client may do as long as nobody says otherwise, as with memcached. */
#define RIGHTS_ORDINARY ((uint8_t)(RIGHT_READ | RIGHT_WRITE | RIGHT_ADMIN | RIGHT_REPLICATE))

/* What an operator may do, over the control socket or where it was granted. */
#define RIGHTS_OPERATOR ((uint8_t)(RIGHTS_ORDINARY | RIGHT_CONFIG))

#endif
