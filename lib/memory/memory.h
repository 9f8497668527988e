/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/memory: the memory of a shard's items.
 *
 *     arena      the address range, divided into segments
 *     blocks     allocating and killing blocks: open segments, holes, the death ring
 *     chains     the lists of segments, and the bins of sealed ones
 *     chunks     large values: whole segments and pieces
 *     cursor     empties one segment at a time: cleans it, or evicts from it
 *     draw       blocks at the end of a chain, with a new segment when they need one
 *     evict      the interface of eviction policies; evict_density, with ghost, is the default
 *     evict_items  eviction of single items, like Redis; evict_lru, evict_lfu,
 *                evict_random, evict_ttl and evict_none are the policies
 *     heat       how often items are used, as noted by readers
 *     keep       the description of the range that is saved over a restart
 *     region     the part of a file that a range is mapped from
 *     line       the queue of large values that wait for room
 *     room       how much is kept free; making room
 *     stock      free segments that are resident before they are needed
 *     state      the data that all of these share
 *     tidy       cleaning when room is not short: memory shrinks after mass deaths
 *     trim       work of the reclaimer's thread: releases segments, also to the system
 *
 * This folder knows blocks (item.h describes the header of one). It does not know the index,
 * the deadlines or the shard. It gets what it needs from them through its owner's callbacks,
 * struct memory_owner_ops. It may include lib/base and itself.
 *
 * This header is the folder's main interface: creating, flushing, growing and releasing a
 * memory.
 */
#ifndef MAYFLY_LIB_MEMORY_MEMORY_H
#define MAYFLY_LIB_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/counters.h"
#include "lib/base/engine_options.h"
#include "lib/base/lock.h"
#include "lib/memory/arena.h"
#include "lib/memory/state.h"

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
    struct arena_shape shape;
    uint32_t sharers;
    const struct region *region; /* [borrowed] of a file to keep it in; NULL: none */
    bool is_in_cores;            /* core files have the items */
};

/*
 * Reserve the address range and create the tables. False if the system has no memory; call
 * memory_fini() then. Context: no other thread uses it.
 */
bool memory_init(struct memory *m, const struct memory_setup *setup);

/* Release everything; accepts one that is all zero. Context: no thread uses it. */
void memory_fini(struct memory *m);

/*
 * Forget every block, in constant time: their segments become free after a grace period. The
 * owner must no longer refer to any. Context: in shard.
 */
void memory_flush(struct memory *m);

/*
 * Release the tables of a memory that holds no segments. False, with nothing changed, if it
 * holds some. Makes system calls. Context: in shard, while no thread waits for the shard; after
 * evict_forget().
 */
bool memory_rest(struct memory *m);

/*
 * The limit, or the number of memories that share it, has changed: the range may grow again if
 * the system had refused it, and the ring must be rebuilt. Context: in shard.
 */
void memory_fit_limit(struct memory *m, uint32_t sharers);

/*
 * Grow the range by a step, if that is wanted. If the system refuses, which is counted, the
 * range stays as it is. Then make free segments resident if none are left. Context: outside a
 * shard.
 */
void memory_grow(struct memory *m);

/* The slow path of memory_fits(). */
bool memory_fits_slowly(const struct memory *m, uint32_t units);

/*
 * May an item of `units` units be one block? Not if it is longer than a block can be, or if
 * blocks of its size would leave more than an eighth of each segment unused. Context: any
 * thread.
 */
static inline bool memory_fits(const struct memory *m, uint32_t units)
{
    return units <= m->fitting_units || memory_fits_slowly(m, units);
}

#endif
