/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Key hash: XXH3, 64 bits, keyed with a seed drawn at start so that nobody can
 * prepare keys that collide. Bits are used as follows: 52..63 slot of the
 * routing table, 8..51 bucket of a shard's index, 0..7 tag in the bucket.
 */
#ifndef MAYFLY_LIB_BASE_HASH_H
#define MAYFLY_LIB_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static inline uint64_t hash_key(uint64_t seed, const void *key, size_t len)
{
    return XXH3_64bits_withSeed(key, len, seed);
}

/* A seed from the system's random source. Context: before start. */
uint64_t hash_random_seed(void);

#endif
