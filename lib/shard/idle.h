/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Releases the segments of a shard without slots, and so without items. The engine keeps the
 * shard for later use.
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

#endif
