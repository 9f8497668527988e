/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats sizes`: counts of items by size, in steps of 32 bytes. They are counted by a walk over
 * all items, which is a task of the worker that was asked. All who ask while one is under way
 * share the next, so each sees what it stored before. Private to stats*.c.
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_SIZES_H
#define MAYFLY_DAEMON_STATS_STATS_SIZES_H

#include "daemon/stats/stats.h"

/* Same contract as stats_command(). Context: worker. */
enum stats_result stats_sizes(struct worker *w, struct buf *out, stats_done_fn done, void *arg);

#endif
