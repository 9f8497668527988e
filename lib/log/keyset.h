/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A set of keys, each known by a 64-bit hash. A lookup finds every key that was added, and
 * falsely a few others. A loader can accept this, because a key that it skips is a miss. (A
 * Bloom filter with all bits of a key in one cache line.)
 */
#ifndef MAYFLY_LIB_LOG_KEYSET_H
#define MAYFLY_LIB_LOG_KEYSET_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/hash.h"
#include "lib/base/span.h"

/*
 * Largest size in bytes. A smaller set takes about four bytes for each key; then one of 10,000
 * other keys is falsely found.
 */
#define KEYSET_BYTES_MAX ((uint64_t)256 << 20)

struct keyset {
    uint64_t *words;   /* NULL: empty */
    uint64_t bytes;    /* a power of two */
    uint64_t seed;     /* of the hashes */
    unsigned line_log; /* 2^line_log lines */
};

/*
 * Make room for `keys` keys, counting repetitions. Returns false without memory. Context: any
 * thread.
 */
bool keyset_init(struct keyset *s, uint64_t keys, uint64_t seed);
void keyset_fini(struct keyset *s);

/* Prefetch the words of a hash that will be added soon. Context: any thread. */
void keyset_prefetch(const struct keyset *s, uint64_t hash);

/* Context: one thread. */
void keyset_add(struct keyset *s, uint64_t hash);

/* Context: any thread, once all are added. */
bool keyset_has(const struct keyset *s, uint64_t hash);

static inline uint64_t keyset_hash(const struct keyset *s, struct span key)
{
    return hash_key(s->seed, key.ptr, key.len);
}

#endif
