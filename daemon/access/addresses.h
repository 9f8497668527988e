/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts the connections of each address, so that one client cannot use all places (-o
 * conns_per_address). An address is that of auth_peers_id(): of an IPv6 address only the first
 * half counts. The table has an entry of 16 bytes for each connected address. It is between an
 * eighth and half full.
 */
#ifndef MAYFLY_DAEMON_ACCESS_ADDRESSES_H
#define MAYFLY_DAEMON_ACCESS_ADDRESSES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct address_entry {
    uint64_t id;
    uint32_t conns; /* 0: not in use */
};

struct addresses {
    pthread_mutex_t lock; /* a leaf; taken when connections begin and end */
    /* [lock] */
    struct address_entry *entries; /* owned; NULL: empty */
    uint32_t cap;                  /* a power of two */
    uint32_t used;
    /* [const] */
    uint64_t seed;
};

enum address_answer { ADDRESS_IN, ADDRESS_FULL, ADDRESS_NO_MEMORY };

/* Context: main, before start; main, after the last connection. */
void addresses_init(struct addresses *a);
void addresses_fini(struct addresses *a);

/*
 * A connection of this address begins. ADDRESS_FULL: it already has `limit` connections (0: no
 * limit), and nothing has changed, as with ADDRESS_NO_MEMORY. Context: any thread.
 */
enum address_answer addresses_enter(struct addresses *a, uint64_t id, uint32_t limit);

/* A connection for which addresses_enter() returned ADDRESS_IN ends. Context: any thread. */
void addresses_leave(struct addresses *a, uint64_t id);

/* Are there no connections at all? Context: any thread. */
bool addresses_are_none(struct addresses *a);

/* The number of connections of an address. Context: any thread. */
uint32_t addresses_count(struct addresses *a, uint64_t id);

#endif
