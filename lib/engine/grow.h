/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adding shards to an engine that is in use. A new shard is like the others. Its segments have
 * the same size, because blocks move between shards unchanged. It knows past flush commands and
 * a pending one. It has a ring of changes if the others have one, and the guard of a load in
 * progress. It has no slot, so no request reaches it until a move (lib/reshard/migrate.h)
 * assigns slots to it.
 *
 * A shard is never destroyed before the engine stops, so a pointer to one, or a number below
 * shard_count, stays valid until then. Loops over all shards read shard_count in every round,
 * or read it once and miss a new shard that has no items yet.
 */
#ifndef MAYFLY_LIB_ENGINE_GROW_H
#define MAYFLY_LIB_ENGINE_GROW_H

#include <stdint.h>

#include "lib/base/err.h"

struct engine;

/*
 * Add shards until there are this many. The share of the limit of each shard shrinks
 * accordingly, once, at the end. On failure the shards added so far stay. MF_EINVAL: the engine
 * may not have that many, or the limit is too small for another one (share.h). MF_ENOMEM;
 * MF_ESYS: the file of attach has no room for it. Context: any thread, outside a section and a
 * shard; one caller at a time.
 */
enum mf_err engine_add_shards(struct engine *e, uint32_t shards);

/*
 * From now on the first `shards` shards share the limit; the others have no slots. Context: as
 * above.
 */
void engine_share_among(struct engine *e, uint32_t shards);

#endif
