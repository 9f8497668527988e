/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SASL by Cyrus libsasl2, the only files that name the library: its configuration, which is
 * memcached's, and one exchange of a client that authenticates. What mechanisms there are and
 * where users stand is the library's business; the one thing of our own is a plain file of
 * users (MEMCACHED_SASL_PWDB), which then decides alone.
 *
 * A build without the library has auth_sasl_none.c in the place of auth_sasl.c.
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
 * Prepare the library. users: a file of users that decides alone, when it is on; borrowed until
 * auth_sasl_stop(). Returns 0, or the exit status after a message was written; then nothing is
 * left to release. Context: before start.
 */
int auth_sasl_start(const struct auth *users);

/* Context: main, no exchange is left and no thread is in the library. */
void auth_sasl_stop(void);

/* The names of the mechanisms that are offered, apart by spaces. Context: any thread. */
struct span auth_sasl_mechanisms(void);

/*
 * One client's way through one mechanism. Used by one thread at a time. Beginning and steps may
 * take long: they ask other processes, or look at files.
 */
struct exchange;

enum exchange_result {
    EXCHANGE_DONE,    /* it is who it says */
    EXCHANGE_GOES_ON, /* send it the challenge, and step with its answer */
    EXCHANGE_FAILED,
};

/*
 * Begin with a mechanism; data is what the client said at once, empty for nothing. *x is the
 * exchange, NULL when there is no memory, which is EXCHANGE_FAILED. *challenge points into it
 * until its next use. Context: pool, outside a read-side section.
 */
enum exchange_result exchange_begin(struct exchange **x, const char *mechanism,
                                    struct span data, struct span *challenge);

/* Go on with the client's answer. Context: as above. */
enum exchange_result exchange_step(struct exchange *x, struct span data,
                                   struct span *challenge);

/* Accepts NULL. Context: any thread. */
void exchange_destroy(struct exchange *x);

#endif
