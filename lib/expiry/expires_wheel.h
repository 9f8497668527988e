/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shape of the wheel behind expires.h. Private to expires*.c.
 *
 *     level  bucket        ring of           covers, from now
 *     0      1 ms          1024 buckets      0.5 to 1 s
 *     1      512 ms         256              65 to 131 s
 *     2      65.536 s       512              4.7 to 9.3 h
 *     3      4.66 h         256              24.9 to 49.7 d
 *     far    all the rest
 *
 * horizon[l] divides level l from the next: a deadline stands in the finest level whose
 * horizon lies after it. Each ring is two buckets of the next level long, so a coarse bucket
 * can be *begun* a whole bucket before its first deadline: the horizon below moves past it,
 * and what is added for its time from then on goes to the finer ring directly. What stands in
 * it is *refined*, that is moved to the finer ring, in small steps until then.
 *
 * tick is the first millisecond that has not come yet. A bucket that ends at or before
 * tick is *due* as a whole: its keys and bytes are in the totals, its items are handed out
 * without a look at them. Items added too late, and items found due while refining, stand
 * in the bucket DUE. A bucket that is not refined when its time comes is *partly due*: its
 * items are looked at one by one, and that is the only such place.
 *
 * When the sampler is so far behind that due buckets stand where the ring is needed again,
 * their chunks are handed to DUE as they are (the items stay where they stand).
 */
#ifndef MAYFLY_LIB_EXPIRY_EXPIRES_WHEEL_H
#define MAYFLY_LIB_EXPIRY_EXPIRES_WHEEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/expiry/expires_pool.h"
#include "lib/memory/item.h"

#define EXPIRES_LEVELS 4u

/* Numbers of buckets: the rings one after the other, then three of a kind each. */
#define EXPIRES_RINGS   2048u
#define EXPIRES_DUE     2048u
#define EXPIRES_FAR     2049u /* two: what is far, and what is being sorted anew */
#define EXPIRES_BUCKETS 2051u
#define EXPIRES_NONE    EXPIRES_BUCKETS

#define EXPIRES_BITMAP ((EXPIRES_BUCKETS + 63u) / 64u)

struct expires_level {
    unsigned shift; /* a bucket is 1 << shift milliseconds */
    unsigned first; /* number of the ring's first bucket */
    unsigned ring;  /* buckets */
};

static const struct expires_level expires_levels[EXPIRES_LEVELS] = {
    {0, 0, 1024},
    {9, 1024, 256},
    {16, 1280, 512},
    {24, 1792, 256},
};

/* A chain of chunks of which only the top one may be partly filled. */
struct expires_bucket {
    uint32_t top; /* position of the last handle, 0: empty */
    uint32_t count;
    uint64_t bytes; /* not kept up once the bucket is due */
};

/* How far the refinement of the bucket begun last should be. */
struct expires_pace {
    msec_t begun;
    msec_t start;  /* first deadline that it may hold */
    uint64_t keys; /* when it was begun */
};

struct expires {
    /* [lock] */
    char *base; /* [const] of the handles */
    struct expires_pool pool;
    msec_t tick;
    msec_t horizon[EXPIRES_LEVELS];
    uint64_t due_keys;
    uint64_t due_bytes;
    uint64_t due_words; /* which words of due are not 0 */
    uint64_t occupied_words;
    msec_t due_oldest;       /* no deadline in EXPIRES_DUE is earlier */
    unsigned far;            /* the bucket for what lies beyond the last horizon */
    uint64_t sampled_ttl_ms; /* of those the last sample found alive */
    struct expires_pace pace[EXPIRES_LEVELS + 1]; /* of coarse level l; the last one of far */
    uint64_t occupied[EXPIRES_BITMAP];            /* buckets that are not empty */
    uint64_t due[EXPIRES_BITMAP];                 /* and among them those wholly due */
    struct expires_bucket bucket[EXPIRES_BUCKETS];

    /* [atomic] written in the shard */
    _Atomic uint64_t count;
};

/*
 * Half a ring, in milliseconds: a bucket of the next level. By such steps horizon[l] moves.
 */
static inline msec_t expires_step(unsigned l)
{
    return (msec_t)(expires_levels[l].ring / 2) << expires_levels[l].shift;
}

/* The bucket of level l for a time within its ring. */
static inline unsigned expires_slot(unsigned l, msec_t t)
{
    const struct expires_level *lv = &expires_levels[l];

    return lv->first + ((unsigned)(t >> lv->shift) & (lv->ring - 1));
}

/* First moment of what a ring's bucket holds: the ring ends at its level's horizon. */
static inline msec_t expires_bucket_start(const struct expires *e, unsigned l, unsigned id)
{
    const struct expires_level *lv = &expires_levels[l];
    int64_t begin = (e->horizon[l] >> lv->shift) - lv->ring;

    return (begin + (int64_t)((id - lv->first - (unsigned)begin) & (lv->ring - 1)))
           << lv->shift;
}

static inline bool expires_is_due(const struct expires *e, unsigned id)
{
    return (e->due[id / 64] >> (id % 64) & 1) != 0;
}

static inline uint64_t expires_size(const struct expires *e)
{
    return atomic_load_explicit(&e->count, memory_order_relaxed);
}

static inline void expires_set_due(struct expires *e, unsigned id)
{
    e->due[id / 64] |= 1ULL << (id % 64);
    e->due_words |= 1ULL << (id / 64);
}

/* The bucket of the far items that are being sorted anew. */
static inline unsigned expires_far_sorted(const struct expires *e)
{
    return EXPIRES_FAR + (e->far == EXPIRES_FAR);
}

static inline bool expires_wants_shrink(const struct expires *e)
{
    return (int64_t)expires_size(e) <= e->pool.shrink_at ||
           e->pool.victim != EXPIRES_BLOCKS_MAX;
}

/* Put an item where its deadline belongs. Context: in shard. */
void expires_put(struct expires *e, handle_t handle, msec_t deadline, uint32_t bytes);

/*
 * Put an item that is due; nothing that comes this way is due since before `oldest`.
 * Context: in shard.
 */
void expires_put_due(struct expires *e, handle_t handle, uint32_t bytes, msec_t oldest);

/* Take out the item at a position. Context: in shard. */
void expires_pull(struct expires *e, uint32_t pos, uint32_t bytes);

/* The last chunk of a bucket was taken away. Context: in shard. */
void expires_bucket_emptied(struct expires *e, unsigned id);

/* One step of giving memory back: moves at most one chunk. Context: in shard. */
void expires_shrink_step(struct expires *e);

/* Let time pass: buckets that end by now become due. Context: in shard. */
void expires_advance(struct expires *e, msec_t now);

#endif
