/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The chains of segments, oldest first, and the bins in which sealed segments stand by
 * their dead share. New blocks are appended to the open segment at the end of a chain. The
 * cleaner has an open segment of its own, which takes the place in the chain of the segment
 * that is being cleaned, so that the chain stays ordered by age.
 */
#ifndef MAYFLY_LIB_MEMORY_CHAINS_H
#define MAYFLY_LIB_MEMORY_CHAINS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/memory/memory.h"

/*
 * Who draws a segment: a put leaves ROOM_RESERVE; a pressed put and the cursor may overdraw and
 * take the last. With DRAW_PART the block is a head or a piece of full length: these go to the
 * open segment only, so that an item stands together and dies with one segment. A short piece
 * fills what the segment before has left.
 */
enum draw { DRAW_PUT, DRAW_PRESSED, DRAW_CURSOR, DRAW_WHO = 3, DRAW_PART = 4 };

/* Segments that only the cursor may use, so that it can always go on. */
#define ROOM_RESERVE 2u

/*
 * Append a block to the open segment of a chain, to what was left of the one before it, or
 * (after != 0) to the compaction segment that follows `after`. 0 when a new segment is needed
 * and there is none. Context: in shard.
 */
handle_t chains_append(struct memory *m, enum chain_id chain, uint32_t units, segment_t after,
                       enum draw draw);

/* Take a segment out of its bin, so that it is not chosen again. Context: in shard. */
void chains_claim(struct memory *m, segment_t n);

/* Put a claimed segment back. Context: in shard. */
void chains_unclaim(struct memory *m, segment_t n);

/* Nothing is appended to this segment of a chain any more. Context: in shard. */
void chains_close(struct memory *m, segment_t n);

/* Take a segment out of its chain and bin. Context: in shard. */
void chains_detach(struct memory *m, segment_t n);

/*
 * A sealed segment becomes the last of its chain, as if it had been sealed now. Context: in
 * shard.
 */
void chains_renew(struct memory *m, segment_t n);

/*
 * A segment that was in use before this process becomes the last of a chain (keep.h); when its
 * dead bytes are known, and it is sealed, it gets its bin. Context: in shard, before start.
 */
void chains_enter(struct memory *m, segment_t n, enum chain_id id);
void chains_entered(struct memory *m, segment_t n);

/*
 * The oldest segment of a chain that is not being filled, except for the open one at its end;
 * 0: none. If it is the cleaner's, it is sealed: pieces that an eviction moves to the end would
 * otherwise go round and round, and their heads in it never be reached. What was left of an
 * open one is sealed as well. Context: in shard.
 */
segment_t chains_oldest(struct memory *m, enum chain_id id);

/*
 * Seal what a chain has open, so that it can be emptied. Of what is in it, the last so many
 * that were stored in the shard are young. 0 when there is nothing, or it is being filled.
 * Context: in shard.
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

/* The bin for a sealed segment with so many dead bytes. Context: in shard. */
static inline unsigned chains_bin_for(const struct memory *m, const struct segment *g)
{
    unsigned bin = (unsigned)(((uint64_t)g->dead * DEAD_BINS) >> m->arena.shift);

    memory_must_be_entered(m);
    return bin < DEAD_BINS ? bin : DEAD_BINS - 1;
}

/*
 * The dead bytes of a segment change by so much. True when that crossed a sixteenth:
 * chains_move_bin() is due. It is left to the caller because blocks_put() and blocks_kill() run
 * with every set: with everything rare in one last call they need no stack frame.
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
 * The dead share of a segment may have crossed a sixteenth. An open segment and the one under
 * the cursor are in no bin; but what was left of an open one is sealed, and gets one. Context:
 * in shard.
 */
void chains_move_bin(struct memory *m, segment_t n);

#endif
