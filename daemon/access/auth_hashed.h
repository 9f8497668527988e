/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hashed passwords of one file of users, and a cache of pairs of user and password that
 * matched recently. A hash takes tens of milliseconds. The cache keeps a keyed digest of an
 * accepted pair, so its next login costs nothing. It has at most AUTH_HASHED_PAIRS pairs. A new
 * pair replaces the oldest of its row. The cache is dropped when the file is reread.
 *
 * Users are known by keyed digests too (auth.h). The hashes themselves are stored unchanged.
 */
#ifndef MAYFLY_DAEMON_ACCESS_AUTH_HASHED_H
#define MAYFLY_DAEMON_ACCESS_AUTH_HASHED_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/siphash.h"
#include "lib/base/span.h"

/* Most hashes tried for one user, which is also the largest number of valid passwords. */
#define AUTH_HASHES_MAX 4u

/* Maximum number of remembered pairs. */
#define AUTH_HASHED_PAIRS 1024u

/*
 * Make a table with room for `lines` lines, whose hashes have `bytes` bytes together. NULL: no
 * memory. Context: any thread.
 */
struct auth_hashed *auth_hashed_create(size_t lines, size_t bytes);

/* ---- auth_hash.c ------------------------------------------------------------------------- */

/*
 * Hashed passwords in the formats of crypt(3) of libcrypt: yescrypt, bcrypt, sha512crypt and
 * its other methods. Only this module uses the library.
 */

/* Longest hash, bytes, with a NUL at its end. */
#define AUTH_HASH_MAX 384

/* The form of a password field. */
enum auth_field {
    AUTH_FIELD_PLAIN,  /* a plain password */
    AUTH_FIELD_HASH,   /* a complete hash, by a method that the library supports */
    AUTH_FIELD_BROKEN, /* a plain password that begins like a hash */
};

/*
 * Classify a field. A field is a hash only if it begins with $, and its length and all its
 * bytes are valid for a hash: a plain password may begin with $6$ too. Context: any thread.
 */
enum auth_field auth_field_of(struct span field);

/*
 * Does the password match the hash? Computing a hash takes tens of milliseconds, and some MiB
 * with common methods. It takes as long for a password that cannot be hashed because it is too
 * long or has a NUL in it. Context: pool, outside a section.
 */
bool auth_hash_verify(const char *hash, struct span password);

/* ---- auth_hashed.c ----------------------------------------------------------------------- */

/* Wipe and release; accepts NULL. Context: any thread. */
void auth_hashed_destroy(struct auth_hashed *h);

/*
 * Add a line. user is the digest of its user, login that of the user and this hash. Context:
 * any thread, before auth_hashed_seal().
 */
void auth_hashed_add(struct auth_hashed *h, const struct siphash_digest *user,
                     const struct siphash_digest *login, struct span hash);

/*
 * All lines were added. Returns the number of ignored lines, whose user has AUTH_HASHES_MAX
 * earlier ones. Context: any thread.
 */
size_t auth_hashed_seal(struct auth_hashed *h);

/* The number of lines. Context: any thread. */
size_t auth_hashed_count(const struct auth_hashed *h);

/* Is this the login of a line? Takes the same time for every answer. Context: any thread. */
bool auth_hashed_has_login(const struct auth_hashed *h, const struct siphash_digest *login);

/* Has this user a line? Context: any thread. */
bool auth_hashed_has_user(const struct auth_hashed *h, const struct siphash_digest *user);

/* Was this pair accepted recently? If so, *login is that of its line. Context: any thread. */
bool auth_hashed_recall(struct auth_hashed *h, const struct siphash_digest *pair,
                        struct siphash_digest *login);

/* Remember that this pair was accepted, with the login of its line. Context: any thread. */
void auth_hashed_remember(struct auth_hashed *h, const struct siphash_digest *pair,
                          const struct siphash_digest *login);

/* A copy of the hashes to compare a password with; the table may be released meanwhile. */
struct auth_candidates {
    unsigned count;
    bool is_known; /* false: there is no such user, and the hashes are another user's */
    struct siphash_digest login[AUTH_HASHES_MAX];
    char hash[AUTH_HASHES_MAX][AUTH_HASH_MAX];
};

/*
 * The hashes of a user. For an unknown user they are those of another user, always the same one
 * for that name. So the answer takes as long, and its time does not reveal which users exist.
 * Context: any thread that keeps the table from being released.
 */
void auth_hashed_candidates(const struct auth_hashed *h, const struct siphash_digest *user,
                            struct auth_candidates *out);

#endif
