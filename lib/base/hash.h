/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash of keys: XXH3 with 64 bits and a seed that is drawn at start, so that clients cannot
 * prepare keys that collide. Bits 52..63 choose the slot of the routing table, 8..51 the bucket
 * of a shard's index, and 0..7 the tag in the bucket.
 */
#ifndef MAYFLY_LIB_BASE_HASH_H
#define MAYFLY_LIB_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Hash a key. Context: any thread. */
static inline uint64_t hash_key(uint64_t seed, const void *key, size_t len)
{
    return XXH3_64bits_withSeed(key, len, seed);
}

/* Bytes from the system's random source; false: errno. Context: any thread. */
bool hash_draw_random(void *out, size_t bytes);

/* A seed from that source. Context: before start. */
uint64_t hash_random_seed(void);

#endif
