/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for the nodes of a wheel. A node is one cache line: a header of 8 bytes and 14
 * handles. Nodes are cut from slabs of 16 KiB, whose first line describes the slab. A node is
 * named by its number; 0 is none. Private to wheel*.c: every call is one of the wheel's, under
 * its lock.
 *
 * The pool promises room instead of failing: `room` items fit, however they are spread over the
 * buckets. Each bucket has at most one node that is not full, so n items in k buckets need at
 * most (n + 13 k) / 14 nodes. The pool grows before an item is added that could break this, so
 * moving items between buckets never needs memory.
 *
 * A pool that is mostly empty shrinks. It chooses one slab at a time and takes no more nodes
 * from it. The wheel moves the nodes in use to other slabs in bounded steps, and the pool
 * releases the slab.
 */
#ifndef MAYFLY_LIB_EXPIRY_WHEEL_POOL_H
#define MAYFLY_LIB_EXPIRY_WHEEL_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/mem.h"
#include "lib/expiry/wheel.h"
#include "lib/memory/item.h"

#define NODE_HANDLES 14u /* handles per node */

/* A position is the number of the node * 16 + the word of the handle in it, which is 2..15. */
#define NODE_WORDS      16u
#define NODE_WORD_FIRST 2u
#define NODE_WORD_LAST  15u

#define SLAB_NODES  256u /* the first of them describes the slab */
#define SLAB_USABLE (SLAB_NODES - 1)
#define SLABS_MAX   (1u << 18) /* the number of a node has 26 bits: TTL_NODE_BITS */
#define NODE_UNUSED 0xfffu     /* "bucket" of a free node */

struct wheel_node {
    uint64_t next : 26;   /* the node below in the same bucket; free: the next free node */
    uint64_t prev : 26;   /* the node above; 0: this is the top */
    uint64_t bucket : 12; /* the bucket that it belongs to */
    handle_t handle[NODE_HANDLES];
};

_Static_assert(sizeof(struct wheel_node) == 64, "a node is one cache line");

/* The first line of a slab. */
struct wheel_slab {
    uint32_t used;      /* nodes taken */
    uint32_t fresh;     /* nodes from this one on were never taken */
    uint32_t free_list; /* first node that was returned, or 0 */
    uint32_t next;      /* list of slabs with room; SLABS_MAX ends it */
    uint32_t prev;
    uint32_t reserved[11];
};

_Static_assert(sizeof(struct wheel_slab) == 64, "the description takes one node");

struct wheel_pool {
    /* [lock] of the wheel */
    struct wheel_node **slabs; /* by number; NULL where there is none */
    uint64_t room;             /* items that fit in any case */
    uint64_t enough;           /* below this many items there is no need of a spare slab */
    int64_t shrink_at;         /* the pool shrinks at this many items or fewer; -1: never */
    uint32_t capacity;         /* length of slabs */
    uint32_t free_hint;        /* every entry below has a slab */
    uint32_t slab_count;
    uint32_t used;            /* nodes taken */
    uint32_t partial;         /* first slab with room */
    uint32_t victim;          /* slab being emptied, or SLABS_MAX */
    uint32_t hand;            /* where the search for a victim continues */
    uint32_t victim_next;     /* next node of the victim to check */
    uint32_t buckets;         /* of the wheel: at most this many nodes are not full */
    struct wheel_spare spare; /* memory for the next growth; empty: none */
    bool *wants_spare;        /* [borrowed] set when there should be one; NULL: never */
    /* [const] */
    struct budget *budget; /* may be NULL */
};

/* Make an empty pool for a wheel with `buckets` buckets. Context: no other thread uses it. */
void wheel_pool_init(struct wheel_pool *p, uint32_t buckets, struct budget *budget);

/* Release everything. Context: no other thread uses it. */
void wheel_pool_fini(struct wheel_pool *p);

/*
 * Add a slab, or stop shrinking. The slab is the spare one, if there is one; else it is
 * allocated here. False when there is no memory. Context: in shard.
 */
bool wheel_pool_grow(struct wheel_pool *p);

/*
 * Hand a spare over. On return *spare has the parts that the pool did not need, or the
 * directory that was replaced. Context: in shard.
 */
void wheel_pool_take_spare(struct wheel_pool *p, struct wheel_spare *spare);

/*
 * Required length of the directory of a spare; 0: the present one has room. Context: in shard.
 */
uint32_t wheel_pool_spare_capacity(const struct wheel_pool *p);

/* Take a node. Cannot fail while there are at most `room` items. Context: in shard. */
uint32_t wheel_pool_take(struct wheel_pool *p);

/* Give a node back; count is the number of items in the wheel. Context: in shard. */
void wheel_pool_give(struct wheel_pool *p, uint32_t node, uint64_t count);

/*
 * The next node that must move so that the pool can shrink, or 0. Checks a bounded number of
 * nodes. The wheel allocates another node, copies this one to it and returns this one.
 * Context: in shard.
 */
uint32_t wheel_pool_victim(struct wheel_pool *p, uint64_t count);

/* Bytes of the slabs and their directory. Context: in shard. */
uint64_t wheel_pool_bytes(const struct wheel_pool *p);

/* The description of a slab. Context: in shard. */
static inline struct wheel_slab *wheel_slab_at(const struct wheel_pool *p, uint32_t slab)
{
    return (struct wheel_slab *)(void *)p->slabs[slab];
}

/* Address of a node. Context: in shard. */
static inline struct wheel_node *wheel_node_at(const struct wheel_pool *p, uint32_t node)
{
    return &p->slabs[node / SLAB_NODES][node % SLAB_NODES];
}

/* Address of the handle at a position: a slab is also an array of words. Context: in shard. */
static inline handle_t *wheel_handle_at(const struct wheel_pool *p, uint32_t pos)
{
    const uint32_t words = SLAB_NODES * NODE_WORDS;

    return (handle_t *)(void *)p->slabs[pos / words] + pos % words;
}

#endif
