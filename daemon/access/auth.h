/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who may use the server: a table of users and passwords, read from a file, and read again
 * when the operator asks for it.
 *
 * The table holds no names and no passwords, only a keyed digest of each pair; the key is drawn
 * at start and never leaves the process. So a memory dump gives no password away, and the
 * comparison of an offered pair, which looks at all digests whatever it finds, takes a time
 * that says nothing about them: neither how long they are, nor how much of one was right, nor
 * whether there is such a user.
 *
 * Workers read the table inside their read-side sections; main puts a new one in its place and
 * releases the old one a grace period later, so nobody waits for anybody.
 */
#ifndef MAYFLY_DAEMON_ACCESS_AUTH_H
#define MAYFLY_DAEMON_ACCESS_AUTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/siphash.h"
#include "lib/base/span.h"

/* Longest line of a file, and longest file, in bytes. */
#define AUTH_LINE_MAX 4096
#define AUTH_FILE_MAX (64u << 20)

/*
 * What a file looks like.
 *
 * AUTH_FILE  of -Y: every line is `user:password`; the first colon parts them. A line that has
 * no
 *            colon, is too long or has a carriage return or NUL in it makes the file broken.
 * AUTH_PWDB  of MEMCACHED_SASL_PWDB: `user:password` or `user:password:anything`; lines may end
 *            in a carriage return. Since nobody knows where a password with colons ends, it may
 *            end at any of them. Lines without a colon, and empty ones, are left out.
 */
enum auth_form { AUTH_FILE, AUTH_PWDB };

struct auth_table {
    /* [const] */
    size_t count;
    size_t unusable; /* entries that no client can send: an empty or blank user or password */
    struct siphash_digest entries[];
};

/*
 * Make a table of a text; the line feed of its last line may be missing, and an empty text is a
 * table without users. NULL when a line breaks it (*bad_line is its number, from 1), or when
 * there is no memory (*bad_line is 0). Context: any thread.
 */
struct auth_table *auth_table_create(const struct siphash_key *key, enum auth_form form,
                                     struct span text, size_t *bad_line);

/* Wipe and release; accepts NULL. Context: any thread. */
void auth_table_destroy(struct auth_table *table);

/*
 * Is it one of the entries? Takes the same time for every answer. Context: any thread that
 * keeps the table from being released.
 */
bool auth_table_has(const struct auth_table *table, const struct siphash_key *key,
                    struct span user, struct span password);

struct auth {
    /* [const] */
    char *path; /* owned; NULL: nobody has to say who it is */
    enum auth_form form;
    struct siphash_key key;
    /* [rcu] */
    struct auth_table *_Atomic table; /* owned; release, acquire */
};

/*
 * Remember the file, by a path that holds wherever the process goes, and draw the key. path
 * NULL: authentication is off. Returns 0, or the exit status after a message was written; then
 * nothing is left to release. Context: before start.
 */
int auth_init(struct auth *a, enum auth_form form, const char *path);

/*
 * Read the file. Returns 0, or the exit status after a message was written. Context: before
 * start, with the rights the process will have later.
 */
int auth_load(struct auth *a);

/*
 * Read the file again. When that fails the users are those of before, and the log tells.
 * Connections that have authenticated are not asked again. Context: main.
 */
void auth_reload(struct auth *a);

/* Context: main, no thread reads any more. */
void auth_fini(struct auth *a);

static inline bool auth_is_on(const struct auth *a)
{
    return a->path != NULL;
}

/* May this user with this password enter? Context: read side. */
bool auth_check(const struct auth *a, struct span user, struct span password);

/* Entries that a check looks at. Context: read side. */
size_t auth_count(const struct auth *a);

#endif
