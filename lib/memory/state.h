/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data that all files of lib/memory share, with its accessors. A struct memory is embedded
 * in its owner and protected by the owner's lock. Of the folder's other files this one calls
 * only arena and evict.
 */
#ifndef MAYFLY_LIB_MEMORY_STATE_H
#define MAYFLY_LIB_MEMORY_STATE_H

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

/* Number of segments reserved for the cursor, so that it can always make progress. */
#define ROOM_RESERVE 2u

/* Holes are listed by exact size in units. */
#define HOLE_SIZES (ITEM_SIZE_MAX + 1)
#define HOLE_WORDS (HOLE_SIZES / 64)

/* Sealed segments are in bins by their dead share. */
#define DEAD_BINS_LOG2 4u
#define DEAD_BINS      (1u << DEAD_BINS_LOG2)
#define NO_BIN         0xff /* open, or under the cursor */

/* One chain of segments, oldest first. */
struct chain {
    segment_t head, tail;
    uint32_t count;
    uint64_t bytes;    /* live bytes, whole segments of large values included */
    segment_t open;    /* where new blocks go */
    segment_t compact; /* segment that the cleaner's survivors are copied to */
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
    /* Every put and kill writes these: they share a cache line with the lock before them. */
    uint32_t ring_head, ring_tail; /* taken at head, put at tail; free-running */
    uint32_t ring_mask;
    uint32_t want; /* room_wanted() when the last grace period ended */
    struct death *ring;
    uint64_t dead_bytes; /* in open and sealed segments */
    uint64_t ring_bytes; /* part of dead_bytes in the ring, which is reused soon */
    uint64_t put_bytes;  /* ever put */
    /* The next cache lines: small and main. Items of big are longer than a line. */
    struct chain chain[CHAINS];

    segment_t rest[CHAINS]; /* previous open segment, for blocks that fit its end; 0: none */
    struct holes *holes;    /* [CHAINS] */
    uint64_t hole_bytes;    /* the part of dead_bytes that is listed */
    uint64_t put_peak;      /* highest recent put_per_grace; the trimmer halves it */
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
    uint32_t sifted_for_nothing; /* consecutive segments of which no item was dropped */
    bool is_due_left;            /* more items were due when the work was used up */
    uint64_t kept, scanned;      /* of recent evictions: see struct evict_pass */
    uint64_t promoted, passed;   /* the same for small and big: bytes moved to main; scanned */
};

struct tidy {
    /* [lock] */
    bool is_watched;         /* wants_tidy() was called: the owner checks until TIDY_DONE */
    bool is_measured;        /* the pace of puts is known */
    msec_t looked;           /* time of the last check */
    uint64_t put_bytes_seen; /* put_bytes as of then */
    uint64_t spare_bytes;    /* dead bytes that puts are likely to reuse */
};

/* Time after a change of the limit during which an overdraft is reduced at once, in ms. */
#define TRIM_HASTY_MS 1000

struct trim {
    /* [lock] */
    msec_t hasty_until; /* until then an overdraft is reduced at once */
    msec_t over_since;  /* start of the present overdraft; 0: none */
    bool is_over_long;  /* it has lasted for OVER_LONG_MS */
    /* [reclaimer] */
    msec_t looked;           /* when the free segments were last counted */
    msec_t retry_at;         /* when to request refused memory again; 0: never */
    uint64_t put_bytes_seen; /* put_bytes at the last burst of the reclaimer */
    uint64_t put_bytes_then; /* put_bytes when the free segments were last counted */
};

/* Why an item's block dies. */
enum death_reason { DEATH_EXPIRE, DEATH_EVICT, DEATH_OVERWRITE, DEATH_DELETE, DEATH_FLUSH };

/*
 * Callbacks of a memory to its owner, which knows the references to each block. All are called
 * in the shard, by the cursor and on rare paths only: an ordinary put or kill calls none.
 */
