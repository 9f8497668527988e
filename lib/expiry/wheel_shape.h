/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shape of the wheel of wheel.h. Private to wheel*.c.
 *
 *     level  bucket        ring of           covers, from now
 *     0      1 ms          1024 buckets      0.5 to 1 s
 *     1      512 ms         256              65 to 131 s
 *     2      65.536 s       512              4.7 to 9.3 h
 *     3      4.66 h         256              24.9 to 49.7 d
 *     far    everything beyond
 *
 * horizon[l] separates level l from the next: a deadline belongs in the finest level whose
 * horizon is after it. Each ring is as long as two buckets of the next level, so a coarse
 * bucket can be *begun* a whole bucket before its first deadline: the horizon of the finer
 * level moves past it, and from then on deadlines in its time are added to the finer ring
 * directly. The items already in it are *refined*: moved to the finer ring, in small steps,
 * until its first deadline.
 *
 * tick is the first millisecond that has not come yet. A bucket that ends at or before tick is
 * *due* as a whole: its keys and bytes are in the totals, and its items are handed out without
 * being read. Items that are added when they are already due, and items found due while
 * refining, go to the bucket DUE. A bucket that is not fully refined when its time comes is
 * *partly due*: only there are items read one by one to see whether they are due.
 *
 * When the sampler is so late that the ring needs the place of buckets that are due, their
 * nodes are moved to DUE as they are: no item is touched. Those of coarse buckets are read, for
 * the sum of deadlines in DUE.
 */
#ifndef MAYFLY_LIB_EXPIRY_WHEEL_SHAPE_H
#define MAYFLY_LIB_EXPIRY_WHEEL_SHAPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/lock.h"
#include "lib/base/mem.h"
#include "lib/expiry/wheel_pool.h"
#include "lib/memory/item.h"

#define WHEEL_LEVELS 4u

/* Numbers of buckets: the rings one after another, then DUE and the two of what is far. */
#define WHEEL_RINGS   2048u
#define WHEEL_DUE     2048u
#define WHEEL_FAR     2049u /* two: what is far, and what is being sorted again */
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

/* A chain of nodes; only the top one may be partly filled. */
struct wheel_bucket {
    uint32_t top; /* position of the last handle, 0: empty */
    uint32_t count;
    uint64_t bytes; /* of its items; not updated any more once the bucket is due */
};

/* A later deadline counts as 2^40 ms (34 years): otherwise one could dominate the average. */
#define WHEEL_SUMMAND_MAX ((msec_t)1 << 40)

/* What a deadline adds to a sum. Any 2^32 of them fit into 128 bits. */
static inline msec_t wheel_summand(msec_t deadline)
{
    return deadline < WHEEL_SUMMAND_MAX ? deadline : WHEEL_SUMMAND_MAX;
}

/* How far the refinement of the bucket that was begun last should have come. */
struct wheel_pace {
    msec_t begun;  /* when */
    msec_t start;  /* the first deadline that it may hold */
    uint64_t keys; /* that it held when it was begun */
};

struct wheel {
    /* [lock] */
    char *base;              /* [const] handles are relative to it */
    const struct lock *lock; /* [const] [borrowed] guards the wheel; NULL: one thread only */
    struct wheel_pool pool;
    msec_t tick;
    msec_t horizon[WHEEL_LEVELS];
    uint64_t due_keys;
    uint64_t due_bytes;
    uint64_t due_words;      /* a bit for each word of due that is not 0 */
    uint64_t occupied_words; /* the same for occupied */
    msec_t due_oldest;       /* no deadline in WHEEL_DUE is earlier */
    __int128 deadlines;      /* the sum of wheel_summand() of all items */
    __int128 due_deadlines;  /* the same of those in WHEEL_DUE */
    uint32_t soonest_node;   /* where wheel_soonest() left off, in a large bucket */
    unsigned far;            /* the bucket for what lies beyond the last horizon */
    struct wheel_pace pace[WHEEL_LEVELS + 1]; /* by coarse level; the last one is of far */
    uint64_t occupied[WHEEL_BITMAP];          /* buckets that are not empty */
    uint64_t due[WHEEL_BITMAP];               /* those of them that are due as a whole */

