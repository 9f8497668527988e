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
    struct pool *pool; /* owned; runs logins that take long; NULL: nobody has to log in */

    /* [main] */
    bool is_abandoned; /* at the stop: a thread still uses this, which is not released */
};

/*
 * Remember the files of users and of rules. Returns 0, or the exit status after a message was
 * written; access_fini() releases in both cases. Context: main, before start, in the folder
 * that relative names mean.
 */
int access_init(struct access *a, const struct settings *settings);

/*
 * Have digests of logins mean what they meant in another program: by its keys of both. One that
 * is zero is that of no users, and not taken. Context: main, between access_init() and
 * access_load().
 */
void access_continue(struct access *a, const struct siphash_key *text,
                     const struct siphash_key *sasl);

/*
 * Read users and rules, after privileges were dropped: later reads have no other rights.
 * Returns as above. Context: main, before start.
 */
int access_load(struct access *a, const struct settings *settings);

/*
 * Start and stop the threads for slow calls. Stop them when the workers have no connections any
 * more but still take messages; a second stop does nothing. Returns as above. Context: main.
 */
int access_start_threads(struct access *a);
void access_stop_threads(struct access *a);

/*
 * Read users and rules again. False: there is no file of either. *has_new: clients that are in
 * may have to leave, or may do something else than before. What is wrong with a file is
 * logged, and complaint_first() has the first of it. Context: main.
 */
bool access_reload(struct access *a, bool *has_new);

/* What was wrong with a file first when they were read again; "": nothing. Context: main. */
const char *access_complaint(const struct access *a);

/* Log what was new, when it has been passed on. Context: main. */
void access_log_reload(struct access *a);

/* Release everything. Context: main, after all threads have ended that do so. */
void access_fini(struct access *a);

#endif