struct memory_owner_ops {
    /* Returns the hash of an item's key, and prefetches the references to the item. */
    uint64_t (*prefetch)(void *owner, const struct item *it);
    /* An item was copied to another block: update all references to the old one. */
    void (*moved)(void *owner, handle_t from, handle_t to);
    /*
     * Unlink an item that is due (DEATH_EXPIRE) or evicted (DEATH_EVICT), and kill its block.
     * Returns the hash of its key.
     */
    uint64_t (*drop)(void *owner, handle_t h, enum death_reason reason, msec_t now);
    /*
     * Drop up to max items that are due. Adds the number of examined items to *looked. Returns
     * the number of dropped items.
     */
    unsigned (*drop_due)(void *owner, unsigned max, msec_t now, unsigned *looked);
    /* The cas of the next item that is stored. */
    uint64_t (*next_cas)(void *owner);
    /*
     * Draw up to max items from a source, for an eviction; fewer if the source has fewer, or if
     * the search found fewer. Some may be due, and some may be drawn twice. *random is the
     * state of the random number generator.
     */
    unsigned (*sample)(void *owner, enum evict_source source, uint64_t *random, handle_t *out,
                       unsigned max);
    /* Much is dead: the home worker should call tidy_look() soon. */
    void (*wants_tidy)(void *owner);
    /*
     * The range should grow, or no free segment is resident: call memory_grow() soon, outside
     * the shard.
     */
    void (*wants_range)(void *owner);
};

struct memory {
    /* [lock] must be first, since a put writes to it: see struct blocks */
    struct blocks blocks;

    /* [const] */
    const struct memory_owner_ops *ops;
    void *owner;                          /* [borrowed] */
    struct lock *lock;                    /* [borrowed] the owner's */
    struct counters *counters;            /* [borrowed] the owner's */
    const struct clock *clock;            /* [borrowed] */
    const struct engine_options *options; /* [borrowed] */
    _Atomic uint32_t sharers;             /* [atomic] see memory_sharers() */
    uint32_t fitting_units;               /* blocks up to this size fit: memory_fits() */
    uint32_t piece_max;                   /* bytes of value in a piece */

    /* [lock] */
    struct arena arena;
    struct cursor cursor;
    struct evict evict;
    struct tidy tidy;
    struct room_line line;
    uint64_t epoch; /* changes when a flush discards all blocks */
    uint64_t large_items;
    uint64_t large_with_segments; /* those of them that have whole segments */

    struct trim trim; /* except the fields that only the reclaimer uses */
};

/* Number of memories that share the budget; memory_fit_limit() sets it. Context: any thread. */
static inline uint32_t memory_sharers(const struct memory *m)
{
    return atomic_load_explicit(&m->sharers, memory_order_relaxed);
}

/* May live items be dropped? Context: any thread. */
static inline bool memory_evicts(const struct memory *m)
{
    return evict_policy(&m->evict)->way != EVICT_NOTHING;
}

/* Is room made of holes, rather than by emptying segments? Context: any thread. */
static inline bool memory_is_in_place(const struct memory *m)
{
    return evict_policy(&m->evict)->way != EVICT_SEGMENTS;
}

/* Checks "Context: in shard" in debug builds. */
#define memory_must_be_entered(m) lock_must_be_held((m)->lock)

static inline struct item *memory_item(const struct memory *m, handle_t h)
{
    return arena_item(&m->arena, h);
}

static inline int64_t memory_overdraw(const struct memory *m)
{
    return budget_overdraw(m->arena.budget);
}

/*
 * Segments, and other memory counted in segments, that only wait for a grace period. Memory
 * that does not belong to one shard is divided equally among all. Context: in shard.
 */
static inline uint32_t memory_waiting(const struct memory *m)
{
    int64_t retired = budget_part(m->arena.budget, BUDGET_RETIRED);

    memory_must_be_entered(m);
    return arena_waiting(&m->arena) +
           (retired > 0 ? (uint32_t)(retired >> m->arena.shift) / memory_sharers(m) : 0);
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
