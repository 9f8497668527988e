/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The chains of segments, oldest first, and the bins of sealed segments by their dead share.
 * New blocks are appended to the open segment at the end of a chain. The cleaner has its own
 * open segment, which replaces the segment being cleaned in its chain, so that the chain stays
 * ordered by age.
 */
#ifndef MAYFLY_LIB_MEMORY_CHAINS_H
#define MAYFLY_LIB_MEMORY_CHAINS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/memory/state.h"

/*
 * Append a block to the open segment of a chain, or to the rest of the previous open segment
 * (unless is_part: see DRAW_PART), or (after != 0) to the compaction segment that follows
 * `after`. 0 when it needs a new segment: chains_open(). Context: in shard.
 */
handle_t chains_append(struct memory *m, enum chain_id chain, uint32_t units, segment_t after,
                       bool is_part);

/*
 * Make a new segment the open one of a chain, or (after != 0) its compaction segment, which
 * follows `after`. Context: in shard.
 */
void chains_open(struct memory *m, enum chain_id chain, segment_t after, segment_t n);

/* Remove a segment from its bin, so that it is not chosen again. Context: in shard. */
void chains_claim(struct memory *m, segment_t n);

/* Return a claimed segment to its bin. Context: in shard. */
void chains_unclaim(struct memory *m, segment_t n);

/* Stop appending to this segment of a chain. Context: in shard. */
void chains_close(struct memory *m, segment_t n);

/* Remove a segment from its chain and bin. Context: in shard. */
void chains_detach(struct memory *m, segment_t n);

/*
 * Move a sealed segment to the end of its chain, as if it had been sealed now. Context: in
 * shard.
 */
void chains_renew(struct memory *m, segment_t n);

/*
 * chains_enter(): append a segment that an earlier process has used to a chain (keep.h).
 * chains_entered(): its dead bytes are known; if it is sealed, put it into its bin. Context: in
 * shard, before start.
 */
void chains_enter(struct memory *m, segment_t n, enum chain_id id);
void chains_entered(struct memory *m, segment_t n);

/*
 * The oldest segment of a chain that is not being filled, other than the open one at its end;
 * 0: none. If it is the cleaner's compaction segment, or the rest of an earlier open segment,
 * it is sealed first. Otherwise an eviction would repeatedly move pieces to the end, and never
 * reach their heads in the cleaner's segment. Context: in shard.
 */
segment_t chains_oldest(struct memory *m, enum chain_id id);

/*
 * Seal the open segment of a chain, so that it can be emptied. The last `spared` items stored
 * in the shard count as young in it. Returns 0 if there is no such segment, or if it is being
 * filled. Context: in shard.
 */
segment_t chains_seal_open(struct memory *m, enum chain_id id, uint32_t spared);

/* Live items in the open segment of a chain. Context: in shard. */
uint32_t chains_items_open(const struct memory *m, enum chain_id id);

/*
 * The sealed segment with the most dead bytes, if there are at least `least`. Context: in
 * shard.
 */
segment_t chains_emptiest(const struct memory *m, uint32_t least);

/* Segments in all chains. Context: in shard. */
static inline uint32_t chains_segments(const struct memory *m)
{
    uint32_t count = 0;

    memory_must_be_entered(m);
    for (int id = 0; id < CHAINS; id++) {
        count += m->blocks.chain[id].count;
    }
    return count;
}

/* Live bytes in all chains, whole segments of large values included. Context: in shard. */
static inline uint64_t chains_bytes(const struct memory *m)
{
    uint64_t bytes = 0;

    memory_must_be_entered(m);
    for (int id = 0; id < CHAINS; id++) {
        bytes += m->blocks.chain[id].bytes;
    }
    return bytes;
}

/* Bytes of segments with items in them, alive or dead. Context: in shard. */
static inline uint64_t chains_filled(const struct memory *m)
{
    memory_must_be_entered(m);
    return (uint64_t)(chains_segments(m) + m->arena.whole) << m->arena.shift;
}

/*
 * Number of dead bytes that are never cleaned just to save memory: see tidy.h. Context: in
 * shard.
 */
static inline uint64_t chains_dead_allowance(const struct memory *m)
{
    return chains_filled(m) / 16 + ((uint64_t)2 << m->arena.shift);
}

/* The bin for a sealed segment, by its dead bytes. Context: in shard. */
static inline unsigned chains_bin_for(const struct memory *m, const struct segment *g)
{
    unsigned bin = (unsigned)(((uint64_t)g->dead * DEAD_BINS) >> m->arena.shift);

    memory_must_be_entered(m);
    return bin < DEAD_BINS ? bin : DEAD_BINS - 1;
}

/*
 * Change the dead bytes of a segment by `bytes`. True if its dead share crossed a sixteenth:
 * the caller must then call chains_move_bin(), as its last call, so that blocks_put() and
 * blocks_kill(), which run with every set, need no stack frame.
 */
static inline bool chains_add_dead(struct memory *m, struct segment *g, int32_t bytes)
{
    uint32_t before = g->dead;
    uint32_t after = before + (uint32_t)bytes;

    memory_must_be_entered(m);
    g->dead = after;
    m->blocks.dead_bytes += (uint64_t)(int64_t)bytes;
    return ((before ^ after) >> (m->arena.shift - DEAD_BINS_LOG2)) != 0;
}

/*
 * Move a segment to the bin of its present dead share. An open segment and the one under the
 * cursor are in no bin. The rest of an earlier open segment is sealed, and gets a bin. Context:
 * in shard.
 */
void chains_move_bin(struct memory *m, segment_t n);

#endif
