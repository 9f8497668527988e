/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Free segments that are resident before they are needed.
 *
 * A segment that is used for the first time, or again after its pages were released, is not
 * resident. The first write to each page waits while the kernel clears 4 KiB, or 2 MiB of a
 * huge page. A put would do that while it holds the shard's lock. So while a memory grows, the
 * reclaimer takes a few segments in advance, touches their pages, and puts them on the free
 * list. If it does not get a CPU in time, the put that takes the last one does the same after
 * it has left the shard.
 *
 * These segments count towards the budget like all held segments. There are never more of them
 * than the segments that are kept free in any case, so the trimmer does not release them again.
 * None are taken when the budget or the range is nearly used up, or while few segments have
 * blocks in them.
 */
#ifndef MAYFLY_LIB_MEMORY_STOCK_H
#define MAYFLY_LIB_MEMORY_STOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/memory/state.h"

/*
 * Take a segment for blocks, as arena_take() does, and ask for more to be made resident if few
 * are left. Context: in shard.
 */
segment_t stock_take(struct memory *m, int64_t overdraw);

/*
 * Make a burst of the requested segments resident. True if there is more to do.
 * Context: reclaimer, outside a shard.
 */
bool stock_burst(struct memory *m);

/* The same for a few segments, if a put has taken the last one. Context: outside a shard. */
void stock_make(struct memory *m);

/*
 * For a caller that stores many items, such as a move into a new shard. stock_is_low(): is at
 * most one segment free? Context: in shard. stock_fill(): make all segments that are kept free
 * resident, even while few segments have blocks in them. Context: outside a shard and a
 * section.
 */
static inline bool stock_is_low(const struct memory *m)
{
    memory_must_be_entered(m);
    return m->arena.free_count <= 1;
}
void stock_fill(struct memory *m);

#endif
