/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving slots of the routing table from one shard to another while requests run.
 */
#ifndef MAYFLY_LIB_ENGINE_MIGRATE_H
#define MAYFLY_LIB_ENGINE_MIGRATE_H

#include <stdint.h>

#include "lib/base/err.h"

struct engine;

/*
 * Move a range of slots from one shard to another while requests run, in slices. MF_ENOMEM:
 * there is no memory for a table, or for an item in the other shard. What was moved stays
 * moved, both shards serve the rest, and another call with the same target goes on. MF_EINVAL:
 * slots or shard are out of range, or slots are on their way to another shard. Context: a
 * registered thread that is not a worker (it waits for grace periods), outside a section.
 */
enum mf_err engine_move_slots(struct engine *e, uint32_t first, uint32_t count, uint16_t to);

#endif
