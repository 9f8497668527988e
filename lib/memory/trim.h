/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the reclaimer's thread does for a memory: it releases what is past its grace period, and
 * gives back to the system what stayed free or exceeds the budget. It works in bursts and
 * enters the shard only for moments.
 */
#ifndef MAYFLY_LIB_MEMORY_TRIM_H
#define MAYFLY_LIB_MEMORY_TRIM_H

#include <stdint.h>

#include "lib/memory/state.h"

/* One burst. Returns as reclaim_hook_fn does. Context: reclaimer, outside a shard. */
uint64_t trim_burst(struct memory *m);

#endif
