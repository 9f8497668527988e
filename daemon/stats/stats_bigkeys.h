/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats bigkeys`: the largest items, found by a walk over all. Private to stats*.c.
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_BIGKEYS_H
#define MAYFLY_DAEMON_STATS_STATS_BIGKEYS_H

#include "daemon/stats/stats.h"

/* Same contract as stats_command(). Context: worker. */
enum stats_result stats_bigkeys(struct worker *w, struct buf *out, stats_done_fn done,
                                void *arg);

#endif
