/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats hotkeys`: the keys that are asked for most, of all workers. Private to stats*.c.
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_HOTKEYS_H
#define MAYFLY_DAEMON_STATS_STATS_HOTKEYS_H

#include "daemon/stats/stats.h"

/* Same contract as stats_command(). Context: worker. */
enum stats_result stats_hotkeys(struct worker *w, struct buf *out, stats_done_fn done,
                                void *arg);

#endif
