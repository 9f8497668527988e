/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shape of the wheel behind wheel.h. Private to wheel*.c.
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
#ifndef MAYFLY_LIB_EXPIRY_WHEEL_SHAPE_H
#define MAYFLY_LIB_EXPIRY_WHEEL_SHAPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/expiry/wheel_pool.h"
#include "lib/memory/item.h"

#define WHEEL_LEVELS 4u

/* Numbers of buckets: the rings one after the other, then three of a kind each. */
#define WHEEL_RINGS   2048u
#define WHEEL_DUE     2048u
#define WHEEL_FAR     2049u /* two: what is far, and what is being sorted anew */
#define WHEEL_BUCKETS 2051u
#define WHEEL_NONE    WHEEL_BUCKETS

#define WHEEL_BITMAP ((WHEEL_BUCKETS + 63u) / 64u)

struct wheel_level {
    unsigned shift; /* a bucket is 1 << shift milliseconds */
    unsigned first; /* number of the ring's first bucket */
    unsigned ring;  /* buckets */
};

static const struct wheel_level wheel_levels[WHEEL_LEVELS] = {
    {0, 0, 1024},
    {9, 1024, 256},
    {16, 1280, 512},
    {24, 1792, 256},
};

/* A chain of chunks of which only the top one may be partly filled. */
struct wheel_bucket {
    uint32_t top; /* position of the last handle, 0: empty */
    uint32_t count;
    uint64_t bytes; /* not kept up once the bucket is due */
};

/* How far the refinement of the bucket begun last should be. */
struct wheel_pace {
    msec_t begun;
    msec_t start;  /* first deadline that it may hold */
    uint64_t keys; /* when it was begun */
};

struct wheel {
    /* [lock] */
    char *base; /* [const] of the handles */
    struct wheel_pool pool;
    msec_t tick;
    msec_t horizon[WHEEL_LEVELS];
    uint64_t due_keys;
    uint64_t due_bytes;
    uint64_t due_words; /* which words of due are not 0 */
    uint64_t occupied_words;
    msec_t due_oldest;       /* no deadline in WHEEL_DUE is earlier */
    unsigned far;            /* the bucket for what lies beyond the last horizon */
    uint64_t sampled_ttl_ms; /* of those the last sample found alive */
    struct wheel_pace pace[WHEEL_LEVELS + 1]; /* of coarse level l; the last one of far */
    uint64_t occupied[WHEEL_BITMAP];          /* buckets that are not empty */
    uint64_t due[WHEEL_BITMAP];               /* and among them those wholly due */
    struct wheel_bucket bucket[WHEEL_BUCKETS];

    /* [atomic] written in the shard */
    _Atomic uint64_t count;
};

/*
 * Half a ring, in milliseconds: a bucket of the next level. By such steps horizon[l] moves.
 */
static inline msec_t wheel_step(unsigned l)
{
    return (msec_t)(wheel_levels[l].ring / 2) << wheel_levels[l].shift;
}

/* The bucket of level l for a time within its ring. */
static inline unsigned wheel_bucket_at(unsigned l, msec_t t)
{
    const struct wheel_level *lv = &wheel_levels[l];

    return lv->first + ((unsigned)(t >> lv->shift) & (lv->ring - 1));
}

/* First moment of what a ring's bucket holds: the ring ends at its level's horizon. */
static inline msec_t wheel_bucket_start(const struct wheel *w, unsigned l, unsigned id)
{
    const struct wheel_level *lv = &wheel_levels[l];
    int64_t begin = (w->horizon[l] >> lv->shift) - lv->ring;

    return (begin + (int64_t)((id - lv->first - (unsigned)begin) & (lv->ring - 1)))
           << lv->shift;
}

static inline bool wheel_is_due(const struct wheel *w, unsigned id)
{
    return (w->due[id / 64] >> (id % 64) & 1) != 0;
}

static inline uint64_t wheel_size(const struct wheel *w)
{
    return atomic_load_explicit(&w->count, memory_order_relaxed);
}

static inline void wheel_mark_due(struct wheel *w, unsigned id)
{
    w->due[id / 64] |= 1ULL << (id % 64);
    w->due_words |= 1ULL << (id / 64);
}

/* The bucket of the far items that are being sorted anew. */
static inline unsigned wheel_far_sorted(const struct wheel *w)
{
    return WHEEL_FAR + (w->far == WHEEL_FAR);
}

static inline bool wheel_wants_shrink(const struct wheel *w)
{
    return (int64_t)wheel_size(w) <= w->pool.shrink_at || w->pool.victim != SLABS_MAX;
}

/* Put an item where its deadline belongs. Context: in shard. */
void wheel_put(struct wheel *w, handle_t handle, msec_t deadline, uint32_t bytes);

/*
 * Put an item that is due; nothing that comes this way is due since before `oldest`.
 * Context: in shard.
 */
void wheel_put_due(struct wheel *w, handle_t handle, uint32_t bytes, msec_t oldest);

/* Take out the item at a position. Context: in shard. */
void wheel_pull(struct wheel *w, uint32_t pos, uint32_t bytes);

/* The last chunk of a bucket was taken away. Context: in shard. */
void wheel_bucket_emptied(struct wheel *w, unsigned id);

/* One step of giving memory back: moves at most one chunk. Context: in shard. */
void wheel_shrink_step(struct wheel *w);

/* Let time pass: buckets that end by now become due. Context: in shard. */
void wheel_advance(struct wheel *w, msec_t now);

#endif
