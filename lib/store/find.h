/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lookup of keys, without a lock. Only to unlink an expired item the lookup takes the shard's
 * lock, if that is free.
 */
#ifndef MAYFLY_LIB_STORE_FIND_H
#define MAYFLY_LIB_STORE_FIND_H

#include <stddef.h>
#include <stdint.h>

#include "lib/engine/engine.h"
#include "lib/engine/router.h"
#include "lib/memory/item.h"

struct shard;

enum miss { MISS_ABSENT, MISS_EXPIRED, MISS_FLUSHED };

struct found {
    const struct item *item; /* borrowed until the section ends; NULL: a miss */
    struct shard *shard;     /* the shard where it was found, or where it belongs */
    enum miss miss;
};

/*
 * Prefetch for a batch, in two steps with other work in between: the bucket of each hash, then
 * the items of n hashes that are `stride` bytes apart. Context: read side.
 */
void engine_prefetch_bucket(const struct route *rt, uint64_t hash);
void engine_prefetch_items(const struct route *rt, const uint64_t *hash, size_t stride,
                           unsigned n);

/*
 * Look a key up. An item past its deadline is not found, and is unlinked if its shard is not
 * busy. Does not mark it as used: item_mark_used() does.
 * Context: read side.
 */
struct found engine_find(const struct route *rt, uint64_t hash, const char *key, size_t key_len,
                         msec_t now);

#endif
