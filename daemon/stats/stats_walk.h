/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats sizes` and `stats cachedump`: answers that walk over all items, in slices between the
 * turns of the worker that was asked. Private to stats*.c. Both have the contract of
 * stats_command().
 * Context: worker.
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_WALK_H
#define MAYFLY_DAEMON_STATS_STATS_WALK_H

#include <stdint.h>

#include "daemon/stats/stats.h"

/* Counts of items by size, in steps of 32 bytes. */
enum stats_result stats_sizes(struct worker *w, struct buf *out, stats_done_fn done, void *arg);

/* Up to `limit` items (0: as many as fit into 2 MiB) as "ITEM key [bytes b; unix time s]". */
enum stats_result stats_cachedump(struct worker *w, uint32_t limit, struct buf *out,
                                  stats_done_fn done, void *arg);

#endif
