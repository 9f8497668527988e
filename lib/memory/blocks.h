/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocating and killing blocks. A block is allocated from a hole of its chain, of exactly its
 * size or a little larger, else from the end of the chain's open segment. A dead block stays
 * unchanged, because readers may still use it. The death ring records it with its grace number.
 * When its grace period has ended, a later put turns it into a hole. Holes are in lists by
 * exact size, linked through the dead blocks.
 */
#ifndef MAYFLY_LIB_MEMORY_BLOCKS_H
#define MAYFLY_LIB_MEMORY_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/memory/draw.h"
#include "lib/memory/state.h"

/* A remainder smaller than this is not split off a hole. */
#define SPLIT_MIN_UNITS 8u

/* Create the ring and the lists. False if there is no memory. Context: before start. */
bool blocks_init(struct memory *m, uint64_t share_bytes);
void blocks_fini(struct memory *m);

/*
 * Replace the ring by one for the present limit if the limit has changed (ring_misfits), or if
 * the ring is empty, so that none of its pages is resident. Deaths beyond the last few thousand
 * are dropped. Context: outside the shard.
 */
void blocks_fit_ring(struct memory *m);

/* Forget every chain, hole and death: a flush. Context: in shard. */
void blocks_reset(struct memory *m);

/* The same, and release the memory of the lists of dead blocks. System calls. */
void blocks_rest(struct memory *m);

/*
 * Allocate a block of at least *units in a chain, in a hole or at the end of the open segment.
 * *units is set to its size. 0 if a new segment is needed and there is none. Context: in shard.
 */
handle_t blocks_put(struct memory *m, enum chain_id chain, uint32_t *units, enum draw draw);

/*
 * Allocate a block in a listed hole of exactly this size; 0: there is none. Context: in shard.
 */
handle_t blocks_refill(struct memory *m, enum chain_id chain, uint32_t units);

/*
 * Kill a linked block, a piece or a settled loose block: it is marked as dead and counted, and
 * becomes a hole after a grace period, unless its segment is being emptied. Context: in shard.
 */
void blocks_kill(struct memory *m, handle_t h);

/*
 * The same for a block whose segment is emptied next: its death is not recorded, so it does not
 * become a hole. Context: in shard.
 */
void blocks_bury(struct memory *m, handle_t h);

/*
 * Copy a block to one of the same size, possibly in another memory. Readers may write heat and
 * used of the source meanwhile. Context: in shard.
 */
void blocks_copy(struct item *to, const struct item *from);

/* Turn up to max deaths whose grace period has ended into holes. Context: in shard. */
void blocks_ripen(struct memory *m, unsigned max);

/*
 * blocks_has_deaths(): is the ring not empty? blocks_has_ripe(): has the grace period of the
 * oldest death ended? Context: in shard.
 */
static inline bool blocks_has_deaths(const struct memory *m)
{
    memory_must_be_entered(m);
    return m->blocks.ring_head != m->blocks.ring_tail;
}

static inline bool blocks_has_ripe(const struct memory *m)
{
    const struct blocks *b = &m->blocks;

    return blocks_has_deaths(m) &&
           grace_is_over(m->arena.grace, b->ring[b->ring_head & b->ring_mask].stamp);
}

/*
 * blocks_loosen(): mark a block of a large value that will be filled outside the shard. It
 * becomes wide and loose, and the cursor does not empty its segment until blocks_settle().
 * Context: in shard.
 */
void blocks_loosen(struct memory *m, handle_t h, uint32_t units);
void blocks_settle(struct memory *m, handle_t h);

/*
 * Enter a block that an earlier process has left in a chained segment (keep.h): count it as
 * live, or make it a hole. Context: in shard, before start.
 */
void blocks_enter_live(struct memory *m, handle_t h);
void blocks_enter_dead(struct memory *m, handle_t h);

/* Remove a hole from its list, because the cursor passes over it. Context: in shard. */
void blocks_unlist(struct memory *m, handle_t h);

/* The neighbours of a hole in the list of its size; 0: none. Context: in shard. */
static inline handle_t hole_next(const struct item *it)
{
    return (handle_t)it->cas_len;
}

static inline handle_t hole_prev(const struct item *it)
{
    return (handle_t)(it->cas_len >> 32);
}

#endif
