/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table of users and passwords, read from a file, and reread when the operator asks for it.
 *
 * The table holds no names and no passwords, only a keyed digest of each pair. The key is
 * random and never leaves the process, not even when the process becomes another program
 * (net/passed_on.h). So a memory dump reveals no password. A comparison reads all digests, so
 * its time reveals nothing: not the length of a password, not how much of it was right, not
 * whether the user exists.
 *
 * A password may also be given as a hash of crypt(3) (auth_hashed.h). Then a login takes two
 * steps: auth_check() knows the pairs that were accepted earlier, and auth_check_hashed()
 * computes the hash, which takes too long for a worker. If a file has hashes, every failed
 * login costs one hash, also for unknown users.
 *
 * Workers read the table inside their read-side sections. Main replaces the table and releases
 * the old one a grace period later, so no worker waits for a reload.
 */
#ifndef MAYFLY_DAEMON_ACCESS_AUTH_H
#define MAYFLY_DAEMON_ACCESS_AUTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/access/access_file.h"
#include "lib/base/siphash.h"
#include "lib/base/span.h"

/* Longest line of a file, and longest file, in bytes. */
#define AUTH_LINE_MAX 4096
#define AUTH_FILE_MAX (64u << 20)

/*
 * The formats of files. Lines end in LF or CR LF.
 *
 * AUTH_FILE  of -Y: every line is `user:password`, separated by the first colon. The file is
 *            refused when a line has no colon, is too long, or contains NUL or another carriage
 *            return.
 * AUTH_PWDB  of MEMCACHED_SASL_PWDB: `user:password` or `user:password:anything`. It is unknown
 *            where a password with colons ends, so the text up to each colon is accepted. Lines
 *            without a colon and empty lines are skipped.
 */
enum auth_form { AUTH_FILE, AUTH_PWDB };

struct auth_table {
    /* [const] */
    size_t count;       /* of all entries */
    size_t plain_count; /* those of them that are not hashed */
    size_t
        unusable; /* entries no client can use: user or password is empty, or a space in user */
    size_t broken;              /* plain passwords that begin like a hash */
    size_t surplus;             /* hashes that are never used, see auth_hashed_seal() */
    struct auth_hashed *hashed; /* owned; NULL: no password is a hash */
    struct siphash_digest entries[];
};

/*
 * Make a table from a text. The line feed of the last line may be missing; an empty text makes
 * a table without users. NULL: a line is malformed (*bad_line is its number, from 1), or there
 * is no memory (*bad_line is 0). Context: any thread.
 */
struct auth_table *auth_table_create(const struct siphash_key *key, enum auth_form form,
                                     struct span text, size_t *bad_line);

/* Wipe and release; accepts NULL. Context: any thread. */
void auth_table_destroy(struct auth_table *table);

/*
 * Is the pair one of the entries that are not hashed? Takes the same time for every answer.
 * Context: any thread that keeps the table from being released.
 */
bool auth_table_has(const struct auth_table *table, const struct siphash_key *key,
                    struct span user, struct span password);

/* Its content is a struct auth_table; without a path clients need not authenticate. */
struct auth {
    struct access_file file;
    /* [const] */
    enum auth_form form;
    struct siphash_key key;
};

/*
 * Store the absolute path of the file, and draw the key. path NULL: authentication is off.
 * Returns 0, or the exit status after a message was written; then there is nothing to release.
 * Context: main, before start.
 */
int auth_init(struct auth *a, enum auth_form form, const char *path);

/* Release it. Context: main, after the last reader. */
void auth_fini(struct auth *a);

static inline bool auth_is_on(const struct auth *a)
{
    return access_file_is_on(&a->file);
}

/*
 * May this user with this password use the server? If so, *login is an identifier of the pair
 * that reveals nothing about it. False: the password is wrong, or auth_has_hashes(), and
 * auth_check_hashed() decides. Context: read side.
 */
bool auth_check(const struct auth *a, struct span user, struct span password,
                struct siphash_digest *login);

/* Are there users whose password is a hash? Context: read side. */
bool auth_has_hashes(const struct auth *a);

/* Is the password of this user a hash? Context: read side. */
bool auth_is_hashed(const struct auth *a, struct span user);

/*
 * As auth_check(), but also computes hashes if that is needed. Adds their number to *hashes.
 * Context: pool, outside a section.
 */
bool auth_check_hashed(const struct auth *a, struct span user, struct span password,
                       struct siphash_digest *login, unsigned *hashes);

/* Is a login that was accepted earlier still valid? Context: read side. */
bool auth_knows(const struct auth *a, const struct siphash_digest *login);

/* The number of entries. Context: read side. */
size_t auth_count(const struct auth *a);

#endif
