/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The description of a memory that is saved with its range, so that another process can use its
 * items. It lists the segments: the chains in order, oldest first, then the segments of large
 * values. Everything else is rebuilt from the blocks (lib/shard/attach.h).
 */
#ifndef MAYFLY_LIB_MEMORY_KEEP_H
#define MAYFLY_LIB_MEMORY_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/memory/state.h"

enum keep_place { KEEP_SEALED, KEEP_OPEN, KEEP_COMPACT, KEEP_REST, KEEP_WHOLE, KEEP_PLACES };

/* A segment in the list. Fields as in struct segment. */
struct keep_segment {
    uint32_t number;
    uint32_t fill;
    uint32_t dead; /* if part of a large value: skip */
    uint32_t live;
    uint32_t sealed_s;
    uint32_t sealed_cas;
    uint32_t next; /* if part of a large value: its next segment */
    uint8_t chain; /* enum chain_id */
    uint8_t place; /* enum keep_place */
    uint16_t zero;
};

/* Number of segments in the list. Context: in shard. */
uint32_t keep_count(const struct memory *m);

/*
 * Write the list to out, which must be large enough. Context: in shard, no operation running.
 */
void keep_list(const struct memory *m, struct keep_segment *out);

/*
 * Release the pages of the range that are in no segment of the list. System calls. Context: no
 * thread uses the memory any more.
 */
void keep_drop_rest(const struct memory *m, const struct keep_segment *list, uint32_t count);

/*
 * Allocate all pages of the listed segments, if some are missing: a copy of the file may omit
 * pages that are zero. False: no room. Context: after keep_enter(), before they are read.
 */
bool keep_back(const struct memory *m, const struct keep_segment *list, uint32_t count);

/*
 * Enter the listed segments into an empty memory. Chains and their byte counts are restored;
 * blocks are not counted yet. fresh: the value of the arena that made the list. False: the list
 * is inconsistent or does not fit the range; then only memory_fini() may follow. Context: in
 * shard, before start.
 */
bool keep_enter(struct memory *m, const struct keep_segment *list, uint32_t count,
                uint32_t fresh);

/*
 * Release segments without content. Call it after every block of the chained segments was
 * entered by blocks_enter_live() or blocks_enter_dead(), and the segments of large values were
 * claimed by keep_claim(). Context: in shard, before start.
 */
void keep_entered(struct memory *m);

/*
 * Claim a segment for a large value. False: the segment is not one of a large value, or is
 * claimed already. Context: in shard, before start.
 */
bool keep_claim(struct memory *m, segment_t n);

#endif
