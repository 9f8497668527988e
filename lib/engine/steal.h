/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Room from other shards: the budget is one, so what one shard gives back another may take.
 */
#ifndef MAYFLY_LIB_ENGINE_STEAL_H
#define MAYFLY_LIB_ENGINE_STEAL_H

struct engine;
struct shard;

enum steal {
    STEAL_NOTHING, /* nobody has clearly more */
    STEAL_LATER,   /* what another could give waits for a grace period: ask again in 1 ms */
    STEAL_DONE,    /* the budget has room again */
};

/*
 * A shard needs room that it does not have itself: take some from the fullest other one.
 * Context: outside a shard.
 */
enum steal engine_steal(struct engine *e, struct shard *needy);

#endif
