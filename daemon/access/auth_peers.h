/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failed logins by peer: the log warns of guesses that come over many connections, failures
 * that come quickly are answered late (-o auth_delay), and the logins of an address with too
 * many failures are refused (-o auth_failures_per_address).
 *
 * The table is bounded. A peer that is not in it takes a place of its row that is free or
 * forgotten; if there is none, that of the peer with the fewest failures, and of those that of
 * the one that has failed least lately. So failures that are few never push out those that are
 * many, and whoever wants to be forgotten early needs other peers in the same row with as many
 * failures as it has. The hash has a seed of its own, so nobody can choose them: that takes
 * some thousand networks. One that has those has as many times the limit of guesses in any
 * case.
 */
#ifndef MAYFLY_DAEMON_ACCESS_AUTH_PEERS_H
#define MAYFLY_DAEMON_ACCESS_AUTH_PEERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"

/* 72 bytes for each place: 1152 KiB, resident as far as it was used. */
#define AUTH_PEERS_ROWS 4096u
#define AUTH_PEERS_WAYS 4u

/* The first warning about a peer comes with so many failures, the next at twice as many. */
#define AUTH_PEERS_FIRST 5u

/* After so long without a failure a peer's count starts over, milliseconds. */
#define AUTH_PEERS_FORGET_MS (10 * 60 * 1000)

/* A failure is quick if it comes after this many within this time, milliseconds. */
#define AUTH_PEERS_QUICK    10u
#define AUTH_PEERS_QUICK_MS (60 * 1000)

struct auth_peer {
    uint64_t id;       /* see auth_peers_id() */
    uint64_t failures; /* 0: not in use */
    msec_t last;
    /* Of the last failures, in 32 bits each; the oldest is at failures % AUTH_PEERS_QUICK. */
    uint32_t times[AUTH_PEERS_QUICK];
    bool is_quick; /* of its last failure, see struct auth_failure */
};

/* What auth_peers_note() tells of a failure. */
struct auth_failure {
    uint64_t warn;       /* failures of this peer if it is time for a warning, else 0 */
    bool is_crowded;     /* another peer was forgotten early for it */
    bool is_quick;       /* it comes after AUTH_PEERS_QUICK within AUTH_PEERS_QUICK_MS */
    bool is_quick_first; /* the same, and the one before was not */
};

struct auth_peers {
    pthread_mutex_t lock; /* a leaf; taken at logins that failed, and where there is a limit */
    /* [lock] */
    struct auth_peer *peers; /* owned; row after row; NULL: not initialised */
    /* [const] */
    uint64_t seed;
};

/*
 * False: no memory; auth_peers_fini() is right in both cases. Context: main, before start.
 */
bool auth_peers_init(struct auth_peers *a);

/* Also of one that is all zeros. Context: main, after the last thread that fails. */
void auth_peers_fini(struct auth_peers *a);

/*
 * What stands for a peer: its address (family AF_INET or AF_INET6); of IPv6 the first half, as
 * a single machine may have all of the other. All clients of unix sockets are one peer. No two
 * peers have the same. Context: any thread.
 */
uint64_t auth_peers_id(uint16_t family, const uint8_t address[16]);

/* A login of this peer failed. now: real time, by any clock. Context: any thread. */
struct auth_failure auth_peers_note(struct auth_peers *a, uint64_t id, msec_t now);

/*
 * The number of failures of a peer that are not forgotten. now: as above. Context: any thread.
 */
uint64_t auth_peers_count(struct auth_peers *a, uint64_t id, msec_t now);

#endif
