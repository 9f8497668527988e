/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the chunks of a shard's expires come from. A chunk is one cache line: a header of 8
 * bytes and 14 handles. Chunks are cut from blocks of 16 KiB whose first line describes
 * the block, and are named by number; 0 is none. Private to wheel*.c.
 *
 * A promise instead of a failure: however the items are spread over the buckets, `room`
 * of them fit. Every bucket has at most one chunk that is not full, so n items in k buckets
 * need at most (n + 13 k) / 14 chunks; the pool grows before an item comes that could break
 * this, and moving items between buckets never needs memory.
 *
 * A pool that is mostly empty shrinks: one block at a time is chosen, nothing is taken from
 * it any more, its chunks are moved elsewhere in bounded steps, and it is given back.
 */
#ifndef MAYFLY_LIB_EXPIRY_WHEEL_POOL_H
#define MAYFLY_LIB_EXPIRY_WHEEL_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/mem.h"
#include "lib/memory/item.h"

#define NODE_HANDLES 14u /* handles a chunk */

/* A position: number of the chunk * 16 + the handle's place in words, which is 2..15. */
#define NODE_WORDS      16u
#define NODE_WORD_FIRST 2u
#define NODE_WORD_LAST  15u

#define SLAB_NODES  256u /* the first of them describes the block */
#define SLAB_USABLE (SLAB_NODES - 1)
#define SLABS_MAX   (1u << 18) /* numbers of chunks have 26 bits */
#define NODE_UNUSED 0xfffu     /* "bucket" of a chunk that nobody has */

struct wheel_node {
    uint64_t next : 26;   /* the chunk below this one in its bucket; free: the next free one */
    uint64_t prev : 26;   /* the chunk above; 0: this is the top */
    uint64_t bucket : 12; /* whose it is */
    handle_t handle[NODE_HANDLES];
};

_Static_assert(sizeof(struct wheel_node) == 64, "a chunk is one cache line");

/* The first line of a block. */
struct wheel_slab {
    uint32_t used;      /* chunks taken */
    uint32_t fresh;     /* chunks from here on were never taken */
    uint32_t free_list; /* number of a chunk given back, or 0 */
    uint32_t next;      /* list of blocks with room; SLABS_MAX ends it */
    uint32_t prev;
    uint32_t reserved[11];
};

_Static_assert(sizeof(struct wheel_slab) == 64, "the description takes one chunk");

struct wheel_pool {
    /* [lock] of the shard */
    struct wheel_node **blocks; /* by number; NULL where there is none */
    uint64_t room;              /* items that fit for sure */
    int64_t shrink_at;          /* with at most so many items the pool shrinks; -1: never */
    uint32_t slots;             /* length of blocks */
    uint32_t slot_hint;         /* no empty slot below */
    uint32_t block_count;
    uint32_t used;    /* chunks taken */
    uint32_t partial; /* first block with room */
    uint32_t victim;  /* block being emptied, or SLABS_MAX */
    uint32_t hand;    /* where the search for victims goes on */
    uint32_t look;    /* next chunk of the victim to look at */
    uint32_t buckets; /* of the owner: bound on chunks that are not full */
    /* [const] */
    struct budget *budget; /* may be NULL */
};

/* Make an empty pool for an owner with so many buckets. Context: nobody else uses it. */
void wheel_pool_init(struct wheel_pool *p, uint32_t buckets, struct budget *budget);

/* Give everything back. Context: nobody else uses it. */
void wheel_pool_fini(struct wheel_pool *p);

/* Add a block (or call off the shrinking). False when there is no memory. Context: in shard. */
bool wheel_pool_grow(struct wheel_pool *p);

/* Take a chunk; cannot fail while there are no more than `room` items. Context: in shard. */
uint32_t wheel_pool_take(struct wheel_pool *p);

/* Give a chunk back. count: items that the owner has. Context: in shard. */
void wheel_pool_give(struct wheel_pool *p, uint32_t chunk, uint64_t count);

/*
 * The next chunk that must move for the pool to shrink, or 0. Looks at a bounded number of
 * chunks; the owner copies it to one that it takes, and gives it back. Context: in shard.
 */
uint32_t wheel_pool_victim(struct wheel_pool *p, uint64_t count);

/* Bytes counted. Context: in shard. */
uint64_t wheel_pool_bytes(const struct wheel_pool *p);

/* True when the blocks agree with the totals; walks all. Context: in shard. */
bool wheel_pool_verify(const struct wheel_pool *p);

/* Address of a chunk. Context: in shard. */
static inline struct wheel_node *wheel_node_at(const struct wheel_pool *p, uint32_t chunk)
{
    return &p->blocks[chunk / SLAB_NODES][chunk % SLAB_NODES];
}

/* Address of the handle at a position; a block is an array of words, too. Context: in shard. */
static inline handle_t *wheel_handle_at(const struct wheel_pool *p, uint32_t pos)
{
    const uint32_t words = SLAB_NODES * NODE_WORDS;

    return (handle_t *)(void *)p->blocks[pos / words] + pos % words;
}

#endif
