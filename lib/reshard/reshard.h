/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/reshard: slots and their items move to other shards while requests run.
 *
 *     reshard      the wanted number of shards; adds missing ones, and plans a move
 *     migrate      carries a plan out, slot by slot, through the states of the routing table
 *     carry        moves the items of a shard: carry_large large values, carry_room makes room
 *
 * The folder is above lib/store: a large value is moved by a store.
 *
 * Changing the number of shards of an engine that is in use. Missing shards are added at once
 * (lib/engine/grow.h). Then the mover moves slots until the wanted shards, which are the first
 * ones, have all slots in equal parts (migrate.h). A shard without slots releases its memory,
 * and is kept for later use.
 *
 * The number may be changed at any time: items in transit arrive, and then move to where the
 * new number puts them. If there is no room for an item in its new shard, the mover waits for
 * room, and retries.
 */
#ifndef MAYFLY_LIB_RESHARD_RESHARD_H
#define MAYFLY_LIB_RESHARD_RESHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/engine/reshard_state.h"

struct engine;

/*
 * Stop the mover soon, even in the middle of a slot, and wait for it. No further move begins
 * until engine_stop(). Context: a thread that is no worker, outside a section.
 */
void reshard_stop(struct engine *e);

/*
 * Move all slots to the first `shards` shards, with cpu_pct of a CPU at most (0: all of it).
 * The shards exist when this returns; slots move in the background. MF_EINVAL: the engine may
 * not have that many, or the limit does not allow that number. MF_ENOMEM and MF_ESYS: as for
 * engine_add_shards(). MF_EBUSY: the mover carries out a plan of another caller. After an error
 * the wanted number is unchanged. Context: any registered thread, outside a section and a
 * shard.
 */
enum mf_err engine_set_shards(struct engine *e, uint32_t shards, uint32_t cpu_pct);

/* Change the share of a CPU that moves may take. Context: any thread, outside a section. */
void engine_set_move_cpu_pct(struct engine *e, uint32_t cpu_pct);

/*
 * Cancel: no more slots begin to move, and those in transit arrive. Then the wanted number is
 * that of the shards that have slots. Returns false if the limit has been lowered to one that
 * allows the wanted number of shards, but not the present one: the move continues. Context: any
 * thread, outside a section.
 */
bool engine_cancel_shards(struct engine *e);

/*
 * Call fn whenever the state changes, from now on; NULL: stop that. Context: any thread,
 * outside a section.
 */
void engine_tell_reshard(struct engine *e, reshard_told_fn fn, void *arg);

/* Context: any thread, outside a section. */
void engine_reshard_info(struct engine *e, struct reshard_info *info);

#endif
