/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sections of `stats` that are answered at once: each appends its lines except the last
 * one. Private to stats*.c. Context: worker, outside a read-side section and outside a shard.
 */
#ifndef MAYFLY_DAEMON_STATS_STATS_GENERAL_H
#define MAYFLY_DAEMON_STATS_STATS_GENERAL_H

#include "daemon/stats/stats_out.h"

struct worker;

void stats_general(struct worker *w, struct stats_out *o);  /* stats_general.c */
void stats_items(struct worker *w, struct stats_out *o);    /* stats_items.c */
void stats_slabs(struct worker *w, struct stats_out *o);    /* stats_items.c */
void stats_settings(struct worker *w, struct stats_out *o); /* stats_general.c */
void stats_expire(struct worker *w, struct stats_out *o);   /* stats_expire.c */
void stats_shards(struct worker *w, struct stats_out *o);   /* stats_expire.c */

/* stats_persistence.c */
void stats_persistence(struct worker *w, struct stats_out *o);

/* stats_moves.c */
void stats_moves(struct worker *w, struct stats_out *o);

/* stats_replication.c */
void stats_replication(struct worker *w, struct stats_out *o);

/* stats_latency.c */
void stats_latency(struct worker *w, struct stats_out *o);
void stats_latency_workers(struct worker *w, struct stats_out *o);

#endif
