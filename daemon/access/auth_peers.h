/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts failed logins by peer. The log warns of guesses over many connections. Failures in
 * quick succession are answered late (-o auth_delay). Logins of an address with too many
 * failures are rejected (-o auth_failures_per_address).
 *
 * The table is bounded. A new peer takes a free or expired place of its row. If there is none,
 * it replaces the peer with the fewest failures, and among those the one whose last failure is
 * oldest. So peers with few failures never displace those with many. To be forgotten early, an
 * attacker needs other peers in the same row with as many failures. The hash has its own seed,
 * so these cannot be chosen: it takes some thousand networks. An attacker with that many
 * networks has the same multiple of allowed guesses anyway.
 */
#ifndef MAYFLY_DAEMON_ACCESS_AUTH_PEERS_H
#define MAYFLY_DAEMON_ACCESS_AUTH_PEERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"

/* 72 bytes for each place, 1152 KiB in all. Only pages in use are resident. */
#define AUTH_PEERS_ROWS 4096u
#define AUTH_PEERS_WAYS 4u

/* The first warning about a peer comes at this many failures, the next at twice as many. */
#define AUTH_PEERS_FIRST 5u

/* After this time without a failure a peer's count restarts, milliseconds. */
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
    bool is_quick; /* its last failure was quick, see struct auth_failure */
};

/* The result of auth_peers_note() for a failure. */
struct auth_failure {
    uint64_t warn;       /* failures of this peer if a warning is due, else 0 */
    bool is_crowded;     /* another peer was forgotten early to make room for it */
    bool is_quick;       /* it comes after AUTH_PEERS_QUICK within AUTH_PEERS_QUICK_MS */
    bool is_quick_first; /* the same, and the failure before it was not quick */
};

struct auth_peers {
    pthread_mutex_t lock; /* a leaf; taken for failed logins, and for all if there is a limit */
    /* [lock] */
    struct auth_peer *peers; /* owned; row after row; NULL: not initialised */
    /* [const] */
    uint64_t seed;
};

/*
 * False: no memory. Call auth_peers_fini() in both cases. Context: main, before start.
 */
bool auth_peers_init(struct auth_peers *a);

/* Accepts one that is all zeros. Context: main, after the last login. */
void auth_peers_fini(struct auth_peers *a);

/*
 * The id of a peer, made from its address (family AF_INET or AF_INET6). Of an IPv6 address only
 * the first half counts, since a single machine may own the whole other half. All clients of
 * unix sockets are one peer. Different peers have different ids. Context: any thread.
 */
uint64_t auth_peers_id(uint16_t family, const uint8_t address[16]);

/* A login of this peer failed. now: real time, by any clock. Context: any thread. */
struct auth_failure auth_peers_note(struct auth_peers *a, uint64_t id, msec_t now);

/*
 * The number of failures of a peer that are not forgotten. now: as above. Context: any thread.
 */
uint64_t auth_peers_count(struct auth_peers *a, uint64_t id, msec_t now);

#endif
