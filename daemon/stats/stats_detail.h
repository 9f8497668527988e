/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts by key prefix (stats detail): a table on each worker, filled by the commands it serves
 * through stats_detail_count(). Tables are bounded; prefixes that find the table full are
 * counted in one common row, which the dump shows as "(more)".
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_DETAIL_H
#define MAYFLY_DAEMON_STATS_STATS_DETAIL_H

#include "daemon/stats/stats.h"

/* Prefixes with a row of their own: of a worker, and in a dump. */
#define DETAIL_PREFIXES_MAX 10000u

struct detail_table;

/* Release a table; takes the address and nulls it; accepts NULL. Context: its worker. */
void detail_table_destroy(struct detail_table **t);

/*
 * The rows of all workers together, as PREFIX lines in no particular order, and END. Each
 * worker adds its table in slices. Same contract as stats_command(). Context: worker.
 */
enum stats_result stats_detail_dump(struct worker *w, struct buf *out, stats_done_fn done,
                                    void *arg);

#endif
