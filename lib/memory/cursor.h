/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cursor walks one segment at a time, in slices, and empties it.
 *
 * Clean: the emptiest sealed segment, when enough is dead; its live blocks move to the chain's
 * compaction segment, which stands where the emptied one stands. Evict: the segment that the
 * eviction policy picks; the policy judges every live item.
 *
 * A move copies a block and has the owner change its reference under the lock; readers see one
 * of two equal copies until the grace period ends. An emptied segment waits in quarantine for
 * one grace period.
 */
#ifndef MAYFLY_LIB_MEMORY_CURSOR_H
#define MAYFLY_LIB_MEMORY_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/memory/memory.h"

/*
 * Run the cursor for about `work` units. False when there was nothing it could do. Context: in
 * shard.
 */
bool cursor_slice(struct memory *m, int64_t work, msec_t now);

/*
 * The same until this many segments more than the shard wants for itself are free or waiting.
 * Context: in shard.
 */
bool cursor_slice_beyond(struct memory *m, int64_t work, msec_t now, uint32_t segments);

/*
 * The same when room is not short: clean segments of which half or more is dead, so that memory
 * is given back after a mass death. Evicts nothing. See chains_want_tidy(). Context: in shard.
 */
bool cursor_tidy(struct memory *m, int64_t work, msec_t now);

#endif
