/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SASL by Cyrus libsasl2: its configuration, which is memcached's, and the exchange with one
 * client that authenticates. The library knows the mechanisms and the users, unless a plain
 * file of users is given (MEMCACHED_SASL_PWDB), which then decides alone. Only this module uses
 * the library.
 *
 * A build without the library has auth_sasl_none.c instead of auth_sasl.c.
 */
#ifndef MAYFLY_DAEMON_ACCESS_AUTH_SASL_H
#define MAYFLY_DAEMON_ACCESS_AUTH_SASL_H

#include <stdbool.h>

#include "lib/base/span.h"

struct auth;

/* Longest name of a mechanism, and longest challenge, in bytes. */
#define AUTH_MECH_MAX      32
#define AUTH_CHALLENGE_MAX (8u * 1024)

/*
 * Store the absolute path that SASL_CONF_PATH means. Returns 0, or the exit status after a
 * message was written. Context: main, before start, in the folder to which relative paths
 * refer.
 */
int auth_sasl_find_configuration(void);

/*
 * Prepare the library, after that. users: decides alone when it is on; borrowed until
 * auth_sasl_stop(). Returns 0, or the exit status after a message was written; then there is
 * nothing to release. Context: main, before start.
 */
int auth_sasl_start(const struct auth *users);

/* Release the library. Context: main, no exchange exists, no thread is in the library. */
void auth_sasl_stop(void);

/* The names of the mechanisms that are offered, separated by spaces. Context: any thread. */
struct span auth_sasl_mechanisms(void);

/*
 * The exchange with one client by one mechanism. Used by one thread at a time. Its calls may
 * take long: they query other processes or read files.
 */
struct exchange;

enum exchange_result {
    EXCHANGE_DONE,    /* the client is authenticated */
    EXCHANGE_GOES_ON, /* send the challenge, and step with the client's answer */
    EXCHANGE_FAILED,
};

/*
 * Begin with a mechanism; data is the client's initial response, which may be empty. *x is the
 * exchange; NULL: no memory, which is EXCHANGE_FAILED. *challenge points into it until its next
 * use. Context: pool, outside a read-side section.
 */
enum exchange_result exchange_begin(struct exchange **x, const char *mechanism,
                                    struct span data, struct span *challenge);

/* Continue with the client's answer. Context: pool, outside a read-side section. */
enum exchange_result exchange_step(struct exchange *x, struct span data,
                                   struct span *challenge);

/*
 * The name that the client has sent; empty if it is not known. Borrowed from the exchange.
 * Accepts NULL. Context: any thread, while no step of the exchange runs.
 */
struct span exchange_user(const struct exchange *x);

/*
 * The same as used in rules: without @ and the name of this host, which the library appends to
 * a name without a domain. Context: as above.
 */
struct span exchange_name(const struct exchange *x);

/*
 * After EXCHANGE_DONE: the login, for auth_knows(); borrowed from the exchange. NULL: SASL has
 * decided, not the file of MEMCACHED_SASL_PWDB. Context: any thread.
 */
const struct siphash_digest *exchange_login(const struct exchange *x);

/*
 * Number of password hashes computed for it. Accepts NULL. Context: any thread, while no step
 * of the exchange runs.
 */
unsigned exchange_hashes(const struct exchange *x);

/* Release it; accepts NULL. Context: any thread. */
void exchange_destroy(struct exchange *x);

#endif
