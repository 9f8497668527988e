/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/memory: the memory that the items of a shard live in.
 *
 *     arena      the address range, cut into segments
 *     blocks     making and killing blocks: open segments, holes, the death ring
 *     chains     the lists of segments, and where new blocks are appended
 *     chunks     large values: whole segments and pieces
 *     cursor     empties one segment at a time: cleans it, or evicts from it
 *     evict      the seam for eviction policies; evict_density, with its ghost, is the default
 *     evict_items  the eviction of single items, as Redis does it; evict_lru, evict_lfu,
 *                evict_random, evict_ttl and evict_none are the policies
 *     heat       how often items are used: what readers note
 *     keep       what is kept beside the range over a restart
 *     region     the part of a file that a range is mapped from
 *     line       large values that wait for room, in their order
 *     room       how much is kept free, and making room
 *     stock      free segments that are resident before they are needed
 *     tidy       cleaning when room is not short: memory follows the data after a mass death
 *     trim       what the reclaimer's thread does: releases, gives back to the system
 *
 * This folder knows blocks (item.h describes the header of one). It does not know the index,
 * the deadlines or the shard. What it needs from them it asks of its owner, by the functions of
 * struct memory_owner_ops. It may include lib/base and itself.
 *
 * This header holds the data that all of its files share. A struct memory is embedded in its
 * owner and protected by the owner's lock.
 */
#ifndef MAYFLY_LIB_MEMORY_MEMORY_H
#define MAYFLY_LIB_MEMORY_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/counters.h"
#include "lib/base/engine_options.h"
#include "lib/base/lock.h"
#include "lib/memory/arena.h"
#include "lib/memory/evict.h"
#include "lib/memory/item.h"
#include "lib/memory/line.h"

/* Holes are listed by exact size in units. */
#define HOLE_SIZES (ITEM_SIZE_MAX + 1)
#define HOLE_WORDS (HOLE_SIZES / 64)

/* Sealed segments stand in bins by their dead share. */
#define DEAD_BINS_LOG2 4u
#define DEAD_BINS      (1u << DEAD_BINS_LOG2)
#define NO_BIN         0xff /* open, or under the cursor */

/* One chain of segments, oldest first. */
struct chain {
    segment_t head, tail;
    uint32_t count;
    uint64_t bytes;    /* live bytes, whole segments of large values included */
    segment_t open;    /* where new blocks go */
    segment_t compact; /* where the cleaner's survivors go */
};

struct holes {
    handle_t head[HOLE_SIZES];
    uint64_t words[HOLE_WORDS]; /* bit: that size has a hole */
    uint32_t summary;           /* bit: that word is not zero */
};

/* A dead block that may become a hole when its grace period is over. */
struct death {
    handle_t handle;
    uint32_t generation; /* of its segment at death */
    uint32_t stamp;
    uint32_t units;
};

struct blocks {
    /* [lock] */
    /* Every put and kill writes these: with the lock before them they share a line. */
    uint32_t ring_head, ring_tail; /* taken at head, put at tail; free-running */
    uint32_t ring_mask;
    uint32_t want; /* room_wanted() when the last grace period ended */
    struct death *ring;
    uint64_t dead_bytes; /* in open and sealed segments */
    uint64_t ring_bytes; /* of dead_bytes: what waits in the ring and is soon used again */
    uint64_t put_bytes;  /* ever put */
    /* The next line: small and main. What begins in big has more bytes than a line. */
    struct chain chain[CHAINS];

    segment_t rest[CHAINS]; /* was open before: what fits still goes there; 0: none */
    struct holes *holes;    /* [CHAINS] */
    uint64_t hole_bytes;    /* the part of dead_bytes that is listed */
    uint64_t put_peak;      /* largest put_per_grace lately; the trimmer halves it */
    uint64_t put_mark;      /* put_bytes when the last grace period ended */
    msec_t put_marked;      /* when that was */
    uint64_t put_per_grace; /* put during the last whole grace period */
    uint32_t put_completed; /* its number */
    uint32_t bin_bits;
    segment_t bin[DEAD_BINS];
    bool ring_misfits; /* it was made for another limit */
};

enum cursor_mode { CURSOR_CLEAN, CURSOR_EVICT };

struct cursor {
    /* [lock] */
    segment_t segment; /* 0: none chosen */
    uint32_t offset;
    uint32_t ahead; /* offset up to which the owner has prefetched */
    enum cursor_mode mode;
    bool is_due_left;          /* more was due when the work was used up */
    uint64_t kept, scanned;    /* of evictions lately: see struct evict_pass */
    uint64_t promoted, passed; /* the same of small and big: bytes that went to main, of all */
};

struct tidy {
    /* [lock] */
    bool is_watched;         /* the owner was told: it looks until there is nothing to do */
    bool is_measured;        /* the pace of puts is known */
    msec_t looked;           /* when it looked last */
    uint64_t put_bytes_seen; /* put_bytes as of then */
    uint64_t spare_bytes;    /* dead bytes that puts are likely to reuse */
};

/* How long after a change of the limit an overdraft is paid back at once, in milliseconds. */
#define TRIM_HASTY_MS 1000

struct trim {
    /* [lock] */
    msec_t hasty_until; /* until then an overdraft is paid back at once */
    /* [reclaimer] */
    msec_t looked;           /* when the free segments were counted last */
    msec_t retry_at;         /* the system, which has refused memory, is asked again; 0 */
    uint64_t put_bytes_seen; /* put_bytes when the reclaimer was here last */
    uint64_t put_bytes_then; /* put_bytes when the free segments were counted last */
};

/* Why an item's block dies. */
enum death_reason { DEATH_EXPIRE, DEATH_EVICT, DEATH_OVERWRITE, DEATH_DELETE };

