/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hashed passwords of one file of users, and the pairs of user and password that were
 * checked against them lately. A hash takes tens of milliseconds; of a pair that was good a
 * keyed digest is kept, so its next login costs nothing. There are AUTH_HASHED_PAIRS of these
 * at most, a new one takes the place of the oldest of its row, and all are gone when the file
 * is read again.
 *
 * Users are known by keyed digests too (auth.h). The hashes themselves are kept as they are.
 */
#ifndef MAYFLY_DAEMON_ACCESS_AUTH_HASHED_H
#define MAYFLY_DAEMON_ACCESS_AUTH_HASHED_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/access/auth_hash.h"
#include "lib/base/siphash.h"
#include "lib/base/span.h"

/* Most hashes that are tried for one user: so many passwords may be valid at a time. */
#define AUTH_HASHES_MAX 4u

/* Most good pairs that are remembered. */
#define AUTH_HASHED_PAIRS 1024u

struct auth_hashed;

/*
 * With room for so many lines, whose hashes have so many bytes together. NULL: no memory.
 * Context: any thread.
 */
struct auth_hashed *auth_hashed_create(size_t lines, size_t bytes);

/* Wipe and release; accepts NULL. Context: any thread. */
void auth_hashed_destroy(struct auth_hashed *h);

/*
 * Add a line. user stands for its user, login for the user and this hash. Context: any thread,
 * before auth_hashed_seal().
 */
void auth_hashed_add(struct auth_hashed *h, const struct siphash_digest *user,
                     const struct siphash_digest *login, struct span hash);

/*
 * All lines are there. Returns how many are never looked at, because their user has
 * AUTH_HASHES_MAX before them. Context: any thread.
 */
size_t auth_hashed_seal(struct auth_hashed *h);

/* The number of lines. Context: any thread. */
size_t auth_hashed_count(const struct auth_hashed *h);

/* Is this the login of a line? Takes the same time for every answer. Context: any thread. */
bool auth_hashed_has_login(const struct auth_hashed *h, const struct siphash_digest *login);

/* Has this user a line? Context: any thread. */
bool auth_hashed_has_user(const struct auth_hashed *h, const struct siphash_digest *user);

/* Was this pair found good? If so, *login is that of its line. Context: any thread. */
bool auth_hashed_recall(struct auth_hashed *h, const struct siphash_digest *pair,
                        struct siphash_digest *login);

/* It was. Context: any thread. */
void auth_hashed_remember(struct auth_hashed *h, const struct siphash_digest *pair,
                          const struct siphash_digest *login);

/* What a password has to be compared with, copied: nothing keeps the table meanwhile. */
struct auth_candidates {
    unsigned count;
    bool is_known; /* false: there is no such user, and these are of another one */
    struct siphash_digest login[AUTH_HASHES_MAX];
    char hash[AUTH_HASHES_MAX][AUTH_HASH_MAX];
};

/*
 * Those of a user. If there is none, those of a user that the name always leads to: so the
 * answer takes as long, and not its time but only the operator's file says who exists.
 * Context: any thread that keeps the table from being released.
 */
void auth_hashed_candidates(const struct auth_hashed *h, const struct siphash_digest *user,
                            struct auth_candidates *out);

#endif
