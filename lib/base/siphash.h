/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SipHash-2-4 with a result of 128 bits: a pseudo-random function of a secret key. Without the
 * key an attacker can neither predict the hash of an input nor make two inputs collide. So a
 * digest can replace an input that must not be kept or compared itself, such as a password. It
 * is slower than hash.h, which is for placing items and promises less.
 */
#ifndef MAYFLY_LIB_BASE_SIPHASH_H
#define MAYFLY_LIB_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
    uint64_t k0;
    uint64_t k1;
};

struct siphash_digest {
    uint64_t lo;
    uint64_t hi;
};

/* A hash that is fed piece by piece. */
struct siphash {
    uint64_t v0;
    uint64_t v1;
    uint64_t v2;
    uint64_t v3;
    uint64_t tail;     /* bytes that do not fill a word yet, the first one lowest */
    uint64_t len;      /* number of bytes fed */
    unsigned tail_len; /* bytes in tail, below 8 */
};

/*
 * Begin, then feed bytes. The digest does not depend on how they are cut into pieces.
 * Context: any thread.
 */
void siphash_init(struct siphash *s, const struct siphash_key *key);
void siphash_feed(struct siphash *s, const void *bytes, size_t n);

/* The digest of all bytes; s must not be used any more. Context: any thread. */
struct siphash_digest siphash_end(struct siphash *s);

/*
 * 1 if two digests are the same, else 0. Constant time: no branch depends on the digests.
 * Context: any thread.
 */
static inline uint64_t siphash_same(const struct siphash_digest *a,
                                    const struct siphash_digest *b)
{
    uint64_t differ = (a->lo ^ b->lo) | (a->hi ^ b->hi);

    return ~(differ | -differ) >> 63; /* the top bit of x | -x is clear only for 0 */
}

#endif
