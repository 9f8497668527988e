/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Access control: the files of users, the SASL library (-Y and -S) and its threads.
 *
 *   access.h     starts and stops all of it
 *   auth.h       users and passwords from a file; auth_hashed.h: users whose passwords are
 *                hashes; auth_hash.h: one hash
 *   auth_peers.h failed logins by peer
 *   addresses.h  connections by peer
 *   networks.h   lists of networks
 *   auth_sasl.h  exchanges of the SASL library
 *   rights.h     what a client may do; gate.h: conditions for all requests
 *   rules.h      rights of authenticated clients; rules_file.h: their file
 *   access_file.h files of users and of rules: read, published, reloaded; complaints
 *
 * The folder may include daemon/base, daemon/options and lib/base.
 */
#ifndef MAYFLY_DAEMON_ACCESS_ACCESS_H
#define MAYFLY_DAEMON_ACCESS_ACCESS_H

#include <stdbool.h>

#include "daemon/access/addresses.h"
#include "daemon/access/auth.h"
#include "daemon/access/auth_peers.h"
#include "daemon/access/networks.h"
#include "daemon/access/rules_file.h"

struct pool;
struct settings;

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
