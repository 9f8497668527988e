/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The work of the reclaimer's thread for a memory: it releases segments after their grace
 * period, and releases to the system those that stayed free or exceed the budget. It works in
 * bursts and enters the shard only briefly.
 */
#ifndef MAYFLY_LIB_MEMORY_TRIM_H
#define MAYFLY_LIB_MEMORY_TRIM_H

#include <stdint.h>

#include "lib/memory/state.h"

/* One burst. Returns as reclaim_hook_fn does. Context: reclaimer, outside a shard. */
uint64_t trim_burst(struct memory *m);

#endif