    /* [atomic] written in the shard */
    _Atomic uint64_t count;

    /* [lock] last, so that what is before is in one page: see wheel_rest() */
    struct wheel_bucket bucket[WHEEL_BUCKETS];
};

/* Debug builds: the caller holds the lock of the wheel. */
#define wheel_must_be_entered(w) lock_must_guard((w)->lock)

/* Half a ring, or a bucket of the next level, in milliseconds: the step of horizon[l]. */
static inline msec_t wheel_step(unsigned l)
{
    return (msec_t)(wheel_levels[l].ring / 2) << wheel_levels[l].shift;
}

/* The bucket of level l that a time within its ring belongs to. */
static inline unsigned wheel_bucket_at(unsigned l, msec_t t)
{
    const struct wheel_level *lv = &wheel_levels[l];

    return lv->first + ((unsigned)(t >> lv->shift) & (lv->ring - 1));
}

/* The first millisecond of a bucket of a ring: the ring ends at the horizon of its level. */
static inline msec_t wheel_bucket_start(const struct wheel *w, unsigned l, unsigned id)
{
    const struct wheel_level *lv = &wheel_levels[l];
    int64_t begin = (w->horizon[l] >> lv->shift) - lv->ring;

    return (begin + (int64_t)((id - lv->first - (unsigned)begin) & (lv->ring - 1)))
           << lv->shift;
}

/*
 * The first bucket of a ring that has items, from bucket `here` on, around the ring;
 * WHEEL_NONE: there is none.
 */
static inline unsigned wheel_first_from(const struct wheel *w, unsigned l, unsigned here)
{
    const struct wheel_level *lv = &wheel_levels[l];
    unsigned word = here / 64;
    uint64_t ring = ((1ULL << (lv->ring / 64)) - 1) << (lv->first / 64);
    uint64_t words = w->occupied_words & ring;
    uint64_t bits = w->occupied[word] >> (here % 64);
    uint64_t later = words & (~1ULL << word);

    if (words == 0) {
        return WHEEL_NONE;
    }
    if (bits) {
        return here + (unsigned)__builtin_ctzll(bits);
    }
    /* If nothing comes later in the ring, continue at its start, up to this same word. */
    word = (unsigned)__builtin_ctzll(later ? later : words);
    return word * 64 + (unsigned)__builtin_ctzll(w->occupied[word]);
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

/* The bucket of the far items that are being sorted again. */
static inline unsigned wheel_far_sorted(const struct wheel *w)
{
    return WHEEL_FAR + (w->far == WHEEL_FAR);
}

static inline bool wheel_wants_shrink(const struct wheel *w)
{
    return (int64_t)wheel_size(w) <= w->pool.shrink_at || w->pool.victim != SLABS_MAX;
}

/* The position below one in the chain of a bucket; 0 at its end. */
static inline uint32_t wheel_pos_below(const struct wheel *w, uint32_t pos)
{
    if (pos % NODE_WORDS != NODE_WORD_FIRST) {
        return pos - 1;
    }
    uint32_t next = wheel_node_at(&w->pool, pos / NODE_WORDS)->next;
    return next ? next * NODE_WORDS + NODE_WORD_LAST : 0;
}

/* Put an item where its deadline belongs, which has not come yet. Context: in shard. */
void wheel_put(struct wheel *w, handle_t handle, msec_t deadline, uint32_t bytes);

/* Put an item that is due into DUE. Context: in shard. */
void wheel_put_due(struct wheel *w, handle_t handle, msec_t deadline, uint32_t bytes);

/*
 * Take the last item out of a bucket other than DUE, to put it into another bucket. The sum of
 * deadlines is not changed. Context: in shard.
 */
void wheel_pull(struct wheel *w, unsigned id, uint32_t bytes);

/* Note that the last node of a bucket was taken away. Context: in shard. */
void wheel_bucket_emptied(struct wheel *w, unsigned id);

/* One step of giving memory back; moves at most one node. Context: in shard. */
void wheel_shrink_step(struct wheel *w);

/* Let time pass: buckets that end by now become due. Context: in shard. */
void wheel_advance(struct wheel *w, msec_t now);

#endif
