/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much room there is, and how much there should be. Segments that wait for a grace period
 * count as coming room.
 */
#ifndef MAYFLY_LIB_MEMORY_ROOM_H
#define MAYFLY_LIB_MEMORY_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/memory/state.h"

/* How many segments should be free or about to be. Context: in shard. */
uint32_t room_wanted(const struct memory *m);

/*
 * While a lower limit is taken up, shards whose workers are faster would pay for the others: a
 * shard that holds clearly less than they do lets them come down first, and keeps what it has
 * free. Not where only items with a deadline are dropped, of which they may have none. Context:
 * in shard.
 */
bool room_is_paid_by_others(const struct memory *m);

/*
 * memory_waiting(), and what comes when an index has shrunk, which may take long. Context: in
 * shard.
 */
uint32_t room_coming(const struct memory *m);

/* Is room short, so that the cursor should run? Context: in shard. */
bool room_is_short(const struct memory *m);

/*
 * May anything be evicted for room to spare? The only item of a shard may be a large value that
 * was stored a moment ago, and took the place of all others. It stays, unless the limit is
 * exceeded: by more than is allowed meanwhile, or for long. A store that needs room takes it
 * all the same, also from other shards. Context: in shard.
 */
bool room_may_evict(const struct memory *m);

/*
 * Is nothing free beyond the reserve, nor about to be? Then a store must make room itself,
 * whatever comes later. Context: in shard.
 */
bool room_is_pressed(const struct memory *m);

/*
 * A grace period has ended since the last put: release what can be released, measure again.
 * Context: in shard.
 */
void room_grace_ended(struct memory *m);

/* Release from every queue what is past its grace period, and count it. Context: in shard. */
void room_release(struct memory *m);

/*
 * Give the pages of up to `want` free segments back to the system, and their bytes to the
 * budget. Returns how many there were. Context: outside a shard.
 */
uint32_t room_give_back(struct memory *m, uint32_t want);

#endif
