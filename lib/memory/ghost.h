/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fingerprints of keys that were recently evicted before they reached main (the ghost queue of
 * S3-FIFO, J. Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023). A
 * remembered key that is stored again goes directly to the main chain. A bucket is half a cache
 * line of fifteen fingerprints, replaced in turn. (In larger buckets all keys would be
 * remembered for about the same time, and of a loop slightly longer than that, none.) With
 * fingerprints of 16 bits, one of four thousand unknown keys is a false positive. The owner of
 * a ghost provides the locking.
 */
#ifndef MAYFLY_LIB_MEMORY_GHOST_H
#define MAYFLY_LIB_MEMORY_GHOST_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/mem.h"

#define GHOST_WAYS 15u

struct ghost_bucket {
    _Alignas(32) uint16_t print[GHOST_WAYS]; /* 0: none */
    uint16_t next;                           /* index of the fingerprint to replace next */
};

struct ghost {
    /* [lock] */
    struct ghost_bucket *buckets; /* NULL until the first eviction */
    uint64_t count;
};

/* A ghost for about `items` keys; false if there is no memory. Context: outside a shard. */
bool ghost_create(struct ghost *g, uint64_t items, struct budget *budget);
void ghost_destroy(struct ghost *g, struct budget *budget);

/*
 * Make a part of it resident before it is used: see mem_touch_next(). Context: outside a shard.
 */
bool ghost_touch(struct ghost *g, size_t *done);

/* Number of keys that it can remember. */
static inline uint64_t ghost_capacity(const struct ghost *g)
{
    return g->count * GHOST_WAYS;
}

/* Remember a key. */
void ghost_add(struct ghost *g, uint64_t hash);

/* Was a key remembered? If so, forget it. */
bool ghost_take(struct ghost *g, uint64_t hash);

/* Prefetch the bucket of a hash. */
static inline void ghost_prefetch(const struct ghost *g, uint64_t hash)
{
    if (g->buckets != NULL) {
        __builtin_prefetch(&g->buckets[(
            uint64_t)(((unsigned __int128)(hash * 0x9e3779b97f4a7c15ULL) * g->count) >> 64)]);
    }
}

#endif
