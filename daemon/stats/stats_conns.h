/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `stats conns`: every listening socket and every connection. Private to stats*.c.
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_CONNS_H
#define MAYFLY_DAEMON_STATS_STATS_CONNS_H

#include "daemon/stats/stats.h"

/* Same contract as stats_command(). Context: worker. */
enum stats_result stats_conns(struct worker *w, struct buf *out, stats_done_fn done, void *arg);

#endif
