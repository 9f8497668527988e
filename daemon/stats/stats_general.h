/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sections of `stats` that are answered at once: each appends its lines except the last
 * one. Private to stats*.c. Context: worker, outside a read-side section and outside a shard.
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_GENERAL_H
#define MAYFLY_DAEMON_STATS_STATS_GENERAL_H

#include "daemon/stats/stats_out.h"

struct worker;

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

#endif
