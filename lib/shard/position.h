/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A position in a walk over items: the number of the shard, and the position in its index.
 * Every walk over items uses one and advances in steps: dumps, sizes, large keys, snapshots,
 * exports, moves of slots, and checks. table_walk() defines which items a step visits, and
 * which may be visited twice.
 *
 *     struct position p = {0};
 *
 *     while (p.shard < shard_count) {
 *         rcu_begin();
 *         position_step(&p, shards[p.shard], now, fn, arg);
 *         rcu_end();
 *     }
 */
#ifndef MAYFLY_LIB_SHARD_POSITION_H
#define MAYFLY_LIB_SHARD_POSITION_H

#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/index/table.h"
#include "lib/memory/item.h"

struct shard;

struct position {
    uint64_t cursor : 48; /* of the shard's index, as of table_walk(); 0: its beginning */
    uint64_t shard : 16;  /* index in the caller's list of shards; its length: the end */
};

/* Continue at a cursor of the same shard; 0: the shard is done, continue with the next. */
static inline void position_go(struct position *p, uint64_t cursor)
{
    p->cursor = cursor;
    p->shard += cursor == 0;
}

/*
 * Call fn for the items of this position that are alive at a time, and move to the next. A
 * shard whose items a flush hides is skipped. Context: read side.
 */
typedef void (*position_fn)(void *arg, const struct shard *s, const struct item *it);
void position_step(struct position *p, const struct shard *s, msec_t now, position_fn fn,
                   void *arg);

/*
 * The same for the handles of all linked blocks, alive or not. Context: in shard, or read side.
 */
void position_step_all(struct position *p, const struct shard *s, table_walk_fn fn, void *arg);

/*
 * Pass the handles of all items linked here to fn, for callers that may stay at this position.
 * Returns the cursor for position_go(). *positions: see table_walk_ahead(). Context: read side.
 */
uint64_t position_look(const struct position *p, const struct shard *s, table_walk_fn fn,
                       void *arg, uint64_t *positions);

#endif
