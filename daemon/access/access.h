/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Access control: the files of users, the SASL library (-Y and -S) and its threads.
 *
 *   access.h     starts and stops all of it
 *   auth.h       users and passwords from a file; auth_hashed.h: users whose passwords are
 *                hashes; auth_hash.c: one hash
 *   auth_peers.c failed logins by peer
 *   addresses.c  connections by peer
 *   networks.c   lists of networks
 *   auth_sasl.h  exchanges of the SASL library
 *   gate.h       conditions for all requests
 *   rules.h      rights, and those of authenticated clients; rules_file.c: their file
 *   access_file.h files of users and of rules: read, published, reloaded; complaints
 *
 * The folder may include daemon/base, daemon/options and lib/base.
 */
#ifndef MAYFLY_DAEMON_ACCESS_ACCESS_H
#define MAYFLY_DAEMON_ACCESS_ACCESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/access/access_file.h"
#include "daemon/access/auth.h"
#include "daemon/access/rules.h"
#include "lib/base/clock.h"
#include "lib/base/counts.h"

/* ---- addresses.c ------------------------------------------------------------------------- */

/*
 * Counts the connections of each address, so that one client cannot use all places (-o
 * conns_per_address). An address is that of auth_peers_id(): of an IPv6 address only the first
 * half counts.
 */

struct addresses {
    pthread_mutex_t lock; /* a leaf; taken when connections begin and end */
    struct counts counts; /* [lock] of connections */
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

/* ---- auth_peers.c ------------------------------------------------------------------------ */

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
    bool is_crowded;     /* another peer was evicted early to make room for it */
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

/* ---- networks.c -------------------------------------------------------------------------- */

/*
 * A list of networks: ADDRESS or ADDRESS/BITS, IPv4 and IPv6, separated by commas.
 */

#define NETWORKS_MAX 64u

struct networks {
    /* [const] after networks_parse() */
    uint32_t count;
    struct network {
        uint16_t family; /* AF_INET, AF_INET6 */
        uint8_t bits;    /* length of the prefix */
        uint8_t address[16];
    } items[NETWORKS_MAX];
};

/*
 * Parse a list; NULL is an empty one. Returns NULL, or an error message. Context: main, before
 * start.
 */
const char *networks_parse(const char *text, struct networks *out);

/* Is the address in one of them? An IPv4 address is in no IPv6 network. Context: any thread. */
bool networks_have(const struct networks *n, uint16_t family, const uint8_t address[16]);

/* ---- rules_file.c ------------------------------------------------------------------------ */

/*
 * The file of rules (--access). It is not reloaded when it seems to be truncated, because it
 * might allow more than the complete one.
 */

extern const struct access_file_kind rules_file_kind;

/* The rules in force; NULL: there are none. Context: read side; main. */
static inline const struct rules *rules_file_get(const struct access_file *f)
{
    return access_file_get(f);
}

/* ---- access.c ---------------------------------------------------------------------------- */

struct access {
    struct auth text;       /* -Y */
    struct auth sasl_users; /* MEMCACHED_SASL_PWDB */
    struct auth_peers peers;
    struct access_file rules; /* --access */
    struct addresses addresses;
    struct networks proxies; /* --proxy-from */

    /* [const] while workers run */
    bool is_sasl_started;
    struct pool *pool; /* owned; runs slow logins; NULL: no client has to log in */

    /* [main] */
    bool is_abandoned; /* at the stop: a thread still uses this struct, so it is not released */
};

/*
 * Store the paths of the files of users and of rules. Returns 0, or the exit status after a
 * message was written. Call access_fini() in both cases. Context: main, before start, in the
 * folder to which relative paths refer.
 */
int access_init(struct access *a, const struct settings *settings);

/*
 * Use the keys of the previous program, so that its digests of logins stay valid. A key that is
 * all zero is ignored: that program had no such users. Context: main, between access_init() and
 * access_load().
 */
void access_continue(struct access *a, const struct siphash_key *text,
                     const struct siphash_key *sasl);

/*
 * Read users and rules. Called after privileges were dropped, because reloads have no others
 * either. Returns as access_init(). Context: main, before start.
 */
int access_load(struct access *a, const struct settings *settings);

/*
 * Start and stop the threads for slow calls. Stop them when the workers have no connections any
 * more but still take messages; a second stop does nothing. Returns as access_init(). Context:
 * main.
 */
int access_start_threads(struct access *a);
void access_stop_threads(struct access *a);

/*
 * Reload users and rules. False: there are no such files. *has_new: there is new content, so
 * connected clients may have lost their login, or have other rights. Errors in a file are
 * logged; access_complaint() returns the first. Context: main.
 */
bool access_reload(struct access *a, bool *has_new);

/* The first error of the last reload; "": there was none. Context: main. */
const char *access_complaint(const struct access *a);

/* Log the reloaded files, once the workers use them. Context: main. */
void access_log_reload(struct access *a);

/* Release everything. Context: main, after all threads have ended that do so. */
void access_fini(struct access *a);

#endif
