/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rights of a client, as bits. A listening socket grants them to connections that it
 * accepts (daemon/net/origin.h), and a connection starts with these (struct client).
 */
#ifndef MAYFLY_DAEMON_ACCESS_RIGHTS_H
#define MAYFLY_DAEMON_ACCESS_RIGHTS_H

enum {
    RIGHT_READ = 1u << 0,   /* commands that change nothing */
    RIGHT_WRITE = 1u << 1,  /* commands that change items */
    RIGHT_ADMIN = 1u << 2,  /* commands of the operator that memcached has for every client */
    RIGHT_CONFIG = 1u << 3, /* commands reserved for operators, which show and change options */
    RIGHT_REPLICATE = 1u << 4, /* commands of replicas, which are sent all items */
};

/* The rights of every client unless a rule says otherwise, as with memcached. */
#define RIGHTS_ORDINARY ((uint8_t)(RIGHT_READ | RIGHT_WRITE | RIGHT_ADMIN | RIGHT_REPLICATE))

/* The rights of an operator, over the control socket or where they were granted. */
#define RIGHTS_OPERATOR ((uint8_t)(RIGHTS_ORDINARY | RIGHT_CONFIG))

#endif
