/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats sizes`: an answer that walks over all items, in slices between the turns of the worker
 * that was asked. Private to stats*.c.
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_WALK_H
#define MAYFLY_DAEMON_STATS_STATS_WALK_H

#include "daemon/stats/stats.h"

/*
 * Counts of items by size, in steps of 32 bytes. Same contract as stats_command(). Context:
 * worker.
 */
enum stats_result stats_sizes(struct worker *w, struct buf *out, stats_done_fn done, void *arg);

#endif
