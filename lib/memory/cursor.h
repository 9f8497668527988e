/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cursor walks one segment at a time, in slices, and empties it.
 *
 * Clean: the emptiest sealed segment, when enough of it is dead. Its live blocks move to the
 * chain's compaction segment, which takes the emptied one's place in the chain. Evict: the
 * segment that the eviction policy picks. The policy decides about every live item.
 *
 * To move a block, the cursor copies it, and its owner changes the reference under the lock.
 * Readers see one of two equal copies until the grace period ends. An emptied segment waits in
 * quarantine for one grace period.
 */
#ifndef MAYFLY_LIB_MEMORY_CURSOR_H
#define MAYFLY_LIB_MEMORY_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/memory/state.h"

/*
 * Run the cursor for about `work` units. False if there was nothing to do. Context: in shard.
 */
bool cursor_slice(struct memory *m, int64_t work, msec_t now);

/*
 * The same, until the segments that are free or waiting for a grace period exceed what the
 * shard itself wants by `segments`. Context: in shard.
 */
bool cursor_slice_beyond(struct memory *m, int64_t work, msec_t now, uint32_t segments);

/* The sealed segment that is best to clean; 0 if none is dead enough. Context: in shard. */
segment_t cursor_emptiest(const struct memory *m);

/* Is a segment being cleaned? Context: in shard. */
static inline bool cursor_is_cleaning(const struct memory *m)
{
    memory_must_be_entered(m);
    return m->cursor.segment != 0 && m->cursor.mode == CURSOR_CLEAN;
}

/*
 * Continue with the segment under the cursor, or start with n, until it is clean or the work is
 * used up. If an eviction of the segment had started, it is cleaned from that point on: its
 * remaining items are kept. False if there was no segment to copy to. Context: in shard.
 */
bool cursor_clean(struct memory *m, segment_t n, int64_t *work, msec_t now);

/* Leave the segment under the cursor unchanged; it may be chosen again. Context: in shard. */
void cursor_let_go(struct memory *m);

#endif
