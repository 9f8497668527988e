/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks at the end of a chain, with a new segment for them when the open one is full.
 */
#ifndef MAYFLY_LIB_MEMORY_DRAW_H
#define MAYFLY_LIB_MEMORY_DRAW_H

#include <stdint.h>

#include "lib/memory/state.h"

/*
 * Who draws a segment: a put leaves ROOM_RESERVE; a pressed put and the cursor may overdraw and
 * take the last. With DRAW_PART the block is a head or a piece of full length: these go to the
 * open segment only, so that an item stands together and dies with one segment. A short piece
 * fills what the segment before has left.
 */
enum draw { DRAW_PUT, DRAW_PRESSED, DRAW_CURSOR, DRAW_WHO = 3, DRAW_PART = 4 };

/*
 * Append a block to a chain as chains_append() does; when the chain has no place for it, draw a
 * segment first. 0 when there is none. Context: in shard.
 */
handle_t draw_block(struct memory *m, enum chain_id chain, uint32_t units, segment_t after,
                    enum draw draw);

#endif
