/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Room for what is carried over, and the pace of it: a part of carry.c. Context: the thread
 * that carries, outside a section and a shard, unless it says otherwise.
 */
#ifndef MAYFLY_LIB_RESHARD_CARRY_ROOM_H
#define MAYFLY_LIB_RESHARD_CARRY_ROOM_H

#include <stdbool.h>

#include "lib/reshard/carry.h"

/* Old buckets of an index that is resized, moved with each batch of items. */
#define CARRY_BUCKETS 16

/*
 * Give way to threads that wait for this CPU. Then rest as cpu_pct asks for after the CPU time
 * since the last rest, but not past a stop.
 */
void carry_pace(struct carry *c);

/*
 * Between two turns, which take some ten microseconds: do that if it is time to. False: it was
 * stopped.
 */
bool carry_turn(struct carry *c);

/* Is there room in a shard beyond what it wants for itself? The first: context: in shard. */
bool carry_has_room_in(const struct memory *m);
bool carry_has_room(struct shard *s);

/* Run a grace period here: all that waits for one is room then. */
void carry_end_period(const struct carry *c);

/*
 * Give what is free back, so that another shard may take it. A shard that keeps slots keeps
 * what it wants free, or stores in it would evict; one that is left altogether keeps
 * nothing. True when something waits.
 */
bool carry_give_back(struct carry *c);

/*
 * Make room for `to` out of what the other shard has. Otherwise `to` makes room itself from
 * then on, until a segment was emptied (c->may_evict). Nothing is done for one that the system
 * gives no more: there an item waits for what `to` itself gets rid of.
 */
void carry_make_room(struct carry *c, struct shard *to);

/* An item found no place in `to`: wait for room, or for its index. False: it is given up. */
bool carry_wait_for(struct carry *c, struct shard *to);

/* Count in one of struct carry_count. */
static inline void carry_count_add(_Atomic uint64_t *n, uint64_t by)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

#endif
