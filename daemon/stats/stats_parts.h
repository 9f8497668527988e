/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sections of `stats`. Private to stats*.c.
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_PARTS_H
#define MAYFLY_DAEMON_STATS_STATS_PARTS_H

#include "daemon/stats/stats.h"
#include "daemon/stats/stats_out.h"

struct worker;

/*
 * Those that are answered at once: each appends its lines except the last one. Context: worker,
 * outside a read-side section and outside a shard.
 */

/* stats_general.c */
void stats_general(struct worker *w, struct stats_out *o);
void stats_items(struct worker *w, struct stats_out *o);
void stats_slabs(struct worker *w, struct stats_out *o);
void stats_settings(struct worker *w, struct stats_out *o);
void stats_expire(struct worker *w, struct stats_out *o);
void stats_shards(struct worker *w, struct stats_out *o);

/* stats_tables.c */
void stats_budgets(struct worker *w, struct stats_out *o);
void stats_moves(struct worker *w, struct stats_out *o);
void stats_persistence(struct worker *w, struct stats_out *o);
void stats_replication(struct worker *w, struct stats_out *o);

/* stats_latency.c */
void stats_latency(struct worker *w, struct stats_out *o);
void stats_latency_workers(struct worker *w, struct stats_out *o);

/*
 * `stats sizes`: counts of items by size, in steps of 32 bytes. They are counted by a walk over
 * all items, which is a task of the worker that was asked. Clients that ask during a walk share
 * the next one, so each sees the items that it stored before. Same contract as stats_command().
 */
enum stats_result stats_sizes(struct worker *w, struct buf *out, stats_done_fn done, void *arg);

/* Prefixes with a row of their own: of a worker, and in a dump. */
#define DETAIL_PREFIXES_MAX 10000u

#endif
