/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocates blocks at the end of a chain, with a new segment when the open one is full.
 */
#ifndef MAYFLY_LIB_MEMORY_DRAW_H
#define MAYFLY_LIB_MEMORY_DRAW_H

#include <stdint.h>

#include "lib/memory/state.h"

/*
 * Kinds of allocation. A put leaves ROOM_RESERVE segments free. A pressed put and the cursor
 * may exceed the budget and take the last segment. DRAW_PART is for a head or a piece of full
 * length: such blocks are put only in the open segment, so that the blocks of an item stay
 * together and die with one segment. A short piece may fill the rest of the previous segment.
 */
enum draw { DRAW_PUT, DRAW_PRESSED, DRAW_CURSOR, DRAW_WHO = 3, DRAW_PART = 4 };

/*
 * Append a block to a chain, as chains_append() does. If the chain has no room, take a new
 * segment first. Returns 0 if there is none. Context: in shard.
 */
handle_t draw_block(struct memory *m, enum chain_id chain, uint32_t units, segment_t after,
                    enum draw draw);

#endif
