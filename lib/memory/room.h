/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much room there is, and how much there should be. Segments that wait for a grace period
 * count as future room.
 */
#ifndef MAYFLY_LIB_MEMORY_ROOM_H
#define MAYFLY_LIB_MEMORY_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/memory/state.h"

/* Number of segments that should be free or about to become free. Context: in shard. */
uint32_t room_wanted(const struct memory *m);

/*
 * True while the limit is being lowered, if this shard holds clearly less than the others: it
 * keeps its free segments, and the others release memory first. Otherwise the shards of fast
 * workers would shrink for all. False with policies that drop only items with a deadline,
 * because the others may have none. Context: in shard.
 */
bool room_is_paid_by_others(const struct memory *m);

/*
 * memory_waiting(), plus the memory that shrinking indexes will release, which may take long.
 * Counted in segments. Context: in shard.
 */
uint32_t room_coming(const struct memory *m);

/* Is room short, so that the cursor should run? Context: in shard. */
bool room_is_short(const struct memory *m);

/*
 * May items be evicted for spare room? Not if the only item of the shard is a large value that
 * was just stored and replaced all others. It then stays, unless the limit is exceeded by more
 * than the allowed overdraft, or for long. A store that needs room may evict it anyway, also
 * from another shard. Context: in shard.
 */
bool room_may_evict(const struct memory *m);

/*
 * Is nothing beyond the reserve free or about to become free? Then a store must make room
 * itself. Context: in shard.
 */
bool room_is_pressed(const struct memory *m);

/*
 * A grace period has ended since the last put: release what can be released, and measure again.
 * Context: in shard.
 */
void room_grace_ended(struct memory *m);

/*
 * Release and count some runs of each queue whose grace period has ended. True if there are
 * more such runs. Context: in shard.
 */
bool room_release(struct memory *m);

/*
 * Return the pages of up to `want` free segments to the system, and their bytes to the budget.
 * Returns the number of segments. Context: outside a shard.
 */
uint32_t room_give_back(struct memory *m, uint32_t want);

#endif