/*
 * What a memory asks of its owner, which knows what refers to each block. All are called in the
 * shard, by the cursor and on rare paths only: an ordinary put or kill calls none of them.
 */
struct memory_owner_ops {
    /* The hash of an item's key. Brings what refers to the item into the cache. */
    uint64_t (*prefetch)(void *owner, const struct item *it);
    /* An item was copied to another block: whatever refers to the old one now names the new. */
    void (*moved)(void *owner, handle_t from, handle_t to);
    /*
     * Unlink an item that is due (DEATH_EXPIRE) or evicted (DEATH_EVICT), and kill its block.
     * Returns the hash of its key.
     */
    uint64_t (*drop)(void *owner, handle_t h, enum death_reason reason, msec_t now);
    /*
     * Drop up to max items that are due. Adds the number of items it looked at to *looked.
     * Returns how many it dropped.
     */
    unsigned (*drop_due)(void *owner, unsigned max, msec_t now, unsigned *looked);
    /* The cas of the next item that is stored. */
    uint64_t (*next_cas)(void *owner);
    /*
     * Up to max items from a source, for an eviction; fewer when there are not so many, or none
     * was met. Some may be due, and some may come twice. *random is the state of random
     * numbers.
     */
    unsigned (*sample)(void *owner, enum evict_source source, uint64_t *random, handle_t *out,
                       unsigned max);
    /* Much is dead: the home worker should come by soon, for tidy_look(). */
    void (*wants_tidy)(void *owner);
    /*
     * The range should grow, or nothing free is resident: memory_grow() is to be called soon,
     * outside the shard.
     */
    void (*wants_range)(void *owner);
};

struct memory {
    /* [lock] first, since a put writes to it: see struct blocks */
    struct blocks blocks;

    /* [const] */
    const struct memory_owner_ops *ops;
    void *owner;                          /* [borrowed] */
    struct lock *lock;                    /* [borrowed] the owner's */
    struct counters *counters;            /* [borrowed] the owner's */
    const struct clock *clock;            /* [borrowed] */
    const struct engine_options *options; /* [borrowed] */
    uint32_t sharers;                     /* memories that share the budget */
    uint32_t fitting_units;               /* blocks up to this size fit: memory_fits() */
    uint32_t piece_max;                   /* bytes of value in a piece */

    /* [lock] */
    struct arena arena;
    struct cursor cursor;
    struct evict evict;
    struct tidy tidy;
    struct room_line line;
    uint64_t epoch; /* changes when a flush takes all blocks away */
    uint64_t large_items;
    uint64_t large_with_segments; /* those of them that have whole segments */

    struct trim trim; /* but for what the reclaimer alone uses */
};

/* May anything alive be dropped? Context: any thread. */
static inline bool memory_evicts(const struct memory *m)
{
    return evict_policy(&m->evict)->way != EVICT_NOTHING;
}

/* Is room made of holes, rather than by emptying segments? Context: any thread. */
static inline bool memory_is_in_place(const struct memory *m)
{
    return evict_policy(&m->evict)->way != EVICT_SEGMENTS;
}

/* What a memory is made from; see struct memory. */
struct memory_setup {
    const struct memory_owner_ops *ops;
    void *owner;
    struct lock *lock;
    struct counters *counters;
    const struct clock *clock;
    const struct engine_options *options;
    struct budget *budget;
    struct grace *grace;
    uint64_t limit_bytes; /* of all that share the budget */
    uint64_t range_bytes; /* of address space; see arena_range_for() */
    uint32_t sharers;
    const struct region *region; /* [borrowed] of a file to keep it in; NULL: none */
    bool is_in_cores;            /* core files have the items */
};

/* Checks "Context: in shard" in debug builds. */
#define memory_must_be_entered(m) lock_must_be_held((m)->lock)

/*
 * Reserve the address range and make the tables. False when the system has no memory; what was
 * made is then released by memory_fini(). Context: before start.
 */
bool memory_init(struct memory *m, const struct memory_setup *setup);

/* Release everything; accepts one that is all zero. Context: no thread uses it. */
void memory_fini(struct memory *m);

/*
 * Forget every block, in constant time: their segments are free after a grace period. The owner
 * no longer refers to any. Context: in shard.
 */
void memory_flush(struct memory *m);

/*
 * The limit has changed: the range may grow again where the system refused it, and the ring is
 * to be made anew. Context: in shard.
 */
void memory_fit_limit(struct memory *m);

/*
 * Let the range grow by a step, if that is wanted. When the system refuses, which is counted,
 * it ends where it is. Then make free segments resident, if none are left. Context: outside a
 * shard.
 */
void memory_grow(struct memory *m);

/* The rest of memory_fits(). */
bool memory_fits_slowly(const struct memory *m, uint32_t units);

/*
 * May an item of so many units be one block? Not if it is longer than a block can be, or if
 * blocks of its size would leave more than an eighth of each segment unused. Context: any
 * thread.
 */
static inline bool memory_fits(const struct memory *m, uint32_t units)
{
    return units <= m->fitting_units || memory_fits_slowly(m, units);
}

static inline struct item *memory_item(const struct memory *m, handle_t h)
{
    return arena_item(&m->arena, h);
}

static inline int64_t memory_overdraw(const struct memory *m)
{
    return budget_overdraw(m->arena.budget);
}

/* The entry of the segment that a block is in. */
static inline struct segment *memory_segment(const struct memory *m, handle_t h)
{
    return &m->arena.segments[segment_of(&m->arena, h)];
}

/* The chain that a block is in. Context: in shard. */
static inline enum chain_id memory_chain(const struct memory *m, handle_t h)
{
    memory_must_be_entered(m);
    return (enum chain_id)memory_segment(m, h)->chain;
}

#endif
