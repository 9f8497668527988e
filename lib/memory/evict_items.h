/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eviction of single items, like Redis does it. A few items are drawn at random
 * (maxmemory_samples), from all or from those with a deadline, and their scores are compared.
 * The best candidates are kept in a pool and compared with later draws. An evicted item dies in
 * place: its block becomes a hole, or is cleaned away.
 */
#ifndef MAYFLY_LIB_MEMORY_EVICT_ITEMS_H
#define MAYFLY_LIB_MEMORY_EVICT_ITEMS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/memory/state.h"

/*
 * Drop one item by the policy of now, which is one of EVICT_ITEMS, or one that is due and was
 * met. Takes what it cost from *work. False when there was none. Context: in shard.
 */
bool evict_item(struct memory *m, msec_t now, int64_t *work);

#endif
