/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Taking over the items that an earlier process left in the memory of a shard. Every block is
 * checked. If a check fails, nothing is taken over. Expired items are never taken over.
 */
#ifndef MAYFLY_LIB_SHARD_ATTACH_H
#define MAYFLY_LIB_SHARD_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/memory/keep.h"

struct shard;

/* What the earlier process saved next to the range. */
struct attach_shard {
    uint32_t segments;     /* in the list of keep.h */
    uint32_t fresh;        /* of the arena */
    uint64_t items, bytes; /* counters curr_items and item_bytes */
    uint64_t index_bytes;  /* of the index: it is made as large again */
    msec_t flush_at;       /* everything is flushed from then on; MSEC_NEVER */
};

struct attach_job {
    /* in */
    const struct attach_shard *left; /* [borrowed] */
    const struct keep_segment *list; /* [borrowed] left->segments */
    const uint16_t (*owners)[2];     /* [borrowed] possible shards of each slot of the table */
    unsigned owner_shift;            /* the slot is hash >> owner_shift */
    msec_t now;
    bool marks_stale; /* all items are taken over as stale */
    /* out */
    uint64_t items, expired, flushed;
    char *why; /* [borrowed] the reason, if shard_attach() returns false */
    size_t why_size;
};

/*
 * Describe the shard for the next process: its figures in *left, and the list of its segments.
 * list NULL: only the figures. Context: in shard, when no other thread uses it any longer.
 */
void shard_leave_behind(const struct shard *s, struct attach_shard *left,
                        struct keep_segment *list);

/*
 * Take over the items into an empty shard. False: a check failed, or there is no memory; then
 * only shard_destroy() may follow. Context: any thread, before the shard is shared.
 */
bool shard_attach(struct shard *s, struct attach_job *job);

#endif
