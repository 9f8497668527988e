/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Releases the memory of a shard without slots, and so without items: its segments, and what it
 * has apart from them (rest.c). The engine keeps the shard for later use.
 */
#ifndef MAYFLY_LIB_SHARD_IDLE_H
#define MAYFLY_LIB_SHARD_IDLE_H

#include <stdbool.h>

#include "lib/shard/shard.h"

/*
 * Give all segments back to the system; waits for grace periods. Counters stay. Nothing happens
 * in a shard that has items. What flushes have prepared: see shard_flush_forget(). Context: a
 * thread that is no worker, outside a section and a shard.
 */
void shard_give_all_back(struct shard *s);

/*
 * Release what an idle shard keeps for future items. Nothing happens if it has items, or holds
 * segments. A flush allocates some of it again, even in a shard without items. Context: outside
 * a section and a shard.
 */
void shard_rest(struct shard *s);

#endif
