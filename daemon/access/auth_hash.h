/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hashed passwords in the formats of crypt(3) of libcrypt: yescrypt, bcrypt, sha512crypt and
 * its other methods. Only this module uses the library.
 */
#ifndef MAYFLY_DAEMON_ACCESS_AUTH_HASH_H
#define MAYFLY_DAEMON_ACCESS_AUTH_HASH_H

#include <stdbool.h>

#include "lib/base/span.h"

/* Longest hash, bytes, with a NUL at its end. */
#define AUTH_HASH_MAX 384

/* What a password field of a file is. */
enum auth_field {
    AUTH_FIELD_PLAIN,  /* a password as it is typed */
    AUTH_FIELD_HASH,   /* the whole hash of one, by a method that the library has */
    AUTH_FIELD_BROKEN, /* a password as it is typed, but it begins like a hash */
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

#endif
