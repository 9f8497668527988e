/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the chunks of a shard's expires come from. A chunk is one cache line: a header of 8
 * bytes and 14 handles. Chunks are cut from blocks of 16 KiB whose first line describes
 * the block, and are named by number; 0 is none. Private to expires*.c.
 *
 * A promise instead of a failure: however the items are spread over the buckets, `room`
 * of them fit. Every bucket has at most one chunk that is not full, so n items in k buckets
 * need at most (n + 13 k) / 14 chunks; the pool grows before an item comes that could break
 * this, and moving items between buckets never needs memory.
 *
 * A pool that is mostly empty shrinks: one block at a time is chosen, nothing is taken from
 * it any more, its chunks are moved elsewhere in bounded steps, and it is given back.
 */
#ifndef MAYFLY_LIB_EXPIRY_EXPIRES_POOL_H
#define MAYFLY_LIB_EXPIRY_EXPIRES_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/mem.h"
#include "lib/memory/item.h"

#define EXPIRES_SLOTS 14u /* handles a chunk */

/* A position: number of the chunk * 16 + the handle's place in words, which is 2..15. */
#define EXPIRES_WORDS      16u
#define EXPIRES_WORD_FIRST 2u
#define EXPIRES_WORD_LAST  15u

#define EXPIRES_BLOCK_CHUNKS 256u /* the first of them describes the block */
#define EXPIRES_BLOCK_USABLE (EXPIRES_BLOCK_CHUNKS - 1)
#define EXPIRES_BLOCKS_MAX   (1u << 18) /* numbers of chunks have 26 bits */
#define EXPIRES_CHUNK_UNUSED 0xfffu     /* "bucket" of a chunk that nobody has */

struct expires_chunk {
    uint64_t next : 26;   /* the chunk below this one in its bucket; free: the next free one */
    uint64_t prev : 26;   /* the chunk above; 0: this is the top */
    uint64_t bucket : 12; /* whose it is */
    handle_t handle[EXPIRES_SLOTS];
};

_Static_assert(sizeof(struct expires_chunk) == 64, "a chunk is one cache line");

/* The first line of a block. */
struct expires_block {
    uint32_t used;      /* chunks taken */
    uint32_t fresh;     /* chunks from here on were never taken */
    uint32_t free_list; /* number of a chunk given back, or 0 */
    uint32_t next;      /* list of blocks with room; EXPIRES_BLOCKS_MAX ends it */
    uint32_t prev;
    uint32_t reserved[11];
};

_Static_assert(sizeof(struct expires_block) == 64, "the description takes one chunk");

struct expires_pool {
    /* [lock] of the shard */
    struct expires_chunk **blocks; /* by number; NULL where there is none */
    uint64_t room;                 /* items that fit for sure */
    int64_t shrink_at;             /* with at most so many items the pool shrinks; -1: never */
    uint32_t slots;                /* length of blocks */
    uint32_t slot_hint;            /* no empty slot below */
    uint32_t block_count;
    uint32_t used;    /* chunks taken */
    uint32_t partial; /* first block with room */
    uint32_t victim;  /* block being emptied, or EXPIRES_BLOCKS_MAX */
    uint32_t hand;    /* where the search for victims goes on */
    uint32_t look;    /* next chunk of the victim to look at */
    uint32_t buckets; /* of the owner: bound on chunks that are not full */
    /* [const] */
    struct budget *budget; /* may be NULL */
};

/* Make an empty pool for an owner with so many buckets. Context: nobody else uses it. */
void expires_pool_init(struct expires_pool *p, uint32_t buckets, struct budget *budget);

/* Give everything back. Context: nobody else uses it. */
void expires_pool_fini(struct expires_pool *p);

/* Add a block (or call off the shrinking). False when there is no memory. Context: in shard. */
bool expires_pool_grow(struct expires_pool *p);

/* Take a chunk; cannot fail while there are no more than `room` items. Context: in shard. */
uint32_t expires_pool_take(struct expires_pool *p);

/* Give a chunk back. count: items that the owner has. Context: in shard. */
void expires_pool_give(struct expires_pool *p, uint32_t chunk, uint64_t count);

/*
 * The next chunk that must move for the pool to shrink, or 0. Looks at a bounded number of
 * chunks; the owner copies it to one that it takes, and gives it back. Context: in shard.
 */
uint32_t expires_pool_victim(struct expires_pool *p, uint64_t count);

/* Bytes counted. Context: in shard. */
uint64_t expires_pool_bytes(const struct expires_pool *p);

/* True when the blocks agree with the totals; walks all. Context: in shard. */
bool expires_pool_verify(const struct expires_pool *p);

/* Address of a chunk. Context: in shard. */
static inline struct expires_chunk *expires_chunk_at(const struct expires_pool *p,
                                                     uint32_t chunk)
{
    return &p->blocks[chunk / EXPIRES_BLOCK_CHUNKS][chunk % EXPIRES_BLOCK_CHUNKS];
}

/* Address of the handle at a position; a block is an array of words, too. Context: in shard. */
static inline handle_t *expires_handle_at(const struct expires_pool *p, uint32_t pos)
{
    const uint32_t words = EXPIRES_BLOCK_CHUNKS * EXPIRES_WORDS;

    return (handle_t *)(void *)p->blocks[pos / words] + pos % words;
}

#endif
