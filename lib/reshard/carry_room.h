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
 * Yield the CPU to other threads. Then sleep as long as cpu_pct requires for the CPU time used
 * since the last rest; a stop ends the sleep.
 */
void carry_pace(struct carry *c);

/*
 * Call between two turns, each of about ten microseconds: calls carry_pace() when it is due.
 * False: the move was stopped.
 */
bool carry_turn(struct carry *c);

/*
 * Is there room in a shard beyond what it wants for itself? Context of carry_has_room_in(): in
 * shard.
 */
bool carry_has_room_in(const struct memory *m);
bool carry_has_room(struct shard *s);

/* Run a grace period here, so that all memory that waits for one becomes free. */
void carry_end_period(const struct carry *c);

/*
 * Release the free segments of the old shard, so that another shard may take them. If it keeps
 * some slots it also keeps the segments that it wants free, as stores in it would evict
 * otherwise. True when more memory waits for a grace period.
 */
bool carry_give_back(struct carry *c);

/*
 * Make room for `to` from memory of the old shard. If that fails, `to` makes room itself until
 * the next segment is emptied (c->may_evict). Does nothing if the system gives `to` no more
 * memory: then an item waits until `to` itself releases some.
 */
void carry_make_room(struct carry *c, struct shard *to);

/* An item found no room in `to`: wait for memory, or for a larger index. False: give it up. */
bool carry_wait_for(struct carry *c, struct shard *to);

/* Add to a counter of struct carry_count. */
static inline void carry_count_add(_Atomic uint64_t *n, uint64_t by)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

#endif
